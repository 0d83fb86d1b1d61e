"""The records of coordinators against the definitions inside Kafka's own jars."""

from __future__ import annotations

from typing import Any

import pytest

from pyproducer.broker.messages import group_records
from pyproducer.protocol.message import Message
from tests.protocol.kafka_json import KafkaMessage, load
from tests.protocol.test_kafka_json import compare_fields, flatten
from tests.support.kafka_jars import CACHE, KAFKA_VERSION, kafka_classpath

# (message, its versions, the first flexible one)
GROUP_RECORDS: list[tuple[Message, tuple[int, int], int]] = [
    (group_records.OFFSET_COMMIT_KEY, (0, 0), 99),
    (group_records.OFFSET_COMMIT_VALUE, (0, 4), 4),
    (group_records.GROUP_METADATA_KEY, (0, 0), 99),
    (group_records.GROUP_METADATA_VALUE, (0, 4), 4),
]


@pytest.fixture(scope="module")
def group_messages() -> dict[str, dict[str, Any]]:
    kafka_classpath()
    return load(CACHE / "kafka" / KAFKA_VERSION / f"kafka-group-coordinator-{KAFKA_VERSION}.jar")


@pytest.mark.parametrize(("message", "valid", "flexible_from"), GROUP_RECORDS,
                         ids=[str(row[0]) for row in GROUP_RECORDS])
def test_records_of_the_group_coordinator_equal_kafkas(group_messages: dict[str, dict[str, Any]], message: Message,
                                                       valid: tuple[int, int], flexible_from: int) -> None:
    theirs = KafkaMessage(group_messages[message.name])
    assert valid == theirs.valid
    compare_fields(theirs, message.definitions, theirs.definition["fields"], valid)
    for version in range(valid[0], valid[1] + 1):
        schema = message.schema(version, flexible=version >= flexible_from)
        assert list(flatten(schema)) == theirs.flatten(version), version
