"""Keys go where librdkafka's partitioners of the same name send them, and null keys go everywhere."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest

from pyproducer import KafkaProducer
from pyproducer.producer.partitioners import Crc32Partitioner, Fnv1aPartitioner
from tests.support.kafka_server import KafkaServer
from tests.support.patience import GIVE_UP_S

KEY_COUNT = 5000
PARTITION_COUNT = 17


def random_keys() -> list[bytes]:
    chance = random.Random(20)
    return list({chance.randbytes(chance.randrange(1, 40)) for _ in range(KEY_COUNT + 50)})[:KEY_COUNT]


def partitions_of_librdkafka(bootstrap_servers: str, topic: str, partitioner: str,
                             keys: list[bytes]) -> dict[bytes, int]:
    """Send the keys with librdkafka and ask its delivery reports where they went."""
    from confluent_kafka import Producer

    found: dict[bytes, int] = {}

    def on_delivery(error: object, message: Any) -> None:
        found[message.key()] = message.partition()

    stranger = Producer({"bootstrap.servers": bootstrap_servers, "partitioner": partitioner, "log_level": 0})
    for key in keys:
        stranger.produce(topic, b"", key, on_delivery=on_delivery)
    assert stranger.flush(GIVE_UP_S) == 0
    return found


def partitions_of_ours(bootstrap_servers: str, topic: str, keys: list[bytes], **props: object) -> dict[bytes, int]:
    with KafkaProducer({"bootstrap.servers": bootstrap_servers, **props}) as producer:
        futures = {key: producer.send(topic, b"", key=key) for key in keys}
        return {key: future.result(GIVE_UP_S).partition for key, future in futures.items()}


@pytest.mark.parametrize(("ours", "librdkafka"), [
    (None, "murmur2_random"), (Crc32Partitioner, "consistent_random"), (Fnv1aPartitioner, "fnv1a_random")])
def test_random_keys_when_partitioned_then_as_librdkafka(kafka: KafkaServer, topic_name: str, ours: type | None,
                                                         librdkafka: str) -> None:
    topic = kafka.create_topic(topic_name, PARTITION_COUNT)
    keys = random_keys()
    props = {} if ours is None else {"partitioner.class": ours}
    found = partitions_of_ours(kafka.bootstrap_servers, topic, keys, **props)
    assert len(found) == KEY_COUNT
    assert found == partitions_of_librdkafka(kafka.bootstrap_servers, topic, librdkafka, keys)


def test_null_keys_when_nothing_is_configured_then_round_robin(kafka: KafkaServer, topic_name: str) -> None:
    topic = kafka.create_topic(topic_name, 4)
    with KafkaProducer({"bootstrap.servers": kafka.bootstrap_servers}) as producer:
        futures = [producer.send(topic, b"v") for _ in range(400)]
        partitions = [future.result(GIVE_UP_S).partition for future in futures]
    assert [partitions.count(partition) for partition in range(4)] == [100] * 4
    assert all((after - before) % 4 == 1 for before, after in itertools.pairwise(partitions))


def test_explicit_partition_when_given_then_it_wins_over_the_key(kafka: KafkaServer, topic_name: str) -> None:
    topic = kafka.create_topic(topic_name, 4)
    with KafkaProducer({"bootstrap.servers": kafka.bootstrap_servers}) as producer:
        futures = [producer.send(topic, b"v", key=b"same", partition=partition) for partition in range(4)]
        assert [future.result(GIVE_UP_S).partition for future in futures] == [0, 1, 2, 3]
