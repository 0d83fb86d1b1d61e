"""One segment of a log: a file of batches and the sparse indexes that find them.

Road:    log -> [segment] -> disk
Thread:  append and roll under the partition's lock; reading by any thread without one: the file and the
         index lists only grow, and `size_bytes` is set after the bytes are in the file.
Shape:   <base offset, 20 digits>.log, .index, .timeindex, as Kafka names and fills them. The indexes live in
         memory and are written when the segment is closed or rolled; they are rebuilt from the log at start.
Source:  Java LogSegment, OffsetIndex, TimeIndex, FileRecords (4.1).
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from pathlib import Path

from pyproducer.broker.storage.batch_header import OVERHEAD_STRUCT, BatchHeader, read_header
from pyproducer.broker.storage.file_handle import FileHandle
from pyproducer.record.layout import HEADER_SIZE_BYTES, LOG_OVERHEAD_BYTES, Buffer

# Reading headers one by one costs a system call each; 64 KiB at once holds several batches of the usual 16 KiB
# and hundreds of small ones.
SCAN_CHUNK_BYTES = 64 * 1024

_OFFSET_ENTRY = struct.Struct(">ii")
_TIME_ENTRY = struct.Struct(">qi")


def segment_file_name(base_offset: int, suffix: str) -> str:
    """Return Kafka's name of a segment's file, for instance 00000000000000000000.log."""
    return f"{base_offset:020d}{suffix}"


class LogSegment:
    """A file of batches with consecutive offsets from `base_offset`."""

    def __init__(self, directory: Path, base_offset: int, *, index_interval_bytes: int) -> None:
        self.base_offset = base_offset
        self.directory = directory
        self.path = directory / segment_file_name(base_offset, ".log")
        self.file = FileHandle(self.path)
        self.size_bytes = 0
        self.max_timestamp = -1
        self._index_interval_bytes = index_interval_bytes
        # Three columns of one sparse index; entry i is the batch at _positions[i], and _timestamps[i] is the
        # largest timestamp of the batches *before* it.
        self._offsets: list[int] = []
        self._positions: list[int] = []
        self._timestamps: list[int] = []
        self._indexed_up_to = -index_interval_bytes

    def append(self, chunks: Sequence[Buffer], *, size_bytes: int, base_offset: int, max_timestamp: int) -> None:
        """Write one batch at the end."""
        self.file.write(self.size_bytes, chunks, size_bytes)
        self.note(size_bytes=size_bytes, base_offset=base_offset, max_timestamp=max_timestamp)

    def note(self, *, size_bytes: int, base_offset: int, max_timestamp: int) -> None:
        """Enter the batch that lies at the end of the known part into the indexes."""
        position = self.size_bytes
        if position - self._indexed_up_to >= self._index_interval_bytes:
            # Readers bisect _offsets first: its entry must come last.
            self._timestamps.append(self.max_timestamp)
            self._positions.append(position)
            self._offsets.append(base_offset)
            self._indexed_up_to = position
        self.max_timestamp = max(self.max_timestamp, max_timestamp)
        self.size_bytes = position + size_bytes

    def position_of(self, offset: int) -> int:
        """Return where the batch that holds `offset`, or the next one after it, starts; the end if there is none."""
        entry = bisect_right(self._offsets, offset) - 1
        if entry < 0:
            return 0
        if self._offsets[entry] == offset:
            return self._positions[entry]
        for position, header in self.headers(self._positions[entry]):
            if header.last_offset >= offset:
                return position
        return self.size_bytes

    def whole_batches_end(self, start: int, limit: int, data: bytes) -> int:
        """Return how many of the bytes read from `start` are whole batches.

        Args:
            start: Position of the first byte of `data`, the start of a batch.
            limit: Position after the last byte of `data`.
            data: What was read.
        """
        entry = bisect_right(self._positions, limit, hi=len(self._offsets)) - 1
        position = max(self._positions[entry] - start, 0) if entry >= 0 else 0
        size_bytes = len(data)
        while position + LOG_OVERHEAD_BYTES <= size_bytes:
            batch_end = position + LOG_OVERHEAD_BYTES + OVERHEAD_STRUCT.unpack_from(data, position)[1]
            if batch_end > size_bytes:
                break
            position = batch_end
        return position

    def batch_size_at(self, position: int) -> int:
        """Return the size of the batch that starts at `position`."""
        length: int = OVERHEAD_STRUCT.unpack(self.file.read(position, LOG_OVERHEAD_BYTES))[1]
        return length + LOG_OVERHEAD_BYTES

    def headers(self, position: int = 0) -> Iterator[tuple[int, BatchHeader]]:
        """Walk the batch headers from `position` to the known end of the segment."""
        end = self.size_bytes
        chunk_start, chunk = position, b""
        while position + HEADER_SIZE_BYTES <= end:
            if position + HEADER_SIZE_BYTES > chunk_start + len(chunk):
                chunk_start = position
                chunk = self.file.read(position, min(SCAN_CHUNK_BYTES, end - position))
            header = read_header(chunk, position - chunk_start)
            yield position, header
            position += header.size_bytes

    def position_before_timestamp(self, timestamp: int) -> int:
        """Return a position with no batch of this or a later timestamp before it."""
        # _timestamps never falls, so the entries before the first one that reaches `timestamp` are all older.
        low, high = 0, len(self._offsets)
        while low < high:
            middle = (low + high) // 2
            if self._timestamps[middle] < timestamp:
                low = middle + 1
            else:
                high = middle
        return self._positions[low - 1] if low else 0

    def write_indexes(self) -> None:
        """Write .index and .timeindex as Kafka would have them at close.

        Entry 0 of Kafka's offset index is the first batch after the first interval, so ours leaves out position 0.
        """
        entries = list(zip(self._offsets, self._positions, self._timestamps, strict=True))[1:]
        index = b"".join(_OFFSET_ENTRY.pack(offset - self.base_offset, position) for offset, position, _ in entries)
        (self.directory / segment_file_name(self.base_offset, ".index")).write_bytes(index)
        newest = self.batch_with_max_timestamp()
        time_index = b"" if newest is None else _TIME_ENTRY.pack(newest.max_timestamp,
                                                                 newest.last_offset - self.base_offset)
        (self.directory / segment_file_name(self.base_offset, ".timeindex")).write_bytes(time_index)

    def batch_with_max_timestamp(self) -> BatchHeader | None:
        """Return the first batch that holds the largest timestamp: the entry that Kafka always writes at close."""
        for _, header in self.headers(self.position_before_timestamp(self.max_timestamp)):
            if header.max_timestamp == self.max_timestamp:
                return header
        return None

    def close(self) -> None:
        """Write the indexes and close the file."""
        self.write_indexes()
        self.file.close()
