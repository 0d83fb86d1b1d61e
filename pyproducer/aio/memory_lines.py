"""Tasks that wait for buffer.memory, first come, first served.

Those whose records are of a topic that nobody knows, which may have a part of memory only, wait in a line of that
topic's: they do not stop the others. Later records of it go behind them.

Road:    beside it; records that found no memory on the road.
Thread:  the event loop's.
Source:  ours.
"""

from __future__ import annotations

import asyncio
from asyncio import get_running_loop
from collections import deque
from typing import Any

from pyproducer.accumulator.buffer_pool import Place
from pyproducer.common.errors import BufferExhaustedError
from pyproducer.common.loop_inbox import LoopInbox, Wake
from pyproducer.common.records import ProducerRecord
from pyproducer.hotpath import FutureRecordMetadata
from pyproducer.producer.do_send import Postponed
from pyproducer.producer.kafka_producer import KafkaProducer

Turn = asyncio.Future[None]
"""Done when a task is the first of its line."""


class MemoryLines:
    """Those who wait, of one producer in one event loop.

    Args:
        producer: Where their records go.

    Attributes:
        lines: Each with somebody in it: at None that for memory, at a topic that of those who wait until records leave
            whose topics are not known.
    """

    def __init__(self, producer: KafkaProducer[Any, Any]) -> None:
        self._producer = producer
        self.lines: dict[str | None, deque[Turn]] = {}

    @property
    def task_count(self) -> int:
        """How many tasks wait."""
        return sum(map(len, self.lines.values()))

    def has_to_wait(self, topic: Any) -> bool:
        """Whether tasks wait that a record of a topic, or a ProducerRecord, has to wait behind."""
        if isinstance(topic, ProducerRecord):
            topic = topic.topic
        return bool(self.lines) and (None in self.lines or (isinstance(topic, str) and topic in self.lines))

    def _leave(self, key: str | None, turn: Turn) -> None:
        line = self.lines[key]
        line.remove(turn)
        if not line:
            del self.lines[key]
        elif not line[0].done() and not line[0].get_loop().is_closed():
            line[0].set_result(None)

    async def send(self, sent: Postponed, topic: str, inbox: LoopInbox) -> FutureRecordMetadata:
        """Hand a record over once there is memory, behind those who wait already.

        Args:
            sent: The record.
            topic: Its topic.
            inbox: The running loop's.
        """
        loop = get_running_loop()
        runtime = self._producer._runtime
        clock, accumulator, max_block_ms = runtime.clock, runtime.accumulator, runtime.config.max_block_ms
        door: Any = accumulator.waiting.door  # a Wake is rung like a cell
        began_ms = clock.now_ms()
        place: Place | None = None  # kept from try to try: who comes later waits behind
        turn: Turn = loop.create_future()
        is_late = False

        def end() -> None:
            nonlocal is_late
            is_late = True
            wake.go_on()
            if not turn.done():
                turn.set_result(None)

        wake = Wake(inbox)
        timer = loop.call_later(max_block_ms / 1000, end)
        key = topic if (None not in self.lines if sent.why is None else sent.why.door is not None) else None
        self.lines.setdefault(key, deque()).append(turn)
        try:
            while True:
                if self.lines[key][0] is not turn:
                    if not is_late:
                        await turn
                    if self.lines[key][0] is not turn:  # his time is over before it was his turn
                        return self._refused(sent, self._why_exhausted())
                wake.rearm()  # first: what comes back from now on rings
                if key is not None:
                    door.enter(wake)
                why = None
                if key is not None or topic not in self.lines:  # else they were there before it
                    future = sent.try_again(max(0, began_ms + max_block_ms - clock.now_ms()), place)
                    if future is not None:
                        return future
                    why = sent.why
                if is_late:
                    return self._refused(sent, self._why_exhausted())
                if why is not None and why.door is None:
                    door.leave(wake)
                    if place is None:  # what came back meanwhile rings now
                        place = accumulator.pool.enter(why.size_bytes, max_block_ms, began_ms, wake)
                else:
                    if place is not None:
                        place.leave()
                        place = None
                    if key is None:
                        turn_there: Turn = loop.create_future()
                        self.lines.setdefault(topic, deque()).append(turn_there)
                        self._leave(key, turn)
                        key, turn = topic, turn_there
                        continue
                if not accumulator.is_closed:  # else nobody may be there to ring
                    await wake.waiter
        except (asyncio.CancelledError, GeneratorExit) as ended:  # the latter when its loop ends without it
            self._refused(sent, "The task that sent the record was cancelled while it waited for buffer.memory",
                          is_withdrawn=True)
            if isinstance(ended, GeneratorExit):
                raise
            raise asyncio.CancelledError("the task was cancelled while its record waited for buffer.memory: it was not "
                                         "sent") from ended
        finally:
            timer.cancel()
            door.leave(wake)
            if place is not None:
                place.leave()
            self._leave(key, turn)

    def _refused(self, sent: Postponed, why: str, *, is_withdrawn: bool = False) -> FutureRecordMetadata:
        """Tell whoever is to know that a record that waited is not sent; return its future.

        Args:
            sent: The record.
            why: The error's text.
            is_withdrawn: Whether it was taken back by who sent it.
        """
        error = BufferExhaustedError(why)
        return sent.withdraw(error) if is_withdrawn else sent.give_up(error)

    def _why_exhausted(self) -> str:
        runtime = self._producer._runtime
        return (f"No memory for the record became free within max.block.ms = {runtime.config.max_block_ms} ms: "
                f"{runtime.accumulator.pool.describe()}, and {self.task_count} tasks. Send more slowly, or raise "
                "buffer.memory or max.block.ms")
