"""One partition's log: a directory of segments to which batches are appended and from which they are read.

Road:    Produce -> [log] -> segment -> disk; disk -> [log] -> Fetch
Thread:  one lock guards appending, rolling and producer state. Reading takes it only to learn where a segment ends:
         segments only grow, and a file stays open while somebody reads it.
Flush:   an append is done when the operating system has the bytes (writev); nothing is synced. What was
         acknowledged survives the broker's death by any signal, not a crash of the machine. Kafka's default
         (log.flush.interval.messages unlimited) is the same.
Source:  Java UnifiedLog, LocalLog (4.1).
"""

from __future__ import annotations

import shutil
import struct
import threading
from bisect import bisect_right
from pathlib import Path
from typing import NamedTuple

from pyproducer.broker.storage.batch_header import BatchHeader, stamped_header
from pyproducer.broker.storage.producer_state import ProducerStateManager
from pyproducer.broker.storage.recovery import recover_segments
from pyproducer.broker.storage.segment import LogSegment
from pyproducer.common.error_codes import ErrorCode
from pyproducer.record.batch_reader import RecordBatch
from pyproducer.record.layout import HEADER_SIZE_BYTES, NO_PRODUCER_ID, Buffer
from pyproducer.record.validation import BatchFault

# The first 16 bytes of a batch, none of which the checksum covers: base offset, length, leader epoch.
_PATCH = struct.Struct(">qii")
# Offsets inside a segment are int32 in its index.
_MAX_RELATIVE_OFFSET = 2**31 - 1


class AppendResult(NamedTuple):
    """What happened to one batch, as the partition's response says it."""

    base_offset: int
    log_append_time_ms: int = -1
    is_duplicate: bool = False


class Log:
    """The log of one partition.

    Args:
        directory: <data_dir>/<topic>-<partition>; made when it is missing.
        segment_bytes: When a segment is full (log.segment.bytes).
        index_interval_bytes: How far index entries lie apart (log.index.interval.bytes).
    """

    def __init__(self, directory: Path, *, segment_bytes: int, index_interval_bytes: int) -> None:
        self.directory = directory
        self.segment_bytes = segment_bytes
        self._index_interval_bytes = index_interval_bytes
        self._is_closed = False
        self._lock = threading.Lock()  # guards appending: segments, producers, log_end_offset
        self.producers = ProducerStateManager()
        directory.mkdir(parents=True, exist_ok=True)
        recovered = recover_segments(directory, self.producers, index_interval_bytes=index_interval_bytes)
        self._segments = recovered.segments
        self._base_offsets = [segment.base_offset for segment in self._segments]
        self.log_start_offset = self._base_offsets[0]
        self.log_end_offset = recovered.log_end_offset

    @property
    def high_watermark(self) -> int:
        """The offset up to which all replicas have the log; there is one replica."""
        return self.log_end_offset

    @property
    def last_stable_offset(self) -> int:
        """The offset up to which no transaction is open."""
        return self.log_end_offset

    @property
    def size_bytes(self) -> int:
        """Bytes in all segments."""
        return sum(segment.size_bytes for segment in self._segments)

    def append(self, batch: RecordBatch, *, leader_epoch: int,
               log_append_time_ms: int | None = None) -> AppendResult | BatchFault:
        """Append one batch as it came, with its base offset and leader epoch patched in.

        Args:
            batch: A batch that passed `validate_batch`.
            leader_epoch: The epoch of the partition's leader.
            log_append_time_ms: The time to stamp on it, or None to keep the producer's.

        Returns:
            Where the batch is, which for a repeated batch is where it was written the first time; or why it is
            refused (epoch, sequence).
        """
        data = batch.data
        size_bytes = len(data)
        new_header = stamped_header(batch, log_append_time_ms)
        timestamp = batch.max_timestamp if log_append_time_ms is None else log_append_time_ms
        with self._lock:
            if batch.producer_id != NO_PRODUCER_ID:
                duplicate = self.producers.find_duplicate(batch)
                if duplicate is not None:
                    return AppendResult(duplicate.first_offset, duplicate.timestamp, is_duplicate=True)
                error_code = self.producers.check(batch)
                if error_code is not ErrorCode.NONE:
                    return BatchFault(error_code, _sequence_reason(batch))
            base_offset = self.log_end_offset
            segment = self._segment_for(size_bytes, base_offset + batch.last_offset_delta)
            chunks: list[Buffer] = [_PATCH.pack(base_offset, batch.batch_length, leader_epoch)]
            if new_header is None:
                chunks.append(data[_PATCH.size:])
            else:
                chunks.append(new_header[_PATCH.size:])
                chunks.append(data[HEADER_SIZE_BYTES:])
            segment.append(chunks, size_bytes=size_bytes, base_offset=base_offset, max_timestamp=timestamp)
            if batch.producer_id != NO_PRODUCER_ID:
                self.producers.update(batch, base_offset, timestamp)
            # Last: readers believe this number.
            self.log_end_offset = base_offset + batch.last_offset_delta + 1
        return AppendResult(base_offset, -1 if log_append_time_ms is None else log_append_time_ms)

    def read(self, offset: int, max_bytes: int, *, at_least_one: bool, up_to_offset: int | None = None) -> bytes:
        """Read whole batches from the one that holds `offset`, out of one segment.

        Args:
            offset: Where to start, from the log start offset to the log end offset.
            max_bytes: How many bytes at most.
            at_least_one: Return the first batch even when it alone is larger than `max_bytes`.
            up_to_offset: Leave out batches from this offset on.
        """
        log_end_offset = self.log_end_offset
        if offset >= log_end_offset or (up_to_offset is not None and offset >= up_to_offset):
            return b""
        number = max(bisect_right(self._base_offsets, offset) - 1, 0)
        segment = self._segments[number]
        end = self._published_end(segment)
        start = segment.position_of(offset)
        while start >= end and number + 1 < len(self._segments):  # the offset is behind the segment's last batch
            number += 1
            segment = self._segments[number]
            start, end = segment.position_of(offset), self._published_end(segment)
        if start >= end:
            return b""
        if up_to_offset is not None and up_to_offset < log_end_offset:
            end = min(end, segment.position_of(up_to_offset))
        limit = min(end, start + max_bytes)
        if limit < end or limit - start < HEADER_SIZE_BYTES:
            data = segment.file.read(start, limit - start) if limit > start else b""
            whole = segment.whole_batches_end(start, limit, data)
            if whole:
                return data if whole == len(data) else data[:whole]
            first = segment.batch_size_at(start) if at_least_one else 0
            return segment.file.read(start, first) if first else b""
        return segment.file.read(start, limit - start)

    def bytes_after(self, offset: int, max_bytes: int) -> int:
        """Return about how many bytes a read from `offset` could give, not above `max_bytes`."""
        if offset >= self.log_end_offset:
            return 0
        number = max(bisect_right(self._base_offsets, offset) - 1, 0)
        segments = self._segments[number:]
        size_bytes = segments[0].size_bytes - segments[0].position_of(offset)
        for segment in segments[1:]:
            if size_bytes >= max_bytes:
                break
            size_bytes += segment.size_bytes
        return min(size_bytes, max_bytes)

    def batch_for_timestamp(self, timestamp: int) -> BatchHeader | None:
        """Return the first batch with a record at or after `timestamp`, or None."""
        for segment in list(self._segments):
            if segment.max_timestamp < timestamp:
                continue
            for _, header in segment.headers(segment.position_before_timestamp(timestamp)):
                if header.max_timestamp >= timestamp:
                    return header
        return None

    def batch_with_max_timestamp(self) -> BatchHeader | None:
        """Return the first batch that holds the log's largest timestamp, or None when the log is empty."""
        segments = [segment for segment in list(self._segments) if segment.size_bytes]
        if not segments:
            return None
        return max(segments, key=lambda segment: segment.max_timestamp).batch_with_max_timestamp()

    def close(self) -> None:
        """Write the indexes and close the files; harmless when closed. Nobody may use the log any more."""
        with self._lock:
            if not self._is_closed:
                self._is_closed = True
                for segment in self._segments:
                    segment.close()

    def delete(self) -> None:
        """Remove the directory. A reader that is under way finishes with the files it has."""
        with self._lock:
            self._is_closed = True  # there is no directory to write indexes to; the last reader closes the files
            shutil.rmtree(self.directory, ignore_errors=True)
            self.log_end_offset = self.log_start_offset = 0

    def _published_end(self, segment: LogSegment) -> int:
        """Return where a segment ends, by batches that `log_end_offset` counts already.

        Without the lock a reader could return a batch whose append is under way, and a high watermark before it.
        """
        with self._lock:
            return segment.size_bytes

    def _segment_for(self, size_bytes: int, last_offset: int) -> LogSegment:
        """Return the segment that takes the next batch; a new one when it would not fit."""
        active = self._segments[-1]
        fits = active.size_bytes + size_bytes <= self.segment_bytes
        if active.size_bytes == 0 or (fits and last_offset - active.base_offset <= _MAX_RELATIVE_OFFSET):
            return active
        active.write_indexes()
        fresh = LogSegment(self.directory, self.log_end_offset, index_interval_bytes=self._index_interval_bytes)
        # Readers bisect _base_offsets: the segment must be there before its offset is.
        self._segments.append(fresh)
        self._base_offsets.append(fresh.base_offset)
        return fresh


def _sequence_reason(batch: RecordBatch) -> str:
    return (f"producer {batch.producer_id} epoch {batch.producer_epoch} sent sequence {batch.base_sequence} to "
            f"{batch.last_sequence}, which does not continue what it wrote")
