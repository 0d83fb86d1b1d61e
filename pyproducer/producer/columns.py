"""The columns that send_batch is given, checked and cut into chunks in which each of them lies in one piece.

Road:    send_batch() -> [columns] -> ColumnChunk -> accumulator
Thread:  the caller's. Lists are copied (their items are not), so that the caller may change them while rows are sent.
Source:  ours.
"""

from __future__ import annotations

import itertools
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta, timezone
from typing import Any, NamedTuple

from pyproducer.common.errors import SerializationError
from pyproducer.common.records import MAX_PARTITION, ensure_partition, to_headers, to_timestamp
from pyproducer.hotpath import Column, ColumnChunk, binary_column, encode_headers, items_column
from pyproducer.producer import arrow_columns

MAX_ROWS = 2**31 - 1
MAX_TIMESTAMP = 2**63 - 1
_NAT = -2**63
_FINE_UNITS = frozenset({"ns]", "ps]", "fs]", "as]"})
_EPOCH = datetime.fromtimestamp(0, timezone.utc)
_Headers = tuple[bytes, "array[int]", "array[int]"]
"""Encoded headers, where each row's begin and the last ones end, and their bounds; see `encode_header_rows`."""


class Columns(NamedTuple):
    """The rows of a call: chunks that follow each other, and numbers for each row (partition -1: not chosen).

    `part(first_row, row_count)` makes a chunk of rows that lie within one.
    """

    chunks: list[ColumnChunk]
    partitions: array[int]
    timestamps: array[int]
    part: Callable[[int, int], ColumnChunk]


class _Source:
    """A column that may lie in several pieces; `ends` says where each ends."""

    def __init__(self, pieces: list[Any], lengths: Iterable[int], read: Callable[[Any, int, int], Any]) -> None:
        self._pieces = pieces
        self._read = read
        self.ends: list[int] = []
        self._starts: list[int] = []
        length = 0
        for piece_length in lengths:
            self._starts.append(length)
            length += piece_length
            self.ends.append(length)
        self.length = length

    def part(self, first_row: int, row_count: int) -> Any:
        """Return rows that lie in one piece."""
        piece = bisect_right(self.ends, first_row)
        return self._read(self._pieces[piece], first_row - self._starts[piece], row_count)


def read_columns(values: Any, keys: Any, headers: Any, timestamps: Any, partitions: Any, now_ms: int,
                 to_bytes: Callable[[str, Any], bytes | None]) -> Columns:
    """Check columns and cut them into chunks.

    Args:
        values: A list, or an Arrow object.
        keys: The same, or None.
        headers: The same, or None.
        timestamps: The same, or None.
        partitions: The same, or None.
        now_ms: Epoch ms for rows without a timestamp.
        to_bytes: Turns an item of "key" or "value" that is neither bytes nor None into bytes, or raises.

    Raises:
        TypeError: A column has the wrong type. Not sent.
        ValueError: Columns have different lengths, or a number is out of range. Not sent.
        SerializationError: An item of a list is not bytes. Not sent.
    """
    sources = [_bytes_source("values", values, to_bytes)]
    length = sources[0].length
    if length > MAX_ROWS:
        raise ValueError(f"values has {length} rows: a call takes at most {MAX_ROWS}")
    sources.append(_bytes_source("keys", keys, to_bytes) if keys is not None else _nothing(length))
    sources.append(_headers_source(headers) if headers is not None else _nothing(length))
    times = int_column("timestamps", timestamps, length, now_ms)
    places = int_column("partitions", partitions, length, -1)
    for name, count in (("keys", sources[1].length), ("headers", sources[2].length), ("timestamps", len(times)),
                        ("partitions", len(places))):
        ensure_length(name, count, length)
    cuts = sorted({end for source in sources for end in source.ends if end} - {0}) if length else []

    def part(first_row: int, row_count: int) -> ColumnChunk:
        value_part, key_part, header_part = (source.part(first_row, row_count) for source in sources)
        header_column, bounds = header_part if header_part is not None else (None, None)
        return ColumnChunk(first_row, value_part, key_part, header_column, bounds)

    chunks = [part(first_row, end - first_row) for first_row, end in itertools.pairwise((0, *cuts))]
    return Columns(chunks, places, times, part)


def ensure_length(name: str, count: int, row_count: int) -> None:
    """Refuse a column that is not as long as the values.

    Raises:
        ValueError: It is not. Not sent.
    """
    if count != row_count:
        raise ValueError(f"{name} has {count} rows and values has {row_count}: every column must have one item for "
                         "each row")


def to_rows(name: str, column: Any, *, is_text: bool) -> list[Any]:
    """Return values or keys as a list of Python objects.

    Args:
        name: What the column is, for messages.
        column: The column.
        is_text: Whether an Arrow column's text stays text, for a serializer; else it is its UTF-8, as `read_columns`
            takes it.

    Raises:
        TypeError: It is not a column, or an Arrow one of another type. Not sent.
        ValueError: An Arrow column's text is not UTF-8. Not sent.
    """
    if is_text or not arrow_columns.is_arrow(column):
        return to_items(name, column)
    return [item.encode() if type(item) is str else item
            for item in arrow_columns.items_of(name, arrow_columns.bytes_chunks(name, column))]


def to_items(name: str, column: Any) -> list[Any]:
    """Return a column as a list of Python objects.

    Raises:
        TypeError: It is not a column. Not sent.
        ValueError: An Arrow column's text is not UTF-8. Not sent.
    """
    if arrow_columns.is_arrow(column):
        return arrow_columns.items_of(name, arrow_columns.chunks_of(name, column))
    if isinstance(column, (str, bytes, bytearray, memoryview, dict)) or not isinstance(column, Iterable):
        raise TypeError(f"{name} must be a list or an Arrow array, got {type(column).__name__}")
    # NumPy's numbers are no ints; its arrays, and array.array, make a list of Python's own faster than iteration does.
    items = column.tolist() if hasattr(column, "tolist") else list(column)
    return items


def int_column(name: str, column: Any, length: int, default: int) -> array[int]:
    """Return timestamps (array('q')) or partitions (array('i')); None becomes a default.

    Raises:
        TypeError: It holds something else. Not sent.
        ValueError: A number is out of range. Not sent.
    """
    form, highest, checked = (("q", MAX_TIMESTAMP, to_timestamp) if name == "timestamps"
                              else ("i", MAX_PARTITION, ensure_partition))
    if column is None:
        return array(form, (default,)) * length
    if arrow_columns.is_arrow(column):
        return arrow_columns.int_column(name, arrow_columns.chunks_of(name, column), form, default, highest)
    if name == "timestamps" and _is_numpy_time(column):
        column = _moments(column)
    numbers = array(form)
    for row, item in enumerate(to_items(name, column)):
        if item is None:
            numbers.append(default)
            continue
        try:
            numbers.append(checked(item))
        except (TypeError, ValueError) as error:
            raise type(error)(f"{name}, row {row}: {error}") from None
    return numbers


def _is_numpy_time(column: Any) -> bool:
    """Whether it is an array of NumPy's datetime64; a Series of pandas keeps its zone with each item."""
    return hasattr(column, "__array_interface__") and getattr(getattr(column, "dtype", None), "kind", None) == "M"


def _moments(column: Any) -> list[datetime | None]:
    """Return NumPy's datetime64, which is UTC in whatever unit, with its zone; NaT is None."""
    in_us = column.astype("datetime64[us]")
    given = again = column.astype("int64").tolist()
    if column.dtype.name[-3:] not in _FINE_UNITS:  # NumPy lets what does not fit wrap around
        again = in_us.astype(column.dtype).astype("int64").tolist()
    moments: list[datetime | None] = []
    for row, number in enumerate(in_us.astype("int64").tolist()):
        try:
            if given[row] != again[row]:
                raise OverflowError
            moments.append(None if given[row] == _NAT else _EPOCH + timedelta(microseconds=number))
        except OverflowError:
            raise ValueError(f"timestamps, row {row}: the datetime64 {column[row]} is beyond the year 9999") from None
    return moments


def _bytes_source(name: str, column: Any, to_bytes: Callable[[str, Any], bytes | None]) -> _Source:
    if arrow_columns.is_arrow(column):
        chunks = arrow_columns.bytes_chunks(name, column)
        dictionaries: dict[Any, Column] = {}
        return _Source(chunks, map(len, chunks), lambda chunk, offset, count: arrow_columns.bytes_column(
            chunk.slice(offset, count), dictionaries))
    rows = tuple(column if type(column) is list else to_items(name, column))
    try:
        whole = items_column(rows, 0, len(rows))
    except TypeError:
        rows = tuple(_converted(name, rows, to_bytes))
        whole = items_column(rows, 0, len(rows))

    def read(_piece: Any, offset: int, count: int) -> Column:
        return whole if count == len(rows) else items_column(rows, offset, count)

    return _Source([None], [len(rows)], read)


def _converted(name: str, items: Iterable[Any], to_bytes: Callable[[str, Any], bytes | None]) -> Iterator[bytes | None]:
    for row, item in enumerate(items):
        try:
            yield to_bytes(name[:-1], item)
        except SerializationError as error:
            raise SerializationError(f"{name}, row {row}: {error}") from error


def _headers_source(column: Any) -> _Source:
    pieces: list[_Headers] = []
    if arrow_columns.is_arrow(column):
        first_row = 0
        for chunk in arrow_columns.header_chunks(column):
            pieces.append(arrow_columns.header_rows(chunk, first_row))
            first_row += len(chunk)
    else:
        pieces.append(_listed_headers(column))

    def read(piece: _Headers, offset: int, count: int) -> tuple[Column, array[int]]:
        data, ends, bounds = piece
        return binary_column(None, ends, data, True, offset, count), bounds[offset:offset + count]

    return _Source(pieces, (len(bounds) for *_, bounds in pieces), read)


def _listed_headers(column: Any) -> _Headers:
    parts: list[bytes] = []
    ends, bounds = array("q", [0]), array("q")
    for row, item in enumerate(to_items("headers", column)):
        try:
            headers = to_headers(item)
        except (TypeError, ValueError) as error:
            raise type(error)(f"headers, row {row}: {error}") from None
        parts.append(encode_headers(headers))
        ends.append(ends[-1] + len(parts[-1]))
        bounds.append(sum(10 + 4 * len(key) + (0 if value is None else len(value)) for key, value in headers))
    return b"".join(parts), ends, bounds


def _nothing(length: int) -> _Source:
    return _Source([None], [length], lambda *_: None)
