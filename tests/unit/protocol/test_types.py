from __future__ import annotations

import tracemalloc
import uuid
from enum import IntEnum

import pytest

from pyproducer.common.errors import SchemaError
from pyproducer.protocol.buffer import INLINE_PAYLOAD_LIMIT_BYTES, ByteReader, ByteWriter
from pyproducer.protocol.schema import Field, NullableStruct, Schema
from pyproducer.protocol.types import (
    BOOLEAN,
    BYTES,
    COMPACT_BYTES,
    COMPACT_NULLABLE_BYTES,
    COMPACT_NULLABLE_STRING,
    COMPACT_RECORDS,
    COMPACT_STRING,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    NULLABLE_BYTES,
    NULLABLE_STRING,
    RECORDS,
    STRING,
    UINT16,
    UUID,
    VARINT,
    VARLONG,
    ZERO_UUID,
    ArrayOf,
    CompactArrayOf,
    Type,
)


def written(type_: Type, value: object) -> bytes:
    writer = ByteWriter()
    type_.write(writer, value)
    return writer.to_bytes()


# All types -----------------------------------------------------------------------------------------------------------

INNER = Schema(Field("index", INT32), Field("name", STRING, "", "none"))
VALUES = [
    (INT8, 1, 1), (INT16, 1, 2), (INT32, 1, 4), (INT64, 1, 8), (UINT16, 1, 2), (FLOAT64, 1.5, 8),
    (BOOLEAN, True, 1), (UUID, ZERO_UUID, 16), (VARINT, 0, 1), (VARINT, -64, 1), (VARINT, 64, 2),
    (VARINT, 2**31 - 1, 5), (VARLONG, -(2**63), 10), (STRING, "", 2), (STRING, "\u20ac", 5),
    (NULLABLE_STRING, None, 2), (COMPACT_STRING, "a", 2), (COMPACT_NULLABLE_STRING, None, 1), (BYTES, b"ab", 6),
    (NULLABLE_BYTES, None, 4), (COMPACT_BYTES, b"ab", 3), (COMPACT_NULLABLE_BYTES, None, 1),
    (RECORDS, bytes(1000), 1004), (RECORDS, None, 4), (RECORDS, [b"a", bytes(600)], 605),
    (COMPACT_RECORDS, bytes(127), 129), (ArrayOf(INT32), [1, 2], 12), (ArrayOf(STRING, nullable=True), None, 4),
    (CompactArrayOf(INT8), [1, 2], 3), (INNER, {"index": 1}, 10), (NullableStruct(INNER), None, 1),
    (NullableStruct(INNER), {"index": 1, "name": ""}, 7)]


@pytest.mark.parametrize(("type_", "value", "size_bytes"), VALUES, ids=str)
def test_type_when_it_is_asked_for_a_size_then_it_is_that_of_what_it_writes(type_, value, size_bytes):
    """Java's Type.sizeOf."""
    assert type_.size_of(value) == len(written(type_, value)) == size_bytes >= type_.min_size_bytes


@pytest.mark.parametrize("type_", [row[0] for row in VALUES], ids=str)
def test_type_when_a_value_is_none_of_its_then_it_is_refused_with_the_value_in_the_text(type_):
    for attempt in (type_.validate, type_.size_of, lambda wrong: written(type_, wrong)):
        with pytest.raises(SchemaError, match=r"^1j is not "):
            attempt(1j)
        if not type_.is_nullable:
            with pytest.raises(SchemaError, match=r"^None is not "):
                attempt(None)


@pytest.mark.parametrize(("type_", "value"), [row[:2] for row in VALUES], ids=str)
def test_type_when_a_value_can_be_written_then_validate_returns_it(type_, value):
    assert type_.validate(value) is value


VARINTS = [(VARINT, 0, "00"), (VARINT, -1, "01"), (VARINT, 1, "02"), (VARINT, -64, "7f"), (VARINT, 64, "8001"),
           (VARINT, 2**31 - 1, "feffffff0f"), (VARINT, -(2**31), "ffffffff0f"),
           (VARLONG, 2**63 - 1, "fe" + "ff" * 8 + "01"), (VARLONG, -(2**63), "ff" * 9 + "01"), (VARLONG, -2, "03")]


@pytest.mark.parametrize(("type_", "value", "hex_text"), VARINTS, ids=str)
def test_varint_when_it_is_written_then_it_is_zigzag(type_, value, hex_text):
    assert written(type_, value).hex() == hex_text
    reader = ByteReader(bytes.fromhex(hex_text) + b"rest")
    assert type_.read(reader) == value
    assert reader.remaining == 4


@pytest.mark.parametrize(("type_", "hex_text", "text"), [
    (VARINT, "ffffffffff01", "VARINT is too long, the most significant bit in byte 5 is set"),
    (VARLONG, "ff" * 10 + "01", "VARLONG is too long, the most significant bit in byte 10 is set"),
    (VARINT, "ffffffff1f", "has more than 32 bits"), (VARLONG, "ff" * 9 + "03", "has more than 64 bits"),
    (VARINT, "80", "1 bytes are needed, only 0 available"), (VARINT, "", "1 bytes are needed, only 0 available")])
def test_varint_when_it_does_not_end_then_it_is_refused(type_, hex_text, text):
    with pytest.raises(SchemaError, match=text):
        type_.read(ByteReader(bytes.fromhex(hex_text)))


@pytest.mark.parametrize(("type_", "value"), [
    (VARINT, 2**31), (VARINT, -(2**31) - 1), (VARLONG, 2**63), (VARLONG, -(2**63) - 1), (VARINT, True), (VARLONG, 1.0)])
def test_varint_when_the_value_is_none_then_it_is_refused(type_, value):
    with pytest.raises(SchemaError, match=f"^{value} is not a"):
        type_.size_of(value)


# Numbers, booleans, UUIDs --------------------------------------------------------------------------------------------

ID = uuid.UUID("01020304-0506-0708-090a-0b0c0d0e0f10")
INTEGERS = [(INT8, -(2**7), 2**7 - 1, "a Byte"), (INT16, -(2**15), 2**15 - 1, "a Short"),
            (INT32, -(2**31), 2**31 - 1, "an Integer"), (INT64, -(2**63), 2**63 - 1, "a Long"),
            (UINT16, 0, 2**16 - 1, "an Integer")]
GOLDEN_NUMBERS = [
    (INT8, 0, "00"), (INT8, -1, "ff"), (INT8, 127, "7f"), (INT8, -128, "80"),
    (INT16, 1, "0001"), (INT16, -2, "fffe"), (INT16, 32767, "7fff"),
    (INT32, 1, "00000001"), (INT32, -(2**31), "80000000"),
    (INT64, 1, "0000000000000001"), (INT64, 2**63 - 1, "7fffffffffffffff"),
    (UINT16, 65535, "ffff"),
    (FLOAT64, 1.5, "3ff8000000000000"), (FLOAT64, float("-inf"), "fff0000000000000"),
    (BOOLEAN, True, "01"), (BOOLEAN, False, "00"),
    (UUID, ID, "0102030405060708090a0b0c0d0e0f10"), (UUID, ZERO_UUID, "00" * 16),
]
NUMBERS = [INT8, INT16, INT32, INT64, UINT16, FLOAT64, BOOLEAN, UUID]


@pytest.mark.parametrize(("type_", "value", "hex_text"), GOLDEN_NUMBERS)
def test_number_when_it_is_written_then_it_has_known_bytes(type_, value, hex_text):
    assert written(type_, value).hex() == hex_text
    reader = ByteReader(bytes.fromhex(hex_text) + b"rest")
    read = type_.read(reader)
    assert read == value
    assert type(read) is type(value)
    assert reader.remaining == 4
    assert type_.validate(value) is value


@pytest.mark.parametrize(("type_", "minimum", "maximum", "noun"), INTEGERS)
def test_number_when_it_is_beyond_a_boundary_then_it_is_refused_with_its_value(type_, minimum, maximum, noun):
    for value in (minimum, maximum):
        assert type_.validate(value) == value
        assert type_.read(ByteReader(written(type_, value))) == value
        assert len(written(type_, value)) >= type_.min_size_bytes
    for value in (minimum - 1, maximum + 1):
        with pytest.raises(SchemaError) as caught:
            type_.validate(value)
        assert str(caught.value).startswith(f"{value} is not {noun}")
        with pytest.raises(SchemaError, match=f"^{value} is not"):
            written(type_, value)


@pytest.mark.parametrize("type_", NUMBERS, ids=str)
@pytest.mark.parametrize("value", [None, "x", b"x", [1], 1j, object()],
                         ids=["None", "str", "bytes", "list", "complex", "object"])
def test_number_when_it_is_of_another_type_then_it_is_refused_with_the_value_in_the_text(type_, value):
    for attempt in (type_.validate, lambda wrong: written(type_, wrong)):
        with pytest.raises(SchemaError) as caught:
            attempt(value)
        assert str(value) in str(caught.value)


@pytest.mark.parametrize("type_", [row[0] for row in INTEGERS], ids=str)
@pytest.mark.parametrize("value", [True, False, 1.0])
def test_integer_when_the_value_is_a_boolean_or_a_float_then_it_is_refused(type_, value):
    for attempt in (type_.validate, lambda wrong: written(type_, wrong)):
        with pytest.raises(SchemaError, match=f"^{value} is not"):
            attempt(value)


def test_short_when_it_is_refused_then_the_text_is_javas():
    with pytest.raises(SchemaError, match=r"^x is not a Short\.$"):
        INT16.validate("x")


@pytest.mark.parametrize(("type_", "value", "text"), [
    (BOOLEAN, 1, "1 is not a Boolean."), (FLOAT64, 1, "1 is not a Double."), (FLOAT64, True, "True is not a Double."),
    (UUID, str(ID), f"{ID} is not a UUID."), (INT8, None, "None is not a Byte."),
])
def test_number_when_it_is_refused_then_the_text_says_what_it_is_not(type_, value, text):
    with pytest.raises(SchemaError) as caught:
        type_.validate(value)
    assert str(caught.value) == text


def test_error_text_when_the_value_is_long_then_it_is_cut():
    with pytest.raises(SchemaError) as caught:
        INT16.validate("y" * 1_000_000)
    assert len(str(caught.value)) < 200


def test_members_of_int_enums_are_integers():
    class Code(IntEnum):
        NONE = 0
        GONE = 7

    assert written(INT16, Code.GONE) == b"\0\7"


@pytest.mark.parametrize("type_", NUMBERS, ids=str)
def test_number_types_when_they_are_asked_then_none_is_nullable_and_str_is_kafkas_name(type_):
    assert not type_.is_nullable
    assert str(type_) == repr(type_) == type_.name == type_.name.upper()


@pytest.mark.parametrize("type_", NUMBERS, ids=str)
def test_number_when_a_byte_is_missing_then_refused(type_):
    value = {"FLOAT64": 1.0, "BOOLEAN": True, "UUID": ID}.get(type_.name, 100)
    data = written(type_, value)
    for size_bytes in range(len(data)):
        with pytest.raises(SchemaError):
            type_.read(ByteReader(data[:size_bytes]))


def test_boolean_reads_any_other_byte_as_true():
    assert BOOLEAN.read(ByteReader(b"\xff")) is True


# Strings, bytes, records, arrays -------------------------------------------------------------------------------------

LONG = "x" * 200
SIZED = [
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


@pytest.mark.parametrize(("type_", "value", "hex_text"), SIZED, ids=[f"{row[0]}-{row[2][:12]}" for row in SIZED])
def test_sized_value_when_it_is_written_then_it_has_known_bytes(type_, value, hex_text):
    assert written(type_, value).hex() == hex_text
    reader = ByteReader(bytes.fromhex(hex_text) + b"rest")
    assert type_.read(reader) == value
    assert reader.remaining == 4


@pytest.mark.parametrize(("type_", "value", "hex_text"), SIZED, ids=[f"{row[0]}-{row[2][:12]}" for row in SIZED])
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
def test_sized_value_when_it_is_of_another_type_then_it_is_refused_with_the_value_in_the_text(type_, value):
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
def test_sized_value_when_it_is_refused_then_the_text_says_what_it_is_not(type_, value, text):
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
