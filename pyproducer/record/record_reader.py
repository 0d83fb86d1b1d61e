"""Decode the records of one batch: the loop that a reader of a million records spends its time in.

Lengths of one and two bytes are decoded in place; a call is made only for longer ones.

Road:    decompression -> [decode_records] -> batch_reader
Thread:  any; pure.
Source:  Java DefaultRecord.readFrom, ByteUtils.readVarint (4.1).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from pyproducer.common.errors import CorruptRecordError
from pyproducer.common.records import NO_HEADERS, Header
from pyproducer.hotpath import OpenBatch
from pyproducer.record.layout import HEADER_SIZE_BYTES, MAX_SEQUENCE, NO_SEQUENCE, increment_sequence


class Record(NamedTuple):
    """A record as it stands in the log; timestamp is epoch ms, sequence is -1 without idempotence."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]
    sequence: int


def read_varint(data: bytes, position: int) -> tuple[int, int]:
    """Read a zigzag VARINT of 32 bits.

    Returns:
        The value, and the position after it.

    Raises:
        CorruptRecordError: It is longer than 5 bytes, or needs more than 32 bits.
        IndexError: The data end within it.
    """
    raw, position = _read_unsigned(data, position, 32)
    return (raw >> 1) ^ -(raw & 1), position


def read_varlong(data: bytes, position: int) -> tuple[int, int]:
    """Read a zigzag VARLONG of 64 bits; see `read_varint`."""
    raw, position = _read_unsigned(data, position, 64)
    return (raw >> 1) ^ -(raw & 1), position


def _read_unsigned(data: bytes, position: int, bits: int) -> tuple[int, int]:
    raw = shift = 0
    start = position
    while True:
        byte = data[position]
        position += 1
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift > bits:
            raise CorruptRecordError(f"the number at byte {start} is too long for {bits} bits")
    # Differs from Java, which drops the bits beyond: no encoder writes them, so they are damage.
    if raw >> bits:
        raise CorruptRecordError(f"the number at byte {start} is too large for {bits} bits")
    return raw, position


def read_headers(data: bytes, position: int, end: int, count: int) -> tuple[tuple[Header, ...], int]:
    """Read the headers of one record.

    Returns:
        The headers, and the position after them.

    Raises:
        CorruptRecordError: They do not fit between `position` and `end`.
        UnicodeDecodeError: A key is no UTF-8.
        IndexError: The data end within them.
    """
    # Each header takes two bytes at least: a count that lies fails here, not in memory.
    if count < 0 or 2 * count > end - position:
        raise CorruptRecordError(f"{count} headers at byte {position} do not fit into {end - position} bytes")
    headers: list[Header] = []
    new = tuple.__new__
    for _ in range(count):
        raw = data[position]
        position += 1
        if raw > 0x7F:
            raw, position = _read_unsigned(data, position - 1, 32)
        start = position
        position += raw >> 1
        if raw & 1 or position > end:
            raise CorruptRecordError(f"a header's key at byte {start} claims {(raw >> 1) ^ -(raw & 1)} bytes")
        key = data[start:position].decode()
        raw = data[position]
        position += 1
        if raw > 0x7F:
            raw, position = _read_unsigned(data, position - 1, 32)
        if raw == 1:
            headers.append(new(Header, (key, None)))
            continue
        start = position
        position += raw >> 1
        if raw & 1 or position > end:
            raise CorruptRecordError(f"the value of header {key!r} at byte {start} claims "
                                     f"{(raw >> 1) ^ -(raw & 1)} bytes")
        headers.append(new(Header, (key, data[start:position])))
    return tuple(headers), position


def decode_open_batch(batch: OpenBatch) -> Iterator[Record]:
    """Decode the records of a batch of our own, which its OpenBatch keeps uncompressed; offsets count from 0.

    No limit is laid on them, as is on what a peer sends.
    """
    with memoryview(batch.buffer) as view:
        records = bytes(view[HEADER_SIZE_BYTES:])
    return decode_records(records, record_count=batch.record_count, base_offset=0, base_timestamp=batch.base_timestamp,
                          base_sequence=NO_SEQUENCE, append_timestamp=None)


def decode_records(data: bytes, *, record_count: int, base_offset: int, base_timestamp: int, base_sequence: int,
                   append_timestamp: int | None) -> Iterator[Record]:
    """Decode the records of one batch, one at a time.

    Args:
        data: The records, expanded.
        record_count: How many there must be.
        base_offset: Offset of the batch.
        base_timestamp: Base timestamp of the batch.
        base_sequence: Base sequence of the batch, or -1.
        append_timestamp: The timestamp of all records where the topic uses LogAppendTime, else None.

    Raises:
        CorruptRecordError: A record does not end where its length says, or there are more or fewer than counted.
            Records before the damage have been given out.
    """
    size = len(data)
    new = tuple.__new__
    position = 0
    index = -1
    if record_count < 0:
        raise CorruptRecordError(f"invalid record count {record_count}")
    try:
        for index in range(record_count):  # noqa: B007 - the handlers below tell it
            raw = data[position]
            position += 1
            if raw > 0x7F:
                second = data[position]
                if second > 0x7F:
                    raw, position = _read_unsigned(data, position - 1, 32)
                else:
                    raw += (second << 7) - 0x80
                    position += 1
            end = position + (raw >> 1)
            if raw & 1 or end > size:
                raise CorruptRecordError(f"its length {(raw >> 1) ^ -(raw & 1)} does not fit into the "
                                         f"{size - position} bytes that are left")
            position += 1  # attributes: none are defined

            raw = data[position]
            position += 1
            if raw > 0x7F:
                raw, position = _read_unsigned(data, position - 1, 64)
            timestamp = (base_timestamp + ((raw >> 1) ^ -(raw & 1)) if append_timestamp is None
                         else append_timestamp)

            raw = data[position]
            position += 1
            if raw > 0x7F:
                second = data[position]
                if second > 0x7F:
                    raw, position = _read_unsigned(data, position - 1, 32)
                else:
                    raw += (second << 7) - 0x80
                    position += 1
            offset_delta = (raw >> 1) ^ -(raw & 1)

            raw = data[position]
            position += 1
            if raw > 0x7F:
                raw, position = _read_unsigned(data, position - 1, 32)
            if raw & 1:
                if raw != 1:
                    raise CorruptRecordError(f"its key has the length {-(raw >> 1) - 1}")
                key = None
            else:
                start = position
                position += raw >> 1
                key = data[start:position]

            raw = data[position]
            position += 1
            if raw > 0x7F:
                second = data[position]
                if second > 0x7F:
                    raw, position = _read_unsigned(data, position - 1, 32)
                else:
                    raw += (second << 7) - 0x80
                    position += 1
            if raw & 1:
                if raw != 1:
                    raise CorruptRecordError(f"its value has the length {-(raw >> 1) - 1}")
                value = None
            else:
                start = position
                position += raw >> 1
                value = data[start:position]

            raw = data[position]
            position += 1
            if raw:
                count, position = read_varint(data, position - 1)
                headers, position = read_headers(data, position, end, count)
            else:
                headers = NO_HEADERS
            if position != end:
                raise CorruptRecordError(f"its fields end at byte {position}, its length says {end}")

            sequence = base_sequence
            if sequence != NO_SEQUENCE:
                sequence += offset_delta
                if sequence > MAX_SEQUENCE:
                    sequence = increment_sequence(base_sequence, offset_delta)
            yield new(Record, (base_offset + offset_delta, timestamp, key, value, headers, sequence))
    except IndexError as cause:
        raise CorruptRecordError(f"record {index} of {record_count}: the records end early, at byte {size}") from cause
    except UnicodeDecodeError as cause:
        raise CorruptRecordError(f"record {index} of {record_count}: a header's key is not UTF-8: {cause}") from cause
    except CorruptRecordError as cause:
        raise CorruptRecordError(f"record {index} of {record_count}, near byte {position} of {size}: "
                                 f"{cause}") from cause
    if position != size:
        raise CorruptRecordError(f"{size - position} bytes are left after the last of {record_count} records")
