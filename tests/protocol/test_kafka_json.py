"""Every schema of our table against the definitions inside Apache Kafka's own kafka-clients jar."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

from pyproducer.protocol.apis import ApiKeys
from pyproducer.protocol.buffer import ByteReader, ByteWriter
from pyproducer.protocol.header import REQUEST_HEADER
from pyproducer.protocol.message import FieldDefinition, Message
from pyproducer.protocol.schema import NO_DEFAULT, NullableStruct, Schema
from pyproducer.protocol.types import ArrayOf, Type
from tests.protocol.kafka_json import KafkaMessage, Leaf, load, snake_case, versions, within
from tests.support.kafka_jars import kafka_clients_jar

# (message, its versions, the first flexible one)
OURS: list[tuple[Message, tuple[int, int], int | None]] = [
    *((api.row.request, api.row.valid, api.row.flexible_from) for api in ApiKeys),
    *((api.row.response, api.row.valid, api.row.flexible_from) for api in ApiKeys),
    (REQUEST_HEADER, (1, 2), 2),
]
BY_MESSAGE = pytest.mark.parametrize(("message", "valid", "flexible_from"), OURS, ids=[str(row[0]) for row in OURS])


@pytest.fixture(scope="module")
def kafka_messages() -> dict[str, dict[str, Any]]:
    return load(kafka_clients_jar())


def flatten(schema: Schema, path: str = "") -> Iterator[Leaf]:
    tagged = schema.tagged or {}
    rows = [*((field, None) for field in schema.fields), *((field, tag) for tag, field in tagged.items())]
    for field, tag in rows:
        name = path + field.name
        yield from leaves_of(field.type, name, tag)
    if schema.tagged is not None:
        yield Leaf(path + "_tags", "TAGS", False, None)


def leaves_of(type_: Type, name: str, tag: int | None) -> Iterator[Leaf]:
    if isinstance(type_, ArrayOf):
        yield Leaf(name, "COMPACT_ARRAY" if type_.is_compact else "ARRAY", type_.is_nullable, tag)
        if isinstance(type_.element, Schema):
            yield from flatten(type_.element, name + "[].")
        else:
            yield from leaves_of(type_.element, name + "[]", None)
    elif isinstance(type_, NullableStruct):
        yield Leaf(name, "STRUCT", True, tag)
        yield from flatten(type_.schema, name + ".")
    elif isinstance(type_, Schema):
        yield Leaf(name, "STRUCT", False, tag)
        yield from flatten(type_, name + ".")
    else:
        yield Leaf(name, type_.name.replace("NULLABLE_", ""), type_.is_nullable, tag)


@BY_MESSAGE
def test_schema_when_kafkas_json_is_read_then_each_version_equals_it(kafka_messages, message, valid, flexible_from):
    theirs = KafkaMessage(kafka_messages[message.name])
    for version in range(valid[0], valid[1] + 1):
        flexible = flexible_from is not None and version >= flexible_from
        assert list(flatten(message.schema(version, flexible=flexible))) == theirs.flatten(version), version


@BY_MESSAGE
def test_versions_and_flexibility_equal_kafkas(kafka_messages, message, valid, flexible_from):
    theirs = KafkaMessage(kafka_messages[message.name])
    assert valid == theirs.valid
    for version in range(valid[0], valid[1] + 1):
        assert (flexible_from is not None and version >= flexible_from) == within(version, theirs.flexible)


@BY_MESSAGE
def test_values_when_they_are_random_then_they_have_the_bytes_of_a_codec_made_from_kafkas_json(
        kafka_messages, message, valid, flexible_from):
    theirs = KafkaMessage(kafka_messages[message.name])
    for version in range(valid[0], valid[1] + 1):
        flexible = flexible_from is not None and version >= flexible_from
        schema = message.schema(version, flexible=flexible)
        for seed in range(12):
            value = theirs.random_value(version, random.Random(f"{message}/{version}/{seed}"))
            expected = theirs.encode(version, value)
            writer = ByteWriter()
            schema.write(writer, value)
            assert writer.to_bytes() == expected
            reader = ByteReader(expected)
            assert schema.read(reader) == value
            assert reader.remaining == 0


@BY_MESSAGE
def test_defaults_and_ignorable_equal_kafkas(kafka_messages, message, valid, flexible_from):
    theirs = KafkaMessage(kafka_messages[message.name])
    compare_fields(theirs, message.definitions, theirs.definition["fields"], valid)


def compare_fields(
    theirs: KafkaMessage, ours: tuple[FieldDefinition, ...], fields: list[dict[str, Any]], valid: tuple[int, int]
) -> None:
    relevant = {snake_case(field["name"]): field for field in fields
                if versions(field["versions"])[1] >= valid[0] and versions(field["versions"])[0] <= valid[1]}
    assert {definition.name for definition in ours} == relevant.keys()
    for definition in ours:
        field = relevant[definition.name]
        assert definition.ignorable == field.get("ignorable", False), definition.name
        if definition.default is not NO_DEFAULT:
            assert definition.default == theirs.default_of(field, valid[1]), definition.name
        else:
            assert "default" not in field, definition.name
        if definition.children:
            compare_fields(theirs, definition.children, theirs.children(field) or [], valid)


def test_api_keys_and_names_equal_kafkas(kafka_messages):
    for api in ApiKeys:
        for name, kind in ((api.row.request.name, "request"), (api.row.response.name, "response")):
            assert kafka_messages[name]["apiKey"] == api
            assert kafka_messages[name]["type"] == kind
        assert api.row.request.name == f"{api.title}Request"
        assert api.row.response.name == f"{api.title}Response"


def test_client_and_broker_ranges_hold_no_unstable_version(kafka_messages):
    for api in ApiKeys:
        unstable = kafka_messages[api.row.request.name].get("latestVersionUnstable", False)
        stable = api.row.valid[1] - unstable
        for first, last in filter(None, (api.client_range, api.broker_range, api.advertised_range)):
            assert first <= last <= stable, api
