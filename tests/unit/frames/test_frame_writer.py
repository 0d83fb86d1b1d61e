"""write(): in which pieces a frame goes."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from pyproducer import frames
from tests.unit.spark.doubles import FakeProducer

pyarrow = pytest.importorskip("pyarrow")

HAS_VIEWS = hasattr(pyarrow, "string_view")  # from pyarrow 16 on
COUNT = 20_000


def calls(table: Any, **columns: Any) -> list[int]:
    producer = FakeProducer()
    assert frames.write(producer, table, "orders", **columns).row_count == table.num_rows
    return [count for _, count in producer.calls]


@pytest.mark.parametrize("kind", ["dictionary", *(["dictionary of views", "views"] * HAS_VIEWS)])
@pytest.mark.parametrize("columns", [{"value": "text"}, {"value": ["text"]}, {"key": "text", "value": ["id"]}])
def test_text_that_no_row_of_a_piece_has_does_not_make_the_piece_smaller(kind: str, columns: dict[str, Any]) -> None:
    """Rows of a dictionary of 24 MB went in calls of 350 or fewer, each of which waited for its answer."""
    texts = pyarrow.array([f"{row:06}" + "x" * 1_000 for row in range(COUNT)])
    rows = pyarrow.array([row * 7 % COUNT for row in range(COUNT)], pyarrow.uint32())
    text = {"dictionary": lambda: pyarrow.DictionaryArray.from_arrays(rows, texts),
            "dictionary of views": lambda: pyarrow.DictionaryArray.from_arrays(
                rows, texts.cast(pyarrow.string_view())),
            "views": lambda: texts.cast(pyarrow.string_view())}[kind]()
    plain_count = len(calls(pyarrow.table({"id": range(COUNT), "text": texts.take(rows)}), **columns))
    count = len(calls(pyarrow.table({"id": range(COUNT), "text": text}), **columns))
    assert count <= plain_count + 1


def test_a_column_that_is_not_written_does_not_make_pieces_smaller() -> None:
    assert calls(pyarrow.table({"v": ["v"] * COUNT, "other": ["x" * 2_000] * COUNT}), value="v") == [COUNT]


@pytest.mark.parametrize("kind", ["dictionary", "runs"])
def test_a_text_that_many_rows_have_is_counted_for_each(kind: str) -> None:
    """All of it was text at one time: of ten texts of 1 MB and 65,536 rows 64 GB."""
    import pyarrow.compute as pc

    texts = pyarrow.array(["x" * 1_000_000] * 60)
    coded = texts.dictionary_encode() if kind == "dictionary" else pc.run_end_encode(texts)
    producer = FakeProducer()
    sizes = []
    send_batch = producer.send_batch

    def measured(topic: str, values: Any, **columns: Any) -> Any:
        sizes.append(values.buffers()[2].size)  # of the whole piece, of which a call has some
        return send_batch(topic, values, **columns)

    producer.send_batch = measured  # type: ignore[method-assign]  # of this one alone
    frames.write(producer, pyarrow.table({"t": coded}), "orders", value=["t"])
    assert max(sizes) <= 17_000_000


def test_write_where_pyarrow_is_not_installed_then_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match="pyarrow is not installed: pip install pyarrow"):
        frames.write({"bootstrap.servers": "127.0.0.1:1"}, object(), "orders")
