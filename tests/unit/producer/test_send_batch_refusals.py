"""Rows that send_batch does not take: each row of a call is told exactly once, whatever refuses a part of them.

A row that nobody is told of makes a future that is never done: result() waits for ever, and no error says why. One that
is told of twice makes a future that is done too early, or never.
"""

from __future__ import annotations

import importlib.util
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from pyproducer import BufferExhaustedError, KafkaError, KafkaTimeoutError, ProducerInterceptor, SerializationError
from pyproducer.accumulator import batch_future
from pyproducer.accumulator.batch_future import BatchFuture, RowRange
from pyproducer.common.errors import IllegalStateError, PartitionerError
from pyproducer.producer.do_send import RecordSender
from tests.support.clock import ManualClock
from tests.support.patience import GIVE_UP_S
from tests.unit.producer.facade import CallerWaits, Facade, Facades

COUNT = 30
CHUNKS = (7, 12, 11)
VALUES = [b"%03d" % row + bytes(297) for row in range(COUNT)]
PLACES = [row % 2 for row in range(COUNT)]
BATCH_BYTES = 1000  # three rows
LONG_MS = 10_000_000

HAS_PYARROW = importlib.util.find_spec("pyarrow") is not None
ROADS = pytest.mark.parametrize("road", [
    "columns", pytest.param("chunks", marks=pytest.mark.skipif(not HAS_PYARROW, reason="pyarrow is not installed")),
    "rows"])


def passing(_topic: object, _headers: object, data: Any) -> Any:
    """A serializer that is there, so that rows are sent one by one."""
    return data


def column(road: str, values: list[bytes] = VALUES) -> Any:
    """The values as the road takes them: "chunks" is an Arrow column that is cut in three."""
    if road != "chunks":
        return values
    import pyarrow

    first, second, _ = CHUNKS
    return pyarrow.chunked_array([values[:first], values[first:first + second], values[first + second:]])


def made(facades: Facades, road: str, **props: Any) -> Facade:
    """A producer whose broker holds all it gets, and whose clock stands still."""
    facade = facades(ManualClock(), serializers=(None, passing if road == "rows" else None), **{
        "linger.ms": LONG_MS, "delivery.timeout.ms": 3 * LONG_MS, "max.block.ms": 1000, "batch.size": BATCH_BYTES,
        **props})
    facade.know()
    facade.broker.holds = facade.broker.holds_metadata = True
    return facade


@pytest.fixture(autouse=True)
def told(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counter[int]]:
    """How often each row was told of."""
    seen: Counter[int] = Counter()
    on_stored, on_failed, on_row = BatchFuture.on_stored, BatchFuture.on_failed, BatchFuture.on_row

    def stored(self: BatchFuture, rows: RowRange, *arguments: Any) -> None:
        seen.update(rows.order[rows.start:rows.start + rows.row_count])
        on_stored(self, rows, *arguments)

    def failed(self: BatchFuture, rows: Any, error_for: Any) -> None:
        rows = list(rows)
        seen.update(rows)
        on_failed(self, rows, error_for)

    def row(self: BatchFuture, number: int, *arguments: Any) -> None:
        seen[number] += 1
        on_row(self, number, *arguments)

    monkeypatch.setattr(batch_future.BatchFuture, "on_stored", stored)
    monkeypatch.setattr(batch_future.BatchFuture, "on_failed", failed)
    monkeypatch.setattr(batch_future.BatchFuture, "on_row", row)
    yield seen
    twice = {number: count for number, count in seen.items() if count != 1}
    assert not twice, f"rows were told of more than once: {twice}"


def assert_told(told: Counter[int], facade: Facade, future: BatchFuture, kind: type[KafkaError],
                values: list[bytes] = VALUES) -> None:
    """Each row is told of, in the log or refused with that error, none in both; nothing else keeps memory."""
    assert sorted(told) == list(range(len(values))), "nobody is told of the others"
    metadata = future.result(0)
    assert all(isinstance(error, kind) for error in metadata.errors.values()), metadata
    assert {getattr(error, "outcome", None) for error in metadata.errors.values()} <= {"not_sent"}
    stored = [value for _, _, batch in facade.broker.sent for value in batch]
    assert sorted(stored) == [value for row, value in enumerate(values) if row not in metadata.errors]
    assert [offset >= 0 for offset in metadata.offsets] == [row not in metadata.errors for row in range(len(values))]


def finish(facade: Facade, future: BatchFuture) -> None:
    """Let the broker take what was accepted."""
    facade.broker.holds = False
    facade.producer.flush(GIVE_UP_S)
    facade.broker.take_turns()
    assert future.done(), f"{future!r}: flush() is over, and nobody told of some rows"
    facade.await_whole_memory()


@ROADS
@pytest.mark.parametrize("memory_bytes", range(1000, 9001, 1000))
def test_send_batch_when_memory_ends_after_some_batches_then_each_row_is_told_of_once(
        facades: Facades, told: Counter[int], road: str, memory_bytes: int) -> None:
    """The program stood still in result(): no error told of the rows of the later batches or chunks, nor was one sent.

    Batches of two partitions are filled in turns; so memory ends at the first or at the second, in each of the chunks.
    """
    facade = made(facades, road, **{"buffer.memory": memory_bytes, "max.block.ms": 0})
    future = facade.producer.send_batch("t", column(road), partitions=PLACES)
    refused = set(told)
    assert refused
    assert len(refused) < COUNT
    assert not future.done()
    finish(facade, future)
    assert_told(told, facade, future, BufferExhaustedError)


@ROADS
@pytest.mark.parametrize("memory_bytes", [2000, 3000, 6000])
def test_send_batch_when_the_producer_is_closed_while_it_waits_for_memory_then_each_row_is_told_of_once(
        facades: Facades, told: Counter[int], road: str, memory_bytes: int) -> None:
    """A service that was stopped under load did not end: who had sent a batch waited for its last rows for ever."""
    facade = made(facades, road, **{"buffer.memory": memory_bytes})
    waits = CallerWaits(facade.clock, facade.broker.wakeup)
    waits.at(facade.clock.now_ms() + 300, lambda: facade.producer.close(0))
    with waits:
        future = facade.producer.send_batch("t", column(road), partitions=PLACES)
    metadata = future.result(GIVE_UP_S)
    assert sorted(told) == list(range(COUNT))
    assert sorted(metadata.errors) == list(range(COUNT))
    assert any(isinstance(error, IllegalStateError) for error in metadata.errors.values())


@ROADS
@pytest.mark.parametrize("memory_bytes", [1000, 2000, 4000, 8000])
def test_send_batch_when_memory_ends_while_rows_wait_for_their_topic_then_each_row_is_told_of_once(
        facades: Facades, told: Counter[int], road: str, memory_bytes: int) -> None:
    """A topic that was new, and more rows than the memory for such ones holds: the future was never done."""
    facade = made(facades, road, **{"buffer.memory": memory_bytes})
    with CallerWaits(facade.clock, facade.broker.wakeup):
        future = facade.producer.send_batch("new", column(road), partitions=PLACES)
    assert told
    facade.broker.tell_topics(new=2)
    finish(facade, future)
    metadata = future.result(0)
    refused = set(metadata.errors)  # rows that wait are told by the sender, beside the call that refuses the others
    assert sorted(refused) == list(range(min(refused), COUNT)), "nothing may overtake what was refused"
    assert sorted(told) == list(range(COUNT))


@ROADS
@pytest.mark.parametrize("memory_bytes", [1000, 2000, 4000])
def test_send_batch_when_the_producer_is_closed_while_rows_wait_for_their_topic_then_each_row_is_told_of_once(
        facades: Facades, told: Counter[int], road: str, memory_bytes: int) -> None:
    """A service that was stopped before its topic was there did not end: it waited for its last rows for ever."""
    facade = made(facades, road, **{"buffer.memory": memory_bytes})
    waits = CallerWaits(facade.clock, facade.broker.wakeup)
    waits.at(facade.clock.now_ms() + 300, lambda: facade.producer.close(0))
    with waits:
        future = facade.producer.send_batch("new", column(road), partitions=PLACES)
    metadata = future.result(GIVE_UP_S)
    assert sorted(told) == sorted(metadata.errors) == list(range(COUNT))
    assert any(isinstance(error, IllegalStateError) for error in metadata.errors.values())


@ROADS
@pytest.mark.parametrize("memory_bytes", [1000, 2000, 4000, 8000])
def test_send_batch_when_the_topic_appears_while_rows_wait_for_it_then_each_row_is_told_of_once(
        facades: Facades, told: Counter[int], road: str, memory_bytes: int) -> None:
    """Rows that had waited already were sent again, with those that need not wait any more."""
    facade = made(facades, road, **{"buffer.memory": memory_bytes})

    def appear() -> None:
        facade.broker.holds = False
        facade.broker.tell_topics(new=2)

    waits = CallerWaits(facade.clock, facade.broker.wakeup)
    waits.at(facade.clock.now_ms() + 300, appear)
    with waits:
        future = facade.producer.send_batch("new", column(road), partitions=PLACES)
    finish(facade, future)
    assert_told(told, facade, future, KafkaTimeoutError)  # how many find memory in time is the threads' to say


@pytest.mark.parametrize("bad_row", [0, 8, COUNT - 1])
def test_send_batch_when_the_partitioner_fails_for_a_row_then_it_fails_alone_and_each_row_is_told_of_once(
        facades: Facades, told: Counter[int], bad_row: int) -> None:
    """A partitioner that knew nothing to do with one key: the future of all rows was never done."""
    facade = made(facades, "columns", **{
        "partitioner.class": lambda _topic, _key, _bytes, value, *_others: 99 if value == VALUES[bad_row] else 0})
    future = facade.producer.send_batch("t", VALUES)
    assert list(told) == [bad_row]
    finish(facade, future)
    assert [type(error) for error in future.result(0).errors.values()] == [PartitionerError]
    assert sorted(told) == list(range(COUNT))


@ROADS
def test_send_batch_when_nobody_waits_for_an_unknown_topic_then_each_row_is_told_of_once(
        facades: Facades, told: Counter[int], road: str) -> None:
    """With max.block.ms 0 and a topic that is not there the future was never done."""
    facade = made(facades, road, **{"max.block.ms": 0})
    future = facade.producer.send_batch("new", column(road))
    assert future.done()
    assert sorted(told) == sorted(future.result(0).errors) == list(range(COUNT))


@ROADS
@pytest.mark.parametrize("memory_bytes", [1000, 2000, 3000, 5000, 8000])
def test_send_batch_when_memory_ends_while_rows_wait_for_their_partition_then_each_row_is_told_of_once(
        facades: Facades, told: Counter[int], road: str, memory_bytes: int) -> None:
    """Every third row names a partition that is not there, and there is little memory: the future was never done."""
    facade = made(facades, road, **{"buffer.memory": memory_bytes})
    places = [row % 3 for row in range(COUNT)]
    with CallerWaits(facade.clock, facade.broker.wakeup):
        future = facade.producer.send_batch("t", column(road), partitions=places)
    assert told
    facade.broker.tell_topics(t=3)
    finish(facade, future)
    metadata = future.result(0)
    assert sorted(told) == list(range(COUNT))
    stored = {value for _, _, batch in facade.broker.sent for value in batch}
    assert stored == {value for row, value in enumerate(VALUES) if row not in metadata.errors}


@ROADS
def test_send_batch_when_partitions_are_missing_and_none_may_wait_then_each_row_is_told_of_once(
        facades: Facades, told: Counter[int], road: str) -> None:
    """Rows of partitions that are not there fail alone, each with its error; the others were sent."""
    facade = made(facades, road, **{"max.block.ms": 0})
    future = facade.producer.send_batch("t", column(road), partitions=[row % 3 for row in range(COUNT)])
    assert sorted(told) == list(range(2, COUNT, 3))
    finish(facade, future)
    assert sorted(future.result(0).errors) == list(range(2, COUNT, 3))
    assert_told(told, facade, future, KafkaTimeoutError)


@ROADS
@pytest.mark.parametrize("bad_row", [0, 8, COUNT - 1])
def test_send_batch_when_a_row_is_too_large_then_the_call_raises_and_no_row_is_on_its_way(
        facades: Facades, told: Counter[int], road: str, bad_row: int) -> None:
    """A call that raised has no future: a row of it that went on its way all the same is doubled by the next try."""
    facade = made(facades, road, **{"max.request.size": 2000})
    values = [bytes(3000) if row == bad_row else value for row, value in enumerate(VALUES)]
    with pytest.raises(KafkaError, match=f"^Row {bad_row}: "):
        facade.producer.send_batch("t", column(road, values), partitions=PLACES)
    assert not told
    assert facade.is_memory_whole()
    facade.producer.flush(GIVE_UP_S)
    assert facade.broker.sent == []


@pytest.mark.parametrize("bad_row", [0, 8, COUNT - 1])
def test_send_batch_when_the_serializer_fails_for_a_row_then_interceptors_hear_of_the_rows_until_it_once(
        facades: Facades, told: Counter[int], bad_row: int) -> None:
    """An interceptor that counts records under way never came back to zero."""
    under_way: Counter[bytes] = Counter()

    class Counting(ProducerInterceptor):
        def on_send(self, record: Any) -> Any:
            under_way[record.value] += 1
            return record

        def on_acknowledgement(self, _metadata: Any, _exception: Any) -> None:
            ended.append(1)

    ended: list[int] = []

    def failing(_topic: object, _headers: object, data: bytes) -> bytes:
        if data == VALUES[bad_row]:
            raise ValueError("no such thing")
        return data

    facade = facades(ManualClock(), serializers=(None, failing), **{"interceptor.classes": [Counting()]})
    facade.know()
    with pytest.raises(SerializationError, match=f"Row {bad_row}: The value serializer .*no such thing") as caught:
        facade.producer.send_batch("t", VALUES, partitions=PLACES)
    assert type(caught.value.__cause__) is ValueError
    assert not told
    assert under_way == Counter(VALUES[:bad_row + 1])
    assert len(ended) == bad_row + 1
    assert facade.is_memory_whole()
    assert facade.broker.sent == []


@pytest.mark.parametrize("memory_bytes", [1000, 3000, 8000])
def test_send_batch_when_memory_ends_then_interceptors_hear_of_each_row_once(
        facades: Facades, told: Counter[int], memory_bytes: int) -> None:
    """An interceptor that counts records under way never came back to zero, or fell below."""
    ended: list[Any] = []

    class Counting(ProducerInterceptor):
        def on_acknowledgement(self, _metadata: Any, exception: Any) -> None:
            ended.append(type(exception))

    facade = made(facades, "columns", **{"buffer.memory": memory_bytes, "max.block.ms": 0,
                                         "interceptor.classes": [Counting()]})
    future = facade.producer.send_batch("t", VALUES, partitions=PLACES)
    finish(facade, future)
    assert_told(told, facade, future, BufferExhaustedError)
    refused = len(future.result(0).errors)
    assert Counter(ended) == Counter({type(None): COUNT - refused, BufferExhaustedError: refused})


@pytest.mark.parametrize("is_accepted", [False, True])
def test_send_batch_when_an_exception_from_outside_ends_it_then_interceptors_hear_of_each_row_once(
        facades: Facades, told: Counter[int], monkeypatch: pytest.MonkeyPatch, is_accepted: bool) -> None:
    """An alarm's handler raised between two rows: those behind were in on_send() and never in on_acknowledgement()."""
    ended: list[Any] = []

    class Counting(ProducerInterceptor):
        def on_acknowledgement(self, _metadata: Any, exception: Any) -> None:
            ended.append(type(exception))

    facade = made(facades, "columns", **{"interceptor.classes": [Counting()]})
    enqueue, rows_left = RecordSender.enqueue, [1, 1]

    def interrupted(*arguments: Any) -> Any:
        if rows_left:
            rows_left.pop()
            return enqueue(*arguments)
        if is_accepted:
            enqueue(*arguments)
        raise TimeoutError("the alarm's handler")

    monkeypatch.setattr(RecordSender, "enqueue", interrupted)
    with pytest.raises(TimeoutError, match="the alarm's handler"):
        facade.producer.send_batch("t", VALUES, partitions=PLACES)
    facade.broker.holds = False
    facade.producer.flush(GIVE_UP_S)
    facade.broker.take_turns()
    assert sorted(told) == [0, 1] + [2] * is_accepted
    assert Counter(ended) == Counter({type(None): 2, TimeoutError: COUNT - 2})


@ROADS
def test_send_batch_when_the_producer_is_closed_already_then_the_call_raises(facades: Facades, road: str) -> None:
    """A future that nobody would ever tell is not given out."""
    facade = made(facades, road)
    facade.producer.close(0)
    with pytest.raises(IllegalStateError):
        facade.producer.send_batch("t", column(road), partitions=PLACES)
