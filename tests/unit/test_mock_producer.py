"""MockProducer: KafkaProducer's send(), and what a test says becomes of a record."""

from __future__ import annotations

import asyncio
import math
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pyproducer import (
    AbortableTransactionError,
    AsyncProducer,
    AsyncTransactionalProducer,
    DeliveryFailedError,
    FatalProducerError,
    IllegalStateError,
    InvalidTopicError,
    KafkaError,
    KafkaProducer,
    KafkaTimeoutError,
    PartitionerError,
    ProducerClosedError,
    ProducerInterceptor,
    ProducerRecord,
    RecordTooLargeError,
    SerializationError,
    UniformStickyPartitioner,
    UnknownTopicOrPartitionError,
)
from pyproducer.aio import AsyncKafkaProducer
from pyproducer.producer.partitioners import partition_for
from pyproducer.producer.serializers import StringSerializer
from pyproducer.testing import AsyncMockProducer, MockProducer, mock_producer
from tests.support.patience import GIVE_UP_S

REFUSED = RecordTooLargeError("too large", code=10)


def test_send_when_records_complete_at_once_then_each_partition_counts_its_offsets() -> None:
    told: list[Any] = []
    with MockProducer(partitions={"t": 3}) as producer:
        futures = [producer.send("t", b"v", partition=partition, on_completion=lambda *both: told.append(both))
                   for partition in (1, 1, 2)]
        assert [future.result(0)[:3] for future in futures] == [("t", 1, 0), ("t", 1, 1), ("t", 2, 0)]
    assert [metadata.offset for metadata, _ in told] == [0, 1, 0]
    assert producer.close().delivered == 3


def test_settings_when_the_brokers_are_given_by_librdkafkas_name_then_they_are_taken() -> None:
    """bootstrap.servers is given, too, it said, and nobody had."""
    with MockProducer({"metadata.broker.list": "kafka:9092", "queue.buffering.max.ms": 5}) as producer:
        assert producer.send("t", b"v").result(0).offset == 0


@pytest.mark.parametrize(("given", "advice"), [
    ((True,), "auto_complete goes by its name: MockProducer(auto_complete=True)"),
    ((False, "string", "string"), "MockProducer(auto_complete=False); serializers do, too, key_serializer= and value"),
    (("mock:9092",), "MockProducer({'bootstrap.servers': 'mock:9092'})"),
    ((3,), "settings are a dict of Java's keys, with their dots: MockProducer({'bootstrap.servers': 'host:9092'}); "
           "got int")])
def test_constructor_when_it_is_called_as_javas_then_it_says_how_it_is_done_here(
        given: tuple[Any, ...], advice: str) -> None:
    """'bool' object is not iterable, it said."""
    with pytest.raises(TypeError) as caught:
        MockProducer(*given)
    assert advice in str(caught.value)
    assert "from_file" not in str(caught.value), "a MockProducer has none"


@pytest.mark.parametrize(("props", "told"), [
    ({"value.serializer": "string"}, ["key.serializer.encoding"]),
    ({"key.serializer": "string"}, ["serializer.encoding"]),
    ({"key.serializer": "string", "value.serializer": "string"}, []),
    ({"key.serializer": "string", "value.serializer": "json"}, ["serializer.encoding"]),
    ({}, ["key.serializer.encoding", "serializer.encoding"]),
    ({"key.serializer": StringSerializer(), "value.serializer": "StringSerializer"}, ["key.serializer.encoding"]),
    ({"key.serializer": StringSerializer, "value.serializer": StringSerializer("ascii")}, ["serializer.encoding"])])
def test_charsets_when_no_serializer_reads_them_then_a_warning_names_them(
        props: dict[str, object], told: list[str], caplog: pytest.LogCaptureFixture) -> None:
    charsets = {"key.serializer.encoding": "UTF-16", "serializer.encoding": "UTF-16BE"}
    MockProducer({**props, **charsets}).close()
    lines = [record.getMessage() for record in caplog.records if "StringSerializer" in record.getMessage()]
    assert lines == ([f"These settings have no effect, for only a StringSerializer that settings name reads them: "
                      f"{', '.join(told)}"] if told else [])


def test_history_when_there_are_serializers_then_it_has_what_the_application_gave() -> None:
    producer = MockProducer({"key.serializer": "string"}, value_serializer="json")
    record = ProducerRecord("t", {"a": 2}, "k", headers=[("h", b"1")], timestamp=5)
    assert producer.send("t", {"a": 1}, key="k", headers={"h": b"1"}).result(0).serialized_value_size == 7
    assert producer.send(record).result(0).timestamp == 5
    assert producer.history() == [ProducerRecord("t", {"a": 1}, "k", headers=[("h", b"1")]), record]
    with pytest.raises(SerializationError, match="value serializer"):
        producer.send("t", object())
    assert len(producer.history()) == 2
    producer.clear()
    assert producer.history() == []


@pytest.mark.parametrize("keyed", [True, False])
@pytest.mark.parametrize("partitioner", [None, UniformStickyPartitioner, "RoundRobinPartitioner"])
def test_send_when_no_partition_is_named_then_the_partitioner_chooses(partitioner: Any, *, keyed: bool) -> None:
    producer = MockProducer({"partitioner.class": partitioner} if partitioner else None, partitions={"t": 5})
    keys = [b"%d" % number if keyed else None for number in range(20)]
    found = [producer.send("t", b"v", key=key).result(0).partition for key in keys]
    if keyed and partitioner != "RoundRobinPartitioner":
        assert found == [partition_for(key or b"", 5) for key in keys]
    assert set(found) <= set(range(5))


def test_send_when_the_partition_or_the_name_is_none_then_it_fails_as_with_a_broker() -> None:
    producer = MockProducer(partitions={"t": 2})
    assert isinstance(producer.send("t", b"v", partition=2).exception(0), UnknownTopicOrPartitionError)
    assert isinstance(producer.send("a b", b"v").exception(0), InvalidTopicError)
    assert producer.send("other", b"v").result(0).partition == 0
    assert producer.send("other", b"v", partition=4).result(0).partition == 4
    with pytest.raises(TypeError, match="on_completion="):
        producer.send("t", b"v", callback=print)  # type: ignore[call-overload]
    assert [info.partition for info in producer.partitions_for("t")] == [0, 1]
    with pytest.raises(InvalidTopicError):
        producer.partitions_for("a b")


def test_complete_next_when_called_then_records_end_in_order_and_each_once() -> None:
    told: list[Any] = []
    producer = MockProducer(auto_complete=False)
    futures = [producer.send("t", b"%d" % number, on_completion=lambda *both: told.append(both)) for number in range(3)]
    futures[0].add_done_callback(told.append)
    assert [future.done() for future in futures] == [False] * 3
    assert producer.complete_next() is True
    assert producer.error_next(REFUSED) is True
    assert [future.done() for future in futures] == [True, True, False]
    assert futures[0].result(0).offset == 0
    with pytest.raises(RecordTooLargeError, match="too large"):
        futures[1].result(0)
    producer.flush()
    assert futures[2].result(0).offset == 1
    assert producer.complete_next() is False
    assert producer.error_next(REFUSED) is False
    assert [type(each) for each in told] == [tuple, type(futures[0]), tuple, tuple]
    with pytest.raises(TypeError, match="KafkaError"):
        producer.error_next(ValueError())  # type: ignore[arg-type]
    with pytest.raises(DeliveryFailedError):
        MockProducerWithFailure().flush(raise_on_error=True)


class MockProducerWithFailure(MockProducer[bytes, bytes]):
    def __init__(self) -> None:
        super().__init__(auto_complete=False)
        self.failed = self.send("t", b"v")
        self.error_next(REFUSED)


def test_callbacks_when_they_send_complete_raise_and_close_then_nothing_is_lost() -> None:
    producer = MockProducer(auto_complete=False)
    told: list[Any] = []

    def on_completion(metadata: Any, _exception: Any) -> None:
        told.append(metadata.offset)
        if len(told) < 4:
            producer.send("t", b"again", on_completion=on_completion)
            producer.complete_next()
            raise ValueError("whatever")
        producer.close()

    producer.send("t", b"first", on_completion=on_completion)
    producer.complete_next()
    assert told == [0, 1, 2, 3]
    assert len(producer.history()) == 4
    with pytest.raises(ProducerClosedError):
        producer.send("t", b"late")


def test_record_when_it_fails_by_an_error_of_no_topic_then_all_are_told_where_it_was_to_go() -> None:
    """As in production; metadata of interceptors were None, and in a program's test it went another way."""
    told: list[Any] = []

    class Sees(ProducerInterceptor):
        def on_acknowledgement(self, metadata: Any, exception: BaseException | None) -> None:
            told.append(metadata)

    producer = MockProducer({"interceptor.classes": [Sees()]}, auto_complete=False, partitions={"t": 3})
    lost = KafkaError("lost")
    future = producer.send("t", b"v", partition=2, on_completion=lambda *both: told.append(both[1]))
    producer.error_next(lost)
    assert told[0][:3] == ("t", 2, -1)
    assert [(error.topic, error.partition, str(error)) for error in (told[1], future.exception(0))] == [
        ("t", 2, "lost")] * 2
    assert lost.topic is None, "the next record's is another"


def test_close_when_it_has_interceptors_then_each_is_closed_once() -> None:
    class Closing(ProducerInterceptor):
        closed: list[Any] = []  # noqa: RUF012 - made anew for each producer by its class's name

        def close(self) -> None:
            self.closed.append(self)

    producer = MockProducer({"interceptor.classes": [Closing, Closing]})
    producer.close()
    producer.close()
    assert len(Closing.closed) == len({*map(id, Closing.closed)}) == 2


def test_interceptors_when_there_are_some_then_they_see_records_and_outcomes() -> None:
    class Marking(ProducerInterceptor):
        seen: list[Any] = []  # noqa: RUF012 - made anew for each producer by its class's name

        def on_send(self, record: ProducerRecord) -> ProducerRecord:
            return ProducerRecord(record.topic, b"marked " + record.value)

        def on_acknowledgement(self, metadata: Any, exception: Any) -> None:
            self.seen.append((metadata, exception))

    producer = MockProducer({"interceptor.classes": [Marking]}, auto_complete=False)
    producer.send("t", b"v")
    assert producer.history()[0].value == b"marked v"
    producer.error_next(REFUSED)
    assert isinstance(Marking.seen[0][1], RecordTooLargeError)
    producer.close()


def test_fence_producer_when_called_then_what_is_not_done_and_what_comes_fails() -> None:
    producer = MockProducer(auto_complete=False)
    before = producer.send("t", b"v")
    producer.fence_producer()
    for future in (before, producer.send("t", b"v")):
        assert isinstance(future.exception(0), FatalProducerError)
    assert len(producer.close().topics) == 1


@pytest.mark.parametrize(("name", "call"), [
    ("send", lambda producer: producer.send("t", b"v")), ("send", lambda producer: producer.send_batch("t", [b"v"])),
    ("flush", lambda producer: producer.flush()), ("partitions_for", lambda producer: producer.partitions_for("t")),
    ("close", lambda producer: producer.close())])
@pytest.mark.parametrize("error", [KafkaTimeoutError("late", phase="buffer"), RuntimeError("own")])
def test_call_when_a_test_says_what_it_raises_then_it_does_and_nothing_else(
        name: str, call: Callable[[MockProducer[bytes, bytes]], object], error: Exception) -> None:
    """Only records could fail: what a program does when partitions_for() or flush() raises was not to be tested."""
    seen: list[object] = []

    class Sees(ProducerInterceptor):
        def on_send(self, record: ProducerRecord) -> ProducerRecord:
            seen.append(record)
            return record

    with MockProducer({"interceptor.classes": [Sees()]}, auto_complete=False) as producer:
        setattr(producer, f"{name}_exception", error)
        for _ in range(2):
            with pytest.raises(type(error)) as caught:
                call(producer)
            assert caught.value is error
        assert (producer.history(), producer.waiting(), seen, producer.closed) == ([], [], [], False)
        setattr(producer, f"{name}_exception", None)
        call(producer)


def test_send_batch_when_rows_are_sent_then_each_is_a_record() -> None:
    producer = MockProducer(partitions={"t": 2}, auto_complete=False)
    future = producer.send_batch("t", [b"a", b"b", b"c"], partitions=[0, 1, 1], keys=[None, b"k", None])
    producer.complete_next()
    producer.error_next(REFUSED)
    assert not future.done()
    producer.complete_next()
    metadata = future.result(0)
    assert (list(metadata.offsets), list(metadata.partitions)[::2], list(metadata.errors)) == ([0, -1, 0], [0, 1], [1])
    assert [record.value for record in producer.history()] == [b"a", b"b", b"c"]
    assert len(producer.send_batch("t", []).result(0)) == 0
    with pytest.raises(ValueError, match="keys has 1 rows and values has 2"):
        producer.send_batch("t", [b"a", b"b"], keys=[b"k"])


def test_send_batch_when_a_row_cannot_be_serialized_then_none_is_sent_as_with_a_broker() -> None:
    """Those before it were in the history: code that sends a part of a batch twice was green."""
    heard: list[Any] = []

    class Hearing(ProducerInterceptor):
        def on_send(self, record: Any) -> Any:
            heard.append(record.value)
            return record

        def on_acknowledgement(self, _metadata: Any, exception: Any) -> None:
            heard.append(type(exception))

    producer = MockProducer({"interceptor.classes": [Hearing()]}, value_serializer="json")
    with pytest.raises(SerializationError, match="value serializer"):
        producer.send_batch("t", [1, object()])
    assert producer.history() == []
    assert [heard[0], *heard[2:]] == [1, SerializationError, SerializationError]
    assert producer.send_batch("t", [1, 2]).result(0).errors == {}
    assert producer.history() == [ProducerRecord("t", 1), ProducerRecord("t", 2)]
    assert heard[-4:] == [1, 2, type(None), type(None)]


def test_send_batch_when_on_append_ends_the_transaction_then_its_row_is_in_that_one() -> None:
    """The record is in its place before on_append() is told, as with a KafkaProducer."""
    class Ending:
        count = 0

        def partition(self, *_: object) -> int:
            return 0

        def on_append(self, *_: object) -> None:
            self.count += 1
            if self.count == 2:
                producer.commit_transaction()
                producer.begin_transaction()

    producer = MockProducer({"partitioner.class": Ending(), "transactional.id": "shop"}, partitions={"t": 1})
    producer.init_transactions()
    producer.begin_transaction()
    future = producer.send_batch("t", [b"a", b"b", b"c"])
    assert [record.value for record in producer.history()] == [b"a", b"b"]
    assert producer.uncommitted_records() == []
    assert list(future.result(0).offsets) == [0, 1, -1]
    assert {row: type(error) for row, error in future.result(0).errors.items()} == {2: IllegalStateError}


@pytest.mark.parametrize("is_batch", [False, True])
def test_send_when_the_partitioner_ends_the_transaction_then_nothing_is_taken_into_none(is_batch: bool) -> None:
    def choose(*_: object) -> int:
        producer.commit_transaction()
        return 0

    producer = MockProducer({"partitioner.class": choose, "transactional.id": "shop"}, partitions={"t": 1})
    producer.init_transactions()
    producer.begin_transaction()
    if is_batch:
        assert type(producer.send_batch("t", [b"a"]).result(0).errors[0]) is IllegalStateError
    else:
        with pytest.raises(IllegalStateError):
            producer.send("t", b"a")
    assert producer.history() == producer.uncommitted_records() == []


def test_send_batch_when_rows_are_refused_in_the_middle_then_the_future_tells_as_with_a_broker() -> None:
    """The call raised, with a part of the rows sent: a KafkaProducer's returns, and its future says which."""
    def choose(_topic: object, _key: object, _bytes: object, value: bytes, *_others: object) -> int:
        if value == b"bad":
            raise ZeroDivisionError
        return 1

    producer = MockProducer({"partitioner.class": choose, "transactional.id": "shop"}, auto_complete=False,
                            partitions={"t": 2})
    producer.init_transactions()
    with pytest.raises(IllegalStateError, match=r"send_batch\(\) is not possible now"):
        producer.send_batch("t", [b"a"])
    producer.begin_transaction()
    future = producer.send_batch("t", [b"a", b"bad", b"b"])
    producer.flush()
    assert {row: type(error) for row, error in future.result(0).errors.items()} == {
        1: PartitionerError, 2: AbortableTransactionError}
    with pytest.raises(AbortableTransactionError):
        producer.send_batch("t", [b"c"])
    producer.abort_transaction()
    producer.begin_transaction()
    producer.auto_complete = True
    fails = producer.send_batch("t", [b"a", b"b", b"c"], partitions=[0, 5, 0]).result(0).errors
    assert {row: type(error) for row, error in fails.items()} == {
        1: UnknownTopicOrPartitionError, 2: AbortableTransactionError}
    producer.abort_transaction()


def test_send_batch_when_a_row_ends_its_transaction_then_the_others_are_refused_as_with_a_broker() -> None:
    def choose(_topic: object, _key: object, _bytes: object, value: bytes, *_others: object) -> int:
        if value == b"end":
            producer.commit_transaction()
            producer.begin_transaction()
        return 0

    producer = MockProducer({"partitioner.class": choose, "transactional.id": "shop"}, partitions={"t": 1})
    producer.init_transactions()
    producer.begin_transaction()
    metadata = producer.send_batch("t", [b"a", b"end", b"b"]).result(0)
    assert {row: type(error) for row, error in metadata.errors.items()} == {1: IllegalStateError, 2: IllegalStateError}
    assert [record.value for record in producer.history()] == [b"a"]
    assert producer.uncommitted_records() == []


@pytest.mark.parametrize("columns", [{"values": "ab"}, {"keys": "ab"}, {"keys": b"ab"},
                                     {"headers": {"a": b"", "b": b""}}, {"partitions": 0}])
def test_send_batch_when_what_is_given_is_no_column_then_refused_as_with_a_broker(columns: dict[str, Any]) -> None:
    """Texts were taken for columns of letters: a test was green, and the program refused by a KafkaProducer."""
    producer = MockProducer(key_serializer="string", value_serializer="string")
    name = next(iter(columns))
    with pytest.raises(TypeError, match=f"{name} must be a list or an Arrow array, got"):
        producer.send_batch("t", **{"values": ["v", "w"], **columns})
    assert producer.history() == []
    assert len(producer.send_batch("t", iter(["v", "w"])).result(0)) == 2


def test_close_when_records_failed_and_nobody_looked_then_it_raises_as_with_a_broker() -> None:
    """The setting was not looked at: a test of it could not see what the program does about it."""
    producer = MockProducer({"pyproducer.on.unretrieved": "raise"}, auto_complete=False)
    producer.send("t", b"v")
    producer.error_next(REFUSED)
    with pytest.raises(DeliveryFailedError):
        producer.flush()
    producer.flush()
    producer.send("t", b"v")
    producer.error_next(REFUSED)
    with pytest.raises(ValueError, match="negative"):
        producer.close(-1)
    with pytest.raises(ZeroDivisionError), producer:
        _ = 1 / 0
    another = MockProducer({"pyproducer.on.unretrieved": "raise"})
    another.fence_producer()
    another.send("t", b"v")
    with pytest.raises(DeliveryFailedError), another:
        pass
    assert producer.close().failed["rejected"] == 2


def test_result_when_another_thread_completes_then_who_waits_goes_on() -> None:
    producer = MockProducer(auto_complete=False)
    future = producer.send("t", b"v")
    thread = threading.Thread(target=producer.complete_next)
    thread.start()
    assert future.result(GIVE_UP_S).offset == 0
    thread.join()


@pytest.mark.parametrize("call", [
    MockProducer.complete_next, lambda producer: producer.error_next(REFUSED), MockProducer.flush,
    MockProducer.fence_producer, MockProducer.waiting, repr, MockProducer.clear, MockProducer.close],
    ids=["complete_next", "error_next", "flush", "fence_producer", "waiting", "repr", "clear", "close"])
@pytest.mark.parametrize("count", [1, 3])
def test_call_when_another_thread_completes_before_any_line_of_it_then_each_record_ends_once(
        count: int, call: Callable[[MockProducer[bytes, bytes]], object]) -> None:
    has_come, at = True, 0
    while has_come:
        has_come, left = False, at
        producer = MockProducer(auto_complete=False)
        told: list[int] = []
        futures = [producer.send("t", b"v", on_completion=lambda *_, number=number, told=told: told.append(number))
                   for number in range(count)]

        def complete(producer: MockProducer[bytes, bytes] = producer) -> None:
            if producer._lock.acquire(blocking=False):  # else it would wait until the call has let go of it
                try:
                    producer.complete_next()
                finally:
                    producer._lock.release()

        def trace(frame: Any, event: str, _argument: Any, complete: Callable[[], None] = complete) -> Any:
            nonlocal has_come, left
            if frame.f_code.co_filename != mock_producer.__file__ or has_come:
                return None
            if event in ("call", "line"):
                left -= 1
                if left < 0:
                    has_come = True
                    thread = threading.Thread(target=complete)
                    thread.start()
                    thread.join()
            return trace

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            call(producer)
        finally:
            sys.settrace(before)
        while producer.complete_next():
            pass
        assert len(set(told)) == len(told) == sum(future.done() for future in futures), at
        stored = [future.result(0).offset for future in futures if future.done() and future.exception(0) is None]
        assert sorted(stored) == list(range(len(stored))), at
        at += 1
    assert at > 2


def test_async_when_awaited_then_it_is_the_same_producer() -> None:
    async def scenario() -> None:
        mock = MockProducer(auto_complete=False, value_serializer="json", partitions={"t": 1})
        async with mock.as_async() as producer:
            sending = asyncio.create_task(producer.send("t", [1]))
            await asyncio.sleep(0)
            assert not sending.done()
            assert producer.complete_next()
            assert (await sending).offset == 0
            failing = producer.send_nowait("t", [2])
            producer.error_next(REFUSED)
            with pytest.raises(RecordTooLargeError):
                await failing
            with pytest.raises(DeliveryFailedError):
                await producer.flush(raise_on_error=True)
            mock.auto_complete = True
            assert len(await producer.send_batch("t", [[3], [4]])) == 2
            await producer.flush()
            assert len(await producer.partitions_for("t")) == 1
        assert [record.value for record in producer.history()] == [[1], [2], [3], [4]]
        assert repr(producer).startswith("<AsyncMockProducer producer-")
        with pytest.raises(ProducerClosedError):
            await producer.send("t", [5])

    asyncio.run(scenario())


@pytest.mark.parametrize("wait", ["result", "exception"])
def test_async_when_a_coroutine_waits_for_a_future_as_threads_do_then_it_is_refused(wait: str) -> None:
    """It held up the loop, where the real one raises: the test was green, and the program was not."""
    async def scenario() -> None:
        async with MockProducer(auto_complete=False).as_async() as producer:
            future = producer.send_nowait("t", b"1")
            with pytest.raises(IllegalStateError, match="would hold up the event loop of this producer: await it"):
                getattr(future, wait)(1)
            producer.complete_next()
            assert getattr(future, wait)(1) == getattr(future, wait)()
            rows = asyncio.create_task(producer.send_batch("t", [b"2"]))
            await asyncio.sleep(0)
            producer.complete_next()
            assert len(await rows) == 1

    asyncio.run(scenario())


def test_what_operators_ask_of_a_producer_has_an_answer(tmp_path: Path) -> None:
    producer = MockProducer({"linger.ms": 7, "client.id": "c"}, auto_complete=False, partitions={"t": 2})
    producer.send("t", b"1", partition=1)
    producer.send("t", b"2", partition=1)
    assert [(state.topic, state.partition, state.records) for state in producer.waiting()] == [("t", 1, 2)]
    assert "no batch was on its way" in str(producer.why(save=tmp_path / "why.json"))
    assert (tmp_path / "why.json").exists()
    assert "all that is kept: no batch was on its way" in str(producer.why(last=math.inf))
    with pytest.raises(ValueError, match="last=0"):
        producer.why(last=0)
    assert producer.config()["linger.ms"] == "7"
    assert producer.client_instance_id() == producer.client_instance_id()
    producer.complete_next()
    producer.error_next(KafkaError("no"))
    assert producer.waiting() == []
    found = producer.metrics()
    assert (found["record-send-total"], found["record-error-total"], found["record-retry-total"]) == (1, 1, 0)
    asynchronous = producer.as_async()
    assert (asynchronous.metrics(), asynchronous.waiting()) == (found, [])
    with pytest.raises(SerializationError):
        producer.send("t", "text")  # type: ignore[arg-type]  # wrong on purpose
    assert producer.metrics()["record-error-total"] == 2
    assert (str(asynchronous.why()), asynchronous.config()) == (str(producer.why()), producer.config())
    producer.close()


def test_methods_when_compared_then_all_that_a_kafka_producer_has_are_there() -> None:
    of_files = {"from_file"}
    public = {name for name in dir(KafkaProducer) if not name.startswith("_")} - of_files
    assert public <= set(dir(MockProducer))


def test_producers_of_event_loops_when_compared_with_the_protocols_then_they_have_it_all() -> None:
    """A function could name one of them, and was not to be called with the other."""
    for kind in (AsyncKafkaProducer, AsyncMockProducer):
        for protocol in (AsyncProducer, AsyncTransactionalProducer):
            assert {name for name in vars(protocol) if not name.startswith("_")} <= set(dir(kind))
    mock = MockProducer().as_async()
    assert isinstance(mock, AsyncTransactionalProducer)


@pytest.mark.parametrize("name", ["flush_exception", "auto_complete"])
def test_as_async_when_an_attribute_of_the_mock_is_set_on_it_then_that_is_refused(name: str) -> None:
    """It was taken and did nothing: flush() passed, and each record was done at once."""
    producer = MockProducer().as_async()
    with pytest.raises(AttributeError, match=name):
        setattr(producer, name, None)
    setattr(producer.mock, name, None)
