"""RoundRobinPartitioner ignores keys and begins at the first partition, as Java's."""

from __future__ import annotations

from pyproducer.common.cluster import Cluster, PartitionInfo
from pyproducer.producer.partitioners import RoundRobinPartitioner
from tests.unit.producer.partitioners.clusters import NODE, TOPIC, cluster_of


def test_records_when_partitioned_then_in_turn_whatever_the_key() -> None:
    partitioner, cluster = RoundRobinPartitioner(), cluster_of(3)
    keys = [None, b"k", b"k", None, b"x", b"k"]
    assert [partitioner.partition(TOPIC, key, key, None, None, cluster) for key in keys] == [0, 1, 2, 0, 1, 2]


def test_partitions_when_some_have_no_leader_then_left_out() -> None:
    partitioner, cluster = RoundRobinPartitioner(), cluster_of(4, leaderless=[1])
    assert [partitioner.partition(TOPIC, None, None, None, None, cluster) for _ in range(4)] == [0, 2, 3, 0]


def test_partitions_when_none_has_a_leader_then_all_in_turn() -> None:
    partitioner, cluster = RoundRobinPartitioner(), cluster_of(2, leaderless=[0, 1])
    assert [partitioner.partition(TOPIC, None, None, None, None, cluster) for _ in range(3)] == [0, 1, 0]


def test_topics_when_there_are_several_then_each_has_its_own_turns() -> None:
    """With one counter for all, two topics that are sent to alternately would each get half of their partitions."""
    partitioner = RoundRobinPartitioner()
    clusters = {name: Cluster(nodes=[NODE], partitions=[PartitionInfo(name, index, NODE) for index in range(2)])
                for name in ("a", "b")}
    turns: dict[str, list[int]] = {name: [] for name in clusters}
    for _ in range(4):
        for name, cluster in clusters.items():
            turns[name].append(partitioner.partition(name, None, None, None, None, cluster))
    assert turns == {"a": [0, 1, 0, 1], "b": [0, 1, 0, 1]}
