"""UniformStickyPartitioner: batches' worth of records without key, one partition after the other."""

from __future__ import annotations

from collections import Counter

import pytest

from pyproducer.producer.partitioners import UniformStickyPartitioner, partition_for
from tests.unit.producer.partitioners.clusters import TOPIC, cluster_of


def partition(partitioner: UniformStickyPartitioner, key: bytes | None = None, count: int = 5) -> int:
    return partitioner.partition(TOPIC, key, key, None, None, cluster_of(count))


def test_key_when_given_then_javas_partition_and_the_sticky_one_stays() -> None:
    partitioner = UniformStickyPartitioner()
    sticky = partition(partitioner)
    assert partition(partitioner, b"abc", 10007) == partition_for(b"abc", 10007)
    assert partition(partitioner, b"") == partition_for(b"", 5)
    assert partition(partitioner) == sticky


def test_key_when_ignored_then_sticky() -> None:
    partitioner = UniformStickyPartitioner(ignore_keys=True)
    assert {partition(partitioner, b"%d" % n) for n in range(50)} == {partition(partitioner)}


def test_records_when_appended_then_runs_of_one_batch_each() -> None:
    partitioner, cluster = UniformStickyPartitioner(100), cluster_of(5)
    counts: Counter[int] = Counter()
    for _ in range(5000):
        chosen = partition(partitioner)
        for _ in range(4):
            assert partition(partitioner) == chosen
            partitioner.on_append(TOPIC, chosen, 25, cluster)
        counts[chosen] += 1
    assert set(counts) == set(range(5))
    assert all(800 < count < 1200 for count in counts.values())


def test_batch_size_when_zero_then_a_new_choice_for_each_record() -> None:
    partitioner, cluster = UniformStickyPartitioner(0), cluster_of(5)
    found = set()
    for _ in range(100):
        chosen = partition(partitioner)
        partitioner.on_append(TOPIC, chosen, 1, cluster)
        found.add(chosen)
    assert len(found) == 5


def choices(partitioner: UniformStickyPartitioner, rounds: int = 300) -> set[int]:
    """Where records go after the first batch."""
    cluster = cluster_of(3)
    partitioner.on_append(TOPIC, partition(partitioner, count=3), 1 << 20, cluster)
    found = set()
    for _ in range(rounds):
        chosen = partition(partitioner, count=3)
        found.add(chosen)
        partitioner.on_append(TOPIC, chosen, 1 << 20, cluster)
    return found


@pytest.mark.parametrize("limit_ms", [1, 50])
def test_load_when_a_leader_is_too_slow_then_its_partitions_are_left_out(limit_ms: int) -> None:
    partitioner = UniformStickyPartitioner(availability_timeout_ms=limit_ms)
    partitioner.update_load(TOPIC, [1, 1, 1], [0, 1, 2], 3, [0, limit_ms + 1, limit_ms])
    assert choices(partitioner) == {0, 2}
    partitioner.update_load(TOPIC, [1, 1, 1], [0, 1, 2], 3, [0, 0, 0])
    assert choices(partitioner) == {0, 1, 2}


def test_load_when_availability_is_not_watched_then_slow_leaders_stay() -> None:
    partitioner = UniformStickyPartitioner()
    partitioner.update_load(TOPIC, [1, 1, 1], [0, 1, 2], 3, [0, 10**6, 0])
    assert choices(partitioner) == {0, 1, 2}


def test_load_when_all_leaders_are_too_slow_then_uniform() -> None:
    partitioner = UniformStickyPartitioner(availability_timeout_ms=1)
    partitioner.update_load(TOPIC, [1, 2, 3], [0, 1, 2], 3, [9, 9, 9])
    assert choices(partitioner) == {0, 1, 2}


def test_load_when_not_adaptive_then_not_looked_at() -> None:
    partitioner = UniformStickyPartitioner(is_adaptive=False, availability_timeout_ms=1)
    partitioner.update_load(TOPIC, [0, 10**9, 10**9], [0, 1, 2], 3, [0, 9, 9])
    assert choices(partitioner) == {0, 1, 2}


def test_load_when_queues_differ_then_the_short_one_gets_more() -> None:
    partitioner = UniformStickyPartitioner()
    partitioner.update_load(TOPIC, [0, 10**9, 10**9], [0, 1, 2], 3)
    assert choices(partitioner) == {0}


def test_append_when_the_topic_was_never_sticky_then_ignored() -> None:
    UniformStickyPartitioner().on_append("other", 0, 1, cluster_of(1))
