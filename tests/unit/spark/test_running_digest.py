"""What tells the rows of a repeated micro-batch from others, by rows and by columns."""

from __future__ import annotations

from typing import Any

import pytest

from pyproducer.spark.running_digest import RunningDigest
from pyproducer.twophase import RowsDigest
from tests.unit.spark.doubles import FakeRow


def digest_of(*rows: Any, topic: str | None = None) -> RowsDigest:
    running = RunningDigest(topic)
    for row in rows:
        running.add_row(row)
    return running.digest


ROWS = [FakeRow(key=key, value=value, topic=topic) for key, value, topic in (
    (b"k", b"1", "orders"), (None, b"22", "orders"), (b"", None, "returns"), (b"kkk", b"", "orders"),
    ("\u00e9".encode(), b"\xff\x00", "\u00e9"), (None, None, "orders"), (b"k", b"x" * 300, "orders"))]


def batches_of(rows: list[Any], size: int, **kinds: str) -> list[Any]:
    pyarrow = pytest.importorskip("pyarrow")
    columns = {name: pyarrow.array([row[row.__fields__.index(name)] for row in rows], "binary").cast(kind)
               for name, kind in kinds.items()}
    whole = pyarrow.record_batch(columns)
    return [whole.slice(first, size) for first in range(0, len(rows), size)]


def digest_of_batches(batches: list[Any], topic: str | None = None) -> RowsDigest:
    running = RunningDigest(topic)
    for batch in batches:
        running.add_batch(batch)
    return running.digest


def encoded(rows: list[Any]) -> list[Any]:
    return [FakeRow(key=row[0], value=row[1], topic=row[2].encode()) for row in rows]


def test_digest_when_only_columns_differ_that_are_not_sent_then_it_is_equal() -> None:
    """A column that nobody sends, and that is another at each attempt, stopped a query on Spark 4.0."""
    assert digest_of(FakeRow(value="a", at=1.5, key=None)) == digest_of(FakeRow(value="a", at=2.5, key=None))


@pytest.mark.parametrize("other", [
    FakeRow(key="k", value=None), FakeRow(key="k", value=""), FakeRow(key=None, value="v"), FakeRow(key="", value="v"),
    FakeRow(key="kv", value=""), FakeRow(key="v", value="k"), FakeRow(key="k", value="v", topic="t")])
def test_digest_when_key_value_or_topic_differ_then_it_does(other: Any) -> None:
    assert digest_of(other) != digest_of(FakeRow(key="k", value="v"))


def test_digest_when_the_order_or_the_cut_between_cells_differs_then_it_does() -> None:
    assert digest_of(FakeRow(value="a"), FakeRow(value="b")) != digest_of(FakeRow(value="b"), FakeRow(value="a"))
    assert digest_of(FakeRow(value="ab"), FakeRow(value="")) != digest_of(FakeRow(value="a"), FakeRow(value="b"))


def test_digest_when_the_sink_has_a_topic_then_that_counts_and_a_column_of_topics_does_not() -> None:
    """The data source has the column in its batches, and foreach_batch drops it: each stopped a query of the other."""
    one, other = FakeRow(key="k", value="v"), FakeRow(key="k", value="v", topic="t")
    assert digest_of(one, topic="orders") == digest_of(other, topic="orders") != digest_of(one, topic="returns")


@pytest.mark.parametrize("size", [1, 2, 3, 7])
@pytest.mark.parametrize("kinds", [
    {"key": "binary", "value": "binary", "topic": "string"},
    {"key": "large_binary", "value": "large_binary", "topic": "large_string"}])
def test_digest_when_rows_are_cut_or_kept_otherwise_then_it_is_equal(size: int, kinds: dict[str, str]) -> None:
    """It was of Arrow's own bytes: spark.sql.execution.arrow.maxRecordsPerBatch, useLargeVarTypes or an upgrade from
    Spark 4.0 to 4.1 between two starts made other rows of decided ones, which were not written again."""
    assert digest_of_batches(batches_of(encoded(ROWS), size, **kinds)) == digest_of(*ROWS)
    assert digest_of(*ROWS).row_count == len(ROWS)


def test_digest_when_a_column_is_text_or_bytes_then_it_is_equal() -> None:
    texts = [FakeRow(key=f"k{number}", value="v") for number in range(5)]
    as_bytes = [FakeRow(key=bytearray(row[0].encode()), value=b"v") for row in texts]
    assert digest_of(*texts) == digest_of(*as_bytes)
    assert digest_of_batches(batches_of(as_bytes, 2, key="string", value="binary")) == digest_of(*texts)


def test_digest_when_a_null_cell_has_bytes_below_it_then_they_do_not_count() -> None:
    pyarrow = pytest.importorskip("pyarrow")
    offsets = pyarrow.array([0, 1, 3, 4], "int32").buffers()[1]
    column = pyarrow.Array.from_buffers(pyarrow.binary(), 3, [pyarrow.py_buffer(b"\x05"), offsets,
                                                              pyarrow.py_buffer(b"axxb")])
    assert column.to_pylist() == [b"a", None, b"b"]
    assert digest_of_batches([pyarrow.record_batch([column], names=["value"])]) == digest_of(
        *(FakeRow(value=value) for value in (b"a", None, b"b")))


def test_digest_when_there_are_no_rows_then_it_is_that_of_none() -> None:
    assert digest_of(topic="orders") == RowsDigest()


def test_digest_when_a_cell_is_of_no_type_that_is_sent_then_it_raises_nothing() -> None:
    """Its row fails where it is sent, which tells what did not fit."""
    assert digest_of(FakeRow(value=2)) != digest_of(FakeRow(value=3))
    assert digest_of(FakeRow(value="\ud800"), [1]).row_count == 2
