from __future__ import annotations

import pytest

from pyproducer.common.errors import SchemaError, UnsupportedVersionError
from pyproducer.protocol.buffer import ByteReader, ByteWriter
from pyproducer.protocol.message import Message, Versions, array, f, message, obj
from pyproducer.protocol.schema import NO_DEFAULT, NullableStruct
from pyproducer.protocol.types import (
    BYTES,
    COMPACT_NULLABLE_STRING,
    COMPACT_STRING,
    INT32,
    NULLABLE_STRING,
    RECORDS,
    STRING,
    ArrayOf,
    CompactArrayOf,
)

REQUEST = message(
    "ThingRequest",
    f("name", STRING, nullable="2+"),
    f("group", STRING, "1+", default="", ignorable=True),
    f("epoch", INT32, "1-2", default=-1),
    array("ids", INT32, versions="1+", nullable="3+"),
    obj("cursor", f("at", INT32), versions="2+", nullable="2+", default=None),
    obj("leader", f("id", INT32, default=-1), versions="3+", tag=0),
)


def written(definition: Message, version: int, value: object, *, flexible: bool = False) -> bytes:
    writer = ByteWriter()
    definition.schema(version, flexible=flexible).write(writer, value)
    return writer.to_bytes()


@pytest.mark.parametrize(("text", "inside", "outside"), [
    ("3+", (3, 4, 32767), (0, 2)), ("0-12", (0, 12), (13,)), ("7", (7,), (6, 8)),
])
def test_versions(text, inside, outside):
    versions = Versions.of(text, otherwise=Versions(-1, -1))
    assert all(version in versions for version in inside)
    assert not any(version in versions for version in outside)


def test_fields_come_and_go_with_versions():
    names = [[field.name for field in REQUEST.schema(version, flexible=False).fields] for version in range(4)]
    assert names == [["name"], ["name", "group", "epoch", "ids"], ["name", "group", "epoch", "ids", "cursor"],
                     ["name", "group", "ids", "cursor"]]


def test_types_follow_flexibility_and_nullability():
    assert REQUEST.schema(1, flexible=False).field("name").type is STRING
    assert REQUEST.schema(2, flexible=False).field("name").type is NULLABLE_STRING
    assert REQUEST.schema(1, flexible=True).field("name").type is COMPACT_STRING
    flexible = REQUEST.schema(3, flexible=True)
    assert flexible.field("name").type is COMPACT_NULLABLE_STRING
    assert isinstance(flexible.field("ids").type, CompactArrayOf)
    assert flexible.field("ids").type.is_nullable
    assert isinstance(flexible.field("cursor").type, NullableStruct)
    classic = REQUEST.schema(1, flexible=False).field("ids").type
    assert type(classic) is ArrayOf
    assert not classic.is_nullable


def test_nullability_of_an_array_does_not_reach_its_elements():
    definition = message("X", array("names", STRING, nullable="0+"))
    assert definition.schema(0, flexible=False).field("names").type.element is STRING


def test_tagged_struct_has_the_defaults_of_its_fields():
    schema = REQUEST.schema(3, flexible=True)
    assert schema.tagged[0].default == {"id": -1}
    data = written(REQUEST, 3, {"name": "x", "ids": None}, flexible=True)
    assert schema.read(ByteReader(data))["leader"] == {"id": -1}


def test_schemas_are_built_once():
    assert REQUEST.schema(2, flexible=False) is REQUEST.schema(2, flexible=False)
    assert REQUEST.schema(2, flexible=False) is not REQUEST.schema(2, flexible=True)


def test_request_when_a_field_would_be_lost_then_refused():
    with pytest.raises(UnsupportedVersionError, match="Attempted to write a non-default epoch"):
        written(REQUEST, 0, {"name": "x", "epoch": 4})
    with pytest.raises(UnsupportedVersionError, match="non-default ids"):
        written(REQUEST, 0, {"name": "x", "ids": [1]})
    assert written(REQUEST, 0, {"name": "x", "epoch": -1, "ids": [], "cursor": None}) == b"\0\1x"


def test_request_when_an_ignorable_field_would_be_lost_then_written_without():
    assert written(REQUEST, 0, {"name": "x", "group": "g"}) == b"\0\1x"


def test_lost_field_inside_an_array_keeps_its_error():
    definition = message("DeepRequest", array("items", f("a", INT32), f("b", INT32, "1+")))
    with pytest.raises(UnsupportedVersionError, match="non-default b"):
        written(definition, 0, {"items": [{"a": 1, "b": 2}]})


def test_response_may_lose_any_field():
    response = message("ThingResponse", f("a", INT32), f("b", INT32, "1+"))
    assert written(response, 0, {"a": 1, "b": 2}) == b"\0\0\0\1"


def test_client_id_can_stay_classic_in_flexible_versions():
    definition = message("X", f("client_id", STRING, nullable="0+", compactable=False))
    assert definition.schema(2, flexible=True).field("client_id").type is NULLABLE_STRING


def test_mistakes_in_definitions_are_refused():
    with pytest.raises(SchemaError, match="Array a needs one element type"):
        array("a")
    with pytest.raises(SchemaError, match="Array a needs one element type"):
        array("a", INT32, f("b", INT32))
    twice = message("X", f("a", INT32, tag=0, default=0), f("b", INT32, tag=0, default=0))
    with pytest.raises(SchemaError, match="Tag 0 is given to a and b"):
        twice.schema(0, flexible=True)


def test_implied_defaults_are_kafkas():
    assert f("a", INT32).zero_value(INT32) == 0
    assert f("a", STRING).zero_value(STRING) == ""
    assert f("a", BYTES).zero_value(BYTES) == b""
    assert f("a", RECORDS).zero_value(RECORDS) is None
    assert array("a", INT32).zero_value(INT32) == []
    assert f("a", INT32).default is NO_DEFAULT
