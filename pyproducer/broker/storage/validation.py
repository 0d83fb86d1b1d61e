"""What a broker refuses in the records of a Produce request, and with which answer.

The checks, their order and their answers are those measured on Kafka 4.1.0; `BatchRules.is_strict` adds what Kafka
lets pass although readers are misled by it.

Road:    broker's Produce -> [validate_batch] -> broker's log
Thread:  any; pure.
Source:  Java ProduceRequest.validateRecords, UnifiedLog.analyzeAndValidateRecords, LogValidator (4.1).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from pyproducer.broker.storage.expansion import EXPANSION, Allowance, ExpansionBusyError
from pyproducer.broker.storage.record_scan import last_timestamp_if_sound
from pyproducer.common.cluster import TopicPartition
from pyproducer.common.error_codes import ErrorCode
from pyproducer.common.errors import CorruptRecordError, ExpansionLimitError
from pyproducer.record.batch_reader import Record, RecordBatch, frame_size, with_max_timestamp
from pyproducer.record.compression import CODEC_IDS
from pyproducer.record.decompression import DEFAULT_LIMIT_BYTES
from pyproducer.record.layout import (
    BASE_OFFSET_OFFSET,
    CREATE_TIME,
    HEADER_SIZE_BYTES,
    MAGIC,
    MAGIC_OFFSET,
    NO_TIMESTAMP,
    RECORDS_OFFSET,
    Buffer,
)
from pyproducer.record.record_reader import decode_records

FIRST_PRODUCE_VERSION_WITH_ZSTD = 7
LZ4_FLAGS_OFFSET = 4
LZ4_INDEPENDENT_BLOCKS_MASK = 0x20
KNOWN_CODEC_IDS = frozenset(CODEC_IDS.values())
MAX_INT64 = 2**63 - 1
SHOWN_RECORD_ERRORS = 3  # Java shows no more in a message
MOST_RECORD_FAULTS = 10_000  # differs from Java, which names all: they may be millions


@dataclass(frozen=True)
class BatchRules:
    """What a topic allows.

    Args:
        max_message_bytes: max.message.bytes, of the compressed batch.
        timestamp_type: 0 create time; with 1, log append time, the records' own timestamps do not matter.
        timestamp_before_max_ms: message.timestamp.before.max.ms.
        timestamp_after_max_ms: message.timestamp.after.max.ms.
        is_compacted: Whether each record needs a key.
        is_strict: Also refuse offset deltas other than 0, 1, 2 ..., and bytes behind the batch.
        max_expanded_bytes: The most that compressed records may expand to (ours; Kafka has no limit).
        reads_records: Whether each record is looked at (about a microsecond each). Without it the records stay
            closed unless the header's timestamps are out of range, when the answer must name the records.
    """

    max_message_bytes: int = 1048588
    timestamp_type: int = CREATE_TIME
    timestamp_before_max_ms: int = 2**63 - 1
    timestamp_after_max_ms: int = 3_600_000
    is_compacted: bool = False
    is_strict: bool = True
    max_expanded_bytes: int = DEFAULT_LIMIT_BYTES
    reads_records: bool = True


DEFAULT_RULES = BatchRules()


class RecordFault(NamedTuple):
    """Why one record of a batch was refused (KIP-467)."""

    batch_index: int
    message: str


@dataclass(frozen=True)
class BatchFault:
    """A refusal.

    Args:
        error_code: The code to answer.
        why: What is wrong, for the broker's own log.
        error_message: What Kafka says in the answer, which is mostly nothing.
        record_faults: The records that are to blame, where Kafka names them.
        tells_log_start_offset: Whether the answer holds the log start offset, or -1.
    """

    error_code: ErrorCode
    why: str
    error_message: str | None = None
    record_faults: tuple[RecordFault, ...] = ()
    tells_log_start_offset: bool = True


def validate_batch(data: Buffer | None, *, produce_version: int, timestamp_ms: int,
                   rules: BatchRules = DEFAULT_RULES, topic_partition: TopicPartition | None = None,
                   allowance: Allowance | None = None) -> RecordBatch | BatchFault:
    """Check what a producer sent for one partition.

    Not checked, because it needs the broker's state: sequence numbers, producer epochs, transactions.

    Args:
        data: The RECORDS field of the request; None is answered like no batch (Kafka 4.1 never answers it).
        produce_version: Version of the Produce request.
        timestamp_ms: Epoch ms now, to which the records' timestamps are compared.
        rules: What the topic allows.
        topic_partition: For messages.
        allowance: What the compressed batches of this request may still hold; None for any.

    Returns:
        The one batch, to be stored, or why not. With create time its header has the largest timestamp of its records,
        where they are looked at, whatever the producer has put there.
    """
    batch = _single_batch(b"" if data is None else data, produce_version, rules)
    if isinstance(batch, BatchFault):
        return batch
    fault = _header_fault(batch, rules)
    if fault is not None:
        return fault
    if not rules.reads_records and not _may_be_faulty(batch, rules, timestamp_ms):
        return batch
    max_timestamp = _check_records(batch, rules, timestamp_ms, topic_partition, allowance)
    if isinstance(max_timestamp, BatchFault):
        return max_timestamp
    if max_timestamp == batch.max_timestamp or rules.timestamp_type != CREATE_TIME:
        return batch
    return with_max_timestamp(batch, max_timestamp)


def _refused(why: str, error_message: str | None = None,
             error_code: ErrorCode = ErrorCode.INVALID_RECORD) -> BatchFault:
    return BatchFault(error_code, why, error_message)


def _refused_early(why: str, error_code: ErrorCode = ErrorCode.INVALID_RECORD,
                   error_message: str | None = None) -> BatchFault:
    return BatchFault(error_code, why, error_message, tells_log_start_offset=False)


def _single_batch(data: Buffer, produce_version: int, rules: BatchRules) -> RecordBatch | BatchFault:
    try:
        size = frame_size(data, 0)
        if size is None:
            return _refused_early(f"no whole record batch in {len(data)} bytes")
        if data[MAGIC_OFFSET] != MAGIC:
            return _refused_early(f"the record batch has magic {data[MAGIC_OFFSET]}, only {MAGIC} is allowed")
        if size < HEADER_SIZE_BYTES:
            # Kafka reads the base offset first, which is there in any case.
            if any(data[BASE_OFFSET_OFFSET:BASE_OFFSET_OFFSET + 8]):
                return _refused("the base offset is not 0")
            return _refused_early(f"the record batch has {size} bytes, fewer than its header",
                                  ErrorCode.CORRUPT_MESSAGE)
        batch = RecordBatch(memoryview(data)[:size])
        if produce_version < FIRST_PRODUCE_VERSION_WITH_ZSTD and batch.codec_id == CODEC_IDS["zstd"]:
            return _refused_early(f"zstd is not allowed in Produce version {produce_version}",
                                  ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
        if size == len(data):
            return batch
        if frame_size(data, size) is not None:
            return _refused_early("there is more than one record batch")
        if rules.is_strict:
            return _refused_early(f"{len(data) - size} bytes follow the record batch")
        return batch
    except CorruptRecordError as corrupt:
        return _refused_early(str(corrupt), ErrorCode.CORRUPT_MESSAGE, str(corrupt))


def _header_fault(batch: RecordBatch, rules: BatchRules) -> BatchFault | None:
    if batch.base_offset != 0:
        return _refused(f"the base offset is {batch.base_offset}, from a producer it must be 0")
    if batch.size_bytes > rules.max_message_bytes:
        return _refused_early(f"the record batch has {batch.size_bytes} bytes, "
                              f"more than max.message.bytes {rules.max_message_bytes}", ErrorCode.MESSAGE_TOO_LARGE)
    computed_crc = batch.compute_crc()
    if computed_crc != batch.crc:
        return _refused_early(f"the stored CRC is {batch.crc}, the computed {computed_crc}", ErrorCode.CORRUPT_MESSAGE)
    if batch.last_offset_delta < 0 or batch.record_count != batch.last_offset_delta + 1:
        return _refused(f"{batch.record_count} records and last offset delta {batch.last_offset_delta} do not agree")
    if batch.is_control:
        return _refused("clients are not allowed to write control records")
    if batch.has_producer_id and batch.base_sequence < 0:
        return _refused(f"base sequence {batch.base_sequence} with producer id {batch.producer_id}")
    return None


def _may_be_faulty(batch: RecordBatch, rules: BatchRules, timestamp_ms: int) -> bool:
    """Whether the header alone says that a record will be refused."""
    if batch.codec_id not in KNOWN_CODEC_IDS or _is_stamped(batch, rules):
        return True
    return rules.timestamp_type == CREATE_TIME and (
        batch.max_timestamp > timestamp_ms + rules.timestamp_after_max_ms
        or batch.base_timestamp < timestamp_ms - rules.timestamp_before_max_ms)


def _is_stamped(batch: RecordBatch, rules: BatchRules) -> bool:
    """Whether a producer says that its records have the broker's time, where they will have it; elsewhere it may."""
    return rules.timestamp_type != CREATE_TIME and batch.timestamp_type != CREATE_TIME


def _check_records(batch: RecordBatch, rules: BatchRules, timestamp_ms: int, topic_partition: TopicPartition | None,
                   allowance: Allowance | None) -> BatchFault | int:
    """Return the largest timestamp of the records, or why they are refused."""
    if _has_linked_lz4_blocks(batch):
        return _refused("lz4 blocks depend on each other, which Java cannot read",
                        error_code=ErrorCode.UNKNOWN_SERVER_ERROR)
    limit_bytes = rules.max_expanded_bytes
    if batch.codec_id and allowance is not None:
        if batch.record_count > allowance.records_left:
            return _refused(f"the compressed batches of the request hold more records than {allowance.records_left} "
                            "and those before", error_code=ErrorCode.MESSAGE_TOO_LARGE)
        limit_bytes = min(limit_bytes, allowance.bytes_left)
    try:
        with EXPANSION.expanded(batch, limit_bytes) as expanded:
            if batch.codec_id and allowance is not None:
                allowance.spend(len(expanded), batch.record_count)
            return _check_expanded(expanded, batch, rules, timestamp_ms, topic_partition)
    except ExpansionLimitError as too_large:  # a client that hears this makes smaller batches
        return _refused(str(too_large), error_code=ErrorCode.MESSAGE_TOO_LARGE)
    except CorruptRecordError as corrupt:
        return _refused(str(corrupt), error_code=ErrorCode.UNKNOWN_SERVER_ERROR)
    except ExpansionBusyError as busy:  # retriable, and says that nothing was stored
        return _refused(str(busy), str(busy), error_code=ErrorCode.NOT_ENOUGH_REPLICAS)


def _check_expanded(expanded: bytes, batch: RecordBatch, rules: BatchRules, timestamp_ms: int,
                    topic_partition: TopicPartition | None) -> BatchFault | int:
    earliest = timestamp_ms - rules.timestamp_before_max_ms
    latest = min(timestamp_ms + rules.timestamp_after_max_ms, MAX_INT64)
    is_stamped = False
    if rules.timestamp_type != CREATE_TIME:
        earliest, latest = -2**64, 2**64
        is_stamped = _is_stamped(batch, rules)
    place = "" if topic_partition is None else f" {topic_partition}"
    keyless = f"Compacted topic cannot accept message without key in topic partition{place}"
    is_compacted = rules.is_compacted
    claimed = batch.max_timestamp
    if not is_stamped:
        last = last_timestamp_if_sound(
            expanded, record_count=batch.record_count, base_timestamp=batch.base_timestamp, earliest=earliest,
            latest=claimed if claimed < latest else latest, needs_key=is_compacted)
        # None is later than the header says; where the last is not as late, one before it must be.
        if last == claimed or (last is not None and claimed <= latest and last_timestamp_if_sound(
                expanded, record_count=batch.record_count, base_timestamp=batch.base_timestamp, earliest=earliest,
                latest=claimed - 1, needs_key=is_compacted) is None):
            return claimed
    largest = NO_TIMESTAMP
    faults: list[RecordFault] = []
    code = ErrorCode.INVALID_RECORD
    mistaken: Record | None = None
    index = 0
    try:
        for record in decode_records(expanded, record_count=batch.record_count, base_offset=0,
                                     base_timestamp=batch.base_timestamp, base_sequence=-1, append_timestamp=None):
            if record.offset != index and mistaken is None:
                mistaken = record
            if is_compacted and record.key is None:
                faults.append(RecordFault(index, keyless))
            elif is_stamped:
                code = ErrorCode.INVALID_TIMESTAMP
                faults.append(RecordFault(index, _stamped_record(batch, record)))
            elif not earliest <= record.timestamp <= latest and record.timestamp != NO_TIMESTAMP:
                code = ErrorCode.INVALID_TIMESTAMP
                faults.append(RecordFault(index, f"Timestamp {record.timestamp} of message with offset "
                                                 f"{record.offset} is out of range. The timestamp should be within "
                                                 f"[{earliest}, {latest}]"))
            if len(faults) == MOST_RECORD_FAULTS:
                break  # it is refused in any case
            largest = max(largest, record.timestamp)
            index += 1
    except CorruptRecordError as corrupt:
        return _refused(str(corrupt))
    if faults:
        return _faults_of_records(code, faults)
    if mistaken is not None and rules.is_strict:
        # Differs from Java: an uncompressed batch with such deltas is stored there, and its readers lose count.
        why = f"a record has the offset delta {mistaken.offset}, which is not its index in the batch"
        return _refused(why, why)
    return largest


def _stamped_record(batch: RecordBatch, record: Record) -> str:
    kind = "PartialDefaultRecord" if batch.codec_id else "DefaultRecord"
    return (f"Invalid timestamp type in message {kind}(offset={record.offset}, timestamp={batch.max_timestamp}, "
            f"key={len(record.key or b'')} bytes, value={len(record.value or b'')} bytes). Producer should not set "
            "timestamp type to LogAppendTime.")


def _faults_of_records(code: ErrorCode, faults: list[RecordFault]) -> BatchFault:
    message = "One or more records have been rejected due to invalid timestamp"
    if code is not ErrorCode.INVALID_TIMESTAMP:
        shown = ", ".join(f"RecordError(batchIndex={fault.batch_index}, message='{fault.message}')"
                          for fault in faults[:SHOWN_RECORD_ERRORS])
        message = (f"One or more records have been rejected due to {len(faults)} record errors in total, and only "
                   f"showing the first three errors at most: [{shown}]")
    return BatchFault(code, f"{message} (first: {faults[0].message})", message, tuple(faults))


def _has_linked_lz4_blocks(batch: RecordBatch) -> bool:
    flags_offset = RECORDS_OFFSET + LZ4_FLAGS_OFFSET
    return (batch.codec_id == CODEC_IDS["lz4"] and batch.size_bytes > flags_offset
            and not batch.data[flags_offset] & LZ4_INDEPENDENT_BLOCKS_MASK)
