"""An event loop that takes the sender's turns itself: when it does, when it leaves them, and that nothing gets lost."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from pyproducer import hotpath
from pyproducer.aio import AsyncKafkaProducer
from pyproducer.broker import EmbeddedBroker
from pyproducer.common.loop_inbox import LoopInbox
from pyproducer.common.threads import only_ctrl_c_comes
from pyproducer.sender import turns
from pyproducer.sender.sender import Sender
from pyproducer.testing import read_topic
from tests.support.fault_proxy import FaultProxy
from tests.support.patience import GIVE_UP_S

COUNT = 60
only_compiled = pytest.mark.skipif(not hotpath.ROLE_IS_SAFE, reason="the thread never stands aside on the text")


@pytest.fixture
def proxy() -> Iterator[FaultProxy]:
    with EmbeddedBroker() as broker:
        broker.create_topic("orders", 2)
        with FaultProxy(broker.bootstrap_servers) as made:
            yield made


def steps_of(producer: AsyncKafkaProducer[Any, Any]) -> int:
    return producer._producer._runtime.life.role.step_count


async def send_one_by_one(producer: AsyncKafkaProducer[Any, Any], count: int = COUNT, start: int = 0) -> None:
    for number in range(start, start + count):
        await producer.send("orders", b"%d" % number, partition=0)


def run(proxy: FaultProxy, main: Callable[[AsyncKafkaProducer[Any, Any]], Awaitable[None]],
        make_loop: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop, **settings: object) -> None:
    """Run a loop on a thread: in the main one a handler of pytest's may raise, so the loop takes no turns there."""
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


def run_in_main_thread(proxy: FaultProxy, main: Callable[[AsyncKafkaProducer[Any, Any]], Awaitable[None]]) -> None:
    async def begin() -> None:
        async with AsyncKafkaProducer({"bootstrap.servers": proxy.bootstrap_servers}) as producer:
            await main(producer)

    # pytest's alarm, and whatever other tests of this process left (Spark has a handler of Ctrl-C).
    before = {signal.SIGALRM: signal.signal(signal.SIGALRM, signal.SIG_IGN),
              signal.SIGINT: signal.signal(signal.SIGINT, signal.default_int_handler)}
    try:
        asyncio.run(begin())
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@pytest.fixture
def patient_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sender thread that stood aside comes back when it is rung, and at no other time.

    As it is it looks every 2 ms: on a busy machine it is often there before the loop takes its step.
    """
    monkeypatch.setattr(turns, "LOOK_S", GIVE_UP_S)


async def send_until_it_takes_turns(producer: AsyncKafkaProducer[Any, Any]) -> int:
    """Send one by one until the loop takes a turn; return how many. Until it stands aside, the thread takes all."""
    deadline, count = time.monotonic() + GIVE_UP_S, 0
    while not steps_of(producer):
        assert time.monotonic() < deadline, f"the loop took no turn, with {count} records"
        await send_one_by_one(producer, 1, count)
        count += 1
    return count


def stored(proxy: FaultProxy) -> list[bytes]:
    return [record.value for record in read_topic(proxy.bootstrap_servers, "orders") if record.partition == 0]


def numbers(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


@only_compiled
def test_loop_when_tasks_await_one_after_another_then_it_sends_and_hears_by_itself(
        proxy: FaultProxy, patient_thread: None) -> None:
    async def main(producer: AsyncKafkaProducer[Any, Any]) -> None:
        count = await send_until_it_takes_turns(producer)
        await send_one_by_one(producer, 1, count)  # that step may have been the one that hears
        role = producer._producer._runtime.life.role
        assert role.is_free, "nobody rang"
        before = steps_of(producer)
        await send_one_by_one(producer, COUNT, count + 1)
        assert steps_of(producer) - before == 2 * COUNT
        sent.append(count + 1 + COUNT)

    sent: list[int] = []
    run(proxy, main)
    assert stored(proxy) == numbers(sent[0])


def test_loop_when_the_broker_takes_its_time_then_the_thread_hears_it_and_the_loop_goes_on_later(
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


def test_loop_when_connections_break_under_its_turns_then_each_record_is_stored_once(proxy: FaultProxy) -> None:
    async def main(producer: AsyncKafkaProducer[Any, Any]) -> None:
        await send_one_by_one(producer, 20)
        for round_number in range(1, 4):
            (proxy.on("Produce").cut_after if round_number % 2 else proxy.on("Produce").cut_before)()
            await send_one_by_one(producer, 20, 20 * round_number)

    run(proxy, main, **{"retry.backoff.ms": 10, "reconnect.backoff.ms": 10})
    assert stored(proxy) == numbers(80)


def test_loop_when_tasks_send_at_once_then_the_thread_sends_for_them_in_order(proxy: FaultProxy) -> None:
    async def main(producer: AsyncKafkaProducer[Any, Any]) -> None:
        await send_one_by_one(producer, 10)
        for begin in range(10, 100, 30):
            await asyncio.gather(*(producer.send("orders", b"%d" % number, partition=0)
                                   for number in range(begin, begin + 30)),
                                 *(producer.send("orders", b"other", partition=1) for _ in range(30)))

    run(proxy, main)
    assert stored(proxy) == numbers(100)


def test_loop_when_it_cannot_watch_a_descriptor_then_the_thread_does_all(proxy: FaultProxy) -> None:
    class NoReaders(asyncio.SelectorEventLoop):
        def add_reader(self, fd: Any, callback: Any, *args: Any) -> Any:
            raise NotImplementedError

    async def main(producer: AsyncKafkaProducer[Any, Any]) -> None:
        await send_one_by_one(producer)
        assert steps_of(producer) <= 1, "in which it was seen"

    run(proxy, main, NoReaders)
    assert stored(proxy) == numbers(COUNT)


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="the system does not list descriptors")
def test_loop_when_the_producer_is_closed_then_it_watches_nothing_of_it(proxy: FaultProxy) -> None:
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


@only_compiled
@pytest.mark.parametrize("place", ["hear", "send_at_once"])
def test_loop_when_its_turn_ends_half_way_then_the_thread_recovers_and_nothing_is_lost(
        proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, place: str) -> None:
    real = getattr(Sender, place)
    raised: list[int] = []

    def torn(sender: Sender, *arguments: Any) -> Any:
        result = real(sender, *arguments)
        if sender._accumulator._life.role.caller and len(raised) < 3:
            raised.append(1)
            raise RuntimeError("a bug")
        return result

    async def main(producer: AsyncKafkaProducer[Any, Any]) -> None:
        for number in range(2000):
            await producer.send("orders", b"%d" % number, partition=0)
            if len(raised) == 3 and number >= COUNT:
                break
        assert len(raised) == 3

    monkeypatch.setattr(Sender, place, torn)
    with caplog.at_level(logging.ERROR, "pyproducer"):
        run(proxy, main)
    assert caplog.text.count("Uncaught error in a turn of an event loop") == 3
    values = stored(proxy)
    assert values == numbers(len(values))
    assert len(values) > COUNT


@only_compiled
def test_loop_when_a_signal_may_raise_anything_then_the_thread_does_all(proxy: FaultProxy) -> None:
    async def main(producer: AsyncKafkaProducer[Any, Any]) -> None:
        await send_one_by_one(producer)
        assert steps_of(producer) == 0

    before = signal.signal(signal.SIGUSR1, lambda *_: None)
    try:
        run_in_main_thread(proxy, main)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert stored(proxy) == numbers(COUNT)


@only_compiled
def test_loop_when_it_handles_signals_itself_then_it_takes_turns(proxy: FaultProxy, patient_thread: None) -> None:
    async def main(producer: AsyncKafkaProducer[Any, Any]) -> None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, lambda: None)
        assert only_ctrl_c_comes()
        await send_until_it_takes_turns(producer)

    run_in_main_thread(proxy, main)


def test_callback_when_the_loop_may_take_turns_then_it_is_called_in_the_loop_before_the_await_ends(
        proxy: FaultProxy) -> None:
    async def main(producer: AsyncKafkaProducer[Any, Any]) -> None:
        told: list[int] = []
        for number in range(COUNT):
            await producer.send("orders", b"%d" % number, partition=0,
                                on_completion=lambda *_: told.append(threading.get_ident()))
            assert told == [threading.get_ident()] * (number + 1)

    run(proxy, main)


def test_future_when_it_is_awaited_in_another_loop_then_that_one_takes_no_turn(proxy: FaultProxy) -> None:
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
def test_loop_when_settings_differ_then_each_record_is_stored_in_order(proxy: FaultProxy,
                                                                       settings: dict[str, object]) -> None:
    run(proxy, lambda producer: send_one_by_one(producer, 30), **settings)
    while len(stored(proxy)) < 30:  # with acks=0 nobody knows when
        time.sleep(0.01)
    assert stored(proxy) == numbers(30)


@only_compiled
def test_loop_when_ctrl_c_ends_its_turn_before_a_task_is_told_then_the_task_is_told_when_the_loop_runs_again(
        proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch) -> None:
    """The list of whom to tell was emptied first, and Ctrl-C was logged as what a callback raises: the program went on,
    and the task awaited its record for ever.
    """
    raised: list[int] = []
    real = LoopInbox.put

    def put(inbox: LoopInbox, item: Callable[[], object]) -> None:
        if lives and lives[0].role.caller and len(raised) < 3:
            raised.append(1)
            raise KeyboardInterrupt
        real(inbox, item)

    lives: list[Any] = []

    async def begin() -> AsyncKafkaProducer[Any, Any]:
        producer: AsyncKafkaProducer[Any, Any] = AsyncKafkaProducer({"bootstrap.servers": proxy.bootstrap_servers})
        await send_one_by_one(producer, 1)
        return producer

    def run_loop() -> int:
        sent, ends = 1, 0
        loop = asyncio.new_event_loop()
        producer = loop.run_until_complete(begin())
        lives.append(producer._producer._runtime.life)
        try:
            while len(raised) < 3:
                task = loop.create_task(send_one_by_one(producer, 1, sent))
                sent += 1
                while not task.done():
                    try:
                        loop.run_until_complete(asyncio.wait([task], timeout=GIVE_UP_S))
                        assert task.done(), "nobody told it"
                    except KeyboardInterrupt:
                        ends += 1
        finally:
            loop.run_until_complete(producer.close())
            loop.close()
        assert ends == 3
        return sent

    monkeypatch.setattr(LoopInbox, "put", put)
    with ThreadPoolExecutor(1) as pool:
        sent = pool.submit(run_loop).result()
    assert stored(proxy) == numbers(sent)
