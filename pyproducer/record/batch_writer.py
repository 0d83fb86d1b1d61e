"""Make a record batch of encoded records: compress once, then write the 61 bytes in front, as often as needed.

The header can be written again with another producer id, epoch or sequence (after a bump of the epoch) without
compressing again: only the CRC is computed anew.

Road:    accumulator (hotpath.OpenBatch) -> [close_records, write_header] -> sender
Thread:  whoever owns the batch; pure functions on its bytearray. Compression releases the GIL.
Source:  Java MemoryRecordsBuilder.close, DefaultRecordBatch.writeHeader (4.1).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pyproducer.common.errors import LocalProtocolError
from pyproducer.hotpath import OpenBatch
from pyproducer.record.checksum import crc32c
from pyproducer.record.compression import Compressor, compressor_for
from pyproducer.record.control import ControlRecordType, encode_control_key, encode_control_value
from pyproducer.record.layout import (
    ATTRIBUTES_OFFSET,
    CONTROL_MASK,
    CRC_OFFSET,
    CREATE_TIME,
    HEADER,
    HEADER_SIZE_BYTES,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    NO_PARTITION_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    TIMESTAMP_TYPE_MASK,
    TRANSACTIONAL_MASK,
)

_MOST_BYTES = 2**31 - 1  # a batch's length is an INT32

RecordFields = tuple[int, "bytes | None", "bytes | None", Sequence[tuple[str, "bytes | None"]]]
"""Timestamp in epoch ms, key, value, headers."""


def close_records(buffer: bytearray, compressor: Compressor) -> bytearray:
    """Compress the records behind the free 61 bytes.

    Shape: `buffer` is hotpath's `OpenBatch.buffer`, and stays as it is.

    Returns:
        61 free bytes and the compressed records; `buffer` itself with codec none.
    """
    if compressor.codec_id == 0:
        return buffer
    with memoryview(buffer) as view, view[HEADER_SIZE_BYTES:] as records:
        compressed = compressor.compress(records)
    batch = bytearray(HEADER_SIZE_BYTES)
    batch += compressed
    return batch


def write_header(batch: bytearray, *, codec_id: int, record_count: int, base_timestamp: int, max_timestamp: int,
                 producer_id: int = NO_PRODUCER_ID, producer_epoch: int = NO_PRODUCER_EPOCH,
                 base_sequence: int = NO_SEQUENCE, is_transactional: bool = False, is_control: bool = False,
                 timestamp_type: int = CREATE_TIME, base_offset: int = 0,
                 partition_leader_epoch: int = NO_PARTITION_LEADER_EPOCH) -> None:
    """Write, or write again, the 61 bytes of header in place, CRC included.

    Args:
        batch: 61 bytes to overwrite and the records as they are sent. Its length does not change.
        codec_id: Number of the codec the records are in.
        record_count: How many records there are; offset deltas are taken to be 0 to this - 1.
        base_timestamp: Of the first record, epoch ms.
        max_timestamp: Of all records, epoch ms.
        producer_id: -1 without idempotence.
        producer_epoch: -1 without idempotence.
        base_sequence: Sequence number of the first record; -1 without idempotence.
        is_transactional: Whether the records belong to a transaction.
        is_control: Whether the batch is a marker (brokers only).
        timestamp_type: 0 create time, 1 log append time (brokers only).
        base_offset: 0 from a producer.
        partition_leader_epoch: -1 from a producer.

    Raises:
        LocalProtocolError: A number does not fit its field. Not sent.
    """
    attributes = (codec_id | (TIMESTAMP_TYPE_MASK if timestamp_type else 0)
                  | (TRANSACTIONAL_MASK if is_transactional else 0) | (CONTROL_MASK if is_control else 0))
    try:
        HEADER.pack_into(batch, 0, base_offset, len(batch) - LOG_OVERHEAD_BYTES, partition_leader_epoch, MAGIC, 0,
                         attributes, record_count - 1, base_timestamp, max_timestamp, producer_id, producer_epoch,
                         base_sequence, record_count)
    except Exception as cause:  # struct.error, or OverflowError for ints beyond 64 bits
        raise LocalProtocolError(f"a record batch's header cannot hold its values: {cause}") from cause
    with memoryview(batch) as view, view[ATTRIBUTES_OFFSET:] as covered:
        crc = crc32c(covered)
    batch[CRC_OFFSET:ATTRIBUTES_OFFSET] = crc.to_bytes(4, "big")


def build_batch(records: Iterable[RecordFields], *, compression: str | Compressor = "none",
                producer_id: int = NO_PRODUCER_ID, producer_epoch: int = NO_PRODUCER_EPOCH,
                base_sequence: int = NO_SEQUENCE, is_transactional: bool = False, is_control: bool = False,
                timestamp_type: int = CREATE_TIME, base_offset: int = 0,
                partition_leader_epoch: int = NO_PARTITION_LEADER_EPOCH) -> bytes:
    """Build a whole batch of ready values, for tests and for the broker.

    Args:
        records: At least one (timestamp, key, value, headers).
        compression: A codec's name, or a compressor.
        producer_id: As for `write_header`.
        producer_epoch: As for `write_header`.
        base_sequence: As for `write_header`.
        is_transactional: As for `write_header`.
        is_control: As for `write_header`.
        timestamp_type: As for `write_header`.
        base_offset: Offset of the first record; 0 from a producer.
        partition_leader_epoch: As for `write_header`.

    Raises:
        LocalProtocolError: There is no record, or a number does not fit its field.
    """
    open_batch = OpenBatch(None, _MOST_BYTES)
    for timestamp, key, value, headers in records:
        open_batch.append(timestamp, key, value, headers)
    if not open_batch.record_count:
        raise LocalProtocolError("a record batch needs at least one record")
    compressor = compressor_for(compression) if isinstance(compression, str) else compression
    batch = close_records(open_batch.buffer, compressor)
    write_header(batch, codec_id=compressor.codec_id, record_count=open_batch.record_count,
                 base_timestamp=open_batch.base_timestamp, max_timestamp=open_batch.max_timestamp,
                 producer_id=producer_id, producer_epoch=producer_epoch, base_sequence=base_sequence,
                 is_transactional=is_transactional, is_control=is_control, timestamp_type=timestamp_type,
                 base_offset=base_offset, partition_leader_epoch=partition_leader_epoch)
    return bytes(batch)


def build_control_batch(control_type: ControlRecordType, *, producer_id: int, producer_epoch: int,
                        coordinator_epoch: int, timestamp: int, base_offset: int = 0,
                        partition_leader_epoch: int = NO_PARTITION_LEADER_EPOCH) -> bytes:
    """Build the batch that ends a transaction in a partition's log.

    Source: Java MemoryRecords.withEndTransactionMarker (4.1).
    """
    return build_batch([(timestamp, encode_control_key(control_type), encode_control_value(coordinator_epoch), ())],
                       producer_id=producer_id, producer_epoch=producer_epoch, is_transactional=True, is_control=True,
                       base_offset=base_offset, partition_leader_epoch=partition_leader_epoch)
