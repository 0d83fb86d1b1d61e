"""RecordMetadata, field by field, against the log."""

from __future__ import annotations

import time

import pytest

from pyproducer import RecordMetadata, StringSerializer
from tests.contract.clusters import Can, Cluster
from tests.contract.conftest import Connect
from tests.support.patience import GIVE_UP_S


def test_metadata_when_a_record_is_stored_then_topic_partition_offset_and_sizes_are_its_own(
        cluster: Cluster, topic: str, connect: Connect) -> None:
    producer = connect()
    told = [producer.send(topic, b"value", key=b"longer key", partition=number % 2).result(GIVE_UP_S)
            for number in range(6)]
    stored = {(record.partition, record.offset): record for record in cluster.log(topic)}
    assert len(stored) == 6
    for number, metadata in enumerate(told):
        assert type(metadata) is RecordMetadata
        assert (metadata.topic, metadata.partition, metadata.offset) == (topic, number % 2, number // 2)
        record = stored[metadata.partition, metadata.offset]
        assert metadata.serialized_key_size == len(record.key or b"") == 10
        assert metadata.serialized_value_size == len(record.value or b"") == 5


def test_metadata_when_key_or_value_is_none_then_its_size_is_minus_1(topic: str, connect: Connect) -> None:
    producer = connect()
    neither = producer.send(topic, None).result(GIVE_UP_S)
    assert (neither.serialized_key_size, neither.serialized_value_size) == (-1, -1)
    empty = producer.send(topic, b"", key=b"").result(GIVE_UP_S)
    assert (empty.serialized_key_size, empty.serialized_value_size) == (0, 0)


def test_metadata_when_serializers_are_used_then_the_sizes_are_of_their_bytes(topic: str, connect: Connect) -> None:
    producer = connect(key_serializer=StringSerializer(), value_serializer="string")
    metadata = producer.send(topic, "\N{EURO SIGN}", key="ab").result(GIVE_UP_S)
    assert (metadata.serialized_key_size, metadata.serialized_value_size) == (2, 3)


@pytest.mark.needs(Can.TELL_THE_TIME)
def test_timestamp_when_given_then_metadata_and_log_have_it(cluster: Cluster, topic: str, connect: Connect) -> None:
    assert connect().send(topic, b"v", timestamp=1_234_567).result(GIVE_UP_S).timestamp == 1_234_567
    assert [record.timestamp for record in cluster.log(topic)] == [1_234_567]


@pytest.mark.needs(Can.TELL_THE_TIME)
def test_timestamp_when_not_given_then_it_is_the_time_of_send(cluster: Cluster, topic: str, connect: Connect) -> None:
    producer = connect()
    before_ms = int(time.time() * 1000) - 1
    future = producer.send(topic, b"v")
    after_ms = int(time.time() * 1000) + 1
    timestamp = future.result(GIVE_UP_S).timestamp
    assert before_ms <= timestamp <= after_ms
    assert [record.timestamp for record in cluster.log(topic)] == [timestamp]


@pytest.mark.needs(Can.TELL_THE_TIME, Can.CONFIGURE_TOPICS)
def test_timestamp_when_the_topic_uses_log_append_time_then_the_brokers_is_told(
        cluster: Cluster, topic_name: str, connect: Connect) -> None:
    topic = cluster.create_topic(topic_name, {"message.timestamp.type": "LogAppendTime"})
    metadata = connect().send(topic, b"v", timestamp=1_234_567).result(GIVE_UP_S)
    assert metadata.timestamp > 1_234_567
    assert [record.timestamp for record in cluster.log(topic)] == [metadata.timestamp]
