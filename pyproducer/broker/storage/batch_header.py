"""The 61 header bytes of a batch as one value: all that the broker reads of a batch that it does not check in depth.

Road:    Produce -> [header] -> log; and again when a log is scanned at start
Thread:  values.
Shape:   the layout is drawn in record/layout.py.
Source:  Java DefaultRecordBatch, ProducerStateManager (4.1).
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from pyproducer.broker.storage.expansion import EXPANSION
from pyproducer.record.batch_reader import RecordBatch
from pyproducer.record.checksum import crc32c
from pyproducer.record.compression import Compressor
from pyproducer.record.layout import (
    ATTRIBUTES_OFFSET,
    CODEC_MASK,
    CRC_OFFSET,
    HEADER,
    HEADER_SIZE_BYTES,
    LOG_OVERHEAD_BYTES,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    TIMESTAMP_TYPE_MASK,
    Buffer,
    increment_sequence,
)

# Base offset and batch length: enough to walk from batch to batch.
OVERHEAD_STRUCT = struct.Struct(">qi")
_CRC_STRUCT = struct.Struct(">I")


class BatchHeader(NamedTuple):
    """The header fields of a magic 2 batch, in wire order."""

    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size_bytes(self) -> int:
        """Size of the whole batch, overhead included."""
        return self.batch_length + LOG_OVERHEAD_BYTES

    @property
    def last_offset(self) -> int:
        """Offset of the last record."""
        return self.base_offset + self.last_offset_delta

    @property
    def last_sequence(self) -> int:
        """Sequence of the last record; -1 when the batch has no producer id."""
        if self.producer_id == NO_PRODUCER_ID or self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return increment_sequence(self.base_sequence, self.last_offset_delta)


def read_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """Read the header of the batch that starts at `position`.

    Shape: at least 61 bytes must follow `position`.
    """
    return BatchHeader._make(HEADER.unpack_from(buffer, position))


def last_header(batches: Buffer) -> BatchHeader:
    """Return the header of the last of some whole batches, at least one."""
    position = following = 0
    size_bytes = len(batches)
    while following < size_bytes:
        position = following
        following += LOG_OVERHEAD_BYTES + OVERHEAD_STRUCT.unpack_from(batches, position)[1]
    return read_header(batches, position)


def checksum(batch: Buffer) -> int:
    """Return the CRC-32C that the header of this batch must carry."""
    return crc32c(memoryview(batch)[ATTRIBUTES_OFFSET:])


def stamped_header(batch: RecordBatch, log_append_time_ms: int | None) -> bytes | None:
    """Return the new header of a batch whose timestamp type must change, or None when it stays as it came.

    The records are not copied: the caller writes these 61 bytes and then the batch from byte 61 on.

    Args:
        batch: What the producer sent.
        log_append_time_ms: The time that replaces the producer's; None for CreateTime, where a batch that claims
            LogAppendTime is put right, as Java does.
    """
    attributes, max_timestamp = batch.attributes, batch.max_timestamp
    if log_append_time_ms is None:
        if not attributes & TIMESTAMP_TYPE_MASK:
            return None
        attributes &= ~TIMESTAMP_TYPE_MASK
    else:
        attributes |= TIMESTAMP_TYPE_MASK
        max_timestamp = log_append_time_ms
    header = read_header(batch.data)._replace(attributes=attributes, max_timestamp=max_timestamp)
    fresh = bytearray(HEADER.pack(*header))
    crc = crc32c(batch.data[HEADER_SIZE_BYTES:], crc32c(bytes(fresh[ATTRIBUTES_OFFSET:])))
    _CRC_STRUCT.pack_into(fresh, CRC_OFFSET, crc)
    return bytes(fresh)


def with_records(batch: RecordBatch, records: bytes, *, record_count: int, attributes: int,
                 max_timestamp: int) -> bytes:
    """Return a batch with other records behind its header; offsets, producer and base timestamp stay.

    Args:
        batch: Whose header is taken.
        records: As the codec in `attributes` has them.
        record_count: How many they are.
        attributes: The new attributes.
        max_timestamp: The largest timestamp among them.
    """
    header = read_header(batch.data)._replace(
        batch_length=HEADER_SIZE_BYTES - LOG_OVERHEAD_BYTES + len(records), attributes=attributes,
        max_timestamp=max_timestamp, record_count=record_count)
    rewritten = bytearray(HEADER.pack(*header)) + records
    _CRC_STRUCT.pack_into(rewritten, CRC_OFFSET, checksum(bytes(rewritten)))
    return bytes(rewritten)


def recompressed(batch: RecordBatch, compressor: Compressor) -> RecordBatch:
    """Return a batch whose records are in another codec; itself when they are in this one already.

    Raises:
        CorruptRecordError: The records cannot be decompressed.
        ExpansionBusyError: Too many large ones at once.
    """
    if batch.codec_id == compressor.codec_id:
        return batch
    with EXPANSION.expanded(batch) as expanded:
        records = compressor.compress(expanded)
    return RecordBatch(with_records(
        batch, records, record_count=batch.record_count, max_timestamp=batch.max_timestamp,
        attributes=batch.attributes & ~CODEC_MASK | compressor.codec_id))
