"""One segment of a log: a file of batches and the sparse indexes that find them.

Road:    log -> [segment] -> disk
Thread:  append and roll under the partition's lock; reading by any thread without one: the file and the
         index lists only grow, and `size_bytes` is set after the bytes are in the file.
Shape:   <base offset, 20 digits>.log, .index, .timeindex, as Kafka names and fills them. The indexes live in
         memory and are written when the segment is closed or rolled; they are rebuilt from the log at start.
Source:  Java LogSegment, OffsetIndex, TimeIndex, FileRecords (4.1).
"""

from __future__ import annotations

import logging
import struct
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from pathlib import Path

from pyproducer.broker.storage.batch_header import OVERHEAD_STRUCT, BatchHeader, read_header
from pyproducer.broker.storage.file_handle import FileHandle
from pyproducer.record.layout import HEADER_SIZE_BYTES, LOG_OVERHEAD_BYTES, Buffer

_logger = logging.getLogger(__name__)
# Reading headers one by one costs a system call each; 64 KiB at once holds several batches of the usual 16 KiB
# and hundreds of small ones.
SCAN_CHUNK_BYTES = 64 * 1024

_OFFSET_ENTRY = struct.Struct(">ii")
_TIME_ENTRY = struct.Struct(">qi")


def segment_file_name(base_offset: int, suffix: str) -> str:
    """Return Kafka's name of a segment's file, for instance 00000000000000000000.log."""
    return f"{base_offset:020d}{suffix}"


def remove_segment_files(directory: Path, base_offset: int) -> None:
    """Remove all files of a segment."""
    for suffix in (".log", ".index", ".timeindex", ".txnindex"):
        (directory / segment_file_name(base_offset, suffix)).unlink(missing_ok=True)


class LogSegment:
    """A file of batches with consecutive offsets from `base_offset`."""

    def __init__(self, directory: Path, base_offset: int, *, index_interval_bytes: int) -> None:
        self.base_offset = base_offset
        self.directory = directory
        self.path = directory / segment_file_name(base_offset, ".log")
        self.file = FileHandle(self.path)
        self.size_bytes = 0
        self.max_timestamp = -1
        self.first_timestamp = -1  # of the first batch, its largest one: what segment.ms counts from
        self._index_interval_bytes = index_interval_bytes
        # Three columns of one sparse index; entry i is the batch at _positions[i], and _timestamps[i] is the
        # largest timestamp of the batches *before* it.
        self._offsets: list[int] = []
        self._positions: list[int] = []
        self._timestamps: list[int] = []
        # What Kafka's files have: (last offset, position) of indexed batches without the one at 0, and
        # (timestamp, last offset of the first batch that has it) when the largest timestamp was a new one.
        self._offset_entries: list[tuple[int, int]] = []
        self._time_entries: list[tuple[int, int]] = []
        self._max_timestamp_offset = -1
        self._indexed_up_to = -index_interval_bytes

    def append(self, chunks: Sequence[Buffer], *, size_bytes: int, base_offset: int, last_offset: int,
               max_timestamp: int) -> None:
        """Write one batch at the end."""
        self.file.write(self.size_bytes, chunks, size_bytes)
        self.note(size_bytes=size_bytes, base_offset=base_offset, last_offset=last_offset, max_timestamp=max_timestamp)

    def note(self, *, size_bytes: int, base_offset: int, last_offset: int, max_timestamp: int) -> None:
        """Enter the batch that lies at the end of the known part into the indexes."""
        position = self.size_bytes
        largest = self.max_timestamp
        if max_timestamp > largest:
            largest = max_timestamp
            self._max_timestamp_offset = last_offset
        if position - self._indexed_up_to >= self._index_interval_bytes:
            # Readers bisect _offsets first: its entry must come last.
            self._timestamps.append(self.max_timestamp)
            self._positions.append(position)
            self._offsets.append(base_offset)
            self._indexed_up_to = position
            if position:
                self._offset_entries.append((last_offset, position))
                self._note_time(largest)
            else:
                self.first_timestamp = max_timestamp
        self.max_timestamp = largest
        self.size_bytes = position + size_bytes

    def note_header(self, header: BatchHeader) -> None:
        """Enter a batch that is in the file already; see `note`."""
        self.note(size_bytes=header.size_bytes, base_offset=header.base_offset, last_offset=header.last_offset,
                  max_timestamp=header.max_timestamp)

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

    def headers(self, position: int = 0, end: int | None = None) -> Iterator[tuple[int, BatchHeader]]:
        """Walk the batch headers from `position` to `end`, without it to the known end of the segment."""
        if end is None:
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
        """Write .index and .timeindex as Kafka has them when a segment is full: the newest time is always in."""
        base_offset = self.base_offset
        if self.size_bytes:
            self._note_time(self.max_timestamp)
        index = b"".join(_OFFSET_ENTRY.pack(offset - base_offset, position)
                         for offset, position in self._offset_entries)
        (self.directory / segment_file_name(base_offset, ".index")).write_bytes(index)
        time_index = b"".join(_TIME_ENTRY.pack(timestamp, offset - base_offset)
                              for timestamp, offset in self._time_entries)
        (self.directory / segment_file_name(base_offset, ".timeindex")).write_bytes(time_index)

    def _note_time(self, timestamp: int) -> None:
        if timestamp > (self._time_entries[-1][0] if self._time_entries else -1):
            self._time_entries.append((timestamp, self._max_timestamp_offset))

    def largest_timestamp_ms(self) -> int:
        """Return the largest timestamp of a record, or when the file was last written where records have none."""
        return self.max_timestamp if self.max_timestamp >= 0 else int(self.path.stat().st_mtime * 1000)

    def batch_with_max_timestamp(self) -> BatchHeader | None:
        """Return the first batch that holds the largest timestamp: the entry that Kafka always writes at close."""
        for _, header in self.headers(self.position_before_timestamp(self.max_timestamp)):
            if header.max_timestamp == self.max_timestamp:
                return header
        return None

    def delete(self) -> None:
        """Remove the files; the log file's bytes stay while somebody reads them."""
        remove_segment_files(self.directory, self.base_offset)

    def cut_leftovers(self) -> None:
        """Cut what a failed write has left behind the last batch.

        Raises:
            OSError: It cannot be done now.
        """
        self.file.cut_leftovers(self.size_bytes)

    def close(self) -> bool:
        """Write the indexes and close the file; return whether it ends with its last batch."""
        is_whole = True
        try:
            self.cut_leftovers()
        except OSError as error:
            is_whole = False
            _logger.warning("What a failed write has left in %s could not be cut: %s", self.path, error)
        try:
            self.write_indexes()
        except OSError as error:  # the next start makes them anew
            _logger.warning("The indexes of %s were not written: %s", self.path, error)
        self.file.close()
        return is_whole
