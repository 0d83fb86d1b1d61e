from __future__ import annotations

import pickle
import types

import pytest

from pyproducer.common.errors import SchemaError
from pyproducer.protocol.buffer import ByteReader, ByteWriter
from pyproducer.protocol.schema import NO_DEFAULT, Field, NullableStruct, Schema, Struct
from pyproducer.protocol.types import (
    BOOLEAN,
    COMPACT_STRING,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    NULLABLE_STRING,
    STRING,
    ArrayOf,
    CompactArrayOf,
    Type,
)

PARTITION = Schema(Field("index", INT32), Field("size", INT64))
TOPIC = Schema(Field("name", STRING), Field("partition_data", ArrayOf(PARTITION)))
NESTED = Schema(Field("topic_data", ArrayOf(TOPIC)))


def written(type_: Type, value: object) -> bytes:
    writer = ByteWriter()
    type_.write(writer, value)
    return writer.to_bytes()


def read(type_: Type, hex_text: str) -> object:
    return type_.read(ByteReader(bytes.fromhex(hex_text)))


# Field ---------------------------------------------------------------------------------------------------------------

def test_field_when_its_schema_is_made_then_it_has_index_name_type_default_and_doc():
    schema = Schema(Field("a", INT16, "First."), Field("b", STRING, "Second.", "x"))
    assert [(f.index, f.name, f.type, f.doc, f.default) for f in schema.fields] == [
        (0, "a", INT16, "First.", NO_DEFAULT), (1, "b", STRING, "Second.", "x")]
    assert schema.field("b").schema is schema
    assert schema.field("nope") is None
    assert Field("free", INT8).index == -1


def test_default_when_there_is_none_then_it_is_not_the_default_null():
    assert NO_DEFAULT is not None
    assert repr(NO_DEFAULT) == "NO_DEFAULT"
    assert not Field("a", NULLABLE_STRING).has_default
    assert Field("a", NULLABLE_STRING, "", None).has_default


# Schema --------------------------------------------------------------------------------------------------------------

def test_schema_when_a_field_is_there_twice_then_it_is_refused():
    with pytest.raises(SchemaError, match=r"^Schema contains a duplicate field: n$"):
        Schema(Field("n", INT8), Field("m", INT8), Field("n", INT16))
    with pytest.raises(SchemaError, match="duplicate field: n"):
        Schema(Field("n", INT8), tagged={0: Field("n", INT16)})


def test_fields_when_they_are_read_and_written_then_in_their_order():
    schema = Schema(Field("a", INT8), Field("b", STRING), Field("c", INT16), Field("d", BOOLEAN), Field("e", FLOAT64))
    value = {"e": 1.5, "d": True, "c": -2, "b": "x", "a": 1}
    data = written(schema, value)
    assert data.hex() == "01" + "000178" + "fffe" + "01" + "3ff8000000000000"
    struct = schema.read(ByteReader(data))
    assert struct == value
    assert list(struct) == ["a", "b", "c", "d", "e"]
    assert len(data) == schema.min_size_bytes + 1
    assert str(schema) == "{a:INT8,b:STRING,c:INT16,d:BOOLEAN,e:FLOAT64}"


def test_any_mapping_can_be_written_and_unknown_keys_are_passed_over():
    schema = Schema(Field("a", INT8), Field("b", INT8))
    view = types.MappingProxyType({"a": 1, "b": 2, "later_version": 3})
    assert written(schema, view) == b"\1\2"


@pytest.mark.parametrize("value", [None, 7, [("a", 1)], "a"])
def test_what_is_no_mapping_is_refused(value):
    schema = Schema(Field("a", INT8))
    with pytest.raises(SchemaError, match="is not a Struct"):
        written(schema, value)


def test_fields_when_they_are_missing_then_defaults_are_written_and_others_refused():
    schema = Schema(Field("a", INT8, "", 7), Field("b", INT8), Field("c", NULLABLE_STRING, "", None))
    assert written(schema, {"b": 1}).hex() == "0701ffff"
    with pytest.raises(SchemaError) as caught:
        written(schema, {"a": 1})
    assert str(caught.value) == ("Error writing field 'b': Missing value for field 'b' which has no default value.")


@pytest.mark.parametrize("schema", [
    Schema(Field("first", INT8), Field("middle", INT16), Field("last", INT64)),  # fused
    Schema(Field("first", STRING), Field("middle", INT16), Field("last", STRING)),  # each alone
])
def test_error_when_a_field_is_wrong_then_it_names_the_field(schema):
    good = {field.name: "x" if field.type is STRING else 1 for field in schema.fields}
    for field in schema.fields:
        with pytest.raises(SchemaError) as caught:
            written(schema, {**good, field.name: 1.5})
        assert str(caught.value).startswith(f"Error writing field '{field.name}': 1.5 is not a")
    data = written(schema, good)
    position = 0
    for field in schema.fields:
        with pytest.raises(SchemaError, match=f"^Error reading field '{field.name}': "):
            schema.read(ByteReader(data[:position]))
        position += len(written(field.type, good[field.name]))


def test_error_when_a_field_is_nested_then_it_names_the_fields_around_it():
    value = {"topic_data": [{"name": "t", "partition_data": [{"index": "x", "size": 1}]}]}
    with pytest.raises(SchemaError) as caught:
        written(NESTED, value)
    assert str(caught.value) == ("Error writing field 'topic_data': Error writing field 'partition_data': "
                                 "Error writing field 'index': x is not an Integer.")
    with pytest.raises(SchemaError) as caught:
        read(NESTED, "00000001" + "000174" + "00000001" + "000000" + "00" * 8)
    assert str(caught.value) == ("Error reading field 'topic_data': Error reading field 'partition_data': "
                                 "Error reading array of size 1, only 11 bytes available")


def test_errors_inside_elements_name_the_innermost_field():
    schema = Schema(Field("topics", ArrayOf(Schema(Field("name", STRING), Field("partition", INT32)))))
    with pytest.raises(SchemaError) as caught:
        read(schema, "00000001" + "0003616263" + "000000")
    assert str(caught.value) == ("Error reading field 'topics': Error reading field 'partition': "
                                 "4 bytes are needed, only 3 available")


def test_error_when_it_has_no_text_then_its_class_is_shown():
    class Failing(Type):
        name = "FAILING"

        def write(self, buffer, value):
            raise ZeroDivisionError

        def read(self, buffer):
            raise ZeroDivisionError

    schema = Schema(Field("n", Failing()))
    with pytest.raises(SchemaError, match=r"^Error reading field 'n': ZeroDivisionError$"):
        read(schema, "00")
    with pytest.raises(SchemaError, match=r"^Error writing field 'n': ZeroDivisionError$"):
        written(schema, {"n": 1})


@pytest.mark.parametrize("value", [True, 1.0, None, "1", 2**15])
def test_fused_numbers_are_validated_like_single_ones(value):
    schema = Schema(Field("a", INT16), Field("b", INT16))
    with pytest.raises(SchemaError, match=f"^Error writing field 'b': {value} is not a Short.$"):
        written(schema, {"a": 1, "b": value})


def test_boolean_in_a_run_refuses_integers():
    schema = Schema(Field("a", INT16), Field("b", BOOLEAN))
    with pytest.raises(SchemaError, match=r"^Error writing field 'b': 1 is not a Boolean\.$"):
        written(schema, {"a": 1, "b": 1})


def test_hostile_count_of_structs_is_refused_at_once():
    frame = bytes.fromhex("40000000") + bytes(8_000_000)
    with pytest.raises(SchemaError, match="Error reading array of size 1073741824, only 8000000 bytes available"):
        NESTED.read(ByteReader(frame))  # that all bytes are left says that no struct was read


# Tagged fields -------------------------------------------------------------------------------------------------------

LEADER = Schema(Field("id", INT32, "", -1), tagged={})
TAGGED = Schema(
    Field("a", INT8),
    tagged={
        3: Field("nodes", CompactArrayOf(COMPACT_STRING), "", []),
        0: Field("leader", LEADER, "", {"id": -1}),
        1: Field("epoch", INT64, "", -1),
    },
)


def test_tags_when_all_are_default_then_only_their_count_is_written():
    assert written(TAGGED, {"a": 1}) == b"\1\0"
    assert written(TAGGED, {"a": 1, "epoch": -1, "nodes": (), "leader": {"id": -1}}) == b"\1\0"
    assert TAGGED.read(ByteReader(b"\1\0")) == {"a": 1, "leader": {"id": -1}, "epoch": -1, "nodes": []}


def test_tags_are_written_in_ascending_order_with_their_sizes():
    value = {"a": 1, "nodes": ["x"], "leader": {"id": 5}}
    data = written(TAGGED, value)
    assert data.hex() == "01" + "02" + "00" + "05" + "0000000500" + "03" + "03" + "020278"
    assert TAGGED.read(ByteReader(data)) == {**value, "epoch": -1}


@pytest.mark.parametrize(("length", "size_hex"), [(123, "7e"), (124, "7f"), (125, "8001"), (600, "dc04")])
def test_tags_when_their_size_takes_more_bytes_then_as_a_varint(length, size_hex):
    value = {"a": 1, "nodes": ["x" * length, ""]}
    data = written(TAGGED, value)
    content = written(CompactArrayOf(COMPACT_STRING), value["nodes"])
    assert data.hex() == "01" + "01" + "03" + size_hex + content.hex()
    assert TAGGED.read(ByteReader(data))["nodes"] == value["nodes"]


def test_unknown_tags_are_passed_over():
    data = bytes.fromhex("01" + "03" + "0203aabbcc" + "0108" + "00" * 7 + "09" + "ff0100")
    reader = ByteReader(data)
    assert TAGGED.read(reader) == {"a": 1, "leader": {"id": -1}, "epoch": 9, "nodes": []}
    assert reader.remaining == 0


@pytest.mark.parametrize(("hex_text", "text"), [
    ("01", "Error reading field '_tagged_fields': 1 bytes are needed, only 0 available"),
    ("01ffffffff0f", "Error reading field '_tagged_fields': "),
    ("01010109" + "00" * 8, "Error reading field '_tagged_fields': 9 bytes are needed, only 8 available"),
    ("01010109" + "00" * 9, "Error reading field 'epoch': 1 bytes of 9 are left over"),
    ("01010107" + "00" * 9, "Error reading field 'epoch': 8 bytes are needed, only 7 available"),
    ("0101000300000000", "Error reading field 'leader': Error reading field 'id': "),
])
def test_malformed_tags_are_refused(hex_text, text):
    with pytest.raises(SchemaError) as caught:
        read(TAGGED, hex_text)
    assert str(caught.value).startswith(text)


def test_wrong_tagged_values_are_refused_with_their_name():
    with pytest.raises(SchemaError, match=r"^Error writing field 'epoch': x is not a Long\.$"):
        written(TAGGED, {"a": 1, "epoch": "x"})
    with pytest.raises(SchemaError) as caught:
        written(TAGGED, {"a": 1, "leader": {"id": "x"}})
    assert str(caught.value) == "Error writing field 'leader': Error writing field 'id': x is not an Integer."


# Nullable structs and Struct ------------------------------------------------------------------------------------------

def test_nullable_struct_has_a_leading_byte():
    cursor = NullableStruct(Schema(Field("index", INT32)))
    assert cursor.is_nullable
    assert written(cursor, None) == b"\xff"
    assert written(cursor, {"index": 3}).hex() == "0100000003"
    assert read(cursor, "ff") is None
    assert read(cursor, "0100000003") == {"index": 3}
    with pytest.raises(SchemaError, match=r"^Error writing field 'index': x is not an Integer\.$"):
        written(cursor, {"index": "x"})


def test_struct_is_a_mapping_that_knows_its_schema():
    struct = PARTITION.read(ByteReader(written(PARTITION, {"index": 1, "size": 2})))
    assert isinstance(struct, Struct)
    assert struct["index"] == 1
    assert struct.get("absent", 5) == 5
    assert "size" in struct
    assert struct.schema is PARTITION
    assert len(written(PARTITION, struct)) == 12


def test_struct_pickles_as_a_plain_dict():
    struct = NESTED.read(ByteReader(written(NESTED, {"topic_data": [{"name": "t", "partition_data": []}]})))
    assert pickle.loads(pickle.dumps(struct)) == {"topic_data": [{"name": "t", "partition_data": []}]}
