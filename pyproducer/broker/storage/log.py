"""One partition's log: a directory of segments to which batches are appended and from which they are read.

Road:    Produce -> [log] -> segment -> disk; disk -> [log] -> Fetch
Thread:  one lock guards appending, rolling, deleting and producer state. Reading takes it only to learn where a segment
         ends: segments only grow, and a file stays open while somebody reads it.
Flush:   an append is done when the operating system has the bytes (writev); nothing is synced. What was
         acknowledged survives the broker's death by any signal, not a crash of the machine. Kafka's default
         (log.flush.interval.messages unlimited) is the same.
Source:  Java UnifiedLog, LocalLog (4.1).
"""

from __future__ import annotations

import errno
import logging
import shutil
import struct
import threading
from bisect import bisect_right
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import NamedTuple

from pyproducer.broker.storage.batch_header import BatchHeader, stamped_header
from pyproducer.broker.storage.leader_epochs import EpochEntry, LeaderEpochs
from pyproducer.broker.storage.log_config import LogConfig
from pyproducer.broker.storage.producer_state import ProducerStateManager
from pyproducer.broker.storage.recovery import note_marker, recover_segments
from pyproducer.broker.storage.retention import deletable_count
from pyproducer.broker.storage.segment import LogSegment, segment_file_name
from pyproducer.broker.storage.swap import CLEANED_SUFFIX, COMPACTED_FILE, swap_in
from pyproducer.broker.storage.transaction_index import AbortedTransaction, TransactionIndex
from pyproducer.broker.storage.validation import BatchFault
from pyproducer.common.error_codes import ErrorCode
from pyproducer.common.errors import ConfigError
from pyproducer.record.batch_reader import RecordBatch
from pyproducer.record.batch_writer import build_control_batch
from pyproducer.record.control import ControlRecordType, EndTransactionMarker
from pyproducer.record.layout import HEADER_SIZE_BYTES, NO_PRODUCER_ID, Buffer

_logger = logging.getLogger(__name__)
# The first 16 bytes of a batch, none of which the checksum covers: base offset, length, leader epoch.
_PATCH = struct.Struct(">qii")
# Offsets inside a segment are int32 in its index.
_MAX_RELATIVE_OFFSET = 2**31 - 1
# Who still has the partition of a topic that is being deleted must not write: the name may be another topic's by now.
_DELETED = BatchFault(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "the log is closed: its topic was deleted")


class AppendResult(NamedTuple):
    """What happened to one batch, as the partition's response says it."""

    base_offset: int
    log_append_time_ms: int = -1
    is_duplicate: bool = False


class Log:
    """The log of one partition.

    Args:
        directory: <data_dir>/<topic>-<partition>; made when it is missing.
        config: Its settings; may be replaced at any time.
        log_start_offset: Where DeleteRecords had moved the start to, as the checkpoint says.
        log_end_offset: Where it ended when it was closed in order, as the checkpoint says; None when that is not known.

    Raises:
        ConfigError: Records that were acknowledged are damaged or gone; no file was changed.
    """

    def __init__(self, directory: Path, config: LogConfig, *, log_start_offset: int = 0,
                 log_end_offset: int | None = None) -> None:
        self.directory: Path = directory
        self.config = config
        self._is_closed = False
        self._is_unread = False  # a cut has changed the files, and they could not be read again yet
        self._lock = threading.Lock()  # guards appending and deleting: segments, producers, epochs, the two offsets
        self.producers: ProducerStateManager = ProducerStateManager()
        self.transactions: TransactionIndex = TransactionIndex()
        self.epochs: LeaderEpochs = LeaderEpochs(directory)
        self.compacted_up_to: int = 0  # of the thread that compacts; not kept: after a start everything is new
        self._leader_epoch = -1  # of the last append: the epochs are looked at only when it changes
        directory.mkdir(parents=True, exist_ok=True)
        recovered = recover_segments(directory, self.producers, self.epochs, self.transactions,
                                     index_interval_bytes=config.index_interval_bytes,
                                     is_compacted=config.is_compacted, expected_end_offset=log_end_offset)
        # Both grow in place and are replaced together when segments go; a reader takes one pair.
        self._view = (recovered.segments, [segment.base_offset for segment in recovered.segments])
        self.log_end_offset: int = recovered.log_end_offset
        self.log_start_offset: int = max(recovered.segments[0].base_offset, min(log_start_offset, self.log_end_offset))
        self._try_forget_before_start()

    @property
    def high_watermark(self) -> int:
        """The offset up to which all replicas in sync have the log: all of it, for they share it."""
        return self.log_end_offset

    @property
    def last_stable_offset(self) -> int:
        """The offset up to which no transaction is open."""
        # In this order: whoever appends a transaction's first batch sets the unstable offset before the end.
        log_end_offset = self.log_end_offset
        first_unstable_offset = self.producers.first_unstable_offset
        if first_unstable_offset is None:
            return log_end_offset
        return min(max(first_unstable_offset, self.log_start_offset), log_end_offset)

    @property
    def size_bytes(self) -> int:
        """Bytes in all segments."""
        return sum(segment.size_bytes for segment in self._view[0])

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

        Raises:
            OSError: Nothing was written.
        """
        new_header = stamped_header(batch, log_append_time_ms)
        timestamp = batch.max_timestamp if log_append_time_ms is None else log_append_time_ms
        with self._lock:
            if self._is_closed:
                return _DELETED
            if self._is_unread:
                self._retry_reading()
            if batch.producer_id != NO_PRODUCER_ID and (known := self._duplicate_or_fault(batch)) is not None:
                return known
            base_offset = self._write(batch, new_header, timestamp, leader_epoch)
            if batch.producer_id != NO_PRODUCER_ID:
                self.producers.update(batch, base_offset, timestamp)
            # Last: readers believe this number.
            self.log_end_offset = base_offset + batch.last_offset_delta + 1
        return AppendResult(base_offset, -1 if log_append_time_ms is None else log_append_time_ms)

    def note_attempt(self, header: BatchHeader, timestamp_ms: int) -> None:
        """Remember that a batch of a transaction is to be appended: none behind it may be its producer's first here."""
        with self._lock:
            self.producers.note_attempt(header, timestamp_ms)

    def pretend_append(self, batch: RecordBatch, *, log_append_time_ms: int | None = None) -> AppendResult | BatchFault:
        """Do what `append` does, but write nothing: for a fault that lies. The producer's next batch fits."""
        timestamp = batch.max_timestamp if log_append_time_ms is None else log_append_time_ms
        with self._lock:
            if self._is_unread:
                self._retry_reading()
            base_offset = self.log_end_offset
            if batch.producer_id != NO_PRODUCER_ID:
                known = self._duplicate_or_fault(batch)
                if known is not None:
                    return known
                self.producers.update(batch, base_offset, timestamp)
        return AppendResult(base_offset, -1 if log_append_time_ms is None else log_append_time_ms)

    def _duplicate_or_fault(self, batch: RecordBatch) -> AppendResult | BatchFault | None:
        """Return where a producer's repeated batch is, or why its epoch or sequence is refused. With the lock held."""
        duplicate = self.producers.find_duplicate(batch)
        if duplicate is not None:
            return AppendResult(duplicate.first_offset, duplicate.timestamp, is_duplicate=True)
        error_code = self.producers.check(batch)
        return None if error_code is ErrorCode.NONE else BatchFault(error_code, _sequence_reason(batch))

    def append_marker(self, control_type: ControlRecordType, *, producer_id: int, producer_epoch: int,
                      coordinator_epoch: int, leader_epoch: int, timestamp_ms: int) -> AppendResult | BatchFault:
        """Append the marker that ends a producer's transaction here.

        Args:
            control_type: How it ends.
            producer_id: Whose it is.
            producer_epoch: Since Transactions V2 the one that the producer goes on with.
            coordinator_epoch: Of the coordinator that says so.
            leader_epoch: The epoch of the partition's leader.
            timestamp_ms: The wall clock.

        Returns:
            Where it is; or why it is refused: producer or coordinator are old ones.

        Raises:
            OSError: Nothing was written.
        """
        batch = RecordBatch(build_control_batch(control_type, producer_id=producer_id, producer_epoch=producer_epoch,
                                                coordinator_epoch=coordinator_epoch, timestamp=timestamp_ms))
        with self._lock:
            if self._is_closed:
                return _DELETED
            if self._is_unread:
                self._retry_reading()
            error_code = self.producers.check_marker(producer_id, producer_epoch, coordinator_epoch)
            if error_code is not ErrorCode.NONE:
                return BatchFault(error_code, f"a marker of producer {producer_id} with epoch {producer_epoch} from a "
                                              f"coordinator of epoch {coordinator_epoch} comes too late")
            base_offset = self._write(batch, None, timestamp_ms, leader_epoch)
            self.log_end_offset = base_offset + 1
            note_marker(self.producers, self.transactions, batch,
                        EndTransactionMarker(control_type, coordinator_epoch), base_offset)
        return AppendResult(base_offset)

    def aborted_transactions(self, fetch_offset: int, up_to_offset: int) -> list[AbortedTransaction]:
        """Return the aborted transactions with records from one offset to (without) the other.

        Ask after the last stable offset was: what it counts as stable is then listed here.
        """
        return self.transactions.collect(fetch_offset, up_to_offset)

    def read(self, offset: int, max_bytes: int, *, at_least_one: bool, up_to_offset: int | None = None) -> bytes:
        """Read whole batches from the one that holds `offset`, out of one segment.

        Args:
            offset: Where to start, from the log start offset to the log end offset.
            max_bytes: How many bytes at most.
            at_least_one: Return the first batch even when it alone is larger than `max_bytes`.
            up_to_offset: Leave out batches from this offset on.

        Raises:
            OSError: It cannot be read now.
        """
        self._ensure_read()
        log_end_offset = self.log_end_offset
        if offset >= log_end_offset or (up_to_offset is not None and offset >= up_to_offset):
            return b""
        segments, base_offsets = self._view
        number = max(bisect_right(base_offsets, offset) - 1, 0)
        segment = segments[number]
        end = self._published_end(segment)
        start = segment.position_of(offset)
        while start >= end and number + 1 < len(segments):  # the offset is behind the segment's last batch
            number += 1
            segment = segments[number]
            start, end = segment.position_of(offset), self._published_end(segment)
        if up_to_offset is not None:  # also when it was the end: there may be a batch behind it by now
            end = min(end, segment.position_of(up_to_offset))
        if start >= end:  # compaction may have left nothing in between
            return b""
        limit = min(end, start + max_bytes)
        if limit < end or limit - start < HEADER_SIZE_BYTES:
            data = segment.file.read(start, limit - start) if limit > start else b""
            whole = segment.whole_batches_end(start, limit, data)
            if whole:
                return data if whole == len(data) else data[:whole]
            first = segment.batch_size_at(start) if at_least_one else 0
            return segment.file.read(start, first) if first else b""
        return segment.file.read(start, limit - start)

    def bytes_after(self, offset: int, max_bytes: int, *, up_to_offset: int | None = None) -> int:
        """Return about how many bytes a read from `offset` could give, not above `max_bytes`; 0 when it gives none.

        Bytes from `up_to_offset` on do not count.
        """
        if offset >= (self.log_end_offset if up_to_offset is None else up_to_offset):
            return 0
        segments, base_offsets = self._view
        first = max(bisect_right(base_offsets, offset) - 1, 0)
        last = len(base_offsets) - 1
        if up_to_offset is not None:
            last = bisect_right(base_offsets, up_to_offset, lo=first + 1) - 1
        size_bytes = -segments[first].position_of(offset)
        for segment in segments[first:last]:
            size_bytes += segment.size_bytes
            if size_bytes >= max_bytes:
                return max_bytes
        end = segments[last].size_bytes if up_to_offset is None else segments[last].position_of(up_to_offset)
        return min(size_bytes + end, max_bytes)

    def batches_for_timestamp(self, timestamp: int) -> Iterator[BatchHeader]:
        """Give the batches with a record at or after `timestamp`, which may lie before the log's start in the first."""
        self._ensure_read()
        for segment in list(self._view[0]):
            if segment.max_timestamp < timestamp:
                continue
            for _, header in segment.headers(segment.position_before_timestamp(timestamp)):
                if header.max_timestamp >= timestamp and header.last_offset >= self.log_start_offset:
                    yield header

    def batch_with_max_timestamp(self) -> BatchHeader | None:
        """Return the first batch that holds the log's largest timestamp, or None when the log is empty."""
        self._ensure_read()
        segments = [segment for segment in list(self._view[0]) if segment.size_bytes]
        if not segments:
            return None
        return max(segments, key=lambda segment: segment.max_timestamp).batch_with_max_timestamp()

    def end_offset_for_epoch(self, epoch: int, leader_epoch: int) -> EpochEntry:
        """Return the largest epoch not above `epoch` and where it ends; -1 and -1 when it is not known.

        Args:
            epoch: What the client asks for.
            leader_epoch: The leader's, which begins at the end of the log when it has no record yet.
        """
        with self._lock:
            self.epochs.assign(leader_epoch, self.log_end_offset)
            return self.epochs.end_offset_for(epoch, self.log_end_offset)

    # ---- deleting

    def increment_log_start_offset(self, offset: int) -> int:
        """Serve nothing before `offset` any more, and delete the segments that lie before it; return the start.

        Args:
            offset: At most the high watermark; one not above the present start changes nothing.
        """
        with self._lock:
            if offset > self.log_start_offset and not self._is_closed:
                self.log_start_offset = min(offset, self.log_end_offset)
                self._forget_before_start()
        self.delete_old_segments(None)
        return self.log_start_offset

    def delete_old_segments(self, timestamp_ms: int | None) -> int:
        """Delete the oldest segments that nothing holds any more; return how many.

        Readers that are under way finish with the files they have.

        Args:
            timestamp_ms: The wall clock, for retention; None deletes only what lies before the log's start.
        """
        with self._lock:
            segments, _ = self._view
            count = 0 if self._is_closed or self._is_unread else deletable_count(
                segments, self.config, log_start_offset=self.log_start_offset, timestamp_ms=timestamp_ms)
            if not count:
                return 0
            if count == len(segments):
                try:
                    self._roll()
                except OSError:  # the disk may be full: the space of the others comes first
                    count -= 1
                    if not count:
                        raise
            removed, kept = segments[:count], segments[count:]
            # First: a reader that finds the old start in the new view would read from somewhere else.
            self.log_start_offset = max(self.log_start_offset, kept[0].base_offset)
            self._view = (kept, [segment.base_offset for segment in kept])
            for segment in removed:
                segment.delete()
            self._forget_before_start()  # writes: where the disk is full, the space comes first
        return count

    def truncate_to(self, offset: int) -> int:
        """Forget all from an offset on, as where a replica leads that does not have it; return how many offsets.

        A batch that holds the offset goes as a whole. What the log knows of producers, transactions and epochs is read
        again from what is left. Where that fails nothing is read or written until it is done: what is in memory is of
        files that are no more, and a batch written by it would leave a hole before itself.

        Raises:
            ConfigError: What is left is damaged.
            OSError: The files cannot be cut, or not be read again.
        """
        with self._lock:
            if self._is_closed:
                return 0
            if self._is_unread:
                self._read_again()
            end = self.log_end_offset
            offset = max(offset, self.log_start_offset)
            if offset >= end:
                return 0
            segments, _ = self._view
            number = max(bisect_right([segment.base_offset for segment in segments], offset) - 1, 0)
            self.log_end_offset = offset  # first: nobody begins to read there any more
            self._is_unread = True
            try:
                self._cut(segments[number], segments[number + 1:], offset)
            finally:
                self._read_again()
            return end - self.log_end_offset

    def _cut(self, segment: LogSegment, later: list[LogSegment], offset: int) -> None:
        """Cut a segment, and remove those behind it from the end on, so that a death in between leaves a log.

        Where offsets are missing in it, it can not be the last one: the next one stays, empty, and begins where the log
        ends then.
        """
        position = segment.position_of(offset)
        spare = later.pop(0) if later and (self.directory / COMPACTED_FILE).exists() else None
        for one in reversed(later):
            one.delete()
        if spare is None:
            segment.file.truncate(position)
            return
        first_lost = next((header.base_offset for _, header in segment.headers(position)), offset)
        end = min(offset, first_lost)  # a batch that holds the offset goes as a whole
        spare.file.truncate(0)
        segment.file.truncate(position)
        if end > segment.base_offset:
            spare.path.rename(self.directory / segment_file_name(end, ".log"))
        spare.delete()

    def _read_again(self) -> None:
        """Know what the files say, and nothing else. With the lock held."""
        producers, transactions, epochs = ProducerStateManager(), TransactionIndex(), LeaderEpochs(self.directory)
        recovered = recover_segments(self.directory, producers, epochs, transactions,
                                     index_interval_bytes=self.config.index_interval_bytes,
                                     is_compacted=self.config.is_compacted)
        self._view = (recovered.segments, [segment.base_offset for segment in recovered.segments])
        self.producers, self.transactions, self.epochs = producers, transactions, epochs
        self.log_end_offset = recovered.log_end_offset
        self._leader_epoch = -1
        self.compacted_up_to = min(self.compacted_up_to, self.log_end_offset)
        self._is_unread = False
        self._try_forget_before_start()

    def _retry_reading(self) -> None:
        """Read the files that a cut has left, which could not be done then. With the lock held.

        Raises:
            OSError: It cannot be done now either; the next one who needs the log tries again.
        """
        try:
            self._read_again()
        except ConfigError as error:  # for who appends or reads it is a disk that fails, too
            raise OSError(errno.EIO, str(error)) from error

    def _ensure_read(self) -> None:
        if self._is_unread:
            with self._lock:
                if self._is_unread and not self._is_closed:
                    self._retry_reading()

    def remove_expired_producers(self, timestamp_ms: int, expiration_ms: int) -> int:
        """Forget producers that have not written for so long; return how many."""
        with self._lock:
            return self.producers.remove_expired(timestamp_ms, expiration_ms)

    # ---- compaction

    def closed_segments(self) -> list[LogSegment]:
        """Return the segments that are not appended to any more; none while what a cut has left is not known."""
        return [] if self._is_unread else self._view[0][:-1]

    def segment_after(self, segment: LogSegment) -> int:
        """Return the base offset of the segment after one, which is the offset after its last; the end for none."""
        _, base_offsets = self._view
        number = bisect_right(base_offsets, segment.base_offset)
        return base_offsets[number] if number < len(base_offsets) else self.log_end_offset

    def replace_segments(self, old: list[LogSegment], headers: list[BatchHeader],
                         lost_markers: Collection[int] = ()) -> bool:
        """Put the cleaned file of closed neighbours in their place; False when they are not all there any more.

        Readers that are under way finish with the files they have.

        Args:
            old: The neighbours.
            headers: The batches of the cleaned file.
            lost_markers: Offsets of markers that are not in it any more; no record of their transactions is.
        """
        with self._lock:
            segments, _ = self._view
            if self._is_closed or self._is_unread or old[0] not in segments:
                return False
            at = segments.index(old[0])
            if segments[at:at + len(old)] != old:
                return False
            # Opened before it takes their place: then nothing that can fail lies between that and the new view.
            fresh = LogSegment(self.directory, old[0].base_offset, suffix=CLEANED_SUFFIX,
                               index_interval_bytes=self.config.index_interval_bytes)
            for header in headers:
                fresh.note_header(header)
            swap_in(self.directory, [segment.base_offset for segment in old])
            fresh.path = fresh.file.path = old[0].path
            kept = [*segments[:at], fresh, *segments[at + len(old):]]
            self._view = (kept, [segment.base_offset for segment in kept])
            # Last: who reads the new file and the old index would skip what follows the marker.
            self.transactions.forget(lost_markers)
            fresh.try_seal()
        return True

    def close(self) -> bool:
        """Write the indexes and close the files; harmless when closed. Nobody may use the log any more.

        Returns:
            Whether the files end where the log does: False when what a failed write has left could not be cut, or what
            a cut has left could not be read.
        """
        with self._lock:
            if self._is_closed:
                return True
            self._is_closed = True
            if self._is_unread:  # the indexes are those of files that are no more
                for segment in self._view[0]:
                    segment.file.close()
                return False
            is_whole = True
            for segment in self._view[0]:
                is_whole &= segment.close()
            try:
                self._write_transaction_index()
            except OSError as error:
                _logger.warning("The index of aborted transactions in %s was not written: %s", self.directory, error)
        return is_whole

    def set_aside(self, directory: Path) -> None:
        """Take nothing any more, and leave the name of the directory to a topic that is made anew.

        Args:
            directory: The new name, which nobody else has.
        """
        with self._lock:
            self._is_closed = True
            self.log_end_offset = self.log_start_offset = 0
            try:
                self.directory.rename(directory)
                self.directory = directory
            except OSError as error:  # what must not be is that the files stay under this name
                _logger.warning("%s could not be renamed, and is removed at once: %s", self.directory, error)
                shutil.rmtree(self.directory, ignore_errors=True)

    def delete(self) -> None:
        """Remove the directory. A reader that is under way finishes with the files it has."""
        with self._lock:
            self._is_closed = True  # there is no directory to write indexes to; the last reader closes the files
            shutil.rmtree(self.directory, ignore_errors=True)
            self.log_end_offset = self.log_start_offset = 0

    def _write(self, batch: RecordBatch, new_header: bytes | None, timestamp: int, leader_epoch: int) -> int:
        """Write a batch at the end; return its offset. `log_end_offset` stays, for the caller to publish the batch.

        All that can fail comes before the batch is counted: what raises has written nothing.
        """
        data = batch.data
        size_bytes = len(data)
        base_offset = self.log_end_offset
        segment = self._segment_for(size_bytes, base_offset + batch.last_offset_delta, timestamp)
        if leader_epoch != self._leader_epoch:
            self._begin_epoch(leader_epoch, base_offset)
        chunks: list[Buffer] = [_PATCH.pack(base_offset, batch.batch_length, leader_epoch)]
        if new_header is None:
            chunks.append(data[_PATCH.size:])
        else:
            chunks.append(new_header[_PATCH.size:])
            chunks.append(data[HEADER_SIZE_BYTES:])
        segment.append(chunks, size_bytes=size_bytes, base_offset=base_offset,
                       last_offset=base_offset + batch.last_offset_delta, max_timestamp=timestamp)
        return base_offset

    def _published_end(self, segment: LogSegment) -> int:
        """Return where a segment ends, by batches that `log_end_offset` counts already.

        Without the lock a reader could return a batch whose append is under way, and a high watermark before it.
        """
        with self._lock:
            return segment.size_bytes

    def _segment_for(self, size_bytes: int, last_offset: int, timestamp: int) -> LogSegment:
        """Return the segment that takes the next batch; a new one when it would not fit or the old one is too old."""
        active = self._view[0][-1]
        if active.size_bytes == 0 or (
                active.size_bytes + size_bytes <= self.config.segment_bytes
                and last_offset - active.base_offset <= _MAX_RELATIVE_OFFSET
                and (active.first_timestamp < 0 or timestamp - active.first_timestamp <= self.config.segment_ms)):
            return active
        return self._roll()

    def _roll(self) -> LogSegment:
        """Begin a new segment at the end of the log."""
        segments, base_offsets = self._view
        segments[-1].cut_leftovers()
        segments[-1].write_indexes()
        self._write_transaction_index()
        fresh = LogSegment(self.directory, self.log_end_offset, index_interval_bytes=self.config.index_interval_bytes)
        segments[-1].seal()
        # Readers bisect the base offsets: the segment must be there before its offset is.
        segments.append(fresh)
        base_offsets.append(fresh.base_offset)
        return fresh

    def _write_transaction_index(self) -> None:
        """Write the file of the active segment, which has every marker from its first offset on."""
        base_offset = self._view[0][-1].base_offset
        self.transactions.write(self.directory / segment_file_name(base_offset, ".txnindex"), base_offset)

    def _forget_before_start(self) -> None:
        self.transactions.remove_before(self.log_start_offset)
        self.epochs.truncate_from_start(self.log_start_offset)
        self.epochs.write()

    def _try_forget_before_start(self) -> None:
        try:
            self._forget_before_start()
        except OSError as error:  # a full disk: it must be possible to start, and delete something
            _logger.warning("The leader epochs of %s were not written: %s", self.directory, error)

    def _begin_epoch(self, leader_epoch: int, base_offset: int) -> None:
        self.epochs.assign(leader_epoch, base_offset)
        self.epochs.write()
        self._leader_epoch = leader_epoch  # last: what failed is done again


def _sequence_reason(batch: RecordBatch) -> str:
    return (f"producer {batch.producer_id} epoch {batch.producer_epoch} sent sequence {batch.base_sequence} to "
            f"{batch.last_sequence}, which does not continue what it wrote")
