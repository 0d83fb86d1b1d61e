"""What a producer may put into one partition of a Produce request, read strictly.

A broker answers wrong bytes with an error code, and a client's retry may hide them for ever. Here whatever no correct
client sends is a ClientBug, which nobody catches.

Thread:  pure.
Source:  the layout of record batch v2 as in Kafka's documentation of its message format; what Kafka 4.1 answers to
         each fault was measured (87, 2, -1). Nothing here is shared with pyproducer's own reader of batches.
"""

from __future__ import annotations

import gzip
import zlib
from struct import Struct
from typing import NoReturn

import crc32c

MAX_SEQUENCE = 2**31 - 1
NO_PRODUCER_ID = -1
HEADER_SIZE_BYTES = 61
CODEC_NONE, CODEC_GZIP, CODEC_SNAPPY, CODEC_LZ4, CODEC_ZSTD = range(5)
ZSTD_FROM_VERSION = 7  # of Produce; below it Kafka answers 76

_HEADER = Struct(">qiibIhiqqqhii")
_SIZE_AND_LEADER_EPOCH = 12  # bytes before the part that the batch's length counts
_CRC_COVERS_FROM = 21
CODEC_MASK = 0x07
_TRANSACTIONAL = 0x10
_XERIAL = b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"
_LZ4_MAGIC = b"\x04\x22\x4d\x18"
_LZ4_INDEPENDENT_BLOCKS = 0x20
_LZ4_SMALLEST_BLOCK_BYTES = 64 * 1024


class ClientBug(AssertionError):
    """The client sent what no correct client sends."""


def bug(why: str) -> NoReturn:
    """Report what the client did.

    Raises:
        ClientBug: Always.
    """
    raise ClientBug(why)


class ProducedBatch:
    """One batch as a client sent it, every byte of it checked.

    Attributes:
        data: All bytes of the batch.
        attributes: As in its header.
        crc: As in its header; equal for equal records with equal headers.
        count: How many records it has, 1 or more.
        values: The records' values in order; None is a null value.
        keys: Their keys.
        headers: Their headers as bytes, b"" for none.
        timestamps: Epoch ms.
        producer_id, producer_epoch, base_sequence: -1 each without idempotence.
        max_timestamp: Epoch ms.
        is_transactional: Whether it says that it belongs to a transaction.
    """

    __slots__ = ("attributes", "base_sequence", "count", "crc", "data", "headers", "is_transactional", "keys",
                 "max_timestamp", "producer_epoch", "producer_id", "timestamps", "values")

    def __init__(self, data: bytes, produce_version: int, *, may_name_leader_epoch: bool = False,
                 is_transactional: bool = False) -> None:
        size = len(data)
        if size < HEADER_SIZE_BYTES:
            bug(f"a batch of {size} bytes has no header")
        (base_offset, length, leader_epoch, magic, crc, attributes, last_offset_delta, base_timestamp, max_timestamp,
         producer_id, producer_epoch, base_sequence, count) = _HEADER.unpack_from(data)
        if magic != 2:
            bug(f"a batch has magic {magic}")
        if length != size - _SIZE_AND_LEADER_EPOCH:
            bug(f"a batch says that {length} bytes follow its length, and {size - _SIZE_AND_LEADER_EPOCH} do: it is "
                "cut short, or more than one batch was sent to the partition")
        computed = crc32c.crc32c(memoryview(data)[_CRC_COVERS_FROM:])
        if computed != crc:
            bug(f"a batch has the CRC {crc:#x}, its bytes have {computed:#x}")
        if base_offset != 0:
            bug(f"a producer sent the base offset {base_offset}")
        if leader_epoch != -1 and not may_name_leader_epoch:
            bug(f"a producer sent the partition leader epoch {leader_epoch}")
        if attributes & ~CODEC_MASK != (_TRANSACTIONAL if is_transactional else 0):
            bug(f"a batch has the attributes {attributes:#x}: {'a' if is_transactional else 'no'} transaction, and no "
                "control batch, time of the log or bit without a meaning is a producer's here")
        if count < 1:
            bug(f"a batch has {count} records")
        if last_offset_delta != count - 1:
            bug(f"a batch of {count} records has the last offset delta {last_offset_delta}")
        if producer_id == NO_PRODUCER_ID:
            if producer_epoch != -1 or base_sequence != -1:
                bug(f"a batch without producer id has epoch {producer_epoch} and sequence {base_sequence}")
        elif producer_id < 0 or producer_epoch < 0 or base_sequence < 0:
            bug(f"a batch has producer id {producer_id}, epoch {producer_epoch} and sequence {base_sequence}")
        if base_timestamp < 0:
            bug(f"a batch has the base timestamp {base_timestamp}")
        codec = attributes & CODEC_MASK
        self.data = data
        self.attributes: int = attributes
        self.is_transactional = is_transactional
        self.crc: int = crc
        self.count: int = count
        self.producer_id: int = producer_id
        self.producer_epoch: int = producer_epoch
        self.base_sequence: int = base_sequence
        self.max_timestamp: int = max_timestamp
        self.keys: list[bytes | None] = []
        self.headers: list[bytes] = []
        self.timestamps: list[int] = []
        if codec == CODEC_NONE:
            self.values = _read_records(self, data, HEADER_SIZE_BYTES, base_timestamp)
        else:
            if codec == CODEC_ZSTD and produce_version < ZSTD_FROM_VERSION:
                bug(f"zstd in Produce {produce_version}")
            self.values = _read_records(self, expand(codec, data[HEADER_SIZE_BYTES:]), 0, base_timestamp)


def records_as_written(data: bytes) -> bytes:
    """Return the records of a batch as their encoder wrote them, expanded; without those that name a time."""
    codec = _HEADER.unpack_from(data)[5] & CODEC_MASK
    return data[HEADER_SIZE_BYTES:] if codec == CODEC_NONE else expand(codec, data[HEADER_SIZE_BYTES:])


def _varint(data: bytes, position: int) -> tuple[int, int]:
    """Read a zigzag number of up to 64 bits; return it and the position behind it."""
    raw = shift = 0
    while True:
        byte = data[position]
        position += 1
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift > 63:
            bug(f"a number at byte {position} is too long")
    return raw >> 1 ^ -(raw & 1), position


def _read_records(batch: ProducedBatch, data: bytes, position: int, base_timestamp: int) -> list[bytes | None]:
    """Read the records up to the last byte; return their values, and give the batch what else they have.

    Raises:
        ClientBug: One is not well-formed, or they contradict the batch's header.
    """
    values: list[bytes | None] = []
    append = values.append
    add_key, add_headers, add_timestamp = batch.keys.append, batch.headers.append, batch.timestamps.append
    count, max_timestamp = batch.count, batch.max_timestamp
    latest = 0
    size = len(data)
    try:
        for index in range(count):
            # The numbers of small records take one byte each; a call is made for longer ones only.
            length = data[position]
            position += 1
            if length < 0x80:
                length = length >> 1 ^ -(length & 1)
            else:
                length, position = _varint(data, position - 1)
            end = position + length
            if length < 0 or end > size:
                bug(f"record {index} of {count} says that it has {length} bytes, {size - position} are left")
            if data[position] != 0:
                bug(f"record {index} of {count} has the attributes {data[position]}")
            position += 1
            delta = data[position]
            position += 1
            if delta < 0x80:
                delta = delta >> 1 ^ -(delta & 1)
            else:
                delta, position = _varint(data, position - 1)
            if delta > latest:
                latest = delta
            add_timestamp(base_timestamp + delta)
            if index == 0:
                if delta != 0:
                    bug(f"the first record's timestamp is {delta} ms from the batch's base timestamp")
            elif base_timestamp + delta < 0:
                bug(f"record {index} of {count} has the timestamp {base_timestamp + delta}")
            number = data[position]
            position += 1
            if number < 0x80:
                number = number >> 1 ^ -(number & 1)
            else:
                number, position = _varint(data, position - 1)
            if number != index:
                bug(f"record {index} of {count} has the offset delta {number}")
            key_length = data[position]
            position += 1
            if key_length < 0x80:
                key_length = key_length >> 1 ^ -(key_length & 1)
            else:
                key_length, position = _varint(data, position - 1)
            if key_length >= 0:
                add_key(data[position:position + key_length])
                position += key_length
            elif key_length == -1:
                add_key(None)
            else:
                bug(f"record {index} of {count} has a key of {key_length} bytes")
            value_length = data[position]
            position += 1
            if value_length < 0x80:
                value_length = value_length >> 1 ^ -(value_length & 1)
            else:
                value_length, position = _varint(data, position - 1)
            if value_length >= 0:
                append(data[position:position + value_length])
                position += value_length
            elif value_length == -1:
                append(None)
            else:
                bug(f"record {index} of {count} has a value of {value_length} bytes")
            if data[position]:
                begin, position = position, _skip_headers(data, position)
                add_headers(data[begin:position])
            else:
                add_headers(b"")
                position += 1
            if position != end:
                bug(f"record {index} of {count} ends at byte {position}, its length says {end}")
    except IndexError:
        bug(f"{count} records are announced, and they end early, at byte {size}")
    if position != size:
        bug(f"{size - position} bytes are left behind the last of {count} records")
    if base_timestamp + latest != max_timestamp:
        bug(f"a batch has the max timestamp {max_timestamp}, its latest record has {base_timestamp + latest}")
    return values


def _skip_headers(data: bytes, position: int) -> int:
    count, position = _varint(data, position)
    if count < 0:
        bug(f"a record has {count} headers")
    for _ in range(count):
        length, position = _varint(data, position)
        if length < 0:
            bug(f"a header has a key of {length} bytes")
        key = data[position:position + length]
        try:
            key.decode()
        except UnicodeDecodeError:
            bug(f"a header has the key {key!r}, which is not UTF-8")
        position += length
        length, position = _varint(data, position)
        if length < -1:
            bug(f"the header {key!r} has a value of {length} bytes")
        position += max(length, 0)
    return position


def expand(codec: int, data: bytes) -> bytes:
    """Expand compressed records, each codec in the one form that Kafka's brokers and all clients read.

    Raises:
        ClientBug: They are not of this codec, or of a form that Kafka's broker refuses.
    """
    try:
        if codec == CODEC_GZIP:
            return gzip.decompress(data)
        if codec == CODEC_SNAPPY:
            return _expand_xerial(data)
        if codec == CODEC_LZ4:
            return _expand_lz4(data)
        if codec == CODEC_ZSTD:
            import zstandard

            return zstandard.ZstdDecompressor().decompressobj().decompress(data)
    except ClientBug:
        raise
    except (OSError, EOFError, zlib.error) as cause:
        bug(f"gzip: {cause!r}")
    except Exception as cause:  # each library has exceptions of its own
        bug(f"codec {codec}: {cause!r}")
    bug(f"there is no codec {codec}")


def _expand_lz4(data: bytes) -> bytes:
    import lz4.frame

    expanded: bytes = lz4.frame.decompress(data)
    are_blocks_independent = data[:4] == _LZ4_MAGIC and data[4] & _LZ4_INDEPENDENT_BLOCKS
    if not are_blocks_independent and len(expanded) > _LZ4_SMALLEST_BLOCK_BYTES:
        bug("lz4: the blocks depend on each other, which Kafka's broker answers with -1")
    return expanded


def _expand_xerial(data: bytes) -> bytes:
    import cramjam

    if not data.startswith(_XERIAL):
        bug(f"snappy: the records begin with {data[:16]!r}, not with the frame of snappy-java")
    pieces = []
    position = len(_XERIAL)
    while position < len(data):
        size = int.from_bytes(data[position:position + 4], "big")
        position += 4
        if size > len(data) - position:
            bug(f"snappy: a block of {size} bytes is announced, {len(data) - position} are left")
        pieces.append(bytes(cramjam.snappy.decompress_raw(data[position:position + size])))
        position += size
    return b"".join(pieces)
