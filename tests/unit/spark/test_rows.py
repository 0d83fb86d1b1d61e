"""Rows into a producer: nothing is dropped without a word."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from datetime import datetime, timezone
from types import SimpleNamespace
from typing import Any

import pytest

from pyproducer.common.errors import KafkaTimeoutError, SerializationError
from pyproducer.common.records import Header, ProducerRecord
from pyproducer.spark import rows as rows_module
from pyproducer.spark.columns import ColumnContract
from pyproducer.spark.errors import ColumnError, RowsFailedError
from pyproducer.spark.rows import field_names, send_rows
from pyproducer.spark.window import Window
from tests.unit.spark.doubles import FakeAnswer, FakeProducer, FakeRow

ALL_COLUMNS = ["key", "value", "topic", "partition", "headers"]


def all_rows() -> list[FakeRow]:
    return [FakeRow(key="k", value="v", topic="orders", partition=2, headers=[("h", bytearray(b"1"))]),
            FakeRow(key=None, value=None, topic="other", partition=None, headers=None)]


def test_send_rows_with_all_columns_makes_the_records_and_flushes() -> None:
    producer = FakeProducer()
    assert send_rows(all_rows(), producer, ColumnContract.of(ALL_COLUMNS, None)).row_count == 2
    assert producer.records == [ProducerRecord("orders", b"v", b"k", partition=2, headers=[Header("h", b"1")]),
                                ProducerRecord("other")]
    assert producer.flush_count == 1


def test_send_rows_with_topic_option_sends_every_row_there() -> None:
    producer = FakeProducer()
    send_rows(all_rows(), producer, ColumnContract.of(ALL_COLUMNS, "fixed"))
    assert [record.topic for record in producer.records] == ["fixed", "fixed"]


def rows(count: int) -> Iterator[FakeRow]:
    return (FakeRow(value=str(i)) for i in range(count))


CONTRACT = ColumnContract.of(["value"], "orders")


def read_ahead(data: list[FakeRow], producer: FakeProducer) -> SimpleNamespace:
    """Return rows, and how many of them had been sent each time that another one was asked for."""
    sent_counts: list[int] = []

    def noted() -> Iterator[FakeRow]:
        for row in data:
            sent_counts.append(len(producer.records))
            yield row

    return SimpleNamespace(rows=noted(), sent_counts=sent_counts)


def test_send_rows_when_answers_fail_raises_the_first_with_counts() -> None:
    """A callback gets no metadata of a record that failed: looking for its topic there raised; the cause was lost."""
    def fail(record: ProducerRecord) -> Exception | None:
        return KafkaTimeoutError(f"late {record.value!r}", phase="delivery", outcome="unknown") \
            if record.value in (b"3", b"5") else None

    with pytest.raises(RowsFailedError, match="2 of 10 rows sent were not stored") as caught:
        send_rows(rows(10), FakeProducer(fail_when=fail), CONTRACT)
    error = caught.value
    assert "the first failure for orders: KafkaTimeoutError: late b'3'" in str(error)
    assert str(error).endswith("Of attempt 0 of the task 8 rows are in the log (orders-0: 8), 2 more may be; another "
                               "attempt stores them again")
    assert "was not sent" not in str(error)  # all of them were
    assert (error.topic, error.partition, error.attempt) == ("orders", -1, 0)  # no row named a partition
    assert (error.sent_count, error.failed_count, error.outcome, error.retriable) == (10, 2, "unknown", True)
    assert isinstance(error.__cause__, KafkaTimeoutError)
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.failed_count, again.outcome) == (str(error), 2, "unknown")


def test_send_rows_when_an_answer_fails_tells_the_topic_and_the_partition_that_the_row_named() -> None:
    data = [FakeRow(value="a", topic="orders", partition=1), FakeRow(value="b", topic="other", partition=0)]
    failing = FakeProducer(fail_when=lambda record: KafkaTimeoutError("late", phase="delivery")
                           if record.value == b"b" else None)
    with pytest.raises(RowsFailedError, match="the first failure for other-0: ") as caught:
        send_rows(data, failing, ColumnContract.of(["value", "topic", "partition"], None))
    assert (caught.value.topic, caught.value.partition) == ("other", 0)
    assert "1 rows are in the log (orders-1: 1)" in str(caught.value)


def test_send_rows_when_the_applications_partitioner_raises_tells_what_is_in_the_log() -> None:
    """Only some types of errors were counted; for others the task said nothing of the rows that its next attempt
    stores again.
    """
    producer = FakeProducer(raise_when=lambda record: RuntimeError("planted") if record.value == b"4" else None)
    with pytest.raises(RowsFailedError, match=r"1 of 5 rows .* RuntimeError: planted\. Of attempt 0 of the task 4 rows "
                                              "are in the log") as caught:
        send_rows(rows(10), producer, CONTRACT)
    assert isinstance(caught.value.__cause__, RuntimeError)


def test_send_rows_when_send_raises_stops_flushes_and_counts_it() -> None:
    producer = FakeProducer(raise_when=lambda record: SerializationError("bad") if record.value == b"4" else None)
    with pytest.raises(RowsFailedError, match="1 of 5 rows sent were not stored") as caught:
        send_rows(rows(10), producer, CONTRACT)
    assert len(producer.records) == 4
    assert producer.flush_count == 1
    assert "and what follows them in the partition was not sent; the first failure for orders:" in str(caught.value)
    assert caught.value.outcome == "not_sent"


def test_send_rows_when_a_row_does_not_fit_stops_flushes_and_says_sparks_sentence() -> None:
    producer = FakeProducer()
    data = [FakeRow(value="a", topic="orders"), FakeRow(value="b", topic=None), FakeRow(value="c", topic="orders")]
    with pytest.raises(RowsFailedError, match="null topic present in the data") as caught:
        send_rows(data, producer, ColumnContract.of(["value", "topic"], None))
    assert isinstance(caught.value.__cause__, ColumnError)
    assert [record.value for record in producer.records] == [b"a"]
    assert producer.flush_count == 1


LARGE = 40_000 * "x"


@pytest.mark.parametrize("large", [
    {"value": LARGE}, {"key": LARGE}, {"headers": [("h", LARGE.encode())]}, {"headers": [(LARGE, None)]}],
    ids=["value", "key", "header", "header's name"])
@pytest.mark.parametrize(("limit_bytes", "asked_for"), [(64 * 1024, [0, 1]), (1 << 30, [])])
def test_send_rows_when_a_window_is_given_waits_as_soon_as_that_is_full(large: dict[str, Any], limit_bytes: int,
                                                                        asked_for: list[int]) -> None:
    """It is what the tasks before have learned of these brokers. Values alone were counted: of deletions with large
    keys, or of rows with more in their headers than in their value, several times as much was on its way.
    """
    waited: list[int] = []

    class SlowAnswer(FakeAnswer):
        def __init__(self, number: int) -> None:
            self._number = number

        def done(self) -> bool:
            return self._number in waited

        def exception(self) -> None:
            waited.append(self._number)

    class SlowProducer(FakeProducer):
        def send(self, topic: str, value: Any = None, **columns: Any) -> FakeAnswer:
            super().send(topic, value, **columns)
            return SlowAnswer(len(self.records) - 1)

    data = [FakeRow(**{"key": None, "value": None, "headers": None, **large}) for _ in range(3)]
    contract = ColumnContract.of(["key", "value", "headers"], "orders")
    window = Window(120_000, limit_bytes, 1)
    assert send_rows(data, SlowProducer(), contract, window, is_typed=True).row_count == 3
    assert waited == asked_for


@pytest.mark.parametrize("instant", [datetime(1970, 2, 1, tzinfo=timezone.utc), datetime(1970, 2, 1)], ids=str)
def test_send_rows_when_an_instant_is_in_the_first_months_of_1970_sends_it(instant: datetime) -> None:
    """Its milliseconds were taken for seconds, and refused; by columns it was stored."""
    producer = FakeProducer()
    send_rows([FakeRow(value="v", at=instant)], producer, ColumnContract.of(["value", "at"], "orders", "at"))
    assert producer.records[0].timestamp == instant.timestamp() * 1000


def test_send_rows_when_a_number_of_seconds_is_given_as_milliseconds_refuses_it() -> None:
    """As by columns: a bigint is what the user counted, and 2678400000 ms are more likely seconds of 2054."""
    with pytest.raises(RowsFailedError, match="timestamp 2678400000 is in seconds, it seems"):
        send_rows([FakeRow(value="v", at=2678400000)], FakeProducer(),
                  ColumnContract.of(["value", "at"], "orders", "at"))


def test_send_rows_when_an_answer_never_comes_raises() -> None:
    with pytest.raises(RowsFailedError, match=r"3 of 3 rows .* no answer came before flush\(\) returned"):
        send_rows(rows(3), FakeProducer(forgets_answers=True), CONTRACT)


def test_send_rows_when_the_rows_themselves_raise_flushes_first() -> None:
    def broken() -> Iterator[Any]:
        yield FakeRow(value="a")
        raise ArithmeticError("in the query")

    producer = FakeProducer()
    with pytest.raises(ArithmeticError):
        send_rows(broken(), producer, CONTRACT)
    assert producer.flush_count == 1


def test_field_names_of_a_plain_tuple_says_what_to_do() -> None:
    with pytest.raises(ColumnError, match=r"got tuple: use df.foreachPartition"):
        field_names(("a", "b"))


def test_send_rows_when_nulls_stand_before_a_value_of_the_wrong_type_sends_no_tombstone() -> None:
    """999 null ints and a 7 stored 999 tombstones in each of four attempts: on a compacted topic they delete keys."""
    producer = FakeProducer()
    data = [FakeRow(value=None, key="x") for _ in range(999)] + [FakeRow(value=7, key="x")]
    with pytest.raises(RowsFailedError, match="value attribute unsupported type int") as caught:
        send_rows(data, producer, ColumnContract.of(["value", "key"], "orders"))
    assert producer.records == []
    assert "no rows are known to be in the log" in str(caught.value)


def test_send_rows_does_not_wait_for_the_type_of_a_key() -> None:
    """Of a partition without keys 10,000 whole rows were held, gigabytes where their values are large; a row without a
    key deletes nothing.
    """
    producer = FakeProducer()
    data = read_ahead([FakeRow(key=None, value=str(n)) for n in range(3)], producer)
    send_rows(data.rows, producer, ColumnContract.of(["key", "value"], "orders"))
    assert data.sent_counts == [0, 1, 2]


def test_send_rows_when_the_schema_was_checked_sends_nulls_as_they_come() -> None:
    """With KafkaSink(schema=...), and in each stream by format("pyproducer") on Spark 4.0, they were held as well."""
    producer = FakeProducer()
    data = read_ahead([FakeRow(value=None)] * 3, producer)
    send_rows(data.rows, producer, CONTRACT, is_typed=True)
    assert data.sent_counts == [0, 1, 2]


@pytest.mark.parametrize("row", [
    FakeRow(key=3000 * "k", value=None), FakeRow(value=None, other=bytearray(3000)),
    FakeRow(value=None, headers=[FakeRow(key="h", value=3000 * b"v")]),
    FakeRow(value=None, other={"a": FakeRow(b=3000 * "x")}), FakeRow(value=None, other=60 * [1])],
    ids=["key", "other column", "headers", "struct in a map", "numbers"])
def test_send_rows_when_rows_of_nulls_are_large_holds_no_more_bytes_than_its_limit(
        row: FakeRow, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their number alone bounded what a worker held: a row has columns beside its value."""
    monkeypatch.setattr(rows_module, "MAX_HELD_BYTES", 10_000)
    producer = FakeProducer()
    data = read_ahead([row] * 6, producer)
    assert send_rows(data.rows, producer, ColumnContract.of(row.__fields__, "orders")).row_count == 6
    assert data.sent_counts == [0, 0, 0, 0, 4, 5]


def test_send_rows_when_the_first_text_is_no_unicode_tells_the_counts() -> None:
    """The check of its type raised what encoding it raises: no counts, and no word of the task."""
    with pytest.raises(RowsFailedError, match=r"1 of 1 rows sent were not stored.*surrogates not allowed"):
        send_rows([FakeRow(value="\ud800")], FakeProducer(), CONTRACT)


def test_send_rows_when_all_values_are_null_sends_deletions_in_order() -> None:
    producer = FakeProducer()
    data = [FakeRow(key=str(n), value=None) for n in range(rows_module.MAX_HELD_ROWS + 5)]
    assert send_rows(data, producer, ColumnContract.of(["key", "value"], "orders")).row_count == len(data)
    assert [record.key for record in producer.records] == [b"%d" % n for n in range(len(data))]


def test_send_rows_when_many_nulls_come_first_holds_no_more_than_its_limit() -> None:
    producer = FakeProducer()
    data = read_ahead([FakeRow(value=None)] * (rows_module.MAX_HELD_ROWS + 1), producer)
    send_rows(data.rows, producer, CONTRACT)
    assert data.sent_counts[-2:] == [0, rows_module.MAX_HELD_ROWS]
