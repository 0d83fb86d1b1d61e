"""Tasks that wait for buffer.memory, first come, first served: a line for each of its pools.

A topic that nobody knows, whose records may have a part of memory only, does not stop the others. Later records of a
topic whose tasks wait go behind them.

Road:    beside it; records that found no memory on the road.
Thread:  the event loop's.
Source:  ours.
"""

from __future__ import annotations

import asyncio
from asyncio import get_running_loop
from collections import Counter, deque
from typing import Any

from pyproducer.accumulator.buffer_pool import BufferPool, Place
from pyproducer.aio.task_bell import TaskBell
from pyproducer.common.errors import BufferExhaustedError
from pyproducer.common.loop_inbox import LoopInbox
from pyproducer.common.record_future import FutureRecordMetadata
from pyproducer.common.records import ProducerRecord
from pyproducer.producer.do_send import Postponed
from pyproducer.producer.kafka_producer import KafkaProducer

Turn = asyncio.Future[None]
"""Done when a task is the first of its line."""


class MemoryLines:
    """Those who wait, of one producer in one event loop.

    Args:
        producer: Where their records go.

    Attributes:
        whole: The line for the whole of memory.
        topics_of_part: Topics of those in the line for the waiting room's part of it, and how many each has there.
    """

    def __init__(self, producer: KafkaProducer[Any, Any]) -> None:
        self._producer = producer
        self.whole: deque[Turn] = deque()
        self.topics_of_part: Counter[str] = Counter()
        self._part: deque[Turn] = deque()

    @property
    def task_count(self) -> int:
        """How many tasks wait."""
        return len(self.whole) + len(self._part)

    def has_to_wait(self, topic: Any) -> bool:
        """Whether tasks wait that a record of a topic, or a ProducerRecord, has to wait behind."""
        return bool(self.whole) or self._waits_for_part(topic.topic if isinstance(topic, ProducerRecord) else topic)

    def _waits_for_part(self, topic: Any) -> bool:
        """Whether tasks wait with records of a topic in the part's line."""
        return bool(self.topics_of_part) and isinstance(topic, str) and topic in self.topics_of_part

    def _join(self, line: deque[Turn], turn: Turn, topic: str) -> None:
        line.append(turn)
        if line is self._part:
            self.topics_of_part[topic] += 1

    def _leave(self, line: deque[Turn], turn: Turn, topic: str) -> None:
        line.remove(turn)
        if line is self._part:
            self.topics_of_part[topic] -= 1
            if not self.topics_of_part[topic]:
                del self.topics_of_part[topic]
        if line and not line[0].done() and not line[0].get_loop().is_closed():
            line[0].set_result(None)

    async def send(self, sent: Any, topic: str, inbox: LoopInbox) -> FutureRecordMetadata:
        """Hand a record over once there is memory, behind those who wait already.

        Args:
            sent: A Postponed, when that was tried; a record with its callback, when others were there first.
            topic: The record's.
            inbox: The running loop's.
        """
        loop = get_running_loop()
        runtime = self._producer._runtime
        life, accumulator, max_block_ms = runtime.life, runtime.accumulator, runtime.config.max_block_ms
        began_ms = runtime.clock.now_ms()
        places: dict[BufferPool, Place] = {}  # kept from try to try: who comes later waits behind
        turn: Turn = loop.create_future()
        is_late = False

        def end() -> None:
            nonlocal is_late
            is_late = True
            bell.ring()
            if not turn.done():
                turn.set_result(None)

        bell = TaskBell(inbox)
        timer = loop.call_later(max_block_ms / 1000, end)
        if type(sent) is not Postponed:
            line = self.whole or self._part
        elif accumulator.pool_that_lacks(sent.why) is accumulator.whole_pool:
            line = self.whole
        else:
            line = self._part
        self._join(line, turn, topic)
        try:
            while True:
                if line[0] is not turn:
                    if not is_late:
                        await turn
                    if line[0] is not turn:  # his time is over before it was his turn
                        return self._refused(sent, self._why_exhausted())
                if type(sent) is tuple and line is self.whole and self._waits_for_part(topic):
                    line, turn = self._move_to_part(turn, topic)
                    continue
                bell.rearm()  # first: what comes back from now on rings
                life.loop.bell, life.loop.deadline_ms = bell, began_ms + max_block_ms
                try:
                    if type(sent) is tuple:
                        sent = self._producer.send(*sent)
                        if type(sent) is not Postponed:
                            return sent  # type: ignore[no-any-return]
                    else:
                        future = sent.try_again()
                        if future is not None:
                            return future  # type: ignore[no-any-return]
                    pool = accumulator.pool_that_lacks(sent.why)
                finally:
                    life.loop.bell = life.loop.deadline_ms = None
                if is_late:
                    return self._refused(sent, self._why_exhausted())
                if line is self.whole and pool is not accumulator.whole_pool:
                    while places:
                        places.popitem()[1].leave()
                    line, turn = self._move_to_part(turn, topic)
                    continue
                if pool not in places:  # what came back meanwhile rings now
                    places[pool] = pool.enter(sent.why.size_bytes, max_block_ms, began_ms, bell)
                if not accumulator.is_closed:  # else nobody may be there to ring
                    await bell.rung
        except (asyncio.CancelledError, GeneratorExit) as ended:  # the latter when its loop ends without it
            self._refused(sent, "The task that sent the record was cancelled while it waited for buffer.memory",
                          is_withdrawn=True)
            if isinstance(ended, GeneratorExit):
                raise
            raise asyncio.CancelledError("the task was cancelled while its record waited for buffer.memory: it was not "
                                         "sent") from ended
        finally:
            timer.cancel()
            for place in places.values():
                place.leave()
            self._leave(line, turn, topic)

    def _refused(self, sent: Any, why: str, *, is_withdrawn: bool = False) -> FutureRecordMetadata:
        """Tell whoever is to know that a record that waited is not sent; return its future.

        Args:
            sent: See `send`.
            why: The error's text.
            is_withdrawn: Whether it was taken back by who sent it.
        """
        error = BufferExhaustedError(why)
        future: Any
        if type(sent) is tuple:
            future = self._producer._runtime.record_sender.turn_away(error, *sent, is_withdrawn=is_withdrawn)
        else:
            future = sent.withdraw(error) if is_withdrawn else sent.give_up(error)
        return future  # type: ignore[no-any-return]

    def _move_to_part(self, turn: Turn, topic: str) -> tuple[deque[Turn], Turn]:
        """Leave the line for the whole, and join that for the part at its end; return it and the turn there."""
        turn_there: Turn = get_running_loop().create_future()
        self._join(self._part, turn_there, topic)
        self._leave(self.whole, turn, topic)
        return self._part, turn_there

    def _why_exhausted(self) -> str:
        runtime = self._producer._runtime
        return (f"No memory for the record became free within max.block.ms = {runtime.config.max_block_ms} ms: "
                f"{runtime.accumulator.describe_memory()}, and {self.task_count} tasks. Send more slowly, or raise "
                "buffer.memory or max.block.ms")
