"""An append of the Python text that an exception from outside ends, at whichever line.

A simulation found it: the record's bytes were in the batch, and its count was not, so the broker refused the batch as
corrupt, with all its records. (On 3.10 a signal may come between any two lines; later ones are more lenient.)
"""

from __future__ import annotations

import sys
from array import array
from types import FrameType
from typing import Any

import pytest

from pyproducer.hotpath import _python, _python_columns
from pyproducer.record.record_reader import decode_records


class FromOutside(BaseException):
    pass


def raise_at_line(number: int, files: tuple[str, ...], call: Any) -> bool:
    """Call something, and raise in it at the n-th line; False when it has fewer."""
    left = [number]

    def on_line(_frame: FrameType, event: str, _arg: object) -> Any:
        if event == "line":
            left[0] -= 1
            if left[0] == 0:
                raise FromOutside
        return on_line

    def on_call(frame: FrameType, _event: str, _arg: object) -> Any:
        return on_line if frame.f_code.co_filename in files else None

    before = sys.gettrace()
    sys.settrace(on_call)
    try:
        call()
    except FromOutside:
        return True
    finally:
        sys.settrace(before)
    return False


def values_of(batch: _python.OpenBatch) -> list[bytes | None]:
    records = decode_records(bytes(batch.buffer[_python.HEADER_SIZE_BYTES:]), record_count=batch.record_count,
                             base_offset=0, base_timestamp=batch.base_timestamp, base_sequence=-1,
                             append_timestamp=None)
    return [record.value for record in records]


@pytest.mark.parametrize("number", range(1, 60))
def test_append_when_it_is_ended_at_any_line_then_the_others_are_whole(number: int) -> None:
    batch = _python.OpenBatch(None, 1000)
    assert batch.try_append(5, b"k", b"first", (), None) is not None
    files = (_python.__file__,)
    was_ended = raise_at_line(number, files, lambda: batch.try_append(9, None, b"torn", (("h", b"v"),), None))
    assert batch.try_append(7, None, b"last", (), None) is not None
    values = values_of(batch)
    assert values in ([b"first", b"last"], [b"first", b"torn", b"last"])
    assert was_ended or b"torn" in values
    assert len(batch.futures) == len(values), "each is told"
    assert batch.max_timestamp == (9 if b"torn" in values else 7)


@pytest.mark.parametrize("number", range(1, 60))
def test_columns_when_they_are_ended_at_any_line_then_the_others_are_whole(number: int) -> None:
    batch = _python.OpenBatch(None, 1000)
    assert batch.try_append(5, b"k", b"first", (), None) is not None
    timestamps, order = array("q", [9, 6]), array("i", [0, 1])
    values_column = _python_columns.items_column((b"torn", b"too"), 0, 2)
    keys_column = _python_columns.items_column((None, None), 0, 2)
    chunk = _python_columns.ColumnChunk(0, values_column, keys_column, None, None)
    files = (_python.__file__, _python_columns.__file__)
    was_ended = raise_at_line(number, files, lambda: chunk.append_to(batch, timestamps, order, 0, 2))
    assert batch.try_append(7, None, b"last", (), None) is not None
    values = values_of(batch)
    assert values in ([b"first", b"last"], [b"first", b"torn", b"last"], [b"first", b"torn", b"too", b"last"])
    assert was_ended or b"too" in values


@pytest.mark.parametrize("fits", range(3))
def test_columns_when_memory_ends_half_way_then_the_rows_that_are_there_are_told(
        monkeypatch: pytest.MonkeyPatch, fits: int) -> None:
    """It raised, as if none was there, and nobody waited for those that were; the compiled text told of them."""
    batch = _python.OpenBatch(None, 1000)
    assert batch.try_append(5, None, b"first", (), None) is not None
    chunk = _python_columns.ColumnChunk(0, _python_columns.items_column((b"0", b"1", b"2"), 0, 3), None, None, None)
    encodings = iter(range(5 * fits + 2))

    def encode(value: int) -> bytes:
        if next(encodings, None) is None:
            raise MemoryError
        return _python.varint(value)

    monkeypatch.setattr(_python_columns, "varint", encode)
    told = []
    try:
        told.append(chunk.append_to(batch, array("q", [7] * 3), array("i", range(3)), 0, 3))
    except MemoryError:
        assert fits == 0
    assert told == ([(1, fits)] if fits else [])
    assert values_of(batch) == [b"first", b"0", b"1"][:1 + fits]
