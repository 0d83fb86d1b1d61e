"""The per-record work as Python text: the definition that a compiled twin must match.

Road:    partitioner, accumulator -> [murmur2, BatchBuffer] -> record
Thread:  a BatchBuffer belongs to whoever holds its partition's lock; the functions are pure.
Source:  Java Utils.murmur2, DefaultRecord.writeTo, ByteUtils.writeVarint (4.1). Imports nothing of ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

HEADER_SIZE_BYTES = 61
"""Room kept free at the start of a batch; record/layout.py draws what goes there."""

_MASK = 0xFFFFFFFF
_M = 0x5BD1E995
_SEED = 0x9747B28C


def _murmur2(data: bytes) -> int:
    length = len(data)
    h = _SEED ^ length
    whole = length & ~3
    for i in range(0, whole, 4):
        k = (int.from_bytes(data[i:i + 4], "little") * _M) & _MASK
        k = ((k ^ (k >> 24)) * _M) & _MASK
        h = ((h * _M) & _MASK) ^ k
    rest = length - whole
    if rest:
        if rest == 3:
            h ^= data[whole + 2] << 16
        if rest >= 2:
            h ^= data[whole + 1] << 8
        h = ((h ^ data[whole]) * _M) & _MASK
    h = ((h ^ (h >> 13)) * _M) & _MASK
    return h ^ (h >> 15)


_LONGEST_REMEMBERED_KEY_BYTES = 64
# 4,096 keys of at most 64 bytes: some hundred KiB. A hit costs a tenth of hashing 8 bytes again.
_murmur2_remembered = lru_cache(maxsize=4096)(_murmur2)


def murmur2(data: bytes) -> int:
    """Hash a key as Java's Utils.murmur2 does.

    Returns:
        The hash as an unsigned 32-bit int. Partitioners mask it with 0x7fffffff (Java's toPositive).
    """
    if len(data) <= _LONGEST_REMEMBERED_KEY_BYTES:
        return _murmur2_remembered(data)
    return _murmur2(data)


def encode_uvarint(value: int) -> bytes:
    """Encode a non-negative int, seven bits a byte, lowest first."""
    out = bytearray()
    while value > 0x7F:
        out.append((value & 0x7F) | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def encode_varint(value: int) -> bytes:
    """Encode a signed int of up to 64 bits, zigzag: the form inside records."""
    return encode_uvarint((value << 1) if value >= 0 else ((-value << 1) - 1))


_TABLE_SIZE = 16384
_VARINT = tuple(encode_varint(n) for n in range(_TABLE_SIZE))
_NULL = encode_varint(-1)
_NO_HEADERS = b"\x00"


def varint(value: int) -> bytes:
    """Encode as `encode_varint` does, from a table where the value is small."""
    return _VARINT[value] if 0 <= value < _TABLE_SIZE else encode_varint(value)


def encode_headers(headers: Sequence[tuple[str, bytes | None]]) -> bytes:
    """Encode a record's headers: their count, then each key and value with its length."""
    if not headers:
        return _NO_HEADERS
    parts = [varint(len(headers))]
    for key, value in headers:
        key_bytes = key.encode()
        parts.append(varint(len(key_bytes)))
        parts.append(key_bytes)
        if value is None:
            parts.append(_NULL)
        else:
            parts.append(varint(len(value)))
            parts.append(value)
    return b"".join(parts)


def record_size_upper_bound(key: bytes | None, value: bytes | None,
                            headers: Sequence[tuple[str, bytes | None]]) -> int:
    """Return how many bytes a batch with just this record takes at most, its 61-byte header included.

    Source: Java AbstractRecords.estimateSizeInBytesUpperBound (magic 2): 21 bytes of lengths and deltas at most.
    """
    size = HEADER_SIZE_BYTES + 21 + (len(key) if key is not None else 0) + (len(value) if value is not None else 0)
    for header_key, header_value in headers:
        size += 10 + 4 * len(header_key) + (len(header_value) if header_value is not None else 0)
    return size


class BatchBuffer:
    """The open end of one batch: records are encoded straight behind the room for the batch's header.

    Shape: `buffer[61:]` holds the records, uncompressed; offset deltas count from 0, timestamp deltas from the
    first record's timestamp. `max_timestamp` is the largest seen.
    """

    __slots__ = ("base_timestamp", "buffer", "max_timestamp", "record_count")

    def __init__(self) -> None:
        self.buffer = bytearray(HEADER_SIZE_BYTES)
        self.record_count = 0
        self.base_timestamp = -1
        self.max_timestamp = -1

    @property
    def size_bytes(self) -> int:
        """Bytes so far, the header's 61 included."""
        return len(self.buffer)

    def append(self, timestamp: int, key: bytes | None, value: bytes | None,
               headers: Sequence[tuple[str, bytes | None]]) -> None:
        """Encode one record at the end.

        Args:
            timestamp: Epoch ms.
            key: Serialized key or None.
            value: Serialized value or None.
            headers: Pairs of str and bytes or None.
        """
        count = self.record_count
        if count:
            delta = timestamp - self.base_timestamp
            if timestamp > self.max_timestamp:
                self.max_timestamp = timestamp
        else:
            delta = 0
            self.base_timestamp = self.max_timestamp = timestamp
        delta_bytes = _VARINT[delta] if 0 <= delta < _TABLE_SIZE else encode_varint(delta)
        offset_bytes = _VARINT[count] if count < _TABLE_SIZE else encode_varint(count)
        if key is None:
            key_length = _NULL
            key = b""
        else:
            length = len(key)
            key_length = _VARINT[length] if length < _TABLE_SIZE else encode_varint(length)
        if value is None:
            value_length = _NULL
            value = b""
        else:
            length = len(value)
            value_length = _VARINT[length] if length < _TABLE_SIZE else encode_varint(length)
        # b"\x00" in front: the record's attributes, not used by any version so far.
        body = b"".join((b"\x00", delta_bytes, offset_bytes, key_length, key, value_length, value,
                         encode_headers(headers) if headers else _NO_HEADERS))
        length = len(body)
        self.buffer += _VARINT[length] if length < _TABLE_SIZE else encode_varint(length)
        self.buffer += body
        self.record_count = count + 1
