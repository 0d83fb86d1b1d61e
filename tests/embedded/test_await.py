"""Tasks that await record after record, and many at once, over what happens to brokers and connections meanwhile."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from pyproducer.aio import AsyncKafkaProducer
from pyproducer.broker import EmbeddedBroker
from pyproducer.testing import read_topic
from tests.support.fault_proxy import FaultProxy

COUNT = 60


@pytest.fixture
def proxy() -> Iterator[FaultProxy]:
    with EmbeddedBroker() as broker:
        broker.create_topic("orders", 2)
        with FaultProxy(broker.bootstrap_servers) as made:
            yield made


async def send_one_by_one(producer: AsyncKafkaProducer[Any, Any], count: int = COUNT, start: int = 0) -> None:
    for number in range(start, start + count):
        await producer.send("orders", b"%d" % number, partition=0)


def run(proxy: FaultProxy, main: Callable[[AsyncKafkaProducer[Any, Any]], Awaitable[None]],
        make_loop: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop, **settings: object) -> None:
    """Run a loop on a thread of its own."""
    async def begin() -> None:
        async with AsyncKafkaProducer({"bootstrap.servers": proxy.bootstrap_servers, **settings}) as producer:
            await main(producer)

    def run_loop() -> None:
        loop = make_loop()
        try:
            loop.run_until_complete(begin())
        finally:
            loop.close()

    with ThreadPoolExecutor(1) as pool:
        pool.submit(run_loop).result()


def stored(proxy: FaultProxy) -> list[bytes]:
    return [record.value for record in read_topic(proxy.bootstrap_servers, "orders") if record.partition == 0]


def numbers(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


def test_await_when_the_broker_takes_its_time_then_the_task_goes_on_later(
        proxy: FaultProxy) -> None:
    async def main(producer: AsyncKafkaProducer[Any, Any]) -> None:
        await send_one_by_one(producer, 20)
        for round_number in range(1, 4):
            held = proxy.on("Produce").hold_answer()
            task = asyncio.create_task(send_one_by_one(producer, 20, 20 * round_number))
            await asyncio.sleep(0.05)
            assert not task.done()
            held.release()
            await task

    run(proxy, main)
    assert stored(proxy) == numbers(80)


def test_await_when_connections_break_then_each_record_is_stored_once(proxy: FaultProxy) -> None:
    async def main(producer: AsyncKafkaProducer[Any, Any]) -> None:
        await send_one_by_one(producer, 20)
        for round_number in range(1, 4):
            (proxy.on("Produce").cut_after if round_number % 2 else proxy.on("Produce").cut_before)()
            await send_one_by_one(producer, 20, 20 * round_number)

    run(proxy, main, **{"retry.backoff.ms": 10, "reconnect.backoff.ms": 10})
    assert stored(proxy) == numbers(80)


def test_await_when_many_tasks_send_at_once_then_each_partition_is_in_order(proxy: FaultProxy) -> None:
    async def main(producer: AsyncKafkaProducer[Any, Any]) -> None:
        await send_one_by_one(producer, 10)
        for begin in range(10, 100, 30):
            await asyncio.gather(*(producer.send("orders", b"%d" % number, partition=0)
                                   for number in range(begin, begin + 30)),
                                 *(producer.send("orders", b"other", partition=1) for _ in range(30)))

    run(proxy, main)
    assert stored(proxy) == numbers(100)


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="the system does not list descriptors")
def test_loop_when_the_producer_is_closed_then_no_descriptor_of_it_is_left(proxy: FaultProxy) -> None:
    async def begin() -> None:
        loop: Any = asyncio.get_running_loop()
        watched, descriptors = len(loop._selector.get_map()), len(os.listdir("/proc/self/fd"))
        async with AsyncKafkaProducer({"bootstrap.servers": proxy.bootstrap_servers}) as producer:
            await send_one_by_one(producer)
        assert len(loop._selector.get_map()) == watched
        while len(os.listdir("/proc/self/fd")) > descriptors:  # the broker's end of a connection is here, too
            await asyncio.sleep(0.01)

    async def warm_up() -> None:
        async with AsyncKafkaProducer({"bootstrap.servers": proxy.bootstrap_servers}) as producer:
            await send_one_by_one(producer, 1)

    for main in (warm_up, begin):
        with ThreadPoolExecutor(1) as pool:
            pool.submit(lambda: asyncio.run(main())).result()  # noqa: B023 - it is called here


def test_loop_when_it_ends_without_a_close_then_another_producer_sends_in_the_next_loop(proxy: FaultProxy) -> None:
    kept = []

    async def begin(start: int) -> None:
        producer: AsyncKafkaProducer[Any, Any] = AsyncKafkaProducer({"bootstrap.servers": proxy.bootstrap_servers})
        kept.append(producer)
        await send_one_by_one(producer, 20, start)

    with ThreadPoolExecutor(1) as pool:
        for start in range(0, 60, 20):
            pool.submit(lambda: asyncio.run(begin(start))).result()  # noqa: B023 - it is called here
    assert stored(proxy) == numbers(60)
    for producer in kept:
        producer._producer.close()


def test_callback_when_a_task_awaits_its_record_then_it_is_called_in_the_loop_before_the_await_ends(
        proxy: FaultProxy) -> None:
    async def main(producer: AsyncKafkaProducer[Any, Any]) -> None:
        told: list[int] = []
        for number in range(COUNT):
            await producer.send("orders", b"%d" % number, partition=0,
                                on_completion=lambda *_: told.append(threading.get_ident()))
            assert told == [threading.get_ident()] * (number + 1)

    run(proxy, main)


def test_future_when_it_is_awaited_in_another_loop_then_that_one_is_told(proxy: FaultProxy) -> None:
    async def main(producer: AsyncKafkaProducer[Any, Any]) -> None:
        async def there(future: Any) -> Any:
            return await future

        await send_one_by_one(producer, 10)
        for number in range(10, 20):
            future = producer.send_nowait("orders", b"%d" % number, partition=0)
            metadata = await asyncio.get_running_loop().run_in_executor(None, lambda f=future: asyncio.run(there(f)))  # type: ignore[misc]
            assert metadata.offset == number

    run(proxy, main)
    assert stored(proxy) == numbers(20)


@pytest.mark.parametrize("settings", [{"acks": "0", "enable.idempotence": False}, {"acks": "1"},
                                      {"linger.ms": 3}, {"compression.type": "gzip"},
                                      {"max.in.flight.requests.per.connection": 1}],
                         ids=lambda given: next(iter(given)))
def test_await_when_settings_differ_then_each_record_is_stored_in_order(proxy: FaultProxy,
                                                                       settings: dict[str, object]) -> None:
    run(proxy, lambda producer: send_one_by_one(producer, 30), **settings)
    while len(stored(proxy)) < 30:  # with acks=0 nobody knows when
        time.sleep(0.01)
    assert stored(proxy) == numbers(30)


