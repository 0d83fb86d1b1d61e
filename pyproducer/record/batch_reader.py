"""Read record batches: headers at once, records when asked for.

Nothing is copied until records are read; then the records of one batch are expanded into one bytes object, and
keys and values are cut from it. The CRC is checked only by `is_valid` and `ensure_valid`.

Road:    wire, log -> [read_batches] -> RecordBatch -> Record
Thread:  any; a RecordBatch is a view on its bytes and never changes.
Source:  Java ByteBufferLogInputStream, DefaultRecordBatch (4.1).
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct

from pyproducer.common.errors import CorruptRecordError
from pyproducer.record.checksum import crc32c
from pyproducer.record.decompression import CODEC_NAMES, DEFAULT_LIMIT_BYTES, decompress
from pyproducer.record.layout import (
    ATTRIBUTES_OFFSET,
    CODEC_MASK,
    CONTROL_MASK,
    CRC_OFFSET,
    HEADER,
    HEADER_SIZE_BYTES,
    LENGTH_OFFSET,
    LOG_APPEND_TIME,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    MAGIC_OFFSET,
    MAX_TIMESTAMP_OFFSET,
    MINIMUM_BATCH_LENGTH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    RECORDS_OFFSET,
    TIMESTAMP_TYPE_MASK,
    TRANSACTIONAL_MASK,
    Buffer,
    increment_sequence,
)
from pyproducer.record.record_reader import Record, decode_records

__all__ = ["Record", "RecordBatch", "frame_size", "read_batches", "with_max_timestamp"]

_CRC = Struct(">I")
_TIMESTAMP = Struct(">q")


class RecordBatch:
    """One batch of magic 2.

    Iterating gives its records; every iteration expands them again.

    Args:
        data: Exactly the batch's bytes; must not change while this lives.
        position: Where the batch stood in what was read, for messages.

    Raises:
        CorruptRecordError: There are fewer than 61 bytes.

    Shape: the attributes are the header's fields as they are on the wire, checked by nothing but `ensure_valid`.
    """

    __slots__ = ("attributes", "base_offset", "base_sequence", "base_timestamp", "batch_length", "crc", "data",
                 "last_offset_delta", "magic", "max_timestamp", "partition_leader_epoch", "position",
                 "producer_epoch", "producer_id", "record_count")

    attributes: int
    base_offset: int
    base_sequence: int
    base_timestamp: int
    batch_length: int
    crc: int
    last_offset_delta: int
    magic: int
    max_timestamp: int
    partition_leader_epoch: int
    producer_epoch: int
    producer_id: int
    record_count: int

    def __init__(self, data: Buffer, position: int = 0) -> None:
        if len(data) < HEADER_SIZE_BYTES:
            raise CorruptRecordError(f"Record batch is corrupted (the size {len(data)} is smaller than the minimum "
                                     f"allowed overhead {HEADER_SIZE_BYTES}), at byte {position}")
        self.data: memoryview = memoryview(data)
        self.position: int = position
        (self.base_offset, self.batch_length, self.partition_leader_epoch, self.magic, self.crc, self.attributes,
         self.last_offset_delta, self.base_timestamp, self.max_timestamp, self.producer_id, self.producer_epoch,
         self.base_sequence, self.record_count) = HEADER.unpack_from(data)

    @property
    def size_bytes(self) -> int:
        """The whole batch, header included."""
        return len(self.data)

    @property
    def last_offset(self) -> int:
        """Offset of the last record, or of the last there was before compaction."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """Offset after the last record."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def codec_id(self) -> int:
        """Number of the codec, 0 to 7; above 4 there is none."""
        return self.attributes & CODEC_MASK

    @property
    def timestamp_type(self) -> int:
        """0 create time, 1 log append time."""
        return 1 if self.attributes & TIMESTAMP_TYPE_MASK else 0

    @property
    def is_transactional(self) -> bool:
        """Whether the records belong to a transaction."""
        return bool(self.attributes & TRANSACTIONAL_MASK)

    @property
    def is_control(self) -> bool:
        """Whether the batch is a marker and not data."""
        return bool(self.attributes & CONTROL_MASK)

    @property
    def has_producer_id(self) -> bool:
        """Whether an idempotent producer wrote it."""
        return self.producer_id > NO_PRODUCER_ID

    @property
    def last_sequence(self) -> int:
        """Sequence number of the last record, or -1."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return increment_sequence(self.base_sequence, self.last_offset_delta)

    def compute_crc(self) -> int:
        """Return the CRC-32C of the bytes that it covers."""
        with self.data[ATTRIBUTES_OFFSET:] as covered:
            return crc32c(covered)

    def is_valid(self) -> bool:
        """Whether the stored CRC is that of the bytes."""
        return self.compute_crc() == self.crc

    def ensure_valid(self) -> None:
        """Check the CRC.

        Raises:
            CorruptRecordError: It does not fit.
        """
        computed = self.compute_crc()
        if computed != self.crc:
            raise CorruptRecordError(f"Record is corrupt (stored crc = {self.crc}, computed crc = {computed}), "
                                     f"in the batch of offset {self.base_offset} at byte {self.position}")

    def expanded_records(self, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> bytes:
        """Return the encoded records, uncompressed.

        Args:
            limit_bytes: The most that may come out.

        Raises:
            CorruptRecordError: They cannot be decompressed, or expand beyond the limit.
        """
        with self.data[RECORDS_OFFSET:] as compressed:
            return decompress(self.codec_id, compressed, limit_bytes)

    def records(self, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> Iterator[Record]:
        """Give the records one by one.

        Args:
            limit_bytes: The most that the records may expand to.

        Raises:
            CorruptRecordError: The records cannot be read; names the batch. Those before the damage were given out.
        """
        yield from self.decoded(self.expanded_records(limit_bytes))

    def decoded(self, expanded: bytes) -> Iterator[Record]:
        """Give the records one by one, of what `expanded_records` returned.

        Raises:
            CorruptRecordError: They cannot be read; names the batch. Those before the damage were given out.
        """
        try:
            yield from decode_records(
                expanded, record_count=self.record_count, base_offset=self.base_offset,
                base_timestamp=self.base_timestamp, base_sequence=self.base_sequence,
                append_timestamp=self.max_timestamp if self.timestamp_type == LOG_APPEND_TIME else None)
        except CorruptRecordError as cause:
            raise CorruptRecordError(f"{cause} (in the batch of offset {self.base_offset} at byte "
                                     f"{self.position})") from cause

    def __iter__(self) -> Iterator[Record]:
        return self.records()

    def __repr__(self) -> str:
        codec = CODEC_NAMES.get(self.codec_id, str(self.codec_id))
        kind = " control" if self.is_control else " transactional" if self.is_transactional else ""
        return (f"RecordBatch(offsets {self.base_offset}..{self.last_offset}, {self.record_count}{kind} records, "
                f"{self.size_bytes} bytes, {codec}, producer {self.producer_id}/{self.producer_epoch}, "
                f"sequence {self.base_sequence})")


def with_max_timestamp(batch: RecordBatch, max_timestamp: int) -> RecordBatch:
    """Return a copy of a batch with another largest timestamp in its header."""
    data = bytearray(batch.data)
    _TIMESTAMP.pack_into(data, MAX_TIMESTAMP_OFFSET, max_timestamp)
    _CRC.pack_into(data, CRC_OFFSET, crc32c(memoryview(data)[ATTRIBUTES_OFFSET:]))
    return RecordBatch(bytes(data))


def frame_size(data: Buffer, position: int) -> int | None:
    """Return the size of the batch at `position`, of whatever magic, or None if it is not all there.

    Raises:
        CorruptRecordError: Its length is below any batch's, or its magic above 2; in Kafka's words.

    Source: Java ByteBufferLogInputStream.nextBatchSize (4.1).
    """
    remaining = len(data) - position
    if remaining < LOG_OVERHEAD_BYTES:
        return None
    length = int.from_bytes(data[position + LENGTH_OFFSET:position + LOG_OVERHEAD_BYTES], "big", signed=True)
    if length < MINIMUM_BATCH_LENGTH:
        raise CorruptRecordError(f"Record size {length} is less than the minimum record overhead "
                                 f"({MINIMUM_BATCH_LENGTH})")
    if remaining <= MAGIC_OFFSET:
        return None
    magic = data[position + MAGIC_OFFSET]
    if magic > MAGIC:
        raise CorruptRecordError(f"Invalid magic found in record: {magic if magic < 0x80 else magic - 0x100}")
    size = length + LOG_OVERHEAD_BYTES
    return size if size <= remaining else None


def read_batches(data: Buffer) -> Iterator[RecordBatch]:
    """Read batches one after another.

    A batch that is cut short at the end is left out: a Fetch response may end with one.

    Args:
        data: Batches of magic 2; must not change while the batches are in use.

    Raises:
        CorruptRecordError: A length or magic makes no sense, or is of the old message format (magic 0 and 1).
            Batches before it have been given out.
    """
    view = memoryview(data)
    position = 0
    while True:
        try:
            size = frame_size(view, position)
        except CorruptRecordError as cause:
            raise CorruptRecordError(f"{cause}, at byte {position}") from cause
        if size is None:
            return
        if view[position + MAGIC_OFFSET] != MAGIC:
            raise CorruptRecordError(f"the batch at byte {position} has the old magic {view[position + MAGIC_OFFSET]}, "
                                     "which is not read here")
        yield RecordBatch(view[position:position + size], position)
        position += size
