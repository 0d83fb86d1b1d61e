"""How large the batches of send_batch are, and columns that no wire test reaches."""

from __future__ import annotations

import sys
from array import array
from types import SimpleNamespace

import pytest

from pyproducer import KafkaProducer
from pyproducer.accumulator.batch_future import BatchFuture, RowRange
from pyproducer.accumulator.life import UNOWNED
from pyproducer.common.errors import ApiError
from pyproducer.producer.columns import int_column, read_columns, to_items
from pyproducer.producer.send_batch import BatchSender, rows_of
from pyproducer.record.batch_reader import RecordBatch
from tests.support.patience import GIVE_UP_S


def sender(*, has_split=False, large=262_144, memory=32 << 20):
    return BatchSender(record_sender=None, metadata=None, accumulator=SimpleNamespace(has_split=has_split), clock=None,
                       life=UNOWNED, wakeup_sender=lambda: None, max_block_ms=0, batch_size_bytes=16_384,
                       large_batch_bytes=large, buffer_memory_bytes=memory)


@pytest.mark.parametrize(("how", "partition_count", "expected"), [
    ({}, 3, 262_144),
    ({}, 100, (32 << 20) // 800),  # every partition finds memory for what is on the wire
    ({}, 10_000, 16_384),
    ({"has_split": True}, 3, 16_384),
    ({"large": 16_384}, 3, 16_384),
])
def test_batches_of_rows_are_large_where_memory_and_topics_allow_it(how, partition_count, expected):
    assert sender(**how)._batch_bytes(partition_count) == expected


@pytest.mark.parametrize(("props", "expected"), [
    ({}, 262_144), ({"batch.size": 16_384}, 16_384), ({"max.request.size": 400_000}, 100_000),
])
def test_a_batch_size_that_was_set_is_kept(props, expected):
    with KafkaProducer({"bootstrap.servers": "127.0.0.1:1", **props}) as producer:
        assert producer._runtime.batch_sender._batch_bytes(1) == expected


def test_a_range_is_divided_at_the_borders_of_new_batches():
    future = BatchFuture("t", array("i", [0] * 10), array("q", [0] * 10))
    rows = RowRange(future, 3, array("i", range(10)), 2, 5)  # indices 3 to 7 of the batch are rows 2 to 6
    assert rows.part(0, 3) is None
    assert rows.part(0, 5) == RowRange(future, 3, rows.order, 2, 2)
    assert rows.part(5, 9) == RowRange(future, 0, rows.order, 4, 3)
    assert rows.part(8, 9) is None


def test_errors_of_single_records_reach_their_rows():
    future = BatchFuture("t", array("i", [0] * 6), array("q", [0] * 6))
    RowRange(future, 10, array("i", [5, 4, 3]), 1, 2).fail(lambda index: ApiError(f"index {index}", code=87))
    future.on_stored(RowRange(future, 0, array("i", [0, 1, 2, 5]), 0, 4), 100, -1)
    assert not future.done()
    future.on_handed_over()
    metadata = future.result(0)
    assert {row: str(error) for row, error in metadata.errors.items()} == {3: "index 11", 4: "index 10"}
    assert list(metadata.offsets) == [100, 101, 102, -1, -1, 103]


def test_rows_of_when_a_row_is_larger_than_what_is_read_of_others_then_it_is_read_all_the_same(monkeypatch):
    """The limit for what a peer sends was laid on rows that wait for their topic: one of 300 MiB made send_batch()
    raise, although the rows before it had been handed over. The limit is made small here."""
    monkeypatch.setattr(RecordBatch.records, "__defaults__", (10,))
    columns = read_columns([b"v" * 50, None], [None, b"k"], [[("h", b"1")], None], None, None, 5, lambda *_: None)
    assert rows_of(columns.chunks[0], columns.timestamps, array("i", [0, 1])) == [
        (None, b"v" * 50, (("h", b"1"),)), (b"k", None, ())]


def test_a_done_callback_that_raises_is_logged(caplog):
    future = BatchFuture("t", array("i"), array("q"))
    future.add_done_callback(lambda _: 1 / 0)
    future.on_handed_over()
    assert "a done callback of <BatchFuture t rows=0 done> raised" in caplog.text


def test_pyarrow_is_not_imported_for_lists(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert to_items("values", (b"a", None)) == [b"a", None]

    class Column:
        def __arrow_c_array__(self):
            raise AssertionError

    with pytest.raises(TypeError, match="pip install pyarrow"):
        to_items("values", Column())
    columns = {"keys": [b"k"], "headers": [None], "timestamps": [5], "partitions": [0]}
    for name in ("values", *columns):
        given = {**columns, "values": [b"v"], name: Column()}
        with pytest.raises(TypeError, match=f"^{name} is an Arrow object .Column., and .* pip install pyarrow"):
            read_columns(**given, now_ms=5, to_bytes=lambda *_: None)


@pytest.mark.parametrize(("name", "column", "error", "words"), [
    ("timestamps", [1, -5], ValueError, r"timestamps, row 1: .*-5"),
    ("timestamps", [1, None, 2.5], TypeError, r"timestamps, row 2: "),
    ("partitions", [-1], ValueError, r"partitions, row 0: .*-1"),
])
def test_int_column_when_an_item_is_wrong_then_the_row_is_named(name, column, error, words):
    with pytest.raises(error, match=words):
        int_column(name, column, len(column), -1)


def passing(_topic, _headers, data):
    """A serializer that is there, so that rows are sent one by one."""
    return data


ROADS = pytest.mark.parametrize("serializer", [None, passing], ids=["columns", "rows"])


@ROADS
@pytest.mark.parametrize("count", [0, 1, 3])
@pytest.mark.parametrize(("name", "item"), [
    ("keys", b"k"), ("headers", [("h", b"1")]), ("timestamps", 5), ("partitions", 0)])
def test_columns_when_one_is_not_as_long_as_the_values_then_refused_by_its_name(
        facades, serializer, name, item, count):
    facade = facades(serializers=(None, serializer))
    with pytest.raises(ValueError, match=f"^{name} has {count} rows and values has 2: every column must have one item"):
        facade.producer.send_batch("t", [b"a", b"b"], **{name: [item] * count})
    facade.producer.flush(GIVE_UP_S)
    assert facade.broker.sent == []
    facade.await_whole_memory()


@ROADS
@pytest.mark.parametrize("column", ["ab", b"ab", bytearray(b"ab"), memoryview(b"ab"), {0: 1, 1: 2}, 5],
                         ids=lambda column: type(column).__name__)
@pytest.mark.parametrize("name", ["values", "keys", "headers", "timestamps", "partitions"])
def test_columns_when_one_is_a_single_value_then_refused_and_not_taken_item_by_item(
        facades, serializer, name, column):
    facade = facades(serializers=(None, serializer), **{"max.block.ms": 0})  # no wait for a partition 97
    with pytest.raises(TypeError, match=f"^{name} must be a list or an Arrow array, got {type(column).__name__}$"):
        facade.producer.send_batch("t", **{"values": [b"a", b"b"], name: column})
    facade.producer.flush(GIVE_UP_S)
    assert facade.broker.sent == []
