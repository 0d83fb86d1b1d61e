"""What is in a log's directory: scan the segments, rebuild indexes and producer state, cut a torn tail.

What a broker's death leaves is cut: the beginning of one batch at the very end of the last segment, which nobody was
told is stored. Whatever else makes no sense was acknowledged once, or has acknowledged batches behind it: the log is
then not opened, and no file of it is changed.

Road:    disk -> [recovery] -> log
Thread:  the thread that opens the log, before anybody else has it.
Source:  Java LogLoader, LogSegment.recover (4.1).
         Differs from Java: no producer snapshots and no recovery point; every header is read (about a million
         batches a second), the checksums of the last segment too unless the broker was stopped cleanly. Java cuts the
         last segment at the first batch that makes no sense, whatever is behind it, and opens a log with damage
         elsewhere, whose readers then fail.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import NamedTuple

from pyproducer.broker.storage.batch_header import BatchHeader, checksum
from pyproducer.broker.storage.damage import DamagedLogError
from pyproducer.broker.storage.leader_epochs import LeaderEpochs
from pyproducer.broker.storage.producer_state import ProducerStateManager
from pyproducer.broker.storage.segment import LogSegment
from pyproducer.broker.storage.swap import COMPACTED_FILE, finish_swaps
from pyproducer.broker.storage.torn_tail import is_torn
from pyproducer.broker.storage.transaction_index import AbortedTransaction, TransactionIndex
from pyproducer.record.batch_reader import RecordBatch
from pyproducer.record.control import ControlRecordType, EndTransactionMarker, parse_control_record
from pyproducer.record.layout import CONTROL_MASK, HEADER_SIZE_BYTES, MAGIC

_logger = logging.getLogger(__name__)
# Kafka's name for the file that says that the last stop was a clean one.
CLEAN_SHUTDOWN_FILE = ".kafka_cleanshutdown"


class RecoveredLog(NamedTuple):
    """The segments, by base offset, at least one; and the offset of the next record."""

    segments: list[LogSegment]
    log_end_offset: int


def recover_segments(directory: Path, producers: ProducerStateManager, epochs: LeaderEpochs,
                     transactions: TransactionIndex, *, index_interval_bytes: int,
                     is_compacted: bool = False, expected_end_offset: int | None = None) -> RecoveredLog:
    """Open all segments of a log and bring `producers`, `epochs` and `transactions` up to date.

    Args:
        directory: The log's.
        producers: Empty.
        epochs: Empty.
        transactions: Empty.
        index_interval_bytes: How far index entries lie apart.
        is_compacted: Whether segments may be compacted; those that were once have a file that says so.
        expected_end_offset: Where the log ended when it was closed in order; None when that is not known.

    Raises:
        ConfigError: A file is damaged, or records are gone; see above.
    """
    finish_swaps(directory)
    base_offsets = sorted(int(path.stem) for path in directory.glob("*.log"))
    is_clean = (directory.parent / CLEAN_SHUTDOWN_FILE).exists()
    has_gaps = is_compacted or (directory / COMPACTED_FILE).exists()
    segments: list[LogSegment] = []
    next_offset = base_offsets[0] if base_offsets else 0
    try:
        for number, base_offset in enumerate(base_offsets):
            is_last = number == len(base_offsets) - 1
            segment = LogSegment(directory, base_offset, index_interval_bytes=index_interval_bytes)
            segments.append(segment)
            if base_offset < next_offset or (base_offset > next_offset and not has_gaps):
                raise DamagedLogError(segment.path, f"it begins at offset {base_offset}, where {next_offset} is next")
            scan = _Scan(segment, max(next_offset, base_offset), check_crc=is_last and not is_clean,
                         has_gaps=has_gaps and not is_last)
            scan.run(producers, epochs, transactions)
            next_offset = scan.next_offset
            if scan.fault is not None:
                if is_clean or not is_last or not is_torn(segment.file, segment.size_bytes, next_offset):
                    raise DamagedLogError(segment.path, f"at byte {segment.size_bytes}, where offset {next_offset} is "
                                                        f"next, {scan.fault}")
                _logger.warning("Cut %d bytes of an unfinished write at the end of %s: the log ends at offset %d",
                                scan.file_size_bytes - segment.size_bytes, segment.path, next_offset)
                segment.file.truncate(segment.size_bytes)
        if not segments:
            segments.append(LogSegment(directory, 0, index_interval_bytes=index_interval_bytes))
        if expected_end_offset is not None and expected_end_offset != next_offset:
            raise DamagedLogError(segments[-1].path, f"the log ends at offset {next_offset}, and when the broker was "
                                                     f"stopped it ended at {expected_end_offset}")
        for segment in segments[:-1]:
            segment.try_seal()
    except BaseException:
        for segment in segments:
            segment.file.close()
        raise
    return RecoveredLog(segments, next_offset)


class _Scan:
    """One walk over the batches of a segment.

    Attributes:
        next_offset: The offset after the last batch that makes sense.
        fault: What is wrong with the one behind it; None when the file ends there.
        file_size_bytes: Of the file as it was found.
    """

    def __init__(self, segment: LogSegment, next_offset: int, *, check_crc: bool, has_gaps: bool) -> None:
        self.next_offset = next_offset
        self.fault: str | None = None
        self.file_size_bytes = segment.file.size_bytes()
        self._segment = segment
        self._check_crc = check_crc
        self._has_gaps = has_gaps

    def run(self, producers: ProducerStateManager, epochs: LeaderEpochs, transactions: TransactionIndex) -> None:
        """Enter the batches into the segment's indexes, and into what the log knows, until one makes no sense."""
        segment = self._segment
        for position, header in segment.headers(0, self.file_size_bytes):
            self.fault = self._fault_of(position, header)
            if self.fault is not None:
                return
            segment.note_header(header)
            self.next_offset = header.last_offset + 1
            epochs.assign(header.partition_leader_epoch, header.base_offset)
            if not header.attributes & CONTROL_MASK:
                producers.update(header, header.base_offset, header.max_timestamp)
            elif (marker := _marker_of(segment.file.read(position, header.size_bytes))) is not None:
                note_marker(producers, transactions, header, marker, header.base_offset)
        if segment.size_bytes < self.file_size_bytes:
            self.fault = f"there are {self.file_size_bytes - segment.size_bytes} bytes, too few for a batch"

    def _fault_of(self, position: int, header: BatchHeader) -> str | None:
        if header.magic != MAGIC:
            return f"a batch has magic {header.magic}"
        if header.size_bytes < HEADER_SIZE_BYTES or header.last_offset_delta < 0:
            return f"a batch has {header.size_bytes} bytes and last offset delta {header.last_offset_delta}"
        if position + header.size_bytes > self.file_size_bytes:
            return f"a batch has {header.size_bytes} bytes, more than follow"
        if header.base_offset < self.next_offset or (header.base_offset > self.next_offset and not self._has_gaps):
            return f"a batch has offset {header.base_offset}"
        if self._check_crc and checksum(self._segment.file.read(position, header.size_bytes)) != header.crc:
            return "a batch has a wrong checksum"
        return None


def note_marker(producers: ProducerStateManager, transactions: TransactionIndex, header: BatchHeader | RecordBatch,
                marker: EndTransactionMarker, offset: int) -> None:
    """End a producer's transaction, whose marker is in the log at `offset`."""
    next_unstable_offset = producers.next_unstable_offset(header.producer_id)
    first_offset = producers.transaction_first_offset(header.producer_id)
    if first_offset is not None and marker.type is ControlRecordType.ABORT:
        # Before the producer's state: a reader that sees the offset after it must find the transaction here.
        transactions.append(AbortedTransaction(header.producer_id, first_offset, offset,
                                               offset + 1 if next_unstable_offset is None else next_unstable_offset))
    producers.end_transaction(header.producer_id, header.producer_epoch, marker.coordinator_epoch,
                              header.max_timestamp)


def _marker_of(data: bytes) -> EndTransactionMarker | None:
    for record in RecordBatch(data):
        return parse_control_record(record.key, record.value)
    return None
