"""Compaction: of the closed segments only the newest record of each key is kept.

Does:    closed segments whose transactions have all ended and whose records are older than min.compaction.lag.ms, when
         enough of them is new (min.cleanable.dirty.ratio). Records keep their offsets; what is kept of a batch keeps
         its place, its producer and its codec. Records without a value go when they are older than
         delete.retention.ms; records of aborted transactions and records without a key go always. The marker of a
         transaction goes when it is older than that, too, in a later round than the last of the records before it. The
         last batch of a producer in its epoch, or without one the marker that began the epoch, stays, without records
         if need be, so that its sequence is still known after a restart; until the log has forgotten the producer.
         Small neighbours become one segment.
Differs: delete.retention.ms counts from a record's timestamp, not from its first compaction; max.compaction.lag.ms is
         no setting. All keys are held in memory.

Road:    log manager -> [compaction] -> swap -> log
Thread:  one compaction of a log at a time, beside appends and reads; the log's lock is taken only to put the new
         segments in.
Source:  Java Cleaner, LogCleanerManager, MemoryRecords.filterTo (4.1).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from pyproducer.broker.storage.batch_header import BatchHeader, read_header, with_records
from pyproducer.broker.storage.log import Log
from pyproducer.broker.storage.segment import LogSegment, segment_file_name
from pyproducer.broker.storage.swap import CLEANED_SUFFIX
from pyproducer.record.batch_reader import Record, RecordBatch
from pyproducer.record.compression import compressor_for
from pyproducer.record.decompression import CODEC_NAMES
from pyproducer.record.layout import CODEC_MASK, NO_TIMESTAMP
from pyproducer.record.record_reader import read_varint

_MAX_RELATIVE_OFFSET = 2**31 - 1


def compact(log: Log, timestamp_ms: int) -> int:
    """Compact a log if it is worth it; return how many bytes that freed.

    Args:
        log: Of a topic whose cleanup.policy has compact.
        timestamp_ms: The wall clock.
    """
    segments = _cleanable(log, timestamp_ms)
    total_bytes = sum(segment.size_bytes for segment in segments)
    dirty_bytes = sum(segment.size_bytes for segment in segments if segment.base_offset >= log.compacted_up_to)
    if not dirty_bytes or dirty_bytes <= total_bytes * log.config.min_cleanable_ratio:
        return 0
    plan = _Plan(log, segments, timestamp_ms)
    up_to_offset = log.segment_after(segments[-1])
    freed_bytes = 0
    for group in _groups(segments, log.config.segment_bytes):
        freed = _rewrite(log, group, plan)
        if freed is None:
            return freed_bytes  # segments were deleted meanwhile, or the log was: another time
        freed_bytes += freed
    log.compacted_up_to = up_to_offset
    return freed_bytes


def _cleanable(log: Log, timestamp_ms: int) -> list[LogSegment]:
    """Return the oldest closed segments that may be touched."""
    last_stable_offset = log.last_stable_offset
    lag_ms = log.config.min_compaction_lag_ms
    found: list[LogSegment] = []
    for segment in log.closed_segments():
        if log.segment_after(segment) > last_stable_offset:
            break
        if lag_ms > 0 and segment.size_bytes and timestamp_ms - segment.largest_timestamp_ms() < lag_ms:
            break
        found.append(segment)
    return found


class _Plan:
    """What is to be kept: the newest offset of each key, the last batch of each producer, markers with records."""

    def __init__(self, log: Log, segments: Sequence[LogSegment], timestamp_ms: int) -> None:
        self._oldest_tombstone_ms = timestamp_ms - log.config.delete_retention_ms
        self._aborted: dict[int, list[tuple[int, int]]] = {}
        end = log.segment_after(segments[-1])
        for producer_id, first_offset, last_offset, _ in log.aborted_transactions(segments[0].base_offset, end):
            self._aborted.setdefault(producer_id, []).append((first_offset, last_offset))
        self._newest: dict[bytes, int] = {}
        self._last_states = log.producers.last_states()
        self._bare_markers: set[int] = set()
        with_records: set[int] = set()  # producers with a batch since their last marker
        for segment in segments:
            for batch in batches_of(segment):
                if batch.is_control:
                    if batch.producer_id not in with_records:
                        self._bare_markers.add(batch.base_offset)
                    with_records.discard(batch.producer_id)
                    continue
                if batch.is_transactional:
                    with_records.add(batch.producer_id)
                if self.is_aborted(batch):
                    continue
                for record in batch:
                    if record.key is not None:
                        self._newest[record.key] = record.offset

    def is_aborted(self, batch: RecordBatch) -> bool:
        """Whether a batch belongs to a transaction that was aborted."""
        return batch.is_transactional and any(
            first_offset <= batch.base_offset <= last_offset
            for first_offset, last_offset in self._aborted.get(batch.producer_id, ()))

    def keeps(self, record: Record) -> bool:
        """Whether a record of a batch that was not aborted stays."""
        return record.key is not None and self._newest[record.key] == record.offset and (
            record.value is not None or record.timestamp >= self._oldest_tombstone_ms)

    def is_last_of_producer(self, batch: RecordBatch) -> bool:
        """Whether a batch, or a marker, is what its producer's sequence and epoch are known by."""
        last = self._last_states.get(batch.producer_id)
        if last is None:
            return False
        if batch.is_control:
            return last.last_batch_offset is None and batch.producer_epoch == last.producer_epoch
        return last.last_batch_offset == batch.base_offset

    def keeps_marker(self, batch: RecordBatch) -> bool:
        """Whether the marker of a transaction stays."""
        return (batch.base_offset not in self._bare_markers or batch.max_timestamp >= self._oldest_tombstone_ms
                or self.is_last_of_producer(batch))


def batches_of(segment: LogSegment) -> Iterator[RecordBatch]:
    """Read the batches of a segment, one at a time."""
    for position, header in segment.headers():
        yield RecordBatch(segment.file.read(position, header.size_bytes))


def _groups(segments: Sequence[LogSegment], segment_bytes: int) -> Iterator[list[LogSegment]]:
    """Give neighbours that fit into one segment together."""
    group: list[LogSegment] = []
    for segment in segments:
        if group and (sum(one.size_bytes for one in group) + segment.size_bytes > segment_bytes
                      or segment.base_offset - group[0].base_offset > _MAX_RELATIVE_OFFSET // 2):
            yield group
            group = []
        group.append(segment)
    if group:
        yield group


def _rewrite(log: Log, group: list[LogSegment], plan: _Plan) -> int | None:
    """Write what is kept of some segments as one; return the bytes freed, None when it could not be put in."""
    path: Path = log.directory / segment_file_name(group[0].base_offset, CLEANED_SUFFIX)
    before_bytes = sum(segment.size_bytes for segment in group)
    headers: list[BatchHeader] = []
    lost_markers: set[int] = set()
    try:
        with path.open("wb") as file:
            for segment in group:
                for batch in batches_of(segment):
                    kept = filtered(batch, plan)
                    if kept is not None:
                        file.write(kept)
                        headers.append(read_header(kept))
                    elif batch.is_control:
                        lost_markers.add(batch.base_offset)
        after_bytes = sum(header.size_bytes for header in headers)
        if after_bytes == before_bytes and len(group) == 1:
            return 0
        return before_bytes - after_bytes if log.replace_segments(group, headers, lost_markers) else None
    finally:
        path.unlink(missing_ok=True)


def filtered(batch: RecordBatch, plan: _Plan) -> bytes | memoryview | None:
    """Return what is kept of a batch: all of it, some records, none but its header, or nothing."""
    if batch.is_control:
        return batch.data if plan.keeps_marker(batch) else None
    kept: list[bytes] = []
    max_timestamp = NO_TIMESTAMP
    if not plan.is_aborted(batch):
        for record, encoded in zip(batch, _encoded_records(batch), strict=True):
            if plan.keeps(record):
                kept.append(encoded)
                max_timestamp = max(max_timestamp, record.timestamp)
        if len(kept) == batch.record_count and kept:
            return batch.data
    if kept:
        records = compressor_for(CODEC_NAMES[batch.codec_id], None).compress(b"".join(kept))
        return with_records(batch, records, record_count=len(kept), attributes=batch.attributes,
                            max_timestamp=max_timestamp)
    if plan.is_last_of_producer(batch):
        return with_records(batch, b"", record_count=0, attributes=batch.attributes & ~CODEC_MASK,
                            max_timestamp=batch.max_timestamp)
    return None


def _encoded_records(batch: RecordBatch) -> Iterator[bytes]:
    """Give the bytes of each record; they tell its offset and time as distances from the batch's, which stay."""
    data = batch.expanded_records()
    position = 0
    for _ in range(batch.record_count):
        length, start = read_varint(data, position)
        yield data[position:start + length]
        position = start + length
