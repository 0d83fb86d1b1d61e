from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from pyproducer.common.errors import CorruptRecordError
from pyproducer.common.records import Header
from pyproducer.hotpath import OpenBatch
from pyproducer.hotpath._python import encode_varint
from pyproducer.record.record_reader import Record, decode_records, read_varint, read_varlong


def _decode(data: bytes, count: int = 1, **fields: Any) -> Iterator[Record]:
    return decode_records(data, record_count=count, **{"base_offset": 0, "base_timestamp": 0, "base_sequence": -1,
                                                       "append_timestamp": None, **fields})


def _framed(body: bytes) -> bytes:
    return encode_varint(len(body)) + body


@pytest.mark.parametrize("value", [0, 1, -1, 63, 64, -64, -65, 8191, 8192, 2**31 - 1, -2**31])
def test_varint(value: int) -> None:
    encoded = b"\xaa" + encode_varint(value) + b"\xaa"
    assert read_varint(encoded, 1) == (value, len(encoded) - 1)


@pytest.mark.parametrize("value", [0, -1, 2**31, -2**31 - 1, 2**63 - 1, -2**63])
def test_varlong(value: int) -> None:
    assert read_varlong(encode_varint(value), 0)[0] == value


@pytest.mark.parametrize("encoded", [b"\x80" * 5 + b"\x01", b"\xff" * 6, b"\xff\xff\xff\xff\x1f", encode_varint(2**31)])
def test_a_varint_beyond_32_bits_is_refused(encoded: bytes) -> None:
    with pytest.raises(CorruptRecordError, match="32 bits"):
        read_varint(encoded, 0)


@pytest.mark.parametrize("encoded", [b"\x80" * 10 + b"\x01", encode_varint(2**63)])
def test_a_varlong_beyond_64_bits_is_refused(encoded: bytes) -> None:
    with pytest.raises(CorruptRecordError, match="64 bits"):
        read_varlong(encoded, 0)


def test_lengths_of_one_two_and_three_bytes_are_read() -> None:
    fields = [(i * 7_000_000, b"k" * i, b"v" * (i * 300), [("h" * i, b"x" * i)]) for i in range(130)]
    batch = OpenBatch(None, 2**31 - 1)
    for record in fields:
        batch.append(*record)
    read = list(_decode(bytes(batch.buffer[61:]), 130))
    assert [(r.timestamp, r.key, r.value, list(r.headers)) for r in read] == fields
    assert isinstance(read[1].headers[0], Header)


def test_sequences_wrap_and_are_absent_without_idempotence() -> None:
    data = b"".join(_framed(b"\0\0" + encode_varint(i) + b"\x01\x01\0") for i in range(3))
    assert [r.sequence for r in _decode(data, 3, base_sequence=2**31 - 2)] == [2**31 - 2, 2**31 - 1, 0]
    assert [r.sequence for r in _decode(data, 3)] == [-1, -1, -1]


@pytest.mark.parametrize(("data", "text"), [
    (b"", "record 0 of 1: the records end early, at byte 0"),
    (b"\x0c\0\0", r"record 0 of 1, near byte 1 of 3: its length 6 does not fit into the 2 bytes"),
    (b"\x0d\0\0\0\0\0\0", "its length -7 does not fit"),
    (_framed(b"\0\0\0\x03\x01\0"), "its key has the length -2"),
    (_framed(b"\0\0\0\x01\x03\0"), "its value has the length -2"),
    (_framed(b"\0\0\0\x01\x02"), "record 0 of 1: the records end early"),
    (_framed(b"\0\0\0\x7e\x01\0"), "the records end early"),
    (_framed(b"\0\0\0\x01\x01\0\0"), "its fields end at byte 7, its length says 8"),
    (_framed(b"\0\0\0\x01\x01\x01"), "-1 headers at byte 7"),
    (_framed(b"\0\0\0\x01\x01" + encode_varint(2**30)), "1073741824 headers at byte 11 do not fit into 0 bytes"),
    (_framed(b"\0\0\0\x01\x01\x02\x01\x01"), "a header's key at byte 8 claims -1 bytes"),
    (_framed(b"\0\0\0\x01\x01\x02\x02k\x08v"), "the value of header 'k' at byte 10 claims 4 bytes"),
    (_framed(b"\0\0\0\x01\x01\x02\x02k\x03v"), "the value of header 'k' at byte 10 claims -2 bytes"),
    (_framed(b"\0\0\0\x01\x01\x02\x02\xff\x01"), "record 0 of 1: a header's key is not UTF-8"),
    (_framed(b"\0\0\0\x01\x01\0") + b"xyz", "3 bytes are left after the last of 1 records"),
])
def test_damage_is_named_with_its_place(data: bytes, text: str) -> None:
    with pytest.raises(CorruptRecordError, match=text):
        list(_decode(data))


def test_counts_that_do_not_fit_are_refused() -> None:
    record = _framed(b"\0\0\0\x01\x01\0")
    with pytest.raises(CorruptRecordError, match="record 1 of 2: the records end early"):
        list(_decode(record, 2))
    with pytest.raises(CorruptRecordError, match="7 bytes are left"):
        list(_decode(record, 0))
    with pytest.raises(CorruptRecordError, match="invalid record count -1"):
        list(_decode(record, -1))
