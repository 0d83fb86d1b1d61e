"""A producer for an event loop in a process of its own.

`python -m benchmarks.loop_process MODE CLIENT SERVERS TOPIC COUNT`; MODE is

    one       a task awaits each of its records, one after the other; each client's own defaults
    tasks     1,000 tasks at a time await a record each; acks=all, idempotent
    nowait    50,000 records are handed over without waiting, then flushed, again and again; acks=all, idempotent
    watched   200 tasks await one record after the other, and each call of the loop is timed

Prints one line, a LoopRun as JSON.
"""

from __future__ import annotations

import asyncio
import dataclasses
import gc
import json
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from typing import Any, Protocol

from benchmarks.workload import Latency, Workload

TASK_COUNT = 1000
WORKER_COUNT = 200
FLUSH_COUNT = 50_000  # which buffer.memory of 32 MiB has room for
HOLD_MS = 5.0
"""What a loop's other tasks may be held up by one call."""


@dataclasses.dataclass(frozen=True)
class LoopRun:
    """What one run of one client took.

    Attributes:
        client: Its name.
        record_count: Records sent.
        seconds: From the first to the end of the last.
        p50_us: Of one record that was awaited; 0 where that is not measured.
        longest_ms: The longest call of the loop by the clock; 0 where that is not measured.
        longest_cpu_ms: The longest by the thread's own CPU time, which other processes do not lengthen.
        hold_count: Calls above HOLD_MS by the clock.
    """

    client: str
    record_count: int
    seconds: float
    p50_us: float = 0
    longest_ms: float = 0
    longest_cpu_ms: float = 0
    hold_count: int = 0

    @property
    def rate(self) -> float:
        """Records per second."""
        return self.record_count / self.seconds

    def to_json(self) -> str:
        """Return a form that travels through a pipe."""
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text: str) -> LoopRun:
        """Return the run that `to_json` wrote."""
        return cls(**json.loads(text))


class LoopClient(Protocol):
    """A producer that runs in a loop."""

    async def send(self, value: bytes) -> object:
        """Send a record and wait until it is stored."""

    async def hand_over(self, values: list[bytes]) -> None:
        """Send records without waiting for each, then wait for all."""


class _Pyproducer:
    def __init__(self, producer: Any, topic: str) -> None:
        self._producer = producer
        self._topic = topic

    async def send(self, value: bytes) -> object:
        return await self._producer.send(self._topic, value)

    async def hand_over(self, values: list[bytes]) -> None:
        from pyproducer import BufferExhaustedError

        send_nowait, topic = self._producer.send_nowait, self._topic
        for value in values:
            try:
                send_nowait(topic, value)
            except BufferExhaustedError:
                await self._producer.send(topic, value)
        await self._producer.flush(raise_on_error=True)


@asynccontextmanager
async def pyproducer(servers: str, topic: str, settings: dict[str, object]) -> AsyncIterator[LoopClient]:
    """This project's producer."""
    from pyproducer.aio import AsyncKafkaProducer

    async with AsyncKafkaProducer({"bootstrap.servers": servers, **settings}) as producer:
        yield _Pyproducer(producer, topic)


class _Aiokafka:
    def __init__(self, producer: Any, topic: str) -> None:
        self._producer = producer
        self._topic = topic

    async def send(self, value: bytes) -> object:
        return await self._producer.send_and_wait(self._topic, value)

    async def hand_over(self, values: list[bytes]) -> None:
        send, topic = self._producer.send, self._topic
        futures = [await send(topic, value) for value in values]
        await self._producer.flush()  # which does not say whether all were stored
        for future in futures:
            future.result()


@asynccontextmanager
async def aiokafka(servers: str, topic: str, settings: dict[str, object]) -> AsyncIterator[LoopClient]:
    """The producer of aiokafka."""
    from aiokafka import AIOKafkaProducer

    producer = AIOKafkaProducer(bootstrap_servers=servers,
                                **{key.replace(".", "_"): value for key, value in settings.items()})
    await producer.start()
    try:
        yield _Aiokafka(producer, topic)
    finally:
        await producer.stop()


LOOP_CLIENTS: dict[str, Callable[[str, str, dict[str, object]], AbstractAsyncContextManager[LoopClient]]] = {
    "pyproducer": pyproducer,
    "aiokafka": aiokafka,
}


class LoopWatch:
    """Times each call of the loop.

    Attributes:
        longest_ns: The longest by the clock.
        longest_cpu_ns: The longest by the thread's own CPU time.
        hold_count: Calls above HOLD_MS by the clock.
    """

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Begin anew."""
        self.longest_ns = 0
        self.longest_cpu_ns = 0
        self.hold_count = 0

    def describe(self) -> str:
        """Return it for a table."""
        return (f"{self.hold_count} calls of the loop above {HOLD_MS:.0f} ms, the longest {self.longest_ns / 1e6:.1f} "
                f"ms, by the thread's own CPU time {self.longest_cpu_ns / 1e6:.1f} ms")

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watch every loop of the process, until the block ends."""
        run = asyncio.events.Handle._run

        def timed(handle: asyncio.Handle) -> None:
            cpu_ns, began_ns = time.thread_time_ns(), time.perf_counter_ns()
            run(handle)
            took_ns = time.perf_counter_ns() - began_ns
            self.longest_ns = max(self.longest_ns, took_ns)
            self.longest_cpu_ns = max(self.longest_cpu_ns, time.thread_time_ns() - cpu_ns)
            self.hold_count += took_ns > HOLD_MS * 1e6

        asyncio.events.Handle._run = timed  # type: ignore[assignment, method-assign]  # there is no hook
        try:
            yield
        finally:
            asyncio.events.Handle._run = run  # type: ignore[method-assign]  # as before


async def in_tasks(send: Callable[[bytes], Awaitable[object]], values: list[bytes]) -> None:
    """Send records in 1,000 tasks at a time."""
    for begin in range(0, len(values), TASK_COUNT):
        await asyncio.gather(*(asyncio.ensure_future(send(value)) for value in values[begin:begin + TASK_COUNT]))


async def by_workers(send: Callable[[bytes], Awaitable[object]], values: list[bytes]) -> None:
    """Send records in tasks that go on with the next; no call of the loop is as long as many tasks' beginning."""
    left = iter(values)

    async def work() -> None:
        for value in left:
            await send(value)

    await asyncio.gather(*(asyncio.ensure_future(work()) for _ in range(WORKER_COUNT)))


async def run(mode: str, name: str, servers: str, topic: str, count: int) -> LoopRun:
    """Run one client once."""
    settings: dict[str, object] = {} if mode == "one" else {"acks": "all", "enable.idempotence": True}
    values = [value for _, value in Workload(record_count=count).records()]
    async with LOOP_CLIENTS[name](servers, topic, settings) as client:
        # Every partition's leader has answered, and the interpreter has seen the code, before anything is measured.
        await in_tasks(client.send, values[:500])
        gc.collect()
        gc.freeze()  # what is there stays: a full collection is the interpreter's, not the client's
        waits_ns = []
        watch = LoopWatch()
        began = time.perf_counter()
        if mode == "one":
            for value in values:
                sent_ns = time.perf_counter_ns()
                await client.send(value)
                waits_ns.append(time.perf_counter_ns() - sent_ns)
        elif mode == "nowait":
            for first in range(0, count, FLUSH_COUNT):
                await client.hand_over(values[first:first + FLUSH_COUNT])
        elif mode == "watched":
            with watch.watching():
                await by_workers(client.send, values)
        else:
            await in_tasks(client.send, values)
        seconds = time.perf_counter() - began
    return LoopRun(name, count, seconds, Latency.of(name, waits_ns).p50_us if waits_ns else 0, watch.longest_ns / 1e6,
                   watch.longest_cpu_ns / 1e6, watch.hold_count)


def main() -> None:
    """Run one client once."""
    mode, name, servers, topic, count = sys.argv[1:]
    print(asyncio.run(run(mode, name, servers, topic, int(count))).to_json())


if __name__ == "__main__":
    main()
