"""Keys go where librdkafka sends them: asked of its producer and, with many partitions, of its functions."""

from __future__ import annotations

import ctypes
import random
from collections import Counter
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import Producer

from pyproducer.producer.partitioners import (
    Crc32Partitioner,
    DefaultPartitioner,
    Fnv1aPartitioner,
    Murmur2RandomPartitioner,
    Partitioner,
)
from tests.support.kafka_jars import MissingTool
from tests.support.patience import GIVE_UP_S
from tests.unit.producer.partitioners.clusters import TOPIC, cluster_of

KEY_COUNT = 5000
MOCK_PARTITION_COUNT = 4  # what librdkafka's mock cluster gives a topic
# A prime: with 4 partitions only two bits of a hash are seen.
MANY_PARTITIONS = 10_007
PAIRS = [
    pytest.param(Murmur2RandomPartitioner(), "murmur2_random", id="murmur2"),
    pytest.param(DefaultPartitioner(), "murmur2_random", id="default"),
    pytest.param(Crc32Partitioner(), "consistent_random", id="crc32"),
    pytest.param(Fnv1aPartitioner(), "fnv1a_random", id="fnv1a"),
]


def random_keys() -> list[bytes]:
    chance = random.Random(42)
    keys = {chance.randbytes(chance.randrange(1, 60)) for _ in range(KEY_COUNT * 2)}
    return [b"\0", b"\x80", b"\xff" * 7, bytes(256), *sorted(keys)][:KEY_COUNT]


def partitions_of_librdkafka(partitioner: str, keys: list[bytes | None]) -> list[int]:
    """Send the keys to a mock cluster and return the partitions that the delivery reports tell."""
    partitions = [-1] * len(keys)

    def on_delivery(number: int) -> Any:
        def callback(error: object, message: Any) -> None:
            assert error is None
            partitions[number] = message.partition()

        return callback

    # sticky.partitioning.linger.ms: without it, records without key stay together for 10 ms.
    stranger = Producer({"bootstrap.servers": "replaced.by.the.mock:9092", "test.mock.num.brokers": 1, "log_level": 0,
                         "partitioner": partitioner, "sticky.partitioning.linger.ms": 0})
    for number, key in enumerate(keys):
        stranger.produce("keys", b"", key, on_delivery=on_delivery(number))
        stranger.poll(0)
    assert stranger.flush(GIVE_UP_S) == 0
    return partitions


def partitions_of_ours(partitioner: Partitioner, keys: list[bytes | None], partition_count: int) -> list[int]:
    cluster = cluster_of(partition_count)
    return [partitioner.partition(TOPIC, key, key, None, b"", cluster) for key in keys]


@pytest.mark.parametrize(("ours", "theirs"), PAIRS)
def test_keys_when_sent_by_librdkafka_then_our_partitions(ours: Partitioner, theirs: str) -> None:
    keys: list[bytes | None] = [*random_keys()]
    found = partitions_of_librdkafka(theirs, keys)
    assert found == partitions_of_ours(ours, keys, MOCK_PARTITION_COUNT)
    assert set(found) == set(range(MOCK_PARTITION_COUNT))


@pytest.mark.parametrize(("ours", "theirs"), PAIRS)
def test_hashes_when_asked_of_librdkafka_then_ours(ours: Partitioner, theirs: str) -> None:
    folder = Path(confluent_kafka.__file__).resolve().parent
    libraries = [*folder.parent.glob("confluent_kafka.libs/librdkafka*"), *folder.glob(".dylibs/librdkafka*")]
    if not libraries:
        raise MissingTool("this confluent-kafka has no librdkafka of its own: install its wheel (pip install "
                          "--force-reinstall --only-binary=:all: confluent-kafka)")
    partition_of = getattr(ctypes.CDLL(str(libraries[0])), f"rd_kafka_msg_partitioner_{theirs}")
    partition_of.restype = ctypes.c_int32
    partition_of.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_int32, ctypes.c_void_p,
                             ctypes.c_void_p]
    keys: list[bytes | None] = [*random_keys()]
    if theirs != "consistent_random":  # that one looks for a random partition then, which needs a topic
        keys.append(b"")
    found = [partition_of(None, key, len(key or b""), MANY_PARTITIONS, None, None) for key in keys]
    assert found == partitions_of_ours(ours, keys, MANY_PARTITIONS)


@pytest.mark.parametrize("theirs", ["murmur2_random", "fnv1a_random"])
def test_empty_key_when_hashed_then_always_the_same_partition(theirs: str) -> None:
    ours = Murmur2RandomPartitioner() if theirs == "murmur2_random" else Fnv1aPartitioner()
    keys: list[bytes | None] = [b""] * 50
    assert partitions_of_librdkafka(theirs, keys) == partitions_of_ours(ours, keys, MOCK_PARTITION_COUNT)


@pytest.mark.parametrize(("ours", "theirs", "key"), [
    (Crc32Partitioner(), "consistent_random", b""), (Crc32Partitioner(), "consistent_random", None),
    (Murmur2RandomPartitioner(), "murmur2_random", None), (Fnv1aPartitioner(), "fnv1a_random", None)])
def test_no_key_when_partitioned_then_both_spread_at_random(ours: Partitioner, theirs: str, key: bytes | None) -> None:
    keys = [key] * 2000
    # Of the stranger only that it leaves none out: on a loaded machine one of its partitions had a third of all.
    for partitions, least, most in ((partitions_of_librdkafka(theirs, keys), 100, 1700),
                                    (partitions_of_ours(ours, keys, MOCK_PARTITION_COUNT), 350, 650)):
        counts = Counter(partitions)
        assert set(counts) == set(range(MOCK_PARTITION_COUNT))
        assert all(least < count < most for count in counts.values()), counts
