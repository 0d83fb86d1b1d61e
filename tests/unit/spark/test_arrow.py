"""Record batches into a producer: by topic, by column, every row accounted for."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from pyproducer.common.errors import DeliveryFailedError, KafkaTimeoutError, RecordTooLargeError
from pyproducer.common.records import Header, ProducerRecord
from pyproducer.spark.arrow import PIECE_BYTES, send_record_batches
from pyproducer.spark.errors import RowsFailedError
from tests.unit.spark.doubles import FakeProducer

pyarrow = pytest.importorskip(
    "pyarrow", reason="the package pyarrow is not installed: pip install -e '.[spark,test]'")


def batch(**columns: Any) -> Any:
    kinds = {"partition": pyarrow.int32(), "key": pyarrow.binary(), "value": pyarrow.string(),
             "topic": pyarrow.string(), "headers": headers_type("key", "value")}
    return pyarrow.record_batch([pyarrow.array(items, kinds.get(name)) for name, items in columns.items()],
                                names=list(columns))


def headers_type(key: str, value: str) -> Any:
    return pyarrow.list_(pyarrow.struct([(key, pyarrow.string()), (value, pyarrow.binary())]))


def test_send_with_all_columns_makes_the_records_of_each_topic_in_order() -> None:
    producer = FakeProducer()
    rows = batch(topic=["b", "a", "b", "a"], ignored=[1, 2, 3, 4], key=[b"k", None, b"", b"l"],
                 value=["0", "1", None, "3"], partition=[2, None, 0, 1],
                 headers=[[{"key": "h", "value": b"1"}, {"key": "h", "value": None}], None, [], None])
    numbers = send_record_batches([rows], producer, None)
    assert producer.records == [
        ProducerRecord("b", b"0", b"k", partition=2, headers=[Header("h", b"1"), Header("h", None)]),
        ProducerRecord("b", None, b"", partition=0),
        ProducerRecord("a", b"1", None), ProducerRecord("a", b"3", b"l", partition=1)]
    assert producer.calls == [("b", 2), ("a", 2)]
    assert producer.flush_count == 1
    assert (numbers.row_count, numbers.batch_count) == (4, 2)


def test_send_with_a_fixed_topic_makes_one_call_for_each_batch_and_none_for_an_empty_one() -> None:
    producer = FakeProducer()
    rows = batch(value=["a", "b", "c"], topic=["x", "y", None])
    send_record_batches([rows, rows.slice(3), rows.slice(1, 1)], producer, "orders")
    assert producer.calls == [("orders", 3), ("orders", 1)]


def test_send_when_header_fields_are_spelt_otherwise_gives_them_their_names() -> None:
    """Spark compares the names of fields without case."""
    producer = FakeProducer()
    headers = pyarrow.array([[], [{"KEY": "h", "Value": b"1"}], None, [{"KEY": "i", "Value": None}]],
                            headers_type("KEY", "Value"))
    rows = pyarrow.record_batch([pyarrow.array(["0", "1", "2", "3"]), headers], names=["value", "headers"]).slice(1)
    send_record_batches([rows], producer, "orders")
    assert [record.headers for record in producer.records] == [(Header("h", b"1"),), (), (Header("i", None),)]


@pytest.mark.parametrize(("columns", "sentence"), [
    ({"topic": ["a", None], "value": ["1", "2"]}, "null topic present in the data"),
    ({"topic": ["a", ""], "value": ["1", "2"]}, "empty topic present in the data"),
    ({"topic": ["a", "a"], "value": ["1", "2"], "headers": [None, [{"key": None, "value": b""}]]},
     "Null header keys are not permitted"),
])
def test_send_when_a_row_does_not_fit_sends_none_of_its_batch(columns: dict[str, Any], sentence: str) -> None:
    producer = FakeProducer()
    with pytest.raises(RowsFailedError, match=sentence) as caught:
        send_record_batches([batch(topic=["a"], value=["0"], headers=[None]),
                             batch(**{**columns, "headers": columns.get("headers", [None, None])}),
                             batch(topic=["a"], value=["4"], headers=[None])], producer, None)
    assert [record.value for record in producer.records] == [b"0"]
    assert "2 of 3 rows sent were not stored, and what follows them in the partition was not sent" in str(caught.value)
    assert "1 rows are in the log (a-0: 1); another attempt stores them again" in str(caught.value)


def test_send_when_rows_fail_tells_the_first_and_what_is_in_the_log() -> None:
    def fail(record: ProducerRecord) -> Exception | None:
        return KafkaTimeoutError("late", phase="delivery", outcome="unknown") if record.value in (b"2", b"3") else None

    rows = batch(value=[str(n) for n in range(6)], partition=[0, 1] * 3)
    with pytest.raises(RowsFailedError, match="2 of 6 rows sent were not stored") as caught:
        send_record_batches([rows], FakeProducer(fail_when=fail), "orders")
    error = caught.value
    assert "the first failure for orders-0: KafkaTimeoutError: late" in str(error)
    assert "4 rows are in the log (orders-0: 2, orders-1: 2), 2 more may be" in str(error)
    assert (error.topic, error.partition, error.sent_count, error.failed_count) == ("orders", 0, 6, 2)
    assert (error.outcome, error.retriable) == ("unknown", True)


def test_send_when_a_call_is_refused_counts_its_rows_as_not_sent() -> None:
    producer = FakeProducer(raise_when=lambda record: RecordTooLargeError("Row 1: large", code=10)
                            if record.value == b"large" else None)
    with pytest.raises(RowsFailedError, match=r"2 of 3 rows sent were not stored.*Row 2 of the task's partition: large"
                       ) as caught:
        send_record_batches([batch(value=["0"]), batch(value=["1", "large"]), batch(value=["3"])], producer, "orders")
    assert [record.value for record in producer.records] == [b"0"]
    assert isinstance(caught.value.__cause__, RecordTooLargeError)
    assert "more may be" not in str(caught.value)  # none of the two was sent


class Counting(FakeProducer):
    """Refuses a call for its row of a value, and counts as send_batch() does: from its own first row on."""

    def __init__(self, value: str, before: str) -> None:
        super().__init__()
        self._value = value.encode()
        self._before = before

    def send_batch(self, topic: str, values: Any, **columns: Any) -> Any:
        if self._value in (items := values.to_pylist()):
            raise RecordTooLargeError(f"{self._before}{items.index(self._value)}: no, row 1", code=10)
        return super().send_batch(topic, values, **columns)


@pytest.mark.parametrize("before", ["Row ", "timestamps, row ", "partitions, row ", "headers, row "])
@pytest.mark.parametrize(("is_task", "whose"), [(False, ""), (True, " of the task's partition")])
def test_send_when_a_call_is_refused_names_the_row_among_all_that_were_given(
        is_task: bool, whose: str, before: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch goes in pieces, and by topics: the row's number in its call is none that anybody knows."""
    monkeypatch.setattr("pyproducer.spark.arrow.PIECE_BYTES", 100)
    batches = [batch(topic=["a", "b", "a"], value=["0", "1", "2"]),
               batch(topic=["b", "a", "b", "b"] * 20, value=[str(row) for row in range(3, 83)])]
    for value, topic in (("80", None), ("81", None), ("3", None), ("70", "orders")):
        with pytest.raises(RowsFailedError) as caught:
            send_record_batches(batches, Counting(value, before), topic, is_task=is_task)
        assert f": RecordTooLargeError: {before}{value}{whose}: no, row 1." in str(caught.value)
        assert str(caught.value.__cause__) == f"{before}{value}{whose}: no, row 1"


@pytest.mark.parametrize("arguments", [(), (5,), ("a serializer's Row 5: text",), ("Row 1: another's",)])
def test_send_when_a_call_is_refused_leaves_an_error_that_names_no_row_as_it_is(arguments: tuple[Any, ...]) -> None:
    failing = FakeProducer(raise_when=lambda record: ValueError(*arguments))
    with pytest.raises(RowsFailedError) as caught:
        send_record_batches([batch(value=["0"])], failing, "orders")
    assert isinstance(caught.value.__cause__, ValueError)
    assert caught.value.__cause__.args == arguments


def test_send_when_the_batches_themselves_raise_flushes_first() -> None:
    def broken() -> Iterator[Any]:
        yield batch(value=["0"])
        raise ArithmeticError("in the query")

    producer = FakeProducer()
    with pytest.raises(ArithmeticError):
        send_record_batches(broken(), producer, "orders")
    assert producer.flush_count == 1


@pytest.mark.parametrize("is_task", [False, True])
def test_send_that_takes_long_tells_it_in_sparks_words_in_a_task_alone(
        is_task: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr("pyproducer.spark.task_numbers.PROGRESS_MS", 0)
    with caplog.at_level(logging.INFO, "pyproducer"):
        send_record_batches([batch(value=["0"])], FakeProducer(), "orders", is_task=is_task)
    assert [(record.name, record.getMessage().partition("1 rows")[0]) for record in caplog.records] == [
        ("pyproducer.spark", "partition -1, attempt 0: ") if is_task else ("pyproducer.frames", "")]


def test_send_when_there_are_many_partitions_names_ten_of_them_in_an_error() -> None:
    rows = batch(value=[str(n) for n in range(31)], partition=list(range(31)))
    failing = FakeProducer(fail_when=lambda record: ValueError("last") if record.value == b"30" else None)
    with pytest.raises(RowsFailedError, match=r"orders-9: 1, 20 other partitions\)"):
        send_record_batches([rows], failing, "orders")


def test_send_when_flush_raises_for_rows_that_nobody_looked_at_tells_the_counts() -> None:
    """With pyproducer.on.unretrieved=raise flush() raised before the answers were counted: no counts."""
    class Strict(FakeProducer):
        def flush(self) -> None:
            raise DeliveryFailedError("1 record(s) failed and nobody looked")

    producer = Strict(fail_when=lambda record: KafkaTimeoutError("late", phase="delivery") if record.value == b"1"
                      else None)
    with pytest.raises(RowsFailedError, match=r"1 of 3 rows sent were not stored.*2 rows are in the log"):
        send_record_batches([batch(value=["0", "1", "2"])], producer, "orders")


def test_send_when_a_batch_is_large_hands_it_over_in_pieces() -> None:
    """max.block.ms bounds a call: a batch of 10,000 large rows had to get through buffer.memory within it."""
    producer = FakeProducer()
    rows = batch(value=["x" * 1_000_000, "y" * 1_000_000] * 10, topic=["a", "b"] * 10)
    assert send_record_batches([rows.slice(2)], producer, None).row_count == 18
    assert sum(count for topic, count in producer.calls if topic == "a") == 9
    assert max(count for _, count in producer.calls) * 1_000_000 <= PIECE_BYTES
    assert [record.value[:1] for record in producer.records] == [b"x"] * 9 + [b"y"] * 9


def test_send_of_a_slice_of_a_large_dictionary_hands_it_over_at_once() -> None:
    """The whole dictionary was counted with each row."""
    producer = FakeProducer()
    texts = pyarrow.array([f"{row}" + "x" * 100_000 for row in range(200)]).dictionary_encode()
    topics = pyarrow.array([str(row % 2) + "x" * 100 for row in range(200)]).dictionary_encode()
    rows = pyarrow.record_batch([texts, topics], names=["value", "topic"])
    send_record_batches([rows.slice(10, 4)], producer, None)
    assert [count for _, count in producer.calls] == [2, 2]


def test_send_when_topics_come_as_a_slice_of_a_dictionary_leaves_out_those_without_rows() -> None:
    producer = FakeProducer()
    topics = pyarrow.array(["a", "", "b", "c"]).dictionary_encode()
    rows = pyarrow.record_batch([topics, pyarrow.array(["0", "1", "2", "3"])], names=["topic", "value"]).slice(2)
    send_record_batches([rows], producer, None)
    assert producer.calls == [("b", 1), ("c", 1)]


HAS_VIEWS = hasattr(pyarrow, "string_view")  # from pyarrow 16 on


@pytest.mark.parametrize("kind", ["large_string", "large_binary", *(["string_view", "binary_view"] * HAS_VIEWS)])
def test_send_when_text_comes_in_other_arrow_types_sends_its_bytes(kind: str) -> None:
    producer = FakeProducer()
    text = pyarrow.array(["0", None, "2"]).cast(pyarrow.large_binary() if "binary" in kind else pyarrow.large_string())
    text = text.cast(getattr(pyarrow, kind)())
    topics = pyarrow.array(["b", "a", "b"]).cast(text.type if "string" in kind else pyarrow.string())
    rows = pyarrow.record_batch([topics, text, text], names=["topic", "key", "value"])
    send_record_batches([rows], producer, None)
    assert [(record.topic, record.key, record.value) for record in producer.records] == [
        ("b", b"0", b"0"), ("b", b"2", b"2"), ("a", None, None)]


@pytest.mark.skipif(not HAS_VIEWS, reason="pyarrow is older than 16")
def test_send_when_a_column_that_is_ignored_cannot_be_sorted_sends_the_others() -> None:
    """Rows of several topics were brought together with all their columns: of some types Arrow cannot."""
    producer = FakeProducer()
    view = pyarrow.array(["x", "y", "z"]).cast(pyarrow.string_view())
    rows = pyarrow.record_batch([view, pyarrow.array(["b", "a", "b"]), pyarrow.array(["0", "1", "2"])],
                                names=["other", "topic", "value"])
    send_record_batches([rows], producer, None)
    assert [record.value for record in producer.records] == [b"0", b"2", b"1"]


def test_send_when_another_topics_header_has_no_key_sends_none_of_the_batch() -> None:
    """The topics before it were handed over already."""
    producer = FakeProducer()
    rows = batch(topic=["a", "b"], value=["0", "1"], headers=[None, [{"key": None, "value": b""}]])
    with pytest.raises(RowsFailedError, match=r"2 of 2 rows sent were not stored.*Null header keys are not permitted"):
        send_record_batches([rows], producer, None)
    assert producer.records == []


def test_send_when_topics_are_numbered_otherwise_than_they_come_keeps_each_row_with_its_topic() -> None:
    producer = FakeProducer()
    topics = pyarrow.DictionaryArray.from_arrays(pyarrow.array([2, 0, 2, 1, 0], pyarrow.int32()), ["a", "b", "c"])
    rows = pyarrow.record_batch([topics, pyarrow.array(["c0", "a1", "c2", "b3", "a4"])], names=["topic", "value"])
    send_record_batches([rows], producer, None)
    assert [(record.topic, record.value) for record in producer.records] == [
        ("a", b"a1"), ("a", b"a4"), ("b", b"b3"), ("c", b"c0"), ("c", b"c2")]


def test_send_of_a_slice_does_not_look_at_the_headers_beside_it() -> None:
    producer = FakeProducer()
    rows = batch(value=["0", "1", "2"], headers=[[{"key": None, "value": b""}], [{"key": "h", "value": b"1"}],
                                                 [{"key": None, "value": b""}]])
    send_record_batches([rows.slice(1, 1)], producer, "orders")
    assert [record.headers for record in producer.records] == [(Header("h", b"1"),)]
