from __future__ import annotations

import tracemalloc

import pytest

from pyproducer.common.errors import SchemaError
from pyproducer.protocol.buffer import INLINE_PAYLOAD_LIMIT_BYTES, ByteReader, ByteWriter
from pyproducer.protocol.types import (
    BYTES,
    COMPACT_BYTES,
    COMPACT_NULLABLE_BYTES,
    COMPACT_NULLABLE_STRING,
    COMPACT_RECORDS,
    COMPACT_STRING,
    INT16,
    INT32,
    NULLABLE_BYTES,
    NULLABLE_STRING,
    RECORDS,
    STRING,
    ArrayOf,
    CompactArrayOf,
    Type,
)

LONG = "x" * 200
GOLDEN = [
    (STRING, "", "0000"), (STRING, "ab", "00026162"), (STRING, "\u00e9", "0002c3a9"),
    (NULLABLE_STRING, None, "ffff"), (NULLABLE_STRING, "ab", "00026162"),
    (COMPACT_STRING, "", "01"), (COMPACT_STRING, "ab", "036162"), (COMPACT_STRING, LONG, "c901" + "78" * 200),
    (COMPACT_NULLABLE_STRING, None, "00"), (COMPACT_NULLABLE_STRING, "", "01"),
    (BYTES, b"", "00000000"), (BYTES, b"ab", "000000026162"),
    (NULLABLE_BYTES, None, "ffffffff"), (NULLABLE_BYTES, b"", "00000000"),
    (COMPACT_BYTES, b"ab", "036162"), (COMPACT_NULLABLE_BYTES, None, "00"), (COMPACT_NULLABLE_BYTES, b"", "01"),
    (RECORDS, None, "ffffffff"), (RECORDS, b"ab", "000000026162"),
    (COMPACT_RECORDS, None, "00"), (COMPACT_RECORDS, b"ab", "036162"),
    (ArrayOf(INT32), [], "00000000"), (ArrayOf(INT32), [1, -1], "0000000200000001ffffffff"),
    (ArrayOf(STRING), ["a"], "00000001000161"), (ArrayOf(INT16, nullable=True), None, "ffffffff"),
    (CompactArrayOf(INT32), [], "01"), (CompactArrayOf(INT32), [1], "0200000001"),
    (CompactArrayOf(COMPACT_STRING, nullable=True), None, "00"),
    (ArrayOf(ArrayOf(INT16)), [[1], []], "000000020000000100010000" + "0000"),
]


def written(type_: Type, value: object) -> bytes:
    writer = ByteWriter()
    type_.write(writer, value)
    return writer.to_bytes()


@pytest.mark.parametrize(("type_", "value", "hex_text"), GOLDEN, ids=[f"{row[0]}-{row[2][:12]}" for row in GOLDEN])
def test_value_when_it_is_written_then_it_has_known_bytes(type_, value, hex_text):
    assert written(type_, value).hex() == hex_text
    reader = ByteReader(bytes.fromhex(hex_text) + b"rest")
    assert type_.read(reader) == value
    assert reader.remaining == 4


@pytest.mark.parametrize(("type_", "value", "hex_text"), GOLDEN, ids=[f"{row[0]}-{row[2][:12]}" for row in GOLDEN])
def test_read_when_cut_short_anywhere_then_refused(type_, value, hex_text):
    data = bytes.fromhex(hex_text)
    for size_bytes in range(len(data)):
        with pytest.raises(SchemaError):
            type_.read(ByteReader(data[:size_bytes]))


NULLABLE = {NULLABLE_STRING, COMPACT_NULLABLE_STRING, NULLABLE_BYTES, COMPACT_NULLABLE_BYTES, RECORDS, COMPACT_RECORDS}
NOT_NULLABLE = {STRING, COMPACT_STRING, BYTES, COMPACT_BYTES, ArrayOf(INT32), CompactArrayOf(INT32)}


@pytest.mark.parametrize("type_", sorted(NULLABLE | NOT_NULLABLE, key=str), ids=str)
def test_null_when_the_type_is_not_nullable_then_it_is_refused(type_):
    assert type_.is_nullable == (type_ in NULLABLE)
    null = b"\0" if type_.name.startswith("COMPACT") else b"\xff\xff\xff\xff"
    if type_.is_nullable:
        assert type_.read(ByteReader(null)) is None
        assert null.startswith(written(type_, None))
        return
    with pytest.raises(SchemaError, match="cannot be negative"):
        type_.read(ByteReader(null))
    with pytest.raises(SchemaError, match=r"^None is not"):
        written(type_, None)


@pytest.mark.parametrize("type_", sorted(NULLABLE | NOT_NULLABLE, key=str), ids=str)
@pytest.mark.parametrize("value", [7, 1.5, True, object()], ids=["int", "float", "bool", "object"])
def test_value_when_it_is_of_another_type_then_it_is_refused_with_the_value_in_the_text(type_, value):
    with pytest.raises(SchemaError) as caught:
        written(type_, value)
    assert str(value) in str(caught.value)


@pytest.mark.parametrize(("type_", "value", "text"), [
    (STRING, b"x", "b'x' is not a String."),
    (BYTES, "x", "x is not bytes, a bytearray or a memoryview."),
    (RECORDS, "x", "x is not a records payload."),
    (RECORDS, ["x"], "['x'] is not a records payload."),
    (ArrayOf(INT32), "x", "x is not an array."),
    (ArrayOf(INT32), {1}, "{1} is not an array."),
    (ArrayOf(INT16), [1, 70000], "70000 is not a Short."),
    (CompactArrayOf(STRING), ["a", None], "None is not a String."),
])
def test_error_texts(type_, value, text):
    with pytest.raises(SchemaError) as caught:
        written(type_, value)
    assert str(caught.value) == text


# Hostile frames ------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize(("type_", "hex_text", "text"), [
    (STRING, "fffe", "String length -2 cannot be negative"),
    (STRING, "00056162", "Error reading string of length 5, only 2 bytes available"),
    (STRING, "0002c328", "String is not valid UTF-8"),
    (COMPACT_STRING, "066162", "Error reading string of length 5, only 2 bytes available"),
    (COMPACT_STRING, "ffffffff0f6162", "Error reading string of length 4294967294, only 2 bytes available"),
    (COMPACT_STRING, "ffffffffff01", "Varint is too long"),
    (BYTES, "fffffffe", "Bytes size -2 cannot be negative"),
    (BYTES, "7fffffff61", "Error reading bytes of size 2147483647, only 1 bytes available"),
    (RECORDS, "0000000361", "Error reading bytes of size 3, only 1 bytes available"),
    (COMPACT_RECORDS, "ffffffff0f61", "Error reading bytes of size 4294967294, only 1 bytes available"),
    (ArrayOf(INT32), "fffffffe", "Array size -2 cannot be negative"),
    (ArrayOf(INT32), "40000000", "Error reading array of size 1073741824, only 0 bytes available"),
    (ArrayOf(INT32), "00000002000000", "Error reading array of size 2, only 3 bytes available"),
    (ArrayOf(STRING), "400000000001", "Error reading array of size 1073741824, only 2 bytes available"),
    (CompactArrayOf(COMPACT_STRING), "ffffffff0f01", "Error reading array of size 4294967294, only 1 bytes available"),
])
def test_hostile_lengths_are_refused(type_, hex_text, text):
    with pytest.raises(SchemaError) as caught:
        type_.read(ByteReader(bytes.fromhex(hex_text)))
    assert str(caught.value).startswith(text)


def test_hostile_counts_allocate_nothing():
    frame = bytes.fromhex("40000000") + bytes(1_000_000)
    types = [ArrayOf(INT32), ArrayOf(STRING), ArrayOf(ArrayOf(INT16))]
    tracemalloc.start()
    try:
        for type_ in types:
            with pytest.raises(SchemaError, match="Error reading array of size 1073741824"):
                type_.read(ByteReader(frame))
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 100_000


def test_strings_end_at_32767_bytes():
    longest = "x" * 32767
    for type_ in (STRING, COMPACT_STRING):
        assert type_.read(ByteReader(written(type_, longest))) == longest
        with pytest.raises(SchemaError, match="String length 32768 is larger than the maximum string length"):
            written(type_, longest + "x")
    with pytest.raises(SchemaError, match="larger than the maximum"):
        COMPACT_STRING.read(ByteReader(b"\x81\x80\x02" + b"x" * 32768))


def test_string_when_it_holds_a_lone_surrogate_then_refused():
    with pytest.raises(SchemaError, match="can not be written as UTF-8"):
        written(STRING, "a\ud800")


# Payloads ------------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("type_", [BYTES, COMPACT_BYTES, RECORDS, COMPACT_RECORDS], ids=str)
@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_bytes_like_values_are_equal_on_the_wire(type_, kind):
    assert written(type_, kind(b"abc")) == written(type_, b"abc")


def test_memoryview_of_wider_items_is_counted_in_bytes():
    view = memoryview(bytes(8)).cast("i")
    assert written(BYTES, view) == b"\0\0\0\x08" + bytes(8)


@pytest.mark.parametrize("type_", [BYTES, RECORDS], ids=str)
def test_large_payload_is_neither_copied_on_writing_nor_on_reading(type_):
    payload = bytearray(10 * INLINE_PAYLOAD_LIMIT_BYTES)
    writer = ByteWriter()
    type_.write(writer, payload)
    assert writer.chunks()[1] is payload
    frame = writer.to_bytes()
    assert type_.read(ByteReader(frame)).obj is frame


def test_records_may_be_pieces_that_follow_each_other():
    pieces = [b"ab", bytearray(b"cd"), memoryview(b"e" * 1000)]
    for type_ in (RECORDS, COMPACT_RECORDS):
        assert written(type_, pieces) == written(type_, b"abcd" + b"e" * 1000)
        assert written(type_, tuple(pieces)) == written(type_, pieces)
    assert written(RECORDS, []) == bytes(4)


def test_arrays_are_written_from_tuples_and_read_as_lists():
    assert written(ArrayOf(INT32), (1, 2)) == written(ArrayOf(INT32), [1, 2])
    assert ArrayOf(INT32).read(ByteReader(written(ArrayOf(INT32), (1, 2)))) == [1, 2]
    assert str(ArrayOf(INT32)) == "ARRAY(INT32)"
    assert str(CompactArrayOf(INT32, nullable=True)) == "COMPACT_NULLABLE_ARRAY(INT32)"
