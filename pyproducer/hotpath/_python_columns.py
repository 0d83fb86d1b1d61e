"""The per-row work of send_batch as Python text: the definition that a compiled twin must match.

A column is bytes or None by row; a chunk is the rows of a call for which each column lies in one piece.

Road:    send_batch() -> [ColumnChunk] -> OpenBatch ... completion -> [store_rows] -> BatchFuture
Thread:  the caller's; `append_to` with the lock of the batch's partition; `store_rows` is the sender's.
Source:  ours; the Arrow columnar format 1.5; DefaultPartitioner, OpenBatch.try_append. Imports nothing of ours.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Sequence
from typing import Any

from pyproducer.hotpath._python import (
    HEADER_SIZE_BYTES,
    RECORD_OVERHEAD_BYTES,
    encode_headers,
    murmur2,
    varint,
)

_POSITIVE_MASK = 0x7FFFFFFF
_BROKEN_OFFSETS = "the Arrow array is broken: its offsets do not grow, or point behind its data"


class Column:
    """A column of bytes or None."""

    __slots__ = ("items",)

    def __init__(self, items: Sequence[bytes | None]) -> None:
        self.items: Sequence[bytes | None] = items

    def __len__(self) -> int:
        return len(self.items)


def items_column(items: tuple[bytes | None, ...], offset: int, length: int) -> Column:
    """Return a column of a part of a tuple of bytes or None.

    Raises:
        TypeError: An item is neither. Not sent.
    """
    if offset < 0 or length < 0 or offset + length > len(items):
        raise ValueError("a column's part must lie inside of it")
    part = items[offset:offset + length]
    for item in part:
        if item is not None and type(item) is not bytes:
            raise TypeError(f"a column's items must be bytes or None, got {type(item).__name__}")
    return Column(part)


def binary_column(validity: Any, offsets: Any, data: Any, is_wide: bool, offset: int, length: int) -> Column:
    """Return a column of the three buffers of an Arrow binary or string array.

    Args:
        validity: Bitmap, or None where no row is None.
        offsets: Where each row begins in `data`, and one number more.
        data: The rows' bytes; None where there are none.
        is_wide: Whether offsets have 64 bits (large_binary, large_string) and not 32.
        offset: First row of the array in its buffers.
        length: How many rows.

    Raises:
        ValueError: The buffers contradict each other. Not sent.
    """
    if not length:
        return Column(())
    is_valid = _validity(validity, offset, length)
    numbers = _numbers(offsets, "q" if is_wide else "i", offset, length + 1)
    view = memoryview(b"" if data is None else data).cast("B")
    if numbers[0] < 0 or numbers[-1] > len(view) or any(map(int.__gt__, numbers, numbers[1:])):
        raise ValueError(_BROKEN_OFFSETS)
    return Column([bytes(view[numbers[row]:numbers[row + 1]]) if is_valid is None or is_valid[row] else None
                   for row in range(length)])


def dictionary_column(validity: Any, indices: Any, index_width: int, offset: int, length: int,
                      dictionary: Column) -> Column:
    """Return a column whose rows are rows of another, as in an Arrow dictionary array.

    Args:
        validity: Bitmap, or None where no row is None.
        indices: Which row of `dictionary` each row is.
        index_width: Bytes of an index: 1, 2, 4 or 8; signed.
        offset: First row of the array in its buffers.
        length: How many rows.
        dictionary: The values.

    Raises:
        ValueError: An index points behind the dictionary. Not sent.
    """
    if not length:
        return Column(())
    is_valid = _validity(validity, offset, length)
    numbers = _numbers(indices, {1: "b", 2: "h", 4: "i", 8: "q"}[index_width], offset, length)
    items: list[bytes | None] = []
    for row, number in enumerate(numbers):
        if is_valid is not None and not is_valid[row]:
            items.append(None)
        elif 0 <= number < len(dictionary):
            items.append(dictionary.items[number])
        else:
            raise ValueError("the Arrow array is broken: an index points behind its dictionary")
    return Column(items)


def encode_header_rows(validity: Any, offsets: Any, is_wide: bool, offset: int, length: int, keys: Column,
                       values: Column, first_row: int) -> tuple[bytes, array[int], array[int]]:
    """Encode the headers of an Arrow list<struct<key, value>> array as `encode_headers` does, row by row.

    Args:
        validity: Bitmap of the lists; None where every row has a list. No list is no headers.
        offsets: Where each row's list begins in `keys` and `values`, and one number more.
        is_wide: Whether offsets have 64 bits.
        offset: First row of the array in its buffers.
        length: How many rows.
        keys: The headers' keys, UTF-8.
        values: The headers' values.
        first_row: The number of the first row in the call, for messages.

    Returns:
        The rows' headers one behind the other, where each begins and the last ends, and for how many bytes the headers
        of each row count in `record_size_upper_bound`.

    Raises:
        TypeError: A key is None. Not sent.
        ValueError: A key is not UTF-8, or the buffers contradict each other. Not sent.
    """
    parts: list[bytes] = []
    ends, bounds = array("q", [0]), array("q")
    is_valid = _validity(validity, offset, length)
    numbers = _numbers(offsets, "q" if is_wide else "i", offset, length + 1) if length else ()
    for row in range(length):
        begin, end = numbers[row], numbers[row + 1]
        if begin < 0 or end < begin or end > len(keys) or end > len(values):
            raise ValueError(_BROKEN_OFFSETS)
        headers: list[tuple[str, bytes | None]] = []
        bound = 0
        if is_valid is None or is_valid[row]:
            for key, value in zip(keys.items[begin:end], values.items[begin:end], strict=True):
                if key is None:
                    raise TypeError(f"headers, row {first_row + row}: a header's key must be str, got NoneType: None")
                try:
                    text = key.decode()
                except UnicodeDecodeError as error:
                    raise ValueError(f"headers, row {first_row + row}: the header key {key!r} is not UTF-8, as Kafka "
                                     f"wants it: {error.reason} (position {error.start})") from None
                headers.append((text, value))
                bound += 10 + 4 * len(text) + (0 if value is None else len(value))
        parts.append(encode_headers(headers))
        ends.append(ends[-1] + len(parts[-1]))
        bounds.append(bound)
    return b"".join(parts), ends, bounds


class ColumnChunk:
    """Rows that follow each other, by column.

    Args:
        first_row: The number of the first row in the call.
        values: The values; as long as the chunk.
        keys: The keys, or None where no row has one.
        headers: Encoded headers by row, never None; or None where no row has any.
        header_bounds: For how many bytes they count in `record_size_upper_bound`, by row.
    """

    __slots__ = ("_header_bounds", "_headers", "_keys", "_values", "first_row", "row_count")

    def __init__(self, first_row: int, values: Column, keys: Column | None, headers: Column | None,
                 header_bounds: array[int] | None) -> None:
        self.first_row: int = first_row
        self.row_count: int = len(values)
        nothing: Sequence[bytes | None] = (None,) * self.row_count
        self._values = values.items
        self._keys = nothing if keys is None else keys.items
        self._headers = (b"\x00",) * self.row_count if headers is None else headers.items
        self._header_bounds: Sequence[int] = (
            (0,) * self.row_count if headers is None or header_bounds is None else header_bounds)
        if any(len(column) != self.row_count for column in (self._keys, self._headers, self._header_bounds)):
            raise ValueError("the columns of a chunk must have the same length")

    def size_upper_bound(self, row: int) -> int:
        """Return how many bytes a batch with just this row takes at most, its 61-byte header included."""
        if not 0 <= row - self.first_row < self.row_count:
            raise IndexError("the row is not in this chunk")
        key, value = self._keys[row - self.first_row], self._values[row - self.first_row]
        return (HEADER_SIZE_BYTES + RECORD_OVERHEAD_BYTES + (0 if key is None else len(key))
                + (0 if value is None else len(value)) + self._header_bounds[row - self.first_row])

    def first_above(self, limit_bytes: int) -> int:
        """Return the first row whose `size_upper_bound` is above a limit, or -1."""
        for row in range(self.first_row, self.first_row + self.row_count):
            if self.size_upper_bound(row) > limit_bytes:
                return row
        return -1

    def turn_count(self, partitions: array[int]) -> int:
        """Return how many rows have neither a partition nor a key."""
        self._ensure_inside(len(partitions))
        return sum(1 for index, key in enumerate(self._keys) if key is None and partitions[self.first_row + index] < 0)

    def assign(self, partitions: array[int], partition_count: int, available: array[int], first_turn: int) -> None:
        """Choose the partition of each row that has none (below 0), as DefaultPartitioner does.

        Args:
            partitions: The call's partitions; written to.
            partition_count: How many the topic has.
            available: Those that keyless rows go to, in turns.
            first_turn: The counter's value for the first such row.
        """
        if partition_count < 1 or not available:
            raise ValueError("there is no partition to choose")
        self._ensure_inside(len(partitions))
        for index, key in enumerate(self._keys, self.first_row):
            if partitions[index] >= 0:
                continue
            if key is None:
                partitions[index] = available[(first_turn & _POSITIVE_MASK) % len(available)]
                first_turn += 1
            else:
                partitions[index] = (murmur2(key) & _POSITIVE_MASK) % partition_count

    def append_to(self, batch: Any, timestamps: array[int], order: array[int], start: int,
                  end: int) -> tuple[int, int]:
        """Encode rows into a batch until it has no room.

        Args:
            batch: An OpenBatch of the same twin. Closed, it takes no row; empty, it takes at least one.
            timestamps: The call's timestamps.
            order: The call's rows in some order.
            start: Where in `order` to begin.
            end: Where in `order` to end.

        Returns:
            The index in the batch of the first row that was added, and how many were.

        Raises:
            MemoryError: There is none for the first of them. None was added.
        """
        first = batch.record_count
        try:
            self._append_rows(batch, timestamps, order, start, end)
        except MemoryError:
            if batch.record_count == first:
                raise
        return first, batch.record_count - first  # whoever waits for rows that are there must be told of them

    def _append_rows(self, batch: Any, timestamps: array[int], order: array[int], start: int, end: int) -> None:
        if batch.is_closed:
            return
        self._ensure_inside(len(timestamps))
        if not 0 <= start <= end <= len(order):
            raise ValueError("the part of the order does not exist")
        buffer, limit_bytes = batch.buffer, batch.write_limit_bytes
        for row in order[start:end]:
            index = row - self.first_row
            if not 0 <= index < self.row_count:
                raise IndexError("the row is not in this chunk")
            key, value = self._keys[index], self._values[index]
            size_bytes, count, max_timestamp = batch.end
            if count and (size_bytes + RECORD_OVERHEAD_BYTES + (-1 if key is None else len(key))
                          + (-1 if value is None else len(value)) + self._header_bounds[index]) > limit_bytes:
                break
            timestamp = timestamps[row]
            if not count:
                batch.base_timestamp = max_timestamp = timestamp
            elif timestamp > max_timestamp:
                max_timestamp = timestamp
            body = b"".join((b"\x00", varint(timestamp - batch.base_timestamp), varint(count),
                             varint(-1 if key is None else len(key)), key or b"",
                             varint(-1 if value is None else len(value)), value or b"",
                             self._headers[index] or b"\x00"))
            buffer += varint(len(body))
            buffer += body
            batch.end = (len(buffer), count + 1, max_timestamp)

    def _ensure_inside(self, length: int) -> None:
        if self.first_row < 0 or self.first_row + self.row_count > length:
            raise ValueError("the chunk is longer than the call")


def sort_rows(partitions: array[int], first_row: int, row_count: int,
              partition_count: int) -> tuple[array[int], array[int]]:
    """Order rows by partition, and by number within one.

    Args:
        partitions: The call's partitions; rows with one that the topic does not have are left out.
        first_row: The first row to look at.
        row_count: How many rows.
        partition_count: How many partitions the topic has.

    Returns:
        The rows in order (the end of it unused where rows are left out), and for each partition where it begins there;
        one number more says where the last one ends.
    """
    if not 0 <= first_row <= first_row + row_count <= len(partitions):
        raise ValueError("the rows do not exist")
    rows_of: list[list[int]] = [[] for _ in range(partition_count)]
    for row in range(first_row, first_row + row_count):
        if 0 <= partitions[row] < partition_count:
            rows_of[partitions[row]].append(row)
    order, starts = array("i"), array("q", [0])
    for rows in rows_of:
        order.extend(rows)
        starts.append(len(order))
    order.extend([0] * (row_count - len(order)))
    return order, starts


def store_rows(offsets: array[int], timestamps: array[int], order: array[int], start: int, count: int, offset: int,
               log_append_time: int) -> None:
    """Write where rows are stored into the call's arrays.

    Args:
        offsets: The call's offsets; written to.
        timestamps: The call's timestamps; written to where the broker gave a time.
        order: The call's rows in some order.
        start: Where in `order` the rows begin.
        count: How many.
        offset: Offset of the first; the others follow. Below 0 when it is not known.
        log_append_time: The broker's time in epoch ms, or -1 where the rows' own timestamps hold.
    """
    if not 0 <= start <= start + count <= len(order):
        raise ValueError("the part of the order does not exist")
    for position, row in enumerate(order[start:start + count]):
        if not 0 <= row < len(offsets) or row >= len(timestamps):
            raise IndexError("the row does not exist")
        offsets[row] = offset + position if offset >= 0 else -1
        if log_append_time >= 0:
            timestamps[row] = log_append_time


def _validity(bitmap: Any, offset: int, length: int) -> list[bool] | None:
    if bitmap is None or not length:
        return None
    view = memoryview(bitmap).cast("B")
    _ensure_size(len(view), (offset + length + 7) // 8)
    return [bool(view[row >> 3] >> (row & 7) & 1) for row in range(offset, offset + length)]


def _numbers(buffer: Any, form: str, offset: int, length: int) -> tuple[int, ...]:
    view = memoryview(b"" if buffer is None else buffer).cast("B")
    width = struct.calcsize(form)
    _ensure_size(len(view), (offset + length) * width)
    return struct.unpack_from(f"={length}{form}", view, offset * width)


def _ensure_size(size_bytes: int, needed_bytes: int) -> None:
    if size_bytes < needed_bytes:
        raise ValueError("the Arrow array is broken: a buffer is shorter than its length says")
