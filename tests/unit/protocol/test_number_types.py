from __future__ import annotations

import uuid
from enum import IntEnum

import pytest

from pyproducer.common.errors import SchemaError
from pyproducer.protocol.buffer import ByteReader, ByteWriter
from pyproducer.protocol.types import (
    BOOLEAN,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    UINT16,
    UUID,
    ZERO_UUID,
    Type,
)

ID = uuid.UUID("01020304-0506-0708-090a-0b0c0d0e0f10")
INTEGERS = [(INT8, -(2**7), 2**7 - 1, "a Byte"), (INT16, -(2**15), 2**15 - 1, "a Short"),
            (INT32, -(2**31), 2**31 - 1, "an Integer"), (INT64, -(2**63), 2**63 - 1, "a Long"),
            (UINT16, 0, 2**16 - 1, "an Integer")]
GOLDEN = [
    (INT8, 0, "00"), (INT8, -1, "ff"), (INT8, 127, "7f"), (INT8, -128, "80"),
    (INT16, 1, "0001"), (INT16, -2, "fffe"), (INT16, 32767, "7fff"),
    (INT32, 1, "00000001"), (INT32, -(2**31), "80000000"),
    (INT64, 1, "0000000000000001"), (INT64, 2**63 - 1, "7fffffffffffffff"),
    (UINT16, 65535, "ffff"),
    (FLOAT64, 1.5, "3ff8000000000000"), (FLOAT64, float("-inf"), "fff0000000000000"),
    (BOOLEAN, True, "01"), (BOOLEAN, False, "00"),
    (UUID, ID, "0102030405060708090a0b0c0d0e0f10"), (UUID, ZERO_UUID, "00" * 16),
]
ALL = [INT8, INT16, INT32, INT64, UINT16, FLOAT64, BOOLEAN, UUID]


def written(type_: Type, value: object) -> bytes:
    writer = ByteWriter()
    type_.write(writer, value)
    return writer.to_bytes()


@pytest.mark.parametrize(("type_", "value", "hex_text"), GOLDEN)
def test_value_when_it_is_written_then_it_has_known_bytes(type_, value, hex_text):
    assert written(type_, value).hex() == hex_text
    reader = ByteReader(bytes.fromhex(hex_text) + b"rest")
    read = type_.read(reader)
    assert read == value
    assert type(read) is type(value)
    assert reader.remaining == 4
    assert type_.validate(value) is value


@pytest.mark.parametrize(("type_", "minimum", "maximum", "noun"), INTEGERS)
def test_value_when_it_is_beyond_a_boundary_then_it_is_refused_with_its_value(type_, minimum, maximum, noun):
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


@pytest.mark.parametrize("type_", ALL, ids=str)
@pytest.mark.parametrize("value", [None, "x", b"x", [1], 1j, object()],
                         ids=["None", "str", "bytes", "list", "complex", "object"])
def test_value_when_it_is_of_another_type_then_it_is_refused_with_the_value_in_the_text(type_, value):
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
def test_error_texts(type_, value, text):
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


@pytest.mark.parametrize("type_", ALL, ids=str)
def test_number_types_when_they_are_asked_then_none_is_nullable_and_str_is_kafkas_name(type_):
    assert not type_.is_nullable
    assert str(type_) == repr(type_) == type_.name == type_.name.upper()


@pytest.mark.parametrize("type_", ALL, ids=str)
def test_read_when_a_byte_is_missing_then_refused(type_):
    value = {"FLOAT64": 1.0, "BOOLEAN": True, "UUID": ID}.get(type_.name, 100)
    data = written(type_, value)
    for size_bytes in range(len(data)):
        with pytest.raises(SchemaError):
            type_.read(ByteReader(data[:size_bytes]))


def test_boolean_reads_any_other_byte_as_true():
    assert BOOLEAN.read(ByteReader(b"\xff")) is True
