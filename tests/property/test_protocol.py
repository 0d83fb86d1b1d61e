"""Every schema: what is written is read back, and no bytes do more harm than a SchemaError."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyproducer.common.errors import ProtocolError, SchemaError
from pyproducer.protocol.apis import ApiKeys
from pyproducer.protocol.buffer import ByteReader, ByteWriter
from pyproducer.protocol.header import parse_response
from pyproducer.protocol.schema import NullableStruct, Schema, Struct
from pyproducer.protocol.straight_line import reader_of, writer_of
from pyproducer.protocol.types import BOOLEAN, FLOAT64, UINT16, UUID, ArrayOf, Type
from tests.property.profiles import examples
from tests.support.whole_request import parse_request

SCHEMAS = [(api, is_request, version)
           for api in ApiKeys for is_request in (True, False)
           for version in range(api.oldest_version, api.latest_version + 1)]
BOUNDED = settings(max_examples=examples(150))

INTEGERS = {"INT8": 8, "INT16": 16, "INT32": 32, "INT64": 64}
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


def schema_of(api: ApiKeys, is_request: bool, version: int) -> Schema:
    return api.request_schema(version) if is_request else api.response_schema(version)


def values_of(type_: Type) -> st.SearchStrategy:
    values: st.SearchStrategy
    if isinstance(type_, NullableStruct):
        values = values_of(type_.schema)
    elif isinstance(type_, Schema):
        values = st.fixed_dictionaries({name: values_of(field.type) for name, field in type_.fields_by_name.items()})
    elif isinstance(type_, ArrayOf):
        values = st.lists(values_of(type_.element), max_size=3)
    elif type_.name in INTEGERS:
        limit = 1 << (INTEGERS[type_.name] - 1)
        values = st.integers(-limit, limit - 1)
    elif type_ is UINT16:
        values = st.integers(0, 2**16 - 1)
    elif type_ is FLOAT64:
        values = st.floats(allow_nan=False)
    elif type_ is BOOLEAN:
        values = st.booleans()
    elif type_ is UUID:
        values = st.uuids() | st.just(uuid.UUID(int=0))
    else:
        values = TEXTS if "STRING" in type_.name else st.binary(max_size=600)
    return st.none() | values if type_.is_nullable else values


@st.composite
def messages(draw: st.DrawFn) -> tuple[Schema, dict]:
    schema = schema_of(*draw(st.sampled_from(SCHEMAS)))
    return schema, draw(values_of(schema))


def written(type_: Type, value: object) -> bytes:
    writer = ByteWriter()
    type_.write(writer, value)
    data = writer.to_bytes()
    assert writer.size == len(data)
    return data


@BOUNDED
@given(messages())
def test_what_is_written_is_read_back(message):
    schema, value = message
    data = written(schema, value)
    reader = ByteReader(data + b"behind")
    struct = schema.read(reader)
    assert struct == value
    assert reader.remaining == len(b"behind")
    assert written(schema, struct) == data


@BOUNDED
@given(messages(), st.data())
def test_cut_frames_are_refused(message, data):
    schema, value = message
    frame = written(schema, value)
    if not frame:
        return
    size_bytes = data.draw(st.integers(0, len(frame) - 1))
    with pytest.raises(SchemaError, match="Error reading field"):
        schema.read(ByteReader(frame[:size_bytes]))


@BOUNDED
@given(messages(), st.data())
def test_damaged_frames_are_read_or_refused(message, data):
    schema, value = message
    frame = bytearray(written(schema, value))
    for _ in range(data.draw(st.integers(1, 4))):
        if frame:
            frame[data.draw(st.integers(0, len(frame) - 1))] = data.draw(st.sampled_from([0, 1, 0x7F, 0x80, 0xFF]))
    try:
        struct = schema.read(ByteReader(frame))
    except SchemaError:
        return
    assert schema.read(ByteReader(written(schema, struct))) == struct


def outcome(function: Callable[..., Any], *arguments: object) -> object:
    """What a call gives: its result, or the class and text of its error."""
    try:
        return function(*arguments)
    except Exception as error:
        return type(error), str(error)


def is_taken(function: Callable[..., Any], *arguments: object) -> bool:
    try:
        function(*arguments)
    except Exception:
        return False
    return True


@BOUNDED
@given(messages(), st.data())
def test_compiled_and_field_by_field_read_alike(message, data):
    schema, value = message
    frame = bytearray(written(schema, value))
    for _ in range(data.draw(st.integers(0, 3))):
        if frame:
            frame[data.draw(st.integers(0, len(frame) - 1))] = data.draw(st.sampled_from([0, 1, 2, 0x7F, 0x80, 0xFF]))
    if data.draw(st.booleans()):
        del frame[data.draw(st.integers(0, len(frame))):]
    one, other = ByteReader(frame), ByteReader(frame)
    expected = outcome(schema.read_by_field, one)
    assert outcome(schema.read, other) == expected
    assert is_taken(reader_of(schema), ByteReader(frame)) == isinstance(expected, Struct)
    if isinstance(expected, Struct):
        assert one.position == other.position


def spoilt(value: object, data: st.DataObject) -> object:
    """Return a value with one part of it replaced by something of another kind, or left out."""
    wrong = st.sampled_from([None, True, -1, 1 << 70, 1.5, "x", "x\ud800", b"x", [], [None], (), {}, {1}, object])
    if isinstance(value, dict) and value and data.draw(st.booleans()):
        name = data.draw(st.sampled_from(sorted(value)))
        rest = {key: item for key, item in value.items() if key != name}
        return {**rest, name: spoilt(value[name], data)} if data.draw(st.integers(0, 4)) else rest
    if isinstance(value, list) and value and data.draw(st.booleans()):
        return [*value[:-1], spoilt(value[-1], data)]
    return data.draw(wrong)


@BOUNDED
@given(messages(), st.data())
def test_compiled_and_field_by_field_write_alike(message, data):
    schema, value = message
    value = spoilt(value, data)
    one, other = ByteWriter(), ByteWriter()
    expected = outcome(schema.write_by_field, one, value)
    assert outcome(schema.write, other, value) == expected
    assert one.to_bytes() == other.to_bytes()
    assert is_taken(writer_of(schema), ByteWriter(), value) == (expected is None)


@BOUNDED
@given(st.binary(max_size=200))
def test_any_bytes_as_a_request_are_read_or_refused(frame):
    try:
        parse_request(frame)
    except ProtocolError:
        pass


@BOUNDED
@given(st.sampled_from(SCHEMAS), st.binary(max_size=200))
def test_any_bytes_as_a_response_are_read_or_refused(row, frame):
    api, _, version = row
    try:
        parse_response(api, version, frame)
    except ProtocolError:
        pass


@BOUNDED
@given(st.integers(0, 2**32 - 1))
def test_uvarints(value):
    writer = ByteWriter()
    writer.write_uvarint(value)
    data = writer.to_bytes()
    assert ByteReader(data).read_uvarint() == value
    assert len(data) == max(1, -(-value.bit_length() // 7))


@BOUNDED
@given(st.floats(allow_nan=False))
def test_doubles(value):
    assert FLOAT64.read(ByteReader(written(FLOAT64, value))) == value
