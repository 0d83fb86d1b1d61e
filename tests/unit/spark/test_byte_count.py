"""How many bytes rows are: those of a slice, whatever lies beside it, and each value where it stands."""

from __future__ import annotations

from typing import Any

import pytest

from pyproducer.spark.byte_count import byte_count

pyarrow = pytest.importorskip(
    "pyarrow", reason="the package pyarrow is not installed: pip install -e '.[spark,test]'")

HAS_VIEWS = hasattr(pyarrow, "string_view")  # from pyarrow 16 on
COUNT = 1_000
TEXTS = [None if row % 7 == 0 else str(row) * (row % 13) for row in range(COUNT)]
TEXT = pyarrow.array(TEXTS)
OFFSETS = pyarrow.array(range(COUNT + 1), pyarrow.int32())


def length(value: Any) -> int:
    """Bytes of all texts in a value."""
    if isinstance(value, (str, bytes)):
        return len(value)
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    return sum(map(length, parts))


def columns() -> dict[str, Any]:
    import pyarrow.compute as pc

    coded = TEXT.dictionary_encode()
    found = {
        "text": TEXT, "large text": TEXT.cast(pyarrow.large_string()), "coded": coded, "runs": pc.run_end_encode(TEXT),
        "list": pyarrow.ListArray.from_arrays(OFFSETS, TEXT),
        "list of coded": pyarrow.ListArray.from_arrays(OFFSETS, coded),
        "struct of coded": pyarrow.StructArray.from_arrays([coded, TEXT], ["a", "b"]),
        "map to coded": pyarrow.MapArray.from_arrays(OFFSETS, pyarrow.array(["key"] * COUNT), coded)}
    if HAS_VIEWS:
        views = TEXT.cast(pyarrow.string_view())
        with_null = pyarrow.DictionaryArray.from_arrays(
            pyarrow.array([row % 9 for row in range(COUNT)]), views.slice(5, 9))
        found |= {
            "views": views, "views of bytes": TEXT.cast(pyarrow.binary_view()), "coded views": with_null,
            "list of views": pyarrow.LargeListArray.from_arrays(OFFSETS.cast(pyarrow.int64()), views),
            "view of a list of views": pyarrow.ListViewArray.from_arrays(
                OFFSETS.slice(0, COUNT), pyarrow.array([1] * COUNT, pyarrow.int32()), views),
            "list of two views": pyarrow.FixedSizeListArray.from_arrays(views, 2)}
    return found


@pytest.mark.parametrize("name", [*columns()])
def test_of_a_slice_is_that_of_its_values_and_some_bytes_for_each_row(name: str) -> None:
    column = columns()[name]
    for part in (column, column.slice(10, 100), column.slice(len(column) - 1), column.slice(3, 0)):
        count = byte_count(pyarrow.RecordBatch.from_arrays([part, part], names=["one", "two"]))
        texts = 2 * length(part.to_pylist())
        assert texts <= count <= texts + 2 * 50 * max(len(part), 1)


def test_of_numbers_is_that_of_their_own() -> None:
    import pyarrow.compute as pc

    numbers = pyarrow.array(range(COUNT), pyarrow.int64())
    assert byte_count(pyarrow.RecordBatch.from_arrays([numbers.slice(5, 10)], names=["n"])) == 80
    for column in (numbers.dictionary_encode(), pc.run_end_encode(numbers)):
        assert byte_count(pyarrow.RecordBatch.from_arrays([column.slice(5, 10)], names=["n"])) < 200
    assert byte_count(pyarrow.RecordBatch.from_arrays([], names=[])) == 0


def test_of_a_text_that_comes_often_has_it_as_often() -> None:
    import pyarrow.compute as pc

    often = pyarrow.array(["x" * 1_000] * 50)
    for column in (often.dictionary_encode(), pc.run_end_encode(often)):
        assert byte_count(pyarrow.RecordBatch.from_arrays([column.slice(20)], names=["t"])) >= 30_000
