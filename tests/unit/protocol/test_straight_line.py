from __future__ import annotations

import gc
import random
import struct
import sys
import types
from collections import defaultdict
from enum import IntEnum

import pytest

from pyproducer.common.errors import SchemaError
from pyproducer.protocol.apis import ApiKeys
from pyproducer.protocol.buffer import INLINE_PAYLOAD_LIMIT_BYTES, ByteReader, ByteWriter
from pyproducer.protocol.schema import LARGE_FRAME_BYTES, Field, NullableStruct, Schema, Struct
from pyproducer.protocol.straight_line import reader_of, writer_of
from pyproducer.protocol.types import (
    BOOLEAN,
    COMPACT_NULLABLE_STRING,
    COMPACT_RECORDS,
    COMPACT_STRING,
    FLOAT64,
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
)
from tests.support.random_messages import random_value

POINT = Schema(Field("x", INT32), Field("y", INT64), tagged={})
EVERYTHING = Schema(
    Field("flag", BOOLEAN),
    Field("ratio", FLOAT64),
    Field("id", UUID),
    Field("name", COMPACT_STRING),
    Field("note", COMPACT_NULLABLE_STRING, "", None),
    Field("classic", STRING),
    Field("blob", NULLABLE_BYTES),
    Field("batch", RECORDS),
    Field("port", UINT16),
    Field("span", VARLONG),
    Field("spans", ArrayOf(VARINT)),
    Field("points", CompactArrayOf(POINT)),
    Field("numbers", ArrayOf(INT32, nullable=True)),
    Field("names", CompactArrayOf(COMPACT_STRING)),
    Field("ids", ArrayOf(UUID)),
    Field("maybe", NullableStruct(POINT)),
    Field("inner", POINT),
    tagged={0: Field("epoch", INT64, "", -1)},
)
VALUE = {
    "flag": True, "ratio": 0.5, "id": ZERO_UUID, "name": "n", "note": None, "classic": "c" * 300, "blob": None,
    "batch": b"b" * 200, "port": 65_535, "span": -300,
    "spans": [0, -1, 2**31 - 1], "points": [{"x": 1, "y": 2}, {"x": 3, "y": 4}], "numbers": [5, 6],
    "names": ["", "\u00e9" * 70], "ids": [ZERO_UUID], "maybe": {"x": 0, "y": -1}, "inner": {"x": 7, "y": 8},
    "epoch": 9,
}


def by_field(schema: Schema, value: object) -> ByteWriter:
    writer = ByteWriter()
    schema.write_by_field(writer, value)
    return writer


def compiled(schema: Schema, value: object) -> ByteWriter:
    writer = ByteWriter()
    writer_of(schema)(writer, value)
    return writer


@pytest.mark.parametrize("changes", [
    {}, {"note": "", "maybe": None, "numbers": None, "points": [], "epoch": -1},
    {"blob": b"", "numbers": [], "names": [], "ids": [], "batch": None},
    {"note": "x" * 200, "numbers": list(range(500)), "points": ({"x": 1, "y": 2},) * 130},
    {"batch": bytearray(20_000), "blob": memoryview(bytes(600))},
    {"batch": [b"a" * 600, bytearray(b"b"), memoryview(b"c")]},
])
def test_every_type_when_compiled_then_as_field_by_field(changes):
    value = {**VALUE, **changes}
    expected = by_field(EVERYTHING, value)
    writer = compiled(EVERYTHING, value)
    assert list(map(bytes, writer.chunks())) == list(map(bytes, expected.chunks()))
    assert writer.size == expected.size
    frame = expected.to_bytes() + b"behind"
    reader, other = ByteReader(frame), ByteReader(frame)
    found, told = reader_of(EVERYTHING)(reader), EVERYTHING.read_by_field(other)
    assert found == told
    assert list(found) == list(told)
    assert reader.position == other.position == len(frame) - len(b"behind")
    assert found.schema is EVERYTHING
    assert type(found["inner"]) is Struct
    assert found["inner"].schema is POINT


def test_fields_around_a_struct_keep_their_order():
    schema = Schema(Field("a", INT16), Field("inner", Schema(Field("x", INT16))), Field("b", INT16))
    found = reader_of(schema)(ByteReader(bytes.fromhex("000100020003")))
    assert list(found.items()) == [("a", 1), ("inner", {"x": 2}), ("b", 3)]


def test_every_schema_of_the_protocol_when_values_fit_then_the_compiled_code_takes_them():
    source = random.Random(7)
    for api in ApiKeys:
        for version in range(api.oldest_version, api.latest_version + 1):
            for schema in (api.request_schema(version), api.response_schema(version)):
                value = random_value(schema, source)
                data = compiled(schema, value).to_bytes()
                assert data == by_field(schema, value).to_bytes()
                assert reader_of(schema)(ByteReader(data)) == schema.read_by_field(ByteReader(data))


class Code(IntEnum):
    ONE = 1


def test_numbers_of_a_subclass_are_taken_and_booleans_are_not():
    schema = Schema(Field("a", INT16), Field("b", ArrayOf(INT16)))
    assert compiled(schema, {"a": Code.ONE, "b": [Code.ONE]}).to_bytes().hex() == "0001" + "00000001" + "0001"
    for wrong in ({"a": True, "b": []}, {"a": 1, "b": [True]}, {"a": 1.0, "b": []}, {"a": 1 << 15, "b": []}):
        with pytest.raises((SchemaError, struct.error)):
            compiled(schema, wrong)


def test_any_mapping_is_taken_and_none_is_changed():
    schema = Schema(Field("a", INT16, "", 3), Field("b", INT16))
    asked = defaultdict(lambda: 9, b=1)
    assert compiled(schema, asked).to_bytes().hex() == "00030001"
    assert dict(asked) == {"b": 1}
    assert compiled(schema, types.MappingProxyType({"b": 1})).to_bytes().hex() == "00030001"
    assert compiled(schema, Struct(schema, {"a": 1, "b": 2})).to_bytes().hex() == "00010002"
    with pytest.raises(SchemaError, match="Missing value for field 'b'"):
        schema.write(ByteWriter(), defaultdict(lambda: 9))


@pytest.mark.parametrize("size_bytes", [0, 1, 126, 127, 128, INLINE_PAYLOAD_LIMIT_BYTES, 513, 16_383, 16_384, 3 << 20])
def test_records_when_large_then_kept_by_reference(size_bytes):
    schema = Schema(Field("records", COMPACT_RECORDS), Field("behind", INT16))
    for payload in (bytes(size_bytes), bytearray(size_bytes), memoryview(bytes(size_bytes))):
        writer = compiled(schema, {"records": payload, "behind": 2})
        assert writer.to_bytes() == by_field(schema, {"records": payload, "behind": 2}).to_bytes()
        assert (writer.chunks()[1:2] == [payload]) == (size_bytes > INLINE_PAYLOAD_LIMIT_BYTES)
        if size_bytes > INLINE_PAYLOAD_LIMIT_BYTES:
            assert writer.chunks()[1] is payload


def test_write_when_it_fails_late_then_nothing_of_the_first_try_is_left():
    schema = Schema(Field("a", INT16), Field("records", RECORDS), Field("text", NULLABLE_STRING))
    writer = ByteWriter()
    writer.tail += b"before"
    records = bytes(1000)
    for _ in range(2):
        schema.write(ByteWriter(), {"a": 1, "records": records, "text": None})
    with pytest.raises(SchemaError, match=r"^Error writing field 'text': 5 is not a String\.$"):
        schema.write(writer, {"a": 1, "records": records, "text": 5})
    assert writer.to_bytes() == b"before" + b"\0\1" + (1000).to_bytes(4, "big") + records


@pytest.mark.parametrize(("size_bytes", "is_compiled"), [(100, False), (LARGE_FRAME_BYTES, True)])
def test_first_read_when_the_frame_is_large_then_the_code_is_compiled_at_once(size_bytes, is_compiled):
    schema = Schema(Field("numbers", ArrayOf(INT32)))
    writer = ByteWriter()
    schema.write(writer, {"numbers": list(range(size_bytes // 4))})
    assert schema.read(ByteReader(writer.to_bytes())) == {"numbers": list(range(size_bytes // 4))}
    assert (schema._reader is not None) is is_compiled


def test_names_of_fields_are_only_data_to_the_compiled_code():
    name = "a'] = 1; raise SystemExit #\n\""
    schema = Schema(Field(name, INT16, "", None), Field("class", INT16))
    data = compiled(schema, {name: 1, "class": 2}).to_bytes()
    assert reader_of(schema)(ByteReader(data)) == {name: 1, "class": 2}


def test_produce_when_compiled_then_few_calls_each_request():
    """What a request costs in a producer that waits follows the calls: about sixty each way, field by field."""
    body = {"transactional_id": None, "acks": -1, "timeout_ms": 30_000, "topic_data": [{
        "topic_id": ZERO_UUID, "partition_data": [{"index": i, "records": bytearray(16_384)} for i in range(3)]}]}
    schema, calls = ApiKeys.PRODUCE.request_schema(13), []
    for _ in range(2):  # the second use compiles
        schema.write(ByteWriter(), body)
    writer = ByteWriter()
    gc.disable()  # other tests' finalizers are no calls of ours
    sys.setprofile(lambda frame, event, _: calls.append(frame.f_code.co_name) if event == "call" else None)
    try:
        schema.write(writer, body)
    finally:
        sys.setprofile(None)
        gc.enable()
    assert calls == ["write", "write"]
