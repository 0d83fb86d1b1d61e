"""A task that waits for memory: what it does meanwhile, which is nothing, and how long."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import random
import sys
import time
from collections.abc import Coroutine
from typing import Any

import pytest

from pyproducer import (
    DeliveryFailedError,
    ErrorCode,
    IllegalStateError,
    KafkaError,
    ProducerInterceptor,
    ProducerRecord,
    RecordMetadata,
)
from pyproducer.accumulator.serialized_record import SerializedRecord
from pyproducer.aio import AsyncKafkaProducer
from pyproducer.aio import threads as threads_of_tasks
from pyproducer.broker import EmbeddedBroker
from pyproducer.producer.do_send import Postponed, RecordSender
from tests.support.fault_proxy import FaultProxy
from tests.support.patience import GIVE_UP_S

RECORD = b"." * 15_000


def test_send_batch_when_its_task_is_cancelled_before_its_thread_begins_then_nothing_is_sent(
        monkeypatch: pytest.MonkeyPatch) -> None:
    """Late, its rows would be in whatever transaction is open by then."""
    threads: list[Any] = []

    async def main(broker: EmbeddedBroker) -> None:
        async with AsyncKafkaProducer({"bootstrap.servers": broker.bootstrap_servers}) as producer:
            with monkeypatch.context() as patch:
                patch.setattr(threads_of_tasks, "start_daemon", lambda run, _name: threads.append(run))
                task = asyncio.ensure_future(producer.send_batch("orders", [b"a"]))
                await asyncio.sleep(0)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
            (run,) = threads
            await asyncio.to_thread(run)
            await producer.send("orders", b"b")

    with EmbeddedBroker(topics={"orders": 1}) as broker:
        asyncio.run(main(broker))
        assert [record.value for record in broker.records("orders")] == [b"b"]


def test_send_batch_when_tasks_call_it_at_once_then_each_begins_when_the_one_before_was_made(
        monkeypatch: pytest.MonkeyPatch) -> None:
    """Each had a thread of its own: the rows of the second came before those of the first, and 400 had 400 threads."""
    threads: list[Any] = []

    async def main(broker: EmbeddedBroker) -> None:
        async with AsyncKafkaProducer({"bootstrap.servers": broker.bootstrap_servers}) as producer:
            await producer.partitions_for("orders")
            with monkeypatch.context() as patch:
                patch.setattr(threads_of_tasks, "start_daemon", lambda run, _name: threads.append(run))
                tasks = [asyncio.ensure_future(producer.send_batch("orders", [b"%d" % number] * 2))
                         for number in range(4)]
                await asyncio.sleep(0)
                tasks[2].cancel()
                for made in range(4):
                    while len(threads) == made:
                        await asyncio.sleep(0)
                    assert len(threads) == made + 1
                    await asyncio.to_thread(threads[made])
                await asyncio.gather(*tasks, return_exceptions=True)

    with EmbeddedBroker(topics={"orders": 1}) as broker:
        asyncio.run(main(broker))
        assert [record.value for record in broker.records("orders")] == [b"0", b"0", b"1", b"1", b"3", b"3"]


def test_send_batch_when_no_thread_can_be_had_then_it_raises_and_the_next_is_made(
        monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_run: object, _name: str) -> None:
        raise RuntimeError("can't start new thread")

    async def main(broker: EmbeddedBroker) -> None:
        async with AsyncKafkaProducer({"bootstrap.servers": broker.bootstrap_servers}) as producer:
            with monkeypatch.context() as patch:
                patch.setattr(threads_of_tasks, "start_daemon", refuse)
                for outcome in await asyncio.gather(*(producer.send_batch("orders", [b"a"]) for _ in range(3)),
                                                    return_exceptions=True):
                    assert isinstance(outcome, RuntimeError)
            await producer.send_batch("orders", [b"b"])

    with EmbeddedBroker(topics={"orders": 1}) as broker:
        asyncio.run(main(broker))
        assert [record.value for record in broker.records("orders")] == [b"b"]


@pytest.mark.parametrize("interrupted", [1, 2])
def test_send_batch_when_ctrl_c_comes_where_its_thread_is_started_then_later_ones_are_made(
        monkeypatch: pytest.MonkeyPatch, interrupted: int) -> None:
    """It stayed the first in the line for ever: each later send_batch() of the producer hung."""
    started: list[str] = []
    start = threads_of_tasks.start_daemon

    def interrupt(run: Any, name: str) -> None:
        started.append(name)
        if len(started) == interrupted:
            raise KeyboardInterrupt
        start(run, name)

    with EmbeddedBroker(topics={"orders": 1}) as broker, contextlib.closing(asyncio.new_event_loop()) as loop:
        producer = AsyncKafkaProducer[bytes, bytes]({"bootstrap.servers": broker.bootstrap_servers})
        monkeypatch.setattr(threads_of_tasks, "start_daemon", interrupt)

        async def call(value: bytes) -> object:
            return await producer.send_batch("orders", [value])

        first = [loop.create_task(call(b"%d" % number)) for number in range(interrupted)]
        with pytest.raises(KeyboardInterrupt):
            loop.run_until_complete(asyncio.wait(first))
        with contextlib.suppress(asyncio.CancelledError):
            loop.run_until_complete(asyncio.wait_for(call(b"later"), GIVE_UP_S))
        assert not producer._threads._in_order
        loop.run_until_complete(producer.close())
        with contextlib.suppress(BaseException):
            first[-1].result()
        assert [record.value for record in broker.records("orders")] == [b"0", b"later"][2 - interrupted:]


def test_send_batch_when_it_waits_for_others_then_max_block_ms_and_its_transaction_are_those_of_the_call(
        monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind others it would go into whatever transaction is open when they are done."""
    threads: list[Any] = []

    async def main(broker: EmbeddedBroker) -> None:
        async with AsyncKafkaProducer({"bootstrap.servers": broker.bootstrap_servers,
                                       "transactional.id": "shop"}) as producer:
            await producer.init_transactions()
            await producer.begin_transaction()
            with monkeypatch.context() as patch:
                patch.setattr(threads_of_tasks, "start_daemon", lambda run, _name: threads.append(run))
                task = asyncio.ensure_future(producer.send_batch("orders", [b"of the first"]))
                await asyncio.sleep(0)
            await producer.commit_transaction()
            async with producer.transaction():
                await producer.send("orders", b"of the second")
                await asyncio.to_thread(threads[0])
                with pytest.raises(IllegalStateError, match=r"in which send_batch\(\) began has ended"):
                    await task

    with EmbeddedBroker(topics={"orders": 1}) as broker:
        asyncio.run(main(broker))
        assert [record.value for record in broker.records("orders")] == [b"of the second"]


def test_waits_when_tasks_are_cancelled_in_them_then_no_thread_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each flush() had a thread, which stayed until the records were decided: 100 that were cancelled left 100."""
    started: list[str] = []
    start = threads_of_tasks.start_daemon

    def noted(run: Any, name: str) -> None:
        started.append(name)
        start(run, name)

    monkeypatch.setattr(threads_of_tasks, "start_daemon", noted)

    async def main(broker: EmbeddedBroker) -> None:
        producer = AsyncKafkaProducer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "shop"})
        await producer.init_transactions()
        await producer.begin_transaction()
        await producer.partitions_for("orders")
        held = broker.faults.on("Produce").hold()
        future = producer.send_nowait("orders", b"v")
        flushes = [asyncio.ensure_future(producer.flush()) for _ in range(20)]
        lookups = [asyncio.ensure_future(producer.partitions_for("nobody-knows")) for _ in range(20)]
        while not held.held:
            await asyncio.sleep(0.01)
        for wait in (*flushes[::2], *lookups):
            wait.cancel()
        await asyncio.wait([*flushes[::2], *lookups])
        assert all(wait.cancelled() for wait in flushes[::2])
        assert not any(wait.done() for wait in flushes[1::2])
        held.remove()
        await asyncio.gather(*flushes[1::2])
        assert future.done()
        await producer.commit_transaction()
        assert not started
        await producer.close()

    with EmbeddedBroker(topics={"orders": 1}) as broker:
        asyncio.run(main(broker))


def test_flush_when_a_record_is_done_and_its_callback_is_not_called_yet_then_it_awaits_that() -> None:
    told: list[object] = []

    async def main(broker: EmbeddedBroker) -> None:
        async with AsyncKafkaProducer({"bootstrap.servers": broker.bootstrap_servers}) as producer:
            await producer.send("orders", b"first")
            future = producer.send_nowait("orders", b"v", on_completion=lambda *outcome: told.append(outcome))
            while not future.done():  # and the loop does not run meanwhile
                time.sleep(0.001)
            assert not told
            await producer.flush()
            assert len(told) == 1

    with EmbeddedBroker(topics={"orders": 1}) as broker:
        asyncio.run(main(broker))


def test_loop_when_it_is_closed_while_tasks_wait_for_memory_then_nothing_is_raised_when_they_go(
        caplog: pytest.LogCaptureFixture) -> None:
    """The first one rang the next, in a loop that was closed: RuntimeError, out of its `finally`."""
    async def wait_for_memory(producer: AsyncKafkaProducer[bytes, bytes], tasks: list[Any]) -> None:
        await producer.partitions_for("orders")
        tasks += [asyncio.ensure_future(producer.send("orders", RECORD)) for _ in range(8)]
        while producer._lines.task_count < 4:
            await asyncio.sleep(0.005)

    unraisable: list[Any] = []
    with EmbeddedBroker(topics={"orders": 1}) as broker:
        held = broker.faults.on("Produce", times=None).hold()
        loop, tasks = asyncio.new_event_loop(), []  # type: ignore[var-annotated]
        producer = AsyncKafkaProducer[bytes, bytes]({"bootstrap.servers": broker.bootstrap_servers,
                                                     "buffer.memory": 50_000, "batch.size": 0})
        loop.run_until_complete(wait_for_memory(producer, tasks))
        loop.close()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "unraisablehook", unraisable.append)
            for task in tasks:
                task._log_destroy_pending = False
            del task
            tasks.clear()
            gc.collect()
        held.remove()
        asyncio.run(producer.close())
    assert not unraisable


def test_task_when_no_memory_comes_back_then_it_does_not_try_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """It tried thousands of times a second: whoever is first in the line is rung while any byte is free."""
    tries: list[Postponed] = []
    try_again = Postponed.try_again

    def counted(postponed: Postponed, *arguments: Any) -> Any:
        tries.append(postponed)
        return try_again(postponed, *arguments)

    monkeypatch.setattr(Postponed, "try_again", counted)

    async def main(proxy: FaultProxy) -> None:
        async with AsyncKafkaProducer({"bootstrap.servers": proxy.bootstrap_servers, "buffer.memory": 100_000,
                                       "batch.size": 0}) as producer:
            await producer.partitions_for("orders")
            held = proxy.on("Produce", times=None).hold_request()
            while producer.metrics()["buffer-available-bytes"] >= len(RECORD) + 2000:
                producer.send_nowait("orders", RECORD, partition=0)
            task = asyncio.create_task(producer.send("orders", RECORD, partition=0))
            while producer.metrics()["waiting-threads"] != 1:
                await asyncio.sleep(0.001)
            for _ in range(200):
                await asyncio.sleep(0.001)
            assert len(tries) <= 3  # when it joined the line, and when it found some bytes free there, too few
            held.release()
            await task

    with EmbeddedBroker() as broker:
        broker.create_topic("orders", 1)
        with FaultProxy(broker.bootstrap_servers) as proxy:
            asyncio.run(main(proxy))


def test_task_when_it_has_waited_for_memory_then_what_is_left_is_for_the_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    """It waited up to max.block.ms for memory, and as long again for its topic: twice what was asked."""
    given: dict[str, list[int]] = {"first": [], "second": []}
    enqueue = RecordSender.enqueue

    def seen(sender: RecordSender, record: SerializedRecord, max_block_ms: int | None = None, **more: Any) -> Any:
        if record.topic in given and max_block_ms is not None:  # not by send() itself
            given[record.topic].append(max_block_ms)
        return enqueue(sender, record, max_block_ms, **more)

    monkeypatch.setattr(RecordSender, "enqueue", seen)

    async def main(proxy: FaultProxy) -> None:
        async with AsyncKafkaProducer({"bootstrap.servers": proxy.bootstrap_servers, "buffer.memory": 100_000,
                                       "batch.size": 0, "max.block.ms": 20_000}) as producer:
            await producer.partitions_for("orders")
            held = proxy.on("Produce", times=None).hold_request()
            while producer.metrics()["buffer-available-bytes"] >= len(RECORD) + 2000:
                producer.send_nowait("orders", RECORD, partition=0)
            # The first is tried at once and has the place; the second is tried when that one went on.
            tasks = [asyncio.create_task(producer.send(topic, RECORD, partition=0)) for topic in given]
            while producer.metrics()["waiting-threads"] != 1:
                await asyncio.sleep(0.001)
            await asyncio.sleep(0.3)
            held.release()
            await asyncio.gather(*tasks)
            assert given["first"][0] <= 20_000
            assert given["first"][-1] <= 19_700
            assert given["second"][0] <= 19_700

    with EmbeddedBroker(auto_create_topics=True) as broker:
        broker.create_topic("orders", 1)
        with FaultProxy(broker.bootstrap_servers) as proxy:
            asyncio.run(main(proxy))


class Counting(ProducerInterceptor):
    """Counts records, and their outcomes."""

    def __init__(self) -> None:
        self.sent_count = self.told_count = 0

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        self.sent_count += 1
        return record

    def on_acknowledgement(self, metadata: RecordMetadata | None, exception: BaseException | None) -> None:
        self.told_count += 1


@pytest.mark.parametrize("seed", [0, 3])
def test_tasks_when_memory_is_short_and_they_are_cancelled_then_each_record_has_one_outcome(seed: int) -> None:
    draws, interceptor, called, sent = random.Random(seed), Counting(), [0], [0]

    def on_completion(metadata: RecordMetadata | None, exception: BaseException | None) -> None:
        assert (metadata is None) != (exception is None)
        called[0] += 1

    async def send(producer: AsyncKafkaProducer[bytes, bytes], number: int) -> None:
        topic = draws.choice(["orders", "orders", "users", f"no-such-{number % 3}"])
        value = b"." * draws.choice([10, 5000, 15_000])
        sent[0] += 1
        with contextlib.suppress(KafkaError, asyncio.CancelledError, asyncio.TimeoutError):
            if draws.random() < 0.3:
                producer.send_nowait(topic, value, on_completion=on_completion).add_done_callback(
                    lambda future: future.exception())
                return
            task = asyncio.create_task(producer.send(topic, value, on_completion=on_completion))
            await asyncio.sleep(0)  # one that has not begun when it is cancelled sent nothing
            if draws.random() < 0.4:
                asyncio.get_running_loop().call_later(draws.random() * 0.02, task.cancel)
            await task

    async def main(servers: str) -> None:
        producer = AsyncKafkaProducer({"bootstrap.servers": servers, "buffer.memory": 60_000, "batch.size": 5000,
                                       "max.block.ms": draws.choice([50, 2000]), "interceptor.classes": [interceptor]})
        async with producer:
            await asyncio.gather(*(send(producer, number) for number in range(300)))
        while called[0] < sent[0] or producer.metrics()["buffer-available-bytes"] < 60_000:
            await asyncio.sleep(0.01)

    with EmbeddedBroker(topics={"orders": 3, "users": 1}) as broker:
        asyncio.run(asyncio.wait_for(main(broker.bootstrap_servers), GIVE_UP_S))
    assert called == sent == [interceptor.sent_count] == [interceptor.told_count]


def failing(proxy: FaultProxy, **settings: object) -> AsyncKafkaProducer:
    """A producer whose first record is refused."""
    proxy.on("Produce").error(ErrorCode.INVALID_RECORD)
    return AsyncKafkaProducer({"bootstrap.servers": proxy.bootstrap_servers, **settings})


async def fail_one(producer: AsyncKafkaProducer) -> Any:
    """Return the future of a record that was refused, at which nobody looked."""
    future = producer.send_nowait("orders", b"v", partition=0)
    while not future.done():
        await asyncio.sleep(0.005)
    return future


async def cancel_at_its_end(call: Coroutine[Any, Any, object], monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a call, and cancel its task when all is done, its thread too, and it was not told."""
    threads: list[Any] = []
    with monkeypatch.context() as patch:
        patch.setattr(threads_of_tasks, "start_daemon", lambda run, _name: threads.append(run))
        task = asyncio.ensure_future(call)
        await asyncio.sleep(0)
        task.cancel()
        for thread in threads:
            await asyncio.to_thread(thread)
        with pytest.raises(asyncio.CancelledError):
            await task


@pytest.mark.parametrize(("call", "following"), [
    ("flush_all", "flush_all"), ("flush_all", "flush"), ("flush_all", "close"), ("flush", "flush_all"),
    ("flush", "flush"), ("flush", "close"), ("close", "flush_all"), ("close", "flush"), ("close", "close")])
def test_cancel_when_a_flush_or_close_has_something_to_raise_then_the_next_one_raises_it(
        monkeypatch: pytest.MonkeyPatch, call: str, following: str) -> None:
    """Its thread had told nobody, and counted as having told."""
    def end(producer: AsyncKafkaProducer, how: str) -> Coroutine[Any, Any, object]:
        return producer.close() if how == "close" else producer.flush(raise_on_error=how == "flush_all")

    async def main(proxy: FaultProxy) -> None:
        producer = failing(proxy, **{"pyproducer.on.unretrieved": "raise"})
        await fail_one(producer)
        await cancel_at_its_end(end(producer, call), monkeypatch)
        with pytest.raises(DeliveryFailedError) as raised:
            await end(producer, following)
        assert raised.value.failed["rejected"] == 1
        assert (await producer.close()).failed["rejected"] == 1

    with EmbeddedBroker(topics={"orders": 1}) as broker, FaultProxy(broker.bootstrap_servers) as proxy:
        asyncio.run(main(proxy))


def test_cancel_when_a_flush_was_to_raise_and_failures_are_logged_then_close_logs_that_nobody_looked(
        monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    async def main(proxy: FaultProxy) -> None:
        producer = failing(proxy)
        kept = await fail_one(producer)
        await cancel_at_its_end(producer.flush(raise_on_error=True), monkeypatch)
        await producer.close()
        assert "and nobody looked at their futures" in caplog.text
        assert kept.exception(0) is not None

    with EmbeddedBroker(topics={"orders": 1}) as broker, FaultProxy(broker.bootstrap_servers) as proxy:
        asyncio.run(main(proxy))
