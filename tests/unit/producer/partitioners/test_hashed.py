"""Hash partitioners, against values of their originals; tests/strangers compares thousands with librdkafka itself."""

from __future__ import annotations

import pytest

from pyproducer.common.errors import IllegalStateError
from pyproducer.producer.partitioners import (
    Crc32Partitioner,
    Fnv1aPartitioner,
    Murmur2RandomPartitioner,
    Murmur3Partitioner,
    Partitioner,
)
from pyproducer.producer.partitioners.hashed import fnv1a
from tests.unit.producer.partitioners.clusters import TOPIC, cluster_of


def partition(partitioner: Partitioner, key: bytes | None, count: int = 10007) -> int:
    return partitioner.partition(TOPIC, key, key, None, None, cluster_of(count))


# Published vectors: FNV-1a 32 of "", "a", "foobar" are 811c9dc5, e40c292c, bf9cf968; as negative numbers made positive.
@pytest.mark.parametrize(("data", "expected"), [
    (b"", 2**32 - 0x811C9DC5), (b"a", 2**32 - 0xE40C292C), (b"foobar", 2**32 - 0xBF9CF968), (b"b", 2**32 - 0xE70C2DE5),
    (b"foo", 2**32 - 0xA9F37ED7), (b"foob", 0x3F5076EF), (b"fooba", 0x39AAA18A),
    (b"fo", 0x6222E842),
])
def test_fnv1a_when_hashed_then_the_absolute_value_of_the_signed_hash(data: bytes, expected: int) -> None:
    assert fnv1a(data) == expected
    assert partition(Fnv1aPartitioner(), data) == expected % 10007


def test_crc32_when_hashed_then_the_check_value_of_the_algorithm() -> None:
    assert partition(Crc32Partitioner(), b"123456789") == 0xCBF43926 % 10007


@pytest.mark.parametrize(("key", "murmur3"), [
    (b"", 0), (b"hello", 0x248BFA47), (b"The quick brown fox jumps over the lazy dog", 0x2E4FF723),
    (b"test", 0xBA6BD213),
])
def test_murmur3_when_hashed_then_the_published_value_without_its_sign(key: bytes, murmur3: int) -> None:
    assert partition(Murmur3Partitioner(), key) == (murmur3 & 0x7FFFFFFF) % 10007


# BuiltInPartitioner.partitionForKey(key, 10007) of kafka-clients 4.1.0.
@pytest.mark.parametrize(("key", "expected"), [(b"", 3866), (b"abc", 4716), (b"foobar", 1826)])
def test_murmur2_when_hashed_then_as_java(key: bytes, expected: int) -> None:
    assert partition(Murmur2RandomPartitioner(), key) == expected


@pytest.mark.parametrize("partitioner", [Crc32Partitioner(), Fnv1aPartitioner(), Murmur2RandomPartitioner(),
                                         Murmur3Partitioner()])
def test_no_key_when_partitioned_then_everywhere_that_has_a_leader(partitioner: Partitioner) -> None:
    cluster = cluster_of(4, leaderless=[2])
    found = {partitioner.partition(TOPIC, None, None, None, None, cluster) for _ in range(200)}
    assert found == {0, 1, 3}
    nowhere = cluster_of(2, leaderless=[0, 1])
    assert {partitioner.partition(TOPIC, None, None, None, None, nowhere) for _ in range(100)} == {0, 1}


def test_empty_key_when_partitioned_then_only_crc32_treats_it_as_none() -> None:
    cluster = cluster_of(16)

    def found(partitioner: Partitioner) -> set[int]:
        return {partitioner.partition(TOPIC, b"", b"", None, None, cluster) for _ in range(100)}

    assert len(found(Crc32Partitioner())) > 1
    for partitioner in (Fnv1aPartitioner(), Murmur2RandomPartitioner(), Murmur3Partitioner()):
        assert len(found(partitioner)) == 1


@pytest.mark.parametrize("partitioner", [Crc32Partitioner(), Fnv1aPartitioner(), Murmur2RandomPartitioner(),
                                         Murmur3Partitioner()])
def test_topic_when_not_known_then_illegal_state(partitioner: Partitioner) -> None:
    for key in (None, b"k"):
        with pytest.raises(IllegalStateError, match="no partition of topic"):
            partitioner.partition("other", key, key, None, None, cluster_of(2))
