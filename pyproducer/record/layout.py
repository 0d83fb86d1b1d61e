"""Record batch v2 as bytes: the drawing, its offsets, its attribute bits, whose it is, its sequence arithmetic.

    byte  size  field                    covered by the CRC
    ----  ----  -----------------------  ------------------------------------------------------------
       0     8  base offset              no: 0 from a producer, the log's offset from a broker
       8     4  batch length             no: bytes after this field, so the whole batch is this + 12
      12     4  partition leader epoch   no: -1 from a producer; the broker may rewrite it
      16     1  magic                    no: 2
      17     4  CRC-32C (Castagnoli)     of bytes 21 to the end, after compression
      21     2  attributes               yes
      23     4  last offset delta        yes: record count - 1 (larger than that only after compaction)
      27     8  base timestamp           yes: of the first record, epoch ms; deltas may be negative
      35     8  max timestamp            yes: of all records; the append time where bit 3 is set
      43     8  producer id              yes: -1 without idempotence
      51     2  producer epoch           yes: -1 without idempotence
      53     4  base sequence            yes: -1 without idempotence, and in control batches
      57     4  record count             yes
      61     -  records                  yes; the only part that is compressed

    attributes: bits 0-2 codec (0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd), bit 3 timestamp type (0 create time,
                1 log append time), bit 4 transactional, bit 5 control, bit 6 delete horizon (base timestamp is it)

    record:  length VARINT (of what follows), attributes INT8 = 0, timestamp delta VARLONG, offset delta VARINT,
             key length VARINT (-1 is null), key, value length VARINT (-1 is null), value,
             header count VARINT, then per header: key length VARINT, key in UTF-8 (never null),
             value length VARINT (-1 is null), value.
             VARINT and VARLONG are zigzag, seven bits a byte, lowest first. All else is big-endian.

Road:    hotpath -> [layout] -> wire, log
Thread:  constants and pure functions.
Source:  Java DefaultRecordBatch, DefaultRecord (4.1).
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

from pyproducer import hotpath

Buffer = bytes | bytearray | memoryview

HEADER_SIZE_BYTES = hotpath.HEADER_SIZE_BYTES
"""61: the header as drawn, before the records."""

# Of the fields that are read or written alone; HEADER takes all at once.
BASE_OFFSET_OFFSET = 0
LENGTH_OFFSET = 8
MAGIC_OFFSET = 16
CRC_OFFSET = 17
ATTRIBUTES_OFFSET = 21
MAX_TIMESTAMP_OFFSET = 35
RECORDS_OFFSET = HEADER_SIZE_BYTES

LOG_OVERHEAD_BYTES = 12
"""Base offset and batch length: what the batch length does not count."""

MINIMUM_BATCH_LENGTH = 14
"""The smallest batch length of any magic; Java's LegacyRecord.RECORD_OVERHEAD_V0."""

MAGIC = 2
HEADER = Struct(">qiibIhiqqqhii")
"""All 61 bytes, in the order of the drawing."""

CODEC_MASK = 0x07
TIMESTAMP_TYPE_MASK = 0x08
TRANSACTIONAL_MASK = 0x10
CONTROL_MASK = 0x20

CREATE_TIME = 0
LOG_APPEND_TIME = 1

NO_TIMESTAMP = -1
NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1
NO_PARTITION_LEADER_EPOCH = -1
MAX_SEQUENCE = 2**31 - 1
MAX_EPOCH = 2**15 - 1  # of a producer id


class ProducerIdAndEpoch(NamedTuple):
    """Who a batch comes from; the broker refuses older epochs of the same id."""

    producer_id: int
    epoch: int

    @property
    def is_valid(self) -> bool:
        """Whether a broker gave this id."""
        return self.producer_id > NO_PRODUCER_ID


NO_PRODUCER = ProducerIdAndEpoch(NO_PRODUCER_ID, NO_PRODUCER_EPOCH)


def increment_sequence(sequence: int, increment: int) -> int:
    """Return the sequence number `increment` records later: 2147483647 is followed by 0.

    Source: Java DefaultRecordBatch.incrementSequence (4.1).
    """
    if sequence > MAX_SEQUENCE - increment:
        return increment - (MAX_SEQUENCE - sequence) - 1
    return sequence + increment


def is_earlier(first: int, second: int) -> bool:
    """Whether a sequence number comes before another on the ring; a distance of half the ring is out of reach."""
    return 0 < ((second - first) & MAX_SEQUENCE) < 2**30
