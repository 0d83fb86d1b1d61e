"""AsyncKafkaProducer: what a task awaits, what it is told, and that the event loop is never held up."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from unittest.mock import AsyncMock, MagicMock

import pytest

from pyproducer import (
    BufferExhaustedError,
    DeliveryFailedError,
    DeliverySummary,
    ErrorCode,
    IllegalStateError,
    KafkaProducer,
    KafkaTimeoutError,
    ProducerClosedError,
    ProducerInterceptor,
    ProducerRecord,
    RecordMetadata,
    RecordRejectedError,
    SerializationError,
)
from pyproducer.aio import AsyncKafkaProducer
from tests.contract.clusters import Can, Cluster
from tests.contract.conftest import SETTINGS
from tests.contract.witness import numbers_of
from tests.support.fault_proxy import Fault, FaultProxy
from tests.support.patience import GIVE_UP_S

T = TypeVar("T")
MEMORY = 100_000
RECORD = b"." * 15_000
SMALL_BUFFER: dict[str, object] = {"buffer.memory": MEMORY, "batch.size": 0}


def run(main: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(asyncio.wait_for(main, GIVE_UP_S))


def connect(to: Cluster | FaultProxy, props: Mapping[str, object] | None = None,
            **serializers: object) -> AsyncKafkaProducer:
    return AsyncKafkaProducer({"bootstrap.servers": to.bootstrap_servers, **SETTINGS, **(props or {})}, **serializers)


async def until(condition: Callable[[], object]) -> None:
    while not condition():
        await asyncio.sleep(0.005)


@asynccontextmanager
async def ticks() -> AsyncIterator[list[float]]:
    """What the loop's longest time without a turn was: appended at the end."""
    longest = [0.0]

    async def tick() -> None:
        last = loop.time()
        while True:
            await asyncio.sleep(0)
            now = loop.time()
            longest[0] = max(longest[0], now - last)
            last = now

    loop = asyncio.get_running_loop()
    ticking = asyncio.create_task(tick())
    try:
        yield longest
    finally:
        ticking.cancel()


def number(value: int) -> bytes:
    return b"%d " % value + RECORD


async def fill(producer: AsyncKafkaProducer, topic: str) -> int:
    """Send until there is no room for one more record; return how many were sent."""
    count = 0
    while producer.metrics()["buffer-available-bytes"] >= len(RECORD) + 2000:
        producer.send_nowait(topic, number(count), partition=0)
        count += 1
    return count


async def start_full(producer: AsyncKafkaProducer, topic: str, proxy: FaultProxy) -> tuple[Fault, int]:
    while True:
        try:
            await producer.partitions_for(topic)
            break
        except KafkaTimeoutError:  # a short max.block.ms is for what comes later
            pass
    held = proxy.on("Produce", times=None).hold_request()
    return held, await fill(producer, topic)


def test_send_when_it_is_awaited_then_it_gives_the_metadata(cluster: Cluster, topic: str) -> None:
    async def main() -> RecordMetadata:
        async with connect(cluster) as producer:
            await producer.send(topic, b"0", partition=1)
            return await producer.send(ProducerRecord(topic, b"1", partition=1))

    assert run(main())[:3] == (topic, 1, 1)
    assert [record.value for record in cluster.log(topic, 1)] == [b"0", b"1"]


def test_send_nowait_when_it_is_flushed_then_all_are_stored_in_order(cluster: Cluster, topic: str) -> None:
    async def main() -> list[RecordMetadata]:
        async with connect(cluster) as producer:
            futures = [producer.send_nowait(topic, b"%d" % each, partition=0) for each in range(500)]
            await producer.flush()
            assert all(future.done() for future in futures)
            return [await future for future in futures]

    assert [metadata.offset for metadata in run(main())] == list(range(500))
    assert numbers_of(cluster.log(topic)) == list(range(500))


def test_tasks_when_many_send_at_once_then_each_gets_its_own_record(cluster: Cluster, topic: str) -> None:
    async def main() -> list[RecordMetadata]:
        async with connect(cluster) as producer:
            return list(await asyncio.gather(*(asyncio.create_task(producer.send(topic, b"%d" % each, partition=0))
                                               for each in range(300))))

    stored = run(main())
    log = {record.offset: record.value for record in cluster.log(topic)}
    assert [log[metadata.offset] for metadata in stored] == [b"%d" % each for each in range(300)]


def test_send_when_the_broker_refuses_the_record_then_it_raises(topic: str, proxy: FaultProxy) -> None:
    proxy.on("Produce").error(ErrorCode.INVALID_RECORD)

    async def main() -> None:
        async with connect(proxy) as producer:
            with pytest.raises(RecordRejectedError):
                await producer.send(topic, b"v")

    run(main())


@pytest.mark.parametrize("arguments", [{"value": "text"}, {"value": b"v", "partition": -1}, {"topic": ""}])
def test_send_when_an_argument_is_wrong_then_it_raises_at_once(cluster: Cluster, topic: str,
                                                               arguments: dict[str, Any]) -> None:
    async def main() -> None:
        async with connect(cluster) as producer:
            with pytest.raises((SerializationError, ValueError)):
                producer.send_nowait(**{"topic": topic, **arguments})
            with pytest.raises((SerializationError, ValueError)):
                await producer.send(**{"topic": topic, **arguments})

    run(main())


def test_memory_when_it_is_exhausted_then_tasks_wait_in_turn_and_the_loop_goes_on(
        cluster: Cluster, topic: str, proxy: FaultProxy) -> None:
    async def main() -> int:
        async with connect(proxy, SMALL_BUFFER) as producer:
            held, count = await start_full(producer, topic, proxy)
            async with ticks() as longest:
                tasks = [asyncio.create_task(producer.send(topic, number(count + each), partition=0))
                         for each in range(20)]
                await until(lambda: producer.metrics()["waiting-threads"] == 1)
                with pytest.raises(BufferExhaustedError, match="20 tasks wait") as refused:
                    producer.send_nowait(topic, RECORD)
                assert refused.value.outcome == "not_sent"
                held.release()
                stored = await asyncio.gather(*tasks)
                assert longest[0] < SETTINGS["max.block.ms"] / 1000 / 2  # type: ignore[operator]
            assert [metadata.offset for metadata in stored] == list(range(count, count + 20))
            await until(lambda: producer.metrics()["buffer-available-bytes"] == MEMORY)
            return count + 20

    count = run(main())
    assert numbers_of(cluster.log(topic)) == list(range(count))


def test_memory_when_there_is_none_in_time_then_send_raises_and_nothing_is_lost(
        cluster: Cluster, topic: str, proxy: FaultProxy) -> None:
    async def main() -> int:
        async with connect(proxy, {**SMALL_BUFFER, "max.block.ms": 300}) as producer:
            held, count = await start_full(producer, topic, proxy)
            began = asyncio.get_running_loop().time()
            with pytest.raises(BufferExhaustedError) as refused:
                producer.send_nowait(topic, RECORD)
            assert "await send()" in str(refused.value).lower()
            errors = await asyncio.gather(*(producer.send(topic, RECORD) for _ in range(3)), return_exceptions=True)
            assert asyncio.get_running_loop().time() - began >= 0.298
            for error in errors:
                assert isinstance(error, BufferExhaustedError)
                assert error.outcome == "not_sent"
                assert "max.block.ms = 300 ms" in str(error)
            held.release()
            await producer.send(topic, number(count), partition=0)
            return count + 1

    count = run(main())
    assert numbers_of(cluster.log(topic)) == list(range(count))


def test_cancel_when_the_record_waits_for_memory_then_it_is_not_sent_and_the_next_is(
        cluster: Cluster, topic: str, proxy: FaultProxy) -> None:
    async def main() -> int:
        async with connect(proxy, SMALL_BUFFER) as producer:
            held, count = await start_full(producer, topic, proxy)
            tasks = [asyncio.create_task(producer.send(topic, number(1000 + each), partition=0)) for each in range(4)]
            await until(lambda: producer.metrics()["waiting-threads"] == 1)
            for task in tasks[:3:2]:
                task.cancel()
            held.release()
            outcomes = await asyncio.gather(*tasks, return_exceptions=True)
            for outcome in outcomes[:3:2]:
                assert isinstance(outcome, asyncio.CancelledError)
            for outcome in outcomes[1::2]:
                assert isinstance(outcome, RecordMetadata)
            return count

    count = run(main())
    assert numbers_of(cluster.log(topic)) == [*range(count), 1001, 1003]


def test_cancel_when_the_record_is_on_its_way_then_the_error_says_so_and_it_is_stored(
        cluster: Cluster, topic: str, proxy: FaultProxy) -> None:
    async def main() -> str:
        async with connect(proxy) as producer:
            await producer.partitions_for(topic)
            held = proxy.on("Produce").hold_answer()

            async def send() -> str:
                try:
                    await producer.send(topic, b"v")
                except asyncio.CancelledError as cancelled:
                    return str(cancelled)
                return "it was not cancelled"

            task = asyncio.create_task(send())
            await until(lambda: held.count)
            task.cancel()
            said = await task
            held.release()
            return said

    assert "still on its way" in run(main())
    assert [record.value for record in cluster.log(topic)] == [b"v"]


def test_callback_when_the_record_is_stored_then_it_runs_in_the_loop(
        cluster: Cluster, topic: str, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        told: list[tuple[RecordMetadata | None, BaseException | None, int]] = []

        def on_completion(metadata: RecordMetadata | None, error: BaseException | None) -> None:
            told.append((metadata, error, threading.get_ident()))
            raise ZeroDivisionError("in a callback")

        async with connect(cluster) as producer:
            future = producer.send_nowait(topic, b"v", partition=0, on_completion=on_completion)
            producer.send_nowait(ProducerRecord(topic, b"w", partition=0), on_completion)
            await producer.flush()
            assert len(told) == 2
            assert told[0] == (await future, None, threading.get_ident())

    run(main())
    assert caplog.text.count("on_completion of a record raised") == 2


def test_callback_when_it_is_a_coroutine_function_then_it_is_refused(cluster: Cluster, topic: str) -> None:
    async def on_completion(_metadata: RecordMetadata | None, _error: BaseException | None) -> None:
        """Nobody would await it."""

    async def main() -> None:
        async with connect(cluster) as producer:
            with pytest.raises(TypeError, match="coroutine function"):
                producer.send_nowait(topic, b"v", on_completion=on_completion)

    run(main())


def test_producer_when_another_loop_uses_it_then_it_is_refused(cluster: Cluster, topic: str) -> None:
    producer = connect(cluster)  # where no loop runs

    async def send() -> None:
        await producer.send(topic, b"v")

    async def close() -> None:
        await producer.close()

    first = asyncio.new_event_loop()
    try:
        first.run_until_complete(send())
        with pytest.raises(IllegalStateError, match="another event loop"):
            run(send())
        first.run_until_complete(close())
    finally:
        first.close()
    assert len(cluster.log(topic)) == 1


def test_loop_when_it_is_trios_then_the_error_says_so_and_what_it_advises_works(
        cluster: Cluster, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """RuntimeError: no running event loop."""
    trio = pytest.importorskip("trio")
    # Else its threads wait ten seconds for more work, and this test waits for their end.
    monkeypatch.setattr("trio._core._thread_cache.IDLE_TIMEOUT", 0.1)
    words = r"trio's event loop, and pyproducer awaits in asyncio's.*trio\.to_thread\.run_sync\(future\.result\)"

    async def main(own: AsyncKafkaProducer, plain: KafkaProducer) -> int:
        with pytest.raises(IllegalStateError, match=words):
            await own.send(topic, b"v")
        with pytest.raises(IllegalStateError, match=words):
            own.send_nowait(topic, b"v")
        with pytest.raises(IllegalStateError, match=words):
            async with own:
                """It does not come so far."""
        future = plain.send(topic, b"v")
        with pytest.raises(IllegalStateError, match=words):
            await future
        metadata = await trio.to_thread.run_sync(future.result)
        return int(metadata.offset)

    producer = connect(cluster)
    with KafkaProducer({"bootstrap.servers": cluster.bootstrap_servers, **SETTINGS}) as plain:
        assert trio.run(main, producer, plain) == 0
    run(close(producer))


async def close(producer: AsyncKafkaProducer) -> None:
    await producer.close()


def test_thread_when_no_loop_runs_in_it_then_the_error_says_what_to_use(cluster: Cluster, topic: str) -> None:
    producer = connect(cluster)
    with pytest.raises(IllegalStateError, match=r"no event loop of asyncio runs in this thread.*KafkaProducer"):
        producer.send_nowait(topic, b"v")
    run(close(producer))


def test_close_when_the_producers_loop_has_ended_then_any_other_may_close_and_flush_it(
        cluster: Cluster, topic: str) -> None:
    """Nothing public could close it, or flush it: only dropping it ended its thread, with a warning."""
    producer = connect(cluster)

    async def send() -> None:
        producer.send_nowait(topic, b"v")

    summaries: list[DeliverySummary] = []

    async def end() -> None:
        await producer.flush(GIVE_UP_S)
        summaries.append(await producer.close(GIVE_UP_S))

    run(send())
    thread = threading.Thread(target=lambda: run(end()))
    thread.start()
    thread.join(GIVE_UP_S)
    run(end())
    assert [summary.delivered for summary in summaries] == [1, 1]
    assert len(cluster.log(topic)) == 1


def test_futures_when_asyncio_waits_for_several_then_it_gets_those_that_are_done(
        topic: str, proxy: FaultProxy) -> None:
    """AttributeError: no remove_done_callback, and only when all were done."""
    async def main() -> None:
        async with connect(proxy) as producer:
            first = producer.send_nowait(topic, b"first", partition=0)
            await first
            held = proxy.on("Produce").hold_answer()
            second = producer.send_nowait(topic, b"second", partition=0)
            done, pending = await asyncio.wait([first, second], return_when=asyncio.FIRST_COMPLETED)
            if sys.version_info >= (3, 11):  # 3.10 makes tasks of what it is given
                assert (done, pending) == ({first}, {second})
            assert len(done) == len(pending) == 1
            done, pending = await asyncio.wait([first, second], timeout=0.01)
            assert len(pending) == 1
            held.release()
            done, pending = await asyncio.wait([first, second])
            assert not pending
            assert sorted(one.result().offset for one in done) == [0, 1]
            rows = [asyncio.ensure_future(producer.send_batch(topic, [b"a", b"b"])) for _ in range(2)]
            done, _ = await asyncio.wait(rows)
            assert len(done) == 2

    run(main())


def test_done_callback_of_a_loops_producer_when_it_is_removed_then_it_is_not_called(
        topic: str, proxy: FaultProxy) -> None:
    """The loop's producer keeps a callback wrapped: it must be found by what the application gave."""
    async def main() -> None:
        async with connect(proxy) as producer:
            held = proxy.on("Produce").hold_answer()
            future = producer.send_nowait(topic, b"v", partition=0)
            called: list[str] = []

            def removed(_future: object) -> None:
                called.append("removed")

            future.add_done_callback(removed)
            future.add_done_callback(lambda _: called.append("kept"))
            assert future.remove_done_callback(removed) == 1
            held.release()
            await future
            await until(lambda: called)
            assert called == ["kept"]

    run(main())


def test_block_when_its_records_cannot_be_delivered_then_it_ends_within_its_bound_and_the_log_says_how_many(
        topic: str, proxy: FaultProxy, caplog: pytest.LogCaptureFixture) -> None:
    """`async with` waited for delivery.timeout.ms at the end of a service, which is killed after 30 s."""
    async def main() -> None:
        async with connect(proxy, {"pyproducer.close.timeout.ms": 300}) as producer:
            await producer.send(topic, b"v")
            proxy.on("Produce", times=None).swallow_request()
            for _ in range(3):
                producer.send_nowait(topic, b"v")

    run(main())
    assert "is closed: 3 record(s) were not delivered (3 unknown), 1 were" in caplog.text


def test_close_when_tasks_wait_for_memory_then_they_are_refused(topic: str, proxy: FaultProxy) -> None:
    async def main() -> None:
        producer = connect(proxy, SMALL_BUFFER)
        held, count = await start_full(producer, topic, proxy)
        tasks = [asyncio.create_task(producer.send(topic, RECORD)) for _ in range(3)]
        await until(lambda: producer.metrics()["waiting-threads"] == 1)
        closing = asyncio.create_task(producer.close())
        for outcome in await asyncio.gather(*tasks, return_exceptions=True):
            assert isinstance(outcome, ProducerClosedError)
        with pytest.raises(ProducerClosedError):
            producer.send_nowait(topic, RECORD)
        held.release()
        assert (await closing).delivered == count

    run(main())


@pytest.mark.needs(Can.REFUSE_UNKNOWN_TOPICS)
def test_topic_when_it_does_not_exist_then_the_task_is_told_and_the_loop_goes_on(cluster: Cluster) -> None:
    async def main() -> None:
        async with connect(cluster, {"max.block.ms": 500}) as producer:
            future = producer.send_nowait("no-such-topic", b"v")
            assert not future.done()
            with pytest.raises(KafkaTimeoutError, match="no-such-topic"):
                await producer.send("no-such-topic", b"v")
            with pytest.raises(KafkaTimeoutError):
                await future

    run(main())


def test_columns_and_partitions_when_they_are_awaited_then_they_are_those_of_the_producer(
        cluster: Cluster, topic: str) -> None:
    async def main() -> None:
        async with connect(cluster) as producer:
            assert len(await producer.partitions_for(topic)) == 4
            metadata = await producer.send_batch(topic, [b"a", b"b"], partitions=[2, 2])
            assert list(metadata.offsets) == [0, 1]
            with pytest.raises(TypeError):
                await producer.send_batch(topic, 5)

    run(main())


def test_result_when_it_would_hold_up_the_loop_then_it_is_refused(topic: str, proxy: FaultProxy) -> None:
    async def main() -> None:
        async with connect(proxy) as producer:
            await producer.partitions_for(topic)
            held = proxy.on("Produce").hold_answer()
            future = producer.send_nowait(topic, b"v")
            with pytest.raises(IllegalStateError, match="await it"):
                future.result(GIVE_UP_S)
            with pytest.raises(KafkaTimeoutError):
                future.result(0)
            held.release()
            assert future.result is not None
            await future
            assert future.result().topic == topic

    run(main())


def test_result_when_the_loop_does_not_run_any_more_then_its_thread_may_wait(topic: str, proxy: FaultProxy) -> None:
    """run_until_complete() gives the future of a record on its way; result() refused to hold up a loop that stood."""
    async def begin() -> tuple[AsyncKafkaProducer, Fault, Any]:
        producer = connect(proxy)
        await producer.partitions_for(topic)
        held = proxy.on("Produce").hold_answer()
        return producer, held, producer.send_nowait(topic, b"v")

    loop = asyncio.new_event_loop()
    try:
        producer, held, future = loop.run_until_complete(asyncio.wait_for(begin(), GIVE_UP_S))
        try:
            with pytest.raises(KafkaTimeoutError):
                future.result(0.01)
            held.release()
            assert future.result(GIVE_UP_S).topic == topic
        finally:
            held.release()
            loop.run_until_complete(asyncio.wait_for(producer.close(), GIVE_UP_S))
    finally:
        loop.close()


class Numbering(ProducerInterceptor):
    """Counts what it is asked, and what it is told."""

    def __init__(self) -> None:
        self.seen: list[bytes] = []
        self.failed: list[BaseException] = []

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        self.seen.append(record.value)
        return record

    def on_acknowledgement(self, metadata: RecordMetadata | None, exception: BaseException | None) -> None:
        if exception is not None:
            self.failed.append(exception)


def test_interceptors_when_a_record_waits_for_memory_then_they_see_it_once(
        cluster: Cluster, topic: str, proxy: FaultProxy) -> None:
    interceptor = Numbering()

    async def main() -> int:
        async with connect(proxy, {**SMALL_BUFFER, "interceptor.classes": [interceptor]}) as producer:
            held, count = await start_full(producer, topic, proxy)
            tasks = [asyncio.create_task(producer.send(topic, number(count + each), partition=0)) for each in range(5)]
            await until(lambda: producer.metrics()["waiting-threads"] == 1)
            held.release()
            await asyncio.gather(*tasks)
            return count + 5

    count = run(main())
    assert [int(value.split()[0]) for value in interceptor.seen] == list(range(count))
    assert numbers_of(cluster.log(topic)) == list(range(count))
    assert interceptor.failed == []


def test_interceptors_when_there_is_no_memory_in_time_then_they_are_told(topic: str, proxy: FaultProxy) -> None:
    interceptor = Numbering()

    async def main() -> None:
        async with connect(proxy, {**SMALL_BUFFER, "max.block.ms": 200,
                                   "interceptor.classes": [interceptor]}) as producer:
            held, count = await start_full(producer, topic, proxy)
            with pytest.raises(BufferExhaustedError):
                await producer.send(topic, number(count))
            with pytest.raises(BufferExhaustedError):
                producer.send_nowait(topic, number(count))
            assert [type(error) for error in interceptor.failed] == [BufferExhaustedError, BufferExhaustedError]
            held.release()

    run(main())


def test_waiting_room_when_it_is_full_then_tasks_wait_their_turn(cluster: Cluster, topic: str,
                                                                 proxy: FaultProxy) -> None:
    """A topic that is not known yet: its records have a quarter of buffer.memory, and the others wait outside."""
    async def main() -> None:
        async with connect(proxy, {"buffer.memory": 200_000}) as producer:
            held = proxy.on("Metadata", times=None).hold_answer()
            tasks = [asyncio.create_task(producer.send(topic, number(each), partition=0)) for each in range(30)]
            await until(lambda: producer.metrics()["waiting-threads"] >= 1 or held.count)
            await asyncio.sleep(0.05)
            assert not any(task.done() for task in tasks)
            held.release()
            await asyncio.gather(*tasks)

    run(main())
    assert numbers_of(cluster.log(topic)) == list(range(30))


def test_pickle_when_it_is_tried_then_the_error_says_what_to_do(cluster: Cluster) -> None:
    import pickle

    async def main() -> None:
        async with connect(cluster) as producer:
            with pytest.raises(TypeError, match="Send its properties"):
                pickle.dumps(producer)
            assert "open" in repr(producer)

    run(main())


def test_memory_when_threads_wait_behind_a_task_then_it_is_served_first(topic: str, proxy: FaultProxy) -> None:
    async def main() -> None:
        async with connect(proxy, SMALL_BUFFER) as producer:
            held, count = await start_full(producer, topic, proxy)
            order: list[str] = []

            async def send_row() -> None:
                await producer.send(topic, number(count), partition=0)
                order.append("task")

            async def send_rows() -> None:
                await producer.send_batch(topic, [number(each) for each in range(30)], partitions=[0] * 30)
                order.append("thread")

            task = asyncio.create_task(send_row())
            await until(lambda: producer.metrics()["waiting-threads"] == 1)
            threads = [asyncio.create_task(send_rows()) for _ in range(6)]
            await until(lambda: producer.metrics()["waiting-threads"] == 2)  # their calls have one thread
            held.release()
            await asyncio.gather(task, *threads)
            assert order == ["task"] + ["thread"] * 6

    run(main())


def test_cancel_when_the_record_waits_for_memory_then_interceptors_are_told(topic: str, proxy: FaultProxy) -> None:
    sent: list[ProducerRecord] = []
    told: list[Exception | None] = []

    class Witness(ProducerInterceptor):
        def on_send(self, record: ProducerRecord) -> ProducerRecord:
            sent.append(record)
            return record

        def on_acknowledgement(self, _metadata: RecordMetadata | None, exception: Exception | None) -> None:
            told.append(exception)

    async def main() -> None:
        async with connect(proxy, {**SMALL_BUFFER, "interceptor.classes": [Witness]}) as producer:
            held, count = await start_full(producer, topic, proxy)
            task = asyncio.create_task(producer.send(topic, number(count), partition=0))
            await until(lambda: producer.metrics()["waiting-threads"] == 1)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            assert isinstance(told[-1], BufferExhaustedError)
            held.release()

    run(main())
    assert len(told) == len(sent)


def test_columns_when_they_raise_stop_iteration_then_the_task_is_told(cluster: Cluster, topic: str) -> None:
    class Values(list[bytes]):
        def __len__(self) -> int:
            raise StopIteration

    async def main() -> None:
        async with connect(cluster) as producer:
            with pytest.raises(RuntimeError, match="StopIteration"):
                await producer.send_batch(topic, Values([b"v"]))

    run(main())


def test_loop_when_it_runs_in_another_thread_than_before_then_it_is_not_held_up(
        topic: str, proxy: FaultProxy) -> None:
    loop = asyncio.new_event_loop()
    producer = connect(proxy, SMALL_BUFFER)
    started: list[tuple[Fault, int]] = []
    first = threading.Thread(
        target=lambda: started.append(loop.run_until_complete(start_full(producer, topic, proxy))))
    first.start()
    first.join()

    async def main() -> None:
        async with producer:
            held, count = started[0]
            task = asyncio.create_task(producer.send(topic, number(count), partition=0))
            await until(lambda: producer.metrics()["waiting-threads"] == 1)  # here, not in send()
            held.release()
            await task
            await producer.flush()

    try:
        loop.run_until_complete(asyncio.wait_for(main(), GIVE_UP_S))
    finally:
        loop.close()


def test_subclass_when_it_is_made_from_a_file_then_its_constructor_is_called(cluster: Cluster, tmp_path: Path) -> None:
    class Own(AsyncKafkaProducer[Any, Any]):
        def __init__(self, props: Mapping[str, object], *serializers: object) -> None:
            super().__init__(props, *serializers)
            self.own = "own"

    path = tmp_path / "producer.properties"
    path.write_text(f"bootstrap.servers={cluster.bootstrap_servers}\n")

    async def main() -> None:
        async with Own.from_file(path) as producer:
            assert isinstance(producer, Own)
            assert producer.own == "own"

    run(main())


@pytest.mark.needs(Can.REFUSE_UNKNOWN_TOPICS)
def test_memory_when_records_of_a_topic_nobody_knows_wait_for_it_then_those_of_others_do_not(
        cluster: Cluster, topic: str) -> None:
    async def main() -> None:
        async with connect(cluster, {**SMALL_BUFFER, "max.block.ms": 2000}) as producer:
            await producer.partitions_for(topic)
            producer.send_nowait("no-such-topic", RECORD)
            ghosts = [asyncio.create_task(producer.send("no-such-topic", RECORD)) for _ in range(3)]
            await until(lambda: producer.metrics()["waiting-threads"])
            with pytest.raises(BufferExhaustedError, match="3 tasks wait"):
                producer.send_nowait("no-such-topic", b"v")
            await producer.send_nowait(topic, b"0", partition=0)
            await producer.send(topic, b"1", partition=0)
            assert not any(ghost.done() for ghost in ghosts)
            for ghost in ghosts:
                ghost.cancel()
            await asyncio.gather(*ghosts, return_exceptions=True)
            producer.send_nowait("no-such-topic", b"v")  # behind nobody

    run(main())
    assert [record.value for record in cluster.log(topic, 0)] == [b"0", b"1"]


def test_memory_when_tasks_of_both_lines_wait_then_all_go_in_order(
        cluster: Cluster, topic: str, proxy: FaultProxy) -> None:
    async def main() -> int:
        async with connect(proxy, SMALL_BUFFER) as producer:
            held, count = await start_full(producer, topic, proxy)
            other = f"{topic}-other"
            tasks = [asyncio.create_task(producer.send(name, number(count + each), partition=0))
                     for each in range(12) for name in (topic, other)]
            await until(lambda: producer.metrics()["waiting-threads"])
            cluster.create_topic(other)
            held.release()
            await asyncio.gather(*tasks)
            await until(lambda: producer.metrics()["buffer-available-bytes"] == MEMORY)
            return count

    count = run(main())
    assert numbers_of(cluster.log(topic)) == list(range(count + 12))
    assert numbers_of(cluster.log(f"{topic}-other")) == list(range(count, count + 12))


class Told:
    """A callback that keeps what it is told, and where."""

    def __init__(self) -> None:
        self.errors: list[BaseException | None] = []
        self.threads: set[int] = set()

    def __call__(self, _metadata: RecordMetadata | None, exception: BaseException | None) -> None:
        self.errors.append(exception)
        self.threads.add(threading.get_ident())


def test_memory_when_there_is_none_in_time_then_callback_interceptors_and_summary_are_told(
        cluster: Cluster, topic: str, proxy: FaultProxy) -> None:
    """Only who awaited learned of it; on threads the callback, the interceptors and close() are told of each."""
    interceptor, told = Numbering(), Told()

    async def main() -> None:
        producer = connect(proxy, {**SMALL_BUFFER, "max.block.ms": 300, "interceptor.classes": [interceptor]})
        async with producer:
            held, count = await start_full(producer, topic, proxy)
            with pytest.raises(BufferExhaustedError, match="event loop does not wait"):  # nobody waits
                producer.send_nowait(topic, RECORD, on_completion=told)
            tasks = [asyncio.create_task(producer.send(topic, RECORD, on_completion=told)) for _ in range(2)]
            await until(lambda: producer.metrics()["waiting-threads"] == 1)
            with pytest.raises(BufferExhaustedError, match="2 tasks wait"):
                producer.send_nowait(ProducerRecord(topic, RECORD), told)
            outcomes = await asyncio.gather(*tasks, return_exceptions=True)
            assert [type(outcome) for outcome in outcomes] == [BufferExhaustedError] * 2
            await until(lambda: len(told.errors) == 4)
            assert [type(error) for error in told.errors] == [BufferExhaustedError] * 4
            assert told.threads == {threading.get_ident()}
            assert [type(error) for error in interceptor.failed] == [BufferExhaustedError] * 4
            assert len(interceptor.seen) == count + 4
            held.release()
            with pytest.raises(DeliveryFailedError, match="4 record"):
                await producer.flush(raise_on_error=True)
        summary = await producer.close()
        assert (summary.delivered, summary.failed["not_sent"]) == (count, 4)
        assert producer.metrics()["record-unretrieved-error-total"] == 0

    run(main())


def test_cancel_when_the_record_waits_for_memory_then_callback_and_interceptors_are_told_and_flush_is_not(
        topic: str, proxy: FaultProxy) -> None:
    interceptor, told = Numbering(), Told()

    async def main() -> None:
        async with connect(proxy, {**SMALL_BUFFER, "interceptor.classes": [interceptor]}) as producer:
            held, count = await start_full(producer, topic, proxy)
            # The first was tried and has its place; the second waits behind it; the third is closed, as of a loop that
            # ends without it.
            sends = [producer.send(topic, RECORD, on_completion=told) for _ in range(3)]
            tasks = [asyncio.create_task(send) for send in sends[:2]]
            await until(lambda: producer.metrics()["waiting-threads"] == 1)
            sends[2].send(None)
            sends[2].close()
            for task in tasks:
                task.cancel()
            outcomes = await asyncio.gather(*tasks, return_exceptions=True)
            assert [type(outcome) for outcome in outcomes] == [asyncio.CancelledError] * 2
            await until(lambda: len(told.errors) == 3)
            assert all("cancelled" in str(error) for error in told.errors)
            assert len(interceptor.seen) == count + 3
            assert len(interceptor.failed) == 3
            held.release()
            await producer.flush(raise_on_error=True)

    run(main())


def test_done_callback_when_the_record_is_done_then_it_runs_in_the_loop(cluster: Cluster, topic: str) -> None:
    """It ran on the sender thread, where nothing of asyncio may be touched."""
    async def main() -> None:
        async with connect(cluster) as producer:
            loop = asyncio.get_running_loop()
            future = producer.send_nowait(topic, b"v")
            threads: list[int] = []
            waiting: asyncio.Future[RecordMetadata] = loop.create_future()
            future.add_done_callback(lambda done: threads.append(threading.get_ident()))
            future.add_done_callback(lambda done: waiting.set_result(done.result()))
            assert (await waiting).topic == topic
            again = loop.create_future()
            future.add_done_callback(lambda _done: again.set_result(None))
            assert not again.done()  # also of one that is done: soon, not at once
            await again
            assert threads == [threading.get_ident()]

    run(main())


def test_callback_when_its_call_gives_a_coroutine_then_it_is_refused(cluster: Cluster, topic: str) -> None:
    class Callback:
        async def __call__(self, _metadata: RecordMetadata | None, _error: BaseException | None) -> None:
            """Nobody would await it."""

    async def main() -> None:
        async with connect(cluster) as producer:
            for callback in (Callback(), partial(Callback()), partial(Callback().__call__), AsyncMock()):
                with pytest.raises(TypeError, match="coroutine function"):
                    producer.send_nowait(topic, b"v", on_completion=callback)
                with pytest.raises(TypeError, match="coroutine function"):
                    await producer.send(ProducerRecord(topic, b"v"), callback)
            await producer.send(topic, b"v", on_completion=MagicMock())

    run(main())


def test_callback_when_it_is_of_confluents_order_then_it_is_refused(cluster: Cluster, topic: str) -> None:
    """Each success was a failure to it: it was looked at for a plain producer's send() only."""
    def told(err: object, msg: object) -> None:
        raise AssertionError((err, msg))

    async def main() -> None:
        async with connect(cluster) as producer:
            for callback in (told, partial(told)):
                with pytest.raises(TypeError, match="confluent-kafka's order"):
                    await producer.send(topic, b"v", on_completion=callback)
                with pytest.raises(TypeError, match="confluent-kafka's order"):
                    producer.send_nowait(ProducerRecord(topic, b"v"), callback)

    run(main())


@pytest.mark.parametrize(("name", "says"), [
    ("send_and_wait", "await send"), ("produce", "await send"), ("poll", "nothing has to be polled"),
    ("start", "async with"), ("stop", r"close\(\)"),
    ("create_batch", "send_batch"), ("no_such_thing", "has no attribute 'no_such_thing'$")])
def test_attribute_when_it_is_another_clients_then_the_error_says_what_it_is_here(
        cluster: Cluster, name: str, says: str) -> None:
    async def main() -> None:
        async with connect(cluster) as producer:
            with pytest.raises(AttributeError, match=says):
                getattr(producer, name)

    run(main())


@pytest.mark.parametrize(("positional", "named"), [
    ((), {"bootstrap_servers": "localhost:9092"}), (("localhost:9092",), {}), ((), {})])
def test_constructor_when_it_is_called_as_another_clients_then_the_error_says_how(
        positional: tuple[Any, ...], named: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match=r"AsyncKafkaProducer\(\{'bootstrap.servers': "):
        AsyncKafkaProducer(*positional, **named)


def test_flush_when_several_tasks_do_so_then_one_of_them_raises(topic: str, proxy: FaultProxy) -> None:
    """Each ended it on a thread of its own, and told when its task came to it: in between another one did the same."""
    async def main() -> None:
        producer = connect(proxy, {"pyproducer.on.unretrieved": "raise"})
        await producer.partitions_for(topic)
        proxy.on("Produce").error(ErrorCode.INVALID_RECORD)
        producer.send_nowait(topic, b"v", partition=0)
        await until(lambda: producer.metrics()["record-error-total"])
        told = await asyncio.gather(*(producer.flush() for _ in range(8)), return_exceptions=True)
        assert sum(isinstance(error, DeliveryFailedError) for error in told) == 1
        await producer.flush(raise_on_error=True)
        await producer.close()

    run(main())


def test_context_when_a_task_has_one_then_whatever_it_sends_is_seen_and_told_in_it(
        cluster: Cluster, topic: str) -> None:
    """send_batch() ran on a thread that had none, and callbacks were called in an empty one."""
    tenant: ContextVar[str] = ContextVar("tenant", default="nobody")
    seen: list[tuple[str, str]] = []

    def serialize(data: bytes) -> bytes:
        seen.append((data.decode(), tenant.get()))
        return data

    async def one(producer: AsyncKafkaProducer, name: str) -> None:
        tenant.set(name)
        await producer.send_batch(topic, [b"batch"])
        future = producer.send_nowait(topic, b"record",
                                      on_completion=lambda *_: seen.append(("on_completion", tenant.get())))
        future.add_done_callback(lambda _: seen.append(("done", tenant.get())))
        await future

    async def main() -> None:
        async with connect(cluster, value_serializer=serialize) as producer:
            await asyncio.gather(one(producer, "a"), one(producer, "b"))

    run(main())
    assert sorted(seen) == sorted(
        (what, name) for what in ("batch", "record", "on_completion", "done") for name in ("a", "b"))
