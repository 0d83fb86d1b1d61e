"""confluent-kafka's serializers of a schema registry, given to our producer as they are; its deserializers read."""

from __future__ import annotations

import asyncio
import importlib
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pyproducer import ConfigError, KafkaProducer, SerializationError, frames
from pyproducer.aio import AsyncKafkaProducer
from pyproducer.broker import EmbeddedBroker
from pyproducer.testing import ConsumedRecord
from tests.conftest import refuse
from tests.support.patience import GIVE_UP_S
from tests.support.schema_registry import SchemaRegistry

ROOT = Path(__file__).resolve().parents[2]
TOPIC = "users"
USER = {"name": "Ann Example", "number": 7}
AVRO = """{"type": "record", "name": "User", "fields": [{"name": "name", "type": "string"},
                                                         {"name": "number", "type": "int"}]}"""
JSON_SCHEMA = """{"$schema": "http://json-schema.org/draft-07/schema#", "title": "User", "type": "object",
                  "properties": {"name": {"type": "string"}, "number": {"type": "integer"}}, "required": ["name"]}"""


def part_of_confluent_kafka(name: str) -> Any:
    try:
        return importlib.import_module(f"confluent_kafka.{name}")
    except ImportError as missing:
        refuse(f"the package {missing.name}, which confluent_kafka.{name} needs, is not installed: "
               "pip install -e '.[test]'")


@pytest.fixture
def registry() -> Iterator[SchemaRegistry]:
    with SchemaRegistry() as registry:
        yield registry


@pytest.fixture
def client(registry: SchemaRegistry) -> Iterator[Any]:
    client = part_of_confluent_kafka("schema_registry").SchemaRegistryClient({"url": registry.url})
    with client:
        yield client


@pytest.fixture
def stored() -> Iterator[Callable[..., ConsumedRecord]]:
    """Sends a value, or a key, with a serializer; gives the record as it is in the log."""
    with EmbeddedBroker(topics={TOPIC: 1}) as broker:
        def store(value: object, serializer: object, **arguments: Any) -> ConsumedRecord:
            with KafkaProducer({"bootstrap.servers": broker.bootstrap_servers, **arguments.pop("props", {})},
                               value_serializer=serializer) as producer:
                producer.send(TOPIC, value, **arguments).result(GIVE_UP_S)
            return broker.records(TOPIC)[-1]

        yield store


def read(deserializer: Any, record: ConsumedRecord, field: str = "value") -> Any:
    serialization = part_of_confluent_kafka("serialization")
    context = serialization.SerializationContext(TOPIC, field, [tuple(header) for header in record.headers])
    return deserializer(getattr(record, field), context)


def test_avro_when_its_serializer_is_given_then_its_deserializer_reads(
        registry: SchemaRegistry, client: Any, stored: Callable[..., ConsumedRecord]) -> None:
    avro = part_of_confluent_kafka("schema_registry.avro")
    record = stored(USER, avro.AvroSerializer(client, AVRO))
    assert record.value[:5] == b"\0\0\0\0\1"
    assert list(registry.subjects) == ["users-value"]
    assert read(avro.AvroDeserializer(client), record) == USER


def test_avro_when_a_frame_is_written_with_it_then_its_deserializer_reads(registry: SchemaRegistry,
                                                                          client: Any) -> None:
    avro, pyarrow = part_of_confluent_kafka("schema_registry.avro"), pytest.importorskip("pyarrow")
    with EmbeddedBroker(topics={TOPIC: 1}) as broker:
        told = frames.write({"bootstrap.servers": broker.bootstrap_servers}, pyarrow.Table.from_pylist([USER, USER]),
                            TOPIC, key="name", value=avro.AvroSerializer(client, AVRO))
        assert told.row_count == 2
        assert [read(avro.AvroDeserializer(client), record) for record in broker.records(TOPIC)] == [USER, USER]
    assert list(registry.subjects) == ["users-value"]


def test_avro_when_it_is_given_as_the_migration_page_says_then_the_record_is_stored(registry: SchemaRegistry) -> None:
    part_of_confluent_kafka("schema_registry.avro")
    (program,) = [program for program in re.findall(
        r"```python\n(.*?)```", (ROOT / "docs/migration.md").read_text(encoding="ascii"), re.DOTALL)
        if "AvroSerializer" in program]
    with EmbeddedBroker(topics={TOPIC: 1}) as broker:
        for placeholder, address in (("http://registry:8081", registry.url), ("kafka:9092", broker.bootstrap_servers)):
            assert placeholder in program
            program = program.replace(placeholder, address)
        exec(compile(program, "docs/migration.md", "exec"), {})
        (record,) = broker.records(TOPIC)
    assert (record.key, record.value) == (b"1", b"\0\0\0\0\1\6Ann")


def test_avro_when_it_is_for_keys_then_the_subject_is_the_keys(
        registry: SchemaRegistry, client: Any, stored: Callable[..., ConsumedRecord]) -> None:
    avro = part_of_confluent_kafka("schema_registry.avro")
    record = stored(b"v", None, key=USER, props={"key.serializer": avro.AvroSerializer(client, AVRO)})
    assert list(registry.subjects) == ["users-key"]
    assert read(avro.AvroDeserializer(client), record, "key") == USER


def test_avro_when_the_schemas_id_goes_into_a_header_then_the_record_has_it(
        client: Any, stored: Callable[..., ConsumedRecord]) -> None:
    avro = part_of_confluent_kafka("schema_registry.avro")
    in_header = part_of_confluent_kafka("schema_registry").header_schema_id_serializer
    record = stored(USER, avro.AvroSerializer(client, AVRO, conf={"schema.id.serializer": in_header}),
                    headers=[("trace", b"1")])
    assert [header.key for header in record.headers] == ["trace", "__value_schema_id"]
    assert record.value[:1] != b"\0"  # no prefix
    assert read(avro.AvroDeserializer(client), record) == USER


def test_json_schema_when_its_serializer_is_given_then_its_deserializer_reads(
        registry: SchemaRegistry, client: Any, stored: Callable[..., ConsumedRecord]) -> None:
    json_schema = part_of_confluent_kafka("schema_registry.json_schema")
    record = stored(USER, json_schema.JSONSerializer(JSON_SCHEMA, client))
    assert registry.subjects["users-value"][0]["schemaType"] == "JSON"
    assert read(json_schema.JSONDeserializer(JSON_SCHEMA), record) == USER


def test_json_schema_when_the_value_is_not_of_it_then_send_raises(
        client: Any, stored: Callable[..., ConsumedRecord]) -> None:
    json_schema = part_of_confluent_kafka("schema_registry.json_schema")
    with pytest.raises(SerializationError, match="'name' is a required property") as raised:
        stored({"number": 7}, json_schema.JSONSerializer(JSON_SCHEMA, client))
    assert raised.value.outcome == "not_sent"


def test_protobuf_when_its_serializer_is_given_then_its_deserializer_reads(
        registry: SchemaRegistry, client: Any, stored: Callable[..., ConsumedRecord]) -> None:
    protobuf = part_of_confluent_kafka("schema_registry.protobuf")
    message_type = importlib.import_module("google.protobuf.wrappers_pb2").StringValue
    record = stored(message_type(value="Ann"), protobuf.ProtobufSerializer(message_type, client))
    assert registry.subjects["users-value"][0]["schemaType"] == "PROTOBUF"
    assert read(protobuf.ProtobufDeserializer(message_type), record).value == "Ann"


def test_tombstone_when_the_serializer_is_a_registrys_then_it_stays_one(
        registry: SchemaRegistry, client: Any, stored: Callable[..., ConsumedRecord]) -> None:
    avro = part_of_confluent_kafka("schema_registry.avro")
    assert stored(None, avro.AvroSerializer(client, AVRO), key=b"k").value is None
    assert not registry.subjects


def test_asynchronous_serializer_when_it_is_given_then_send_says_so(stored: Callable[..., ConsumedRecord]) -> None:
    kind = part_of_confluent_kafka("schema_registry.avro").AsyncAvroSerializer
    with pytest.raises(SerializationError, match="called, not awaited"):
        stored(USER, object.__new__(kind))


def test_asynchronous_serializer_when_it_was_not_awaited_then_the_constructor_says_so(
        stored: Callable[..., ConsumedRecord]) -> None:
    kind = part_of_confluent_kafka("schema_registry.avro").AsyncAvroSerializer
    with pytest.raises(ConfigError, match=r"it is not made yet: .*await serializer\(value, SerializationContext"):
        stored(USER, kind(None, AVRO))


def test_asynchronous_serializer_when_it_is_awaited_as_the_sentence_says_then_the_record_is_stored(
        registry: SchemaRegistry) -> None:
    avro = part_of_confluent_kafka("schema_registry.avro")
    serialization = part_of_confluent_kafka("serialization")

    async def run(servers: str) -> None:
        new_client = part_of_confluent_kafka("schema_registry").AsyncSchemaRegistryClient
        async with new_client({"url": registry.url}) as client:
            serializer = await avro.AsyncAvroSerializer(client, AVRO)
            context = serialization.SerializationContext(TOPIC, serialization.MessageField.VALUE)
            async with AsyncKafkaProducer({"bootstrap.servers": servers}) as producer:
                await producer.send(TOPIC, await serializer(USER, context))

    with EmbeddedBroker(topics={TOPIC: 1}) as broker:
        asyncio.run(run(broker.bootstrap_servers))
        assert broker.records(TOPIC)[-1].value[:5] == b"\0\0\0\0\1"


@pytest.mark.parametrize("kind", ["avro", "json_schema", "protobuf"])
def test_registry_when_it_cannot_be_reached_then_its_address_is_told(
        kind: str, stored: Callable[..., ConsumedRecord]) -> None:
    """The error was "[Errno 111] Connection refused", of nobody."""
    with SchemaRegistry() as gone:
        url = gone.url
    client = part_of_confluent_kafka("schema_registry").SchemaRegistryClient(
        {"url": url, "max.retries": 0, "basic.auth.user.info": "ada:invented-secret"})
    module = part_of_confluent_kafka(f"schema_registry.{kind}")
    value: object = USER
    if kind == "protobuf":
        value = importlib.import_module("google.protobuf.wrappers_pb2").StringValue(value="Ann")
        serializer = module.ProtobufSerializer(type(value), client)
    else:
        serializer = module.AvroSerializer(client, AVRO) if kind == "avro" else module.JSONSerializer(
            JSON_SCHEMA, client)
    with client, pytest.raises(SerializationError) as raised:
        stored(value, serializer)
    assert f"the schema registry at {url} did not answer: " in str(raised.value)
    assert raised.value.outcome == "not_sent"
    assert "invented-secret" not in str(raised.value)


def test_plain_serializers_of_confluent_kafka_when_they_are_given_then_they_serialize(
        stored: Callable[..., ConsumedRecord]) -> None:
    serialization = part_of_confluent_kafka("serialization")
    assert stored("Ann", serialization.StringSerializer("utf_16_be")).value == "Ann".encode("utf_16_be")
    assert stored(7, serialization.IntegerSerializer()).value == b"\0\0\0\7"


def test_serializer_of_ones_own_when_it_is_confluents_then_it_gets_topic_field_and_headers(
        stored: Callable[..., ConsumedRecord]) -> None:
    serialization = part_of_confluent_kafka("serialization")

    class Own(serialization.Serializer):  # type: ignore[misc, name-defined]  # of a package without its types here
        def __call__(self, obj: Any, ctx: Any = None) -> bytes:
            ctx.headers.append(("field", str(ctx.field.value).encode()))
            return f"{ctx.topic} {obj}".encode()

    record = stored(7, Own(), headers=[("trace", b"1")])
    assert record.value == b"users 7"
    assert [tuple(header) for header in record.headers] == [("trace", b"1"), ("field", b"value")]
