"""An event loop of asyncio whose time is the simulation's, and a caller that lives in one.

    asyncio's own loop (the real one)
      _LoopSelector     sleeps in the scheduler until a time, or until somebody rings
    AsyncKafkaProducer  (the real one) around a producer of its own

Source:  ours.
"""

from __future__ import annotations

import asyncio
import random
import selectors
from collections.abc import Callable
from typing import Any

from pyproducer import BufferExhaustedError, KafkaError, KafkaProducer
from pyproducer.aio import AsyncKafkaProducer
from tests.simulation.application import SimulatedFailure
from tests.simulation.schedule import Scheduler
from tests.simulation.workload import Sent, Workload


class _LoopSelector(selectors.BaseSelector):
    """What a loop sleeps in."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._is_rung = False

    def __repr__(self) -> str:
        return "its event loop"

    def ring(self) -> None:
        self._is_rung = True
        self._scheduler.wake(self)

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        scheduler = self._scheduler
        scheduler.pause()
        deadline_ms = None if timeout is None else scheduler.now_ms + int(max(timeout, 0) * 1000 + 0.999)
        while not self._is_rung and (deadline_ms is None or scheduler.now_ms < deadline_ms):
            scheduler.block(self, deadline_ms)
        self._is_rung = False
        return []

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        raise NotImplementedError

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        raise NotImplementedError

    def get_map(self) -> dict[Any, selectors.SelectorKey]:
        return {}


class SimLoop(asyncio.SelectorEventLoop):
    """A loop whose sleep and time are a scheduler's."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._sleep = _LoopSelector(scheduler)
        super().__init__(self._sleep)

    def time(self) -> float:
        return self._scheduler.now_ms / 1000

    def _make_self_pipe(self) -> None:
        """Have none: who rings tells the selector."""

    def _close_self_pipe(self) -> None:
        """Have none."""

    def _write_to_self(self) -> None:
        self._sleep.ring()


class SimulatedAsyncProducer(AsyncKafkaProducer[Any, Any]):
    """The real one around a producer that there is."""

    def __init__(self, producer: KafkaProducer[Any, Any]) -> None:
        self._producer = producer
        self._belong_to_nobody()


class AsyncCaller:
    """A thread of the application with an event loop.

    Args:
        workload: Whose records.
        scheduler: Time.
        producer: What its loop has, and nobody else.
        chance: Its own stream.
        next_record: Makes its next record, and says its key.
    """

    def __init__(self, workload: Workload, scheduler: Scheduler, producer: KafkaProducer[Any, Any],
                 chance: random.Random, next_record: Callable[[], tuple[Sent, bytes | None]]) -> None:
        self._workload = workload
        self._scheduler = scheduler
        self._producer = SimulatedAsyncProducer(producer)
        self._chance = chance
        self._next_record = next_record

    def run(self) -> None:
        """Send until there is enough, and hear of all of it."""
        loop = SimLoop(self._scheduler)
        try:
            loop.run_until_complete(self._main())
        finally:
            loop.close()

    async def _main(self) -> None:
        workload, chance = self._workload, self._chance
        sent: list[Any] = []
        while not workload.is_closing and workload.has_more():
            for _ in range(workload.take(1 + int(chance.random() * 12))):
                record, key = self._next_record()
                await self._send(record, key)
                sent.append(record.future)
            kind = chance.random()
            if kind < 0.4:
                await asyncio.sleep(chance.random() * 0.05)
            elif kind < 0.7:
                await self._hear(sent[-1:])
        await self._hear(sent)
        await asyncio.sleep(1)  # for callbacks that the loop was rung for

    async def _send(self, record: Sent, key: bytes | None) -> None:
        workload = self._workload
        workload.send(record, key, None, self._chance.random() < 0.5, by=self._producer.send_nowait)
        if isinstance(record.refused, BufferExhaustedError):
            await asyncio.sleep(0.1)

    @staticmethod
    async def _hear(futures: list[Any]) -> None:
        for future in futures:
            if future is not None:
                try:
                    await future
                except (KafkaError, SimulatedFailure):
                    pass  # compared with what is in the log, at the end
