"""An event loop of asyncio whose time is the simulation's, and an application that lives in one.

    asyncio's own loop (the real one)
      _LoopSelector     sleeps in the scheduler until a time, or until somebody rings
    AsyncKafkaProducer  (the real one) around a producer of its own
    some tasks          send_nowait(), await send(), send_batch(), flush(), partitions_for(), one after another; some
                        are cancelled while they wait; half of the loops close in an `async with`, or while others send

A cancelled await neither loses nor doubles a record: its future is noted where the producer makes it, and is judged as
any. What an await returns or raises is what that future says. Threads that the producer starts for what blocks are the
scheduler's.

Source:  ours.
"""

from __future__ import annotations

import asyncio
import math
import random
import selectors
from collections import Counter
from collections.abc import Callable, Coroutine
from contextvars import ContextVar
from typing import Any

from pyproducer import (
    BufferExhaustedError,
    DeliveryFailedError,
    KafkaError,
    KafkaProducer,
    KafkaTimeoutError,
    ProducerClosedError,
)
from pyproducer.aio import AsyncKafkaProducer, threads
from pyproducer.aio.memory_lines import MemoryLines
from pyproducer.common.loop_inbox import LoopInbox
from pyproducer.producer.do_send import Postponed
from tests.simulation.application import SimulatedFailure
from tests.simulation.schedule import Scheduler
from tests.simulation.workload import IN_LOOP, Sent, Workload

_RECORD: ContextVar[Sent | None] = ContextVar("record", default=None)
_ROWS: ContextVar[list[Sent] | None] = ContextVar("rows", default=None)
_NO_FUTURES = (type(None), Postponed)


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
        deadline_ms = None if timeout is None else scheduler.now_ms + math.ceil(max(timeout, 0) * 1000)
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


class NotingProducer(AsyncKafkaProducer[Any, Any]):
    """The real one around a producer that there is; it notes the future of what a task sends, cancelled or not."""

    def __init__(self, producer: KafkaProducer[Any, Any]) -> None:
        self._producer = producer
        self._belong_to_nobody()

    @property
    def withdrawn_count(self) -> int:
        """How many records were taken back by their tasks."""
        lines: Any = self._lines
        return int(lines.withdrawn_count)

    def _belong_to_nobody(self) -> None:
        super()._belong_to_nobody()
        lines: Any = self._lines
        lines.__class__ = _NotingLines  # the road has what it holds
        self._threads = _NotingThreads(self._threads._name)

    def _send_at_once(self, *arguments: Any) -> Any:
        return _noted(super()._send_at_once(*arguments))

    def _send_record(self, *arguments: Any) -> Any:
        return _noted(super()._send_record(*arguments))


def _noted(sent: Any) -> Any:
    record = _RECORD.get()
    if record is not None and not isinstance(sent, _NO_FUTURES):
        record.future = sent
    return sent


class _NotingLines(MemoryLines):
    """The real ones; they note the future of a record that waited."""

    withdrawn_count = 0

    async def send(self, sent: Any, topic: str, inbox: LoopInbox) -> Any:
        return _noted(await super().send(sent, topic, inbox))

    def _refused(self, sent: Any, why: str, *, is_withdrawn: bool = False) -> Any:
        record = _RECORD.get()
        if record is not None:
            record.is_withdrawn = is_withdrawn
            self.withdrawn_count += is_withdrawn
        return _noted(super()._refused(sent, why, is_withdrawn=is_withdrawn))


class _NotingThreads(threads.Threads):
    """The real ones; they note the future of the rows that a task sends."""

    async def call(self, inbox: LoopInbox, call: Callable[[], Any], *, in_order: bool = False,
                   goes_on: bool = True) -> Any:
        rows = _ROWS.get()
        if rows is None:
            return await super().call(inbox, call, in_order=in_order, goes_on=goes_on)

        def noting() -> Any:
            try:
                future = call()
            except (KafkaError, SimulatedFailure) as error:
                for record in rows:
                    record.refused = error
                raise
            for row, record in enumerate(rows):
                record.future, record.row = future, row
            return future

        return await super().call(inbox, noting, in_order=in_order)  # goes on: else nobody knew what became of its rows


class AsyncCaller:
    """A thread of the application with an event loop.

    Args:
        workload: Whose records.
        scheduler: Time.
        producer: What its loop has, and nobody else.
        chance: Its own stream.
        checks: Is told how many awaits were compared with futures, and what was cancelled.
    """

    def __init__(self, workload: Workload, scheduler: Scheduler, producer: KafkaProducer[Any, Any],
                 chance: random.Random, checks: Counter[str]) -> None:
        self._workload = workload
        self._scheduler = scheduler
        self._producer = NotingProducer(producer)
        self._chance = chance
        self._checks = checks
        self._caller = workload.caller_in_loop(0)
        self._batch_caller = workload.caller_in_loop(1)
        self._mine: list[Sent] = []
        self._is_closed = False

    def run(self) -> None:
        """Send until there is enough, and hear of all of it."""
        module: Any = threads
        starts_thread, module.start_daemon = module.start_daemon, self._scheduler.start
        loop = SimLoop(self._scheduler)
        try:
            loop.run_until_complete(self._main())
        finally:
            loop.close()
            module.start_daemon = starts_thread

    async def _main(self) -> None:
        chance, producer = self._chance, self._producer
        workers = [self._work() for _ in range(1 + int(chance.random() * 3))]
        if chance.random() < 0.5:
            async with producer:
                await self._all(workers)
            self._is_closed = True
            undone = [record for record in self._mine if record.future is not None and not record.future.done()]
            if undone:
                self._workload.complaints.append(f"an async with has ended, and {undone} have no outcome")
        else:
            await self._all(workers)
            if chance.random() < 0.3:
                await producer.flush()
        for record in self._mine:
            while record.future is None and record.refused is None and not record.is_cut_off:
                await asyncio.sleep(0.05)  # a thread hands it over, for a task that was cancelled
            if record.future is not None:
                await self._hear(record)
        self._checks["withdrawn"] += producer.withdrawn_count
        await asyncio.sleep(1)  # for callbacks that the loop was rung for

    async def _all(self, workers: list[Coroutine[Any, Any, None]]) -> None:
        """Have all work; now and then one closes, while the others go on."""
        if self._chance.random() < 0.2:
            workers.append(self._close_soon())
        await asyncio.gather(*workers)

    async def _close_soon(self) -> None:
        while not self._workload.is_closing and len(self._mine) < 40 and self._workload.has_more():
            await asyncio.sleep(0.02)
        await self._producer.close()
        self._is_closed = True

    async def _work(self) -> None:
        workload, chance = self._workload, self._chance
        operations = (self._burst, self._burst, self._send, self._send_many, self._send_many, self._send_batch,
                      self._flush, self._look, self._sleep)
        while not workload.is_closing and not self._is_closed and workload.has_more():
            operation = operations[int(chance.random() * len(operations))]
            try:
                if chance.random() < 0.3:
                    await self._cancelled(operation())
                else:
                    await operation()
            except ProducerClosedError:
                return
            await asyncio.sleep(0)

    async def _cancelled(self, operation: Coroutine[Any, Any, None]) -> None:
        """Begin something, and cancel it after a while, unless it is over."""
        task = asyncio.ensure_future(operation)
        await asyncio.sleep(self._chance.random() * 0.05)
        self._checks["cancelled"] += task.cancel()
        try:
            await task
        except asyncio.CancelledError:
            pass

    # -- what a task does

    def _next(self) -> tuple[Sent, dict[str, Any]]:
        record, key = self._caller.next_with_key()
        self._mine.append(record)
        return record, self._workload.dress(record, key, None, self._chance.random() < 0.5)

    async def _burst(self) -> None:
        workload = self._workload
        for _ in range(workload.take(1 + int(self._chance.random() * 12))):
            record, key = self._caller.next_with_key()
            self._mine.append(record)
            workload.send(record, key, None, self._chance.random() < 0.5, by=self._producer.send_nowait)
            if isinstance(record.refused, BufferExhaustedError):
                await asyncio.sleep(0.1)

    async def _send(self) -> None:
        count = self._workload.take(1 + int(self._chance.random() * 3))
        for _ in range(count):
            await self._send_one()

    async def _send_many(self) -> None:
        """Have a task for each of some records: they wait for memory behind each other."""
        count = self._workload.take(1 + int(self._chance.random() * 16))
        said = await asyncio.gather(*(self._send_one() for _ in range(count)), return_exceptions=True)
        for error in said:
            if isinstance(error, BaseException):
                raise error

    async def _send_one(self) -> None:
        record, named = self._next()
        token = _RECORD.set(record)
        try:
            said: Any = await self._producer.send(record.topic, record.body, **named)
        except (KafkaError, SimulatedFailure) as error:
            if record.future is None:
                self._workload.refuse(record, error)
                if isinstance(error, ProducerClosedError):
                    raise
                return
            said = error
        except BaseException:
            record.is_cut_off = record.future is None
            if record.is_cut_off:
                self._workload.complaints.append(f"a cancelled send() of {record} made no future")
            raise
        finally:
            _RECORD.reset(token)
        self._compare(record, said)

    def _compare(self, record: Sent, said: Any) -> None:
        self._checks["await says what the future says"] += 1
        error = record.future.exception(0)
        if (type(error) is not type(said)) if error is not None else (record.future.result(0) != said):
            self._workload.complaints.append(f"await send() of {record} said {said!r}, its future says "
                                             f"{record.future!r}")

    async def _send_batch(self) -> None:
        count = self._workload.take(1 + int(self._chance.random() * 20))
        if not count:
            return
        records, columns = self._batch_caller.rows(count)  # in order among themselves, for they have one thread
        self._mine += records
        token = _ROWS.set(records)
        try:
            metadata = await self._producer.send_batch(**columns)
        except (KafkaError, SimulatedFailure) as error:
            for record in records:
                if record.future is None:  # it was refused at once
                    record.refused = error
            if isinstance(error, ProducerClosedError):
                raise
        else:
            self._checks["await says what the future says"] += count
            if metadata is not records[0].future.result(0):
                self._workload.complaints.append(f"await send_batch() returned {metadata!r}, which is not its future's")
        finally:
            _ROWS.reset(token)

    async def _flush(self) -> None:
        before = [record for record in self._mine if record.future is not None and not record.future.done()]
        self._workload.flushes += 1
        try:
            await self._producer.flush(None if self._chance.random() < 0.5 else self._chance.random() * 3,
                                       raise_on_error=self._chance.random() < 0.3)
        except KafkaTimeoutError:
            return
        except DeliveryFailedError as error:
            self._workload.look_at_failure(error, self._workload.producer_of(self._caller._number))
            return
        finally:
            self._workload.flushes -= 1
        undone = [record for record in before if not record.future.done()]
        if undone:
            self._workload.complaints.append(f"await flush() returned, and {undone} have no outcome")

    async def _look(self) -> None:
        try:
            await self._producer.partitions_for(self._caller.some_topic())
        except ProducerClosedError:
            raise
        except KafkaError:
            pass  # not known in time: no record is concerned
        if self._mine and self._mine[-1].future is not None:
            await self._hear(self._mine[-1])
        await self._hear_another()

    async def _hear_another(self) -> None:
        """Await a future of another producer's, which knows of no loop: as what it is, or as one of concurrent.futures.
        """
        workload = self._workload
        record = next((record for record in reversed(workload.records) if 0 <= record.caller < IN_LOOP
                       and record.future is not None and not record.future.done()), None)
        if record is None:
            return
        future = record.future
        for other in workload.records:
            other.may_be_seen = other.may_be_seen or other.future is future
        is_wrapped = self._chance.random() < 0.5
        try:
            said: Any = await (asyncio.wrap_future(future) if is_wrapped else future)
        except (KafkaError, SimulatedFailure) as error:
            said = error
        self._checks["await of another's"] += 1
        error = future.exception(0)
        # Rows that failed are raised by none but the wrapped one.
        is_so = type(said) is type(error) if error is not None and (record.row is None or is_wrapped) else (
            said == future.result(0))
        if not future.done() or not is_so:
            workload.complaints.append(f"await of the future of {record} said {said!r}, and it says {error!r}")

    async def _sleep(self) -> None:
        await asyncio.sleep(self._chance.random() * 0.05)

    @staticmethod
    async def _hear(record: Sent) -> None:
        try:
            await record.future
        except (KafkaError, SimulatedFailure):
            pass  # compared with what is in the log, at the end
