"""What is in a log's directory: scan the segments, rebuild indexes and producer state, cut a torn tail.

Road:    disk -> [recovery] -> log
Thread:  the thread that opens the log, before anybody else has it.
Source:  Java LogLoader, LogSegment.recover (4.1).
         Differs from Java: no producer snapshots and no recovery point; every header is read (about a million
         batches a second), the checksums of the last segment too unless the broker was stopped cleanly.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import NamedTuple

from pyproducer.broker.storage.batch_header import BatchHeader, checksum
from pyproducer.broker.storage.leader_epochs import LeaderEpochs
from pyproducer.broker.storage.producer_state import ProducerStateManager
from pyproducer.broker.storage.segment import LogSegment, remove_segment_files
from pyproducer.broker.storage.swap import finish_swaps
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
                     transactions: TransactionIndex, *, index_interval_bytes: int) -> RecoveredLog:
    """Open all segments of a log and bring `producers`, `epochs` and `transactions` up to date.

    A batch that is cut short, has a wrong checksum, or does not continue the offsets ends the log: the rest of its
    segment is cut and later segments are removed. Such bytes were never acknowledged, or the machine crashed.
    """
    finish_swaps(directory)
    base_offsets = sorted(int(path.stem) for path in directory.glob("*.log"))
    segments: list[LogSegment] = []
    next_offset = base_offsets[0] if base_offsets else 0
    for number, base_offset in enumerate(base_offsets):
        segment = LogSegment(directory, base_offset, index_interval_bytes=index_interval_bytes)
        file_size_bytes = segment.file.size_bytes()
        is_last = number == len(base_offsets) - 1
        check_crc = is_last and not (directory.parent / CLEAN_SHUTDOWN_FILE).exists()
        next_offset = _scan(segment, producers, epochs, transactions, file_size_bytes,
                            max(next_offset, base_offset), check_crc=check_crc)
        segments.append(segment)
        if segment.size_bytes < file_size_bytes:
            _logger.warning("Cut %d torn bytes at the end of %s: the log ends at offset %d",
                            file_size_bytes - segment.size_bytes, segment.path, next_offset)
            segment.file.truncate(segment.size_bytes)
            for later in base_offsets[number + 1:]:
                remove_segment_files(directory, later)
            break
    if not segments:
        segments.append(LogSegment(directory, 0, index_interval_bytes=index_interval_bytes))
    return RecoveredLog(segments, next_offset)


def _scan(segment: LogSegment, producers: ProducerStateManager, epochs: LeaderEpochs, transactions: TransactionIndex,
          file_size_bytes: int, next_offset: int, *, check_crc: bool) -> int:
    """Enter the batches of a segment into its indexes until one makes no sense; return the offset after the last."""
    segment.size_bytes = file_size_bytes  # so that headers() walks the whole file
    batches = segment.headers()
    segment_end = 0
    found: list[BatchHeader] = []
    for position, header in batches:
        if not _is_sound(segment, position, header, file_size_bytes, next_offset, check_crc=check_crc):
            break
        found.append(header)
        next_offset = header.last_offset + 1
        segment_end = position + header.size_bytes
    segment.size_bytes = 0
    for header in found:
        position = segment.size_bytes
        segment.note_header(header)
        epochs.assign(header.partition_leader_epoch, header.base_offset)
        if not header.attributes & CONTROL_MASK:
            producers.update(header, header.base_offset, header.max_timestamp)
        elif (marker := _marker_of(segment.file.read(position, header.size_bytes))) is not None:
            note_marker(producers, transactions, header, marker, header.base_offset)
    assert segment.size_bytes == segment_end
    return next_offset


def _is_sound(segment: LogSegment, position: int, header: BatchHeader, file_size_bytes: int, next_offset: int, *,
              check_crc: bool) -> bool:
    if header.magic != MAGIC or header.size_bytes < HEADER_SIZE_BYTES or header.last_offset_delta < 0:
        return False
    if position + header.size_bytes > file_size_bytes or header.base_offset < next_offset:
        return False
    return not check_crc or checksum(segment.file.read(position, header.size_bytes)) == header.crc


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
