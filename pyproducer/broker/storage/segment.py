"""One segment of a log: a file of batches and the sparse indexes that find them.

Road:    log -> [segment] -> disk
Thread:  append and roll under the partition's lock; reading by any thread without one: the file and the
         index lists only grow, and `size_bytes` is set after the bytes are in the file.
Shape:   <base offset, 20 digits>.log, .index, .timeindex, as Kafka names and fills them. The index files are for
         others: they are written when the segment is sealed or closed, and nobody here reads them. What finds batches
         is in memory, made anew from the log at start: while the segment is appended to, one entry in
         index.interval.bytes, and from then on one in SCAN_CHUNK_BYTES: 24 bytes for each 64 KiB.
Source:  Java LogSegment, OffsetIndex, TimeIndex, FileRecords (4.1).
"""

from __future__ import annotations

import logging
import struct
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

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


def _has_content(path: Path, content: bytes | bytearray) -> bool:
    """Whether a file has exactly this: at a start most index files need not be written again."""
    try:
        return path.stat().st_size == len(content) and path.read_bytes() == content
    except FileNotFoundError:
        return False


def remove_segment_files(directory: Path, base_offset: int) -> None:
    """Remove all files of a segment."""
    for suffix in (".log", ".index", ".timeindex", ".txnindex"):
        (directory / segment_file_name(base_offset, suffix)).unlink(missing_ok=True)


class _Lookup(NamedTuple):
    """Three columns of one sparse index, replaced together when they are thinned; else they only grow.

    Entry i is the batch at positions[i], and timestamps[i] is the largest timestamp of the batches *before* it.
    """

    offsets: array[int]
    positions: array[int]
    timestamps: array[int]


class LogSegment:
    """A file of batches with consecutive offsets from `base_offset`.

    Args:
        directory: The log's.
        base_offset: The offset of its first record.
        index_interval_bytes: How far index entries lie apart.
        suffix: Of the file's name; another one than .log for a file that is not in its place yet.
    """

    def __init__(self, directory: Path, base_offset: int, *, index_interval_bytes: int, suffix: str = ".log") -> None:
        self.base_offset = base_offset
        self.directory = directory
        self.path: Path = directory / segment_file_name(base_offset, suffix)
        self.file: FileHandle = FileHandle(self.path)
        self.size_bytes: int = 0
        self.is_sealed: bool = False
        self.max_timestamp: int = -1
        self.first_timestamp: int = -1  # of the first batch, its largest one: what segment.ms counts from
        self._index_interval_bytes = index_interval_bytes
        self._lookup = _Lookup(array("q"), array("q"), array("q"))
        # What Kafka's files have: (last offset, position) of indexed batches without the one at 0, and
        # (timestamp, last offset of the first batch that has it) when the largest timestamp was a new one.
        self._offset_entries = bytearray()
        self._time_entries = bytearray()
        self._last_entered_timestamp = -1
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
            lookup = self._lookup
            # Readers bisect the offsets first: their entry must come last.
            lookup.timestamps.append(self.max_timestamp)
            lookup.positions.append(position)
            lookup.offsets.append(base_offset)
            self._indexed_up_to = position
            if position:
                self._offset_entries += _OFFSET_ENTRY.pack(last_offset - self.base_offset, position)
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
        lookup = self._lookup
        entry = bisect_right(lookup.offsets, offset) - 1
        if entry < 0:
            return 0
        if lookup.offsets[entry] == offset:
            return lookup.positions[entry]
        for position, header in self.headers(lookup.positions[entry]):
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
        lookup = self._lookup
        entry = bisect_right(lookup.positions, limit, hi=len(lookup.offsets)) - 1
        position = max(lookup.positions[entry] - start, 0) if entry >= 0 else 0
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
        # The column never falls, so the entries before the first one that reaches `timestamp` are all older.
        lookup = self._lookup
        first = bisect_left(lookup.timestamps, timestamp, hi=len(lookup.offsets))
        return lookup.positions[first - 1] if first else 0

    def write_indexes(self) -> None:
        """Write .index and .timeindex as Kafka has them when a segment is full: the newest time is always in.

        Raises:
            OSError: They could not be written; the next start does it.
        """
        if self.is_sealed:
            return
        if self.size_bytes:
            self._note_time(self.max_timestamp)
        for suffix, entries in ((".index", self._offset_entries), (".timeindex", self._time_entries)):
            path = self.directory / segment_file_name(self.base_offset, suffix)
            if not _has_content(path, entries):
                path.write_bytes(entries)

    def seal(self) -> None:
        """Give up what is needed only while batches are added: none will be any more; the index files are written."""
        self.is_sealed = True
        self._offset_entries, self._time_entries = bytearray(), bytearray()
        kept: list[int] = []
        lookup = self._lookup
        for entry, position in enumerate(lookup.positions):
            if not kept or position - lookup.positions[kept[-1]] >= SCAN_CHUNK_BYTES:
                kept.append(entry)
        self._lookup = _Lookup(*(array("q", [column[entry] for entry in kept]) for column in lookup))

    def try_seal(self) -> None:
        """Write the index files if that can be done, and seal."""
        self._try_write_indexes()
        self.seal()

    def _try_write_indexes(self) -> None:
        try:
            self.write_indexes()
        except OSError as error:  # the next start does it
            _logger.warning("The indexes of %s were not written: %s", self.path, error)

    def _note_time(self, timestamp: int) -> None:
        if timestamp > self._last_entered_timestamp:
            self._last_entered_timestamp = timestamp
            self._time_entries += _TIME_ENTRY.pack(timestamp, self._max_timestamp_offset - self.base_offset)

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
        self._try_write_indexes()
        self.file.close()
        return is_whole
