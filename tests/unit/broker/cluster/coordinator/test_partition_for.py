from __future__ import annotations

import pytest

from pyproducer.broker.cluster.coordinator.partition_for import java_hash, partition_for


# Measured on Apache Kafka 4.1 with a __consumer_offsets of 3 partitions and java.lang.String.
@pytest.mark.parametrize(("key", "java", "partition"), [
    ("alpha", 92909918, 2),
    ("beta", 3020272, 1),
    ("gamma-group", 834839769, 0),
    ("\u6d88\u8d39\u8005\u7ec4", 871131088, 1),
    ("\U0001f600grp", 1276929186, 0),
    ("Zz-9", 2799884, 2),
])
def test_keys_of_every_alphabet(key: str, java: int, partition: int) -> None:
    assert java_hash(key) == java
    assert partition_for(key, 3) == partition


@pytest.mark.parametrize(("key", "partition"), [
    ("alpha", 2), ("beta", 0), ("gamma-group", 1), ("\u6d88\u8d39\u8005\u7ec4", 0), ("\U0001f600grp", 2),
    ("polygenelubricants", 0), ("Zz-9", 0)])
def test_partition_when_there_are_four_then_it_is_kafkas(key: str, partition: int) -> None:
    assert partition_for(key, 4) == partition


def test_partition_when_the_hash_is_the_smallest_then_it_counts_as_0() -> None:
    assert java_hash("polygenelubricants") == -(2**31)
    assert partition_for("polygenelubricants", 50) == 0


def test_a_negative_hash_counts_without_its_sign() -> None:
    assert java_hash("my-group") == -1906497762
    assert partition_for("my-group", 7) == 1906497762 % 7


def test_the_empty_key_is_partition_0() -> None:
    assert partition_for("", 50) == 0
