"""Whether the records of a batch are beyond doubt, without decoding them: what a broker asks of every batch.

A yes is the usual answer and takes a third of the time that decoding does; it comes as the last record's timestamp,
which mostly is the largest one, too. A no (None) only means that the records have to be decoded: they may be odd
(numbers of five bytes, thousands of records) and still be right, and what is wrong with them must be told in detail.

Road:    Produce -> validation -> [scan]; on a no -> record_reader
Thread:  pure function.
Source:  ours; Java DefaultRecordBatch.skipKeyValueIterator, which LogValidator uses for the same reason (4.1).
"""

from __future__ import annotations

from pyproducer.common.errors import CorruptRecordError
from pyproducer.record.record_reader import read_headers, read_varlong

# A zigzag number of two bytes is below 2**14: the offset deltas of so many records.
_MAX_RECORDS = 1 << 13


def last_timestamp_if_sound(data: bytes, *, record_count: int, base_timestamp: int, earliest: int, latest: int,
                            needs_key: bool) -> int | None:
    """Return the last timestamp when every record can be decoded, is in its place, and has an allowed timestamp.

    Args:
        data: The records, expanded.
        record_count: How many there must be.
        base_timestamp: Base timestamp of the batch.
        earliest: The smallest timestamp allowed.
        latest: The largest timestamp allowed.
        needs_key: Whether every record must have a key.
    """
    if not 0 < record_count <= _MAX_RECORDS:
        return None
    size = len(data)
    earliest_delta, latest_delta = earliest - base_timestamp, latest - base_timestamp
    delta = position = 0
    offset_delta = -2  # as the wire has it: twice the record's index
    try:
        for _ in range(record_count):
            offset_delta += 2
            raw = data[position]
            position += 1
            if raw > 0x7F:
                second = data[position]
                position += 1
                raw += (second << 7) - 0x80
                if second > 0x7F:
                    third = data[position]
                    position += 1
                    if third > 0x7F:
                        return None
                    raw += (third << 14) - 0x4000
            if raw & 1:
                return None
            end = position + (raw >> 1)
            # Behind the attributes, of which none are defined.
            raw = data[position + 1]
            position += 2
            if raw > 0x7F:
                second = data[position]
                if second > 0x7F:
                    delta, position = read_varlong(data, position - 1)
                else:
                    raw += (second << 7) - 0x80
                    delta = (raw >> 1) ^ -(raw & 1)
                    position += 1
            else:
                delta = (raw >> 1) ^ -(raw & 1)
            if not earliest_delta <= delta <= latest_delta:
                return None
            if offset_delta < 0x80:
                if data[position] != offset_delta:
                    return None
                position += 1
            else:
                if data[position] != offset_delta & 0x7F | 0x80 or data[position + 1] != offset_delta >> 7:
                    return None
                position += 2
            raw = data[position]
            position += 1
            if raw > 0x7F:
                second = data[position]
                if second > 0x7F:
                    return None
                raw += (second << 7) - 0x80
                position += 1
            if raw & 1:
                if raw != 1 or needs_key:
                    return None
            else:
                position += raw >> 1
            raw = data[position]
            position += 1
            if raw > 0x7F:
                second = data[position]
                position += 1
                raw += (second << 7) - 0x80
                if second > 0x7F:
                    third = data[position]
                    position += 1
                    if third > 0x7F:
                        return None
                    raw += (third << 14) - 0x4000
            if not raw & 1:
                position += raw >> 1
            elif raw != 1:
                return None
            raw = data[position]
            position += 1
            if raw:
                if raw & 1 or raw > 0x7F:
                    return None
                _, position = read_headers(data, position, end, raw >> 1)
            if position != end:
                return None
    except (IndexError, CorruptRecordError, UnicodeDecodeError):
        return None
    return base_timestamp + delta if position == size else None
