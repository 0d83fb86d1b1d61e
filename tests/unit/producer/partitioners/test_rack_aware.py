"""Records without a key prefer partitions whose leader is in the client's rack (KIP-1123)."""

from __future__ import annotations

from collections import Counter
from itertools import count

import pytest

from pyproducer.common.cluster import Cluster, Node, PartitionInfo
from pyproducer.common.errors import ConfigError
from pyproducer.producer.config import ProducerConfig
from pyproducer.producer.partitioners import (
    BuiltInPartitioner,
    DefaultPartitioner,
    RoundRobinPartitioner,
    UniformStickyPartitioner,
    resolve_partitioner,
)
from tests.unit.producer.partitioners.clusters import TOPIC

SERVERS = {"bootstrap.servers": "b:9092"}
RACK_AWARE = {**SERVERS, "partitioner.rack.aware": "true", "client.rack": "r1"}


def racks(*rack_of_leader: str | None) -> Cluster:
    """A topic of as many partitions, each led in a rack; "-" is a partition without a leader, None a leader of none."""
    nodes = {rack: Node(number, "localhost", 9092, rack) for number, rack in enumerate(dict.fromkeys(rack_of_leader))}
    return Cluster(nodes=nodes.values(), partitions=[
        PartitionInfo(TOPIC, partition, None if rack == "-" else nodes[rack])
        for partition, rack in enumerate(rack_of_leader)])


CLUSTERS = [
    (racks("r1", "r2", "r1", "r2", "r1"), {0, 2, 4}), (racks("r2", "r1"), {1}), (racks("r2", "r3"), {0, 1}),
    (racks("r2", "-", "r1", "-"), {2}), (racks("r2", "-", "r3", "-"), {0, 2}), (racks("-", "-"), {0, 1}),
    (racks(None, None), {0, 1}), (racks(None, "r1"), {1})]


@pytest.mark.parametrize(("cluster", "expected"), CLUSTERS)
def test_default_partitioner_when_rack_aware_then_in_turns_over_those_led_there(cluster: Cluster,
                                                                                expected: set[int]) -> None:
    partitioner = resolve_partitioner(None, ProducerConfig(RACK_AWARE))
    assert isinstance(partitioner, DefaultPartitioner)
    chosen = Counter(partitioner.partition(TOPIC, None, None, b"v", b"v", cluster) for _ in range(60))
    assert chosen == dict.fromkeys(expected, 60 // len(expected))
    assert set(partitioner.route(TOPIC, cluster).available) == expected


@pytest.mark.parametrize(("cluster", "expected"), CLUSTERS)
def test_sticky_partitioner_when_rack_aware_then_among_those_led_there(cluster: Cluster, expected: set[int]) -> None:
    partitioner = resolve_partitioner("uniform_sticky", ProducerConfig({**RACK_AWARE, "batch.size": 10}))
    assert isinstance(partitioner, UniformStickyPartitioner)
    chosen = set()
    for _ in range(200):
        partition = partitioner.partition(TOPIC, None, None, b"v", b"v", cluster)
        partitioner.on_append(TOPIC, partition, 10, cluster)
        chosen.add(partition)
    assert chosen == expected


@pytest.mark.parametrize("name", [None, "uniform_sticky"])
def test_record_when_it_has_a_key_then_the_rack_decides_nothing(name: str | None) -> None:
    cluster = racks("r1", "r2", "r2", "r2")
    keys = [b"%d" % number for number in range(50)]
    aware, plain = (resolve_partitioner(name, ProducerConfig(props)) for props in (RACK_AWARE, SERVERS))
    assert [aware.partition(TOPIC, key, key, b"", b"", cluster) for key in keys] == [
        plain.partition(TOPIC, key, key, b"", b"", cluster) for key in keys]


def test_other_partitioners_when_rack_aware_is_set_then_as_in_java_they_do_not_know_it() -> None:
    partitioner = resolve_partitioner(RoundRobinPartitioner, ProducerConfig(RACK_AWARE))
    cluster = racks("r1", "r2")
    assert {partitioner.partition(TOPIC, None, None, b"", b"", cluster) for _ in range(4)} == {0, 1}


def test_rack_when_it_is_not_given_then_refused_and_alone_it_decides_nothing() -> None:
    with pytest.raises(ConfigError, match=r"partitioner\.rack\.aware = true needs it"):
        ProducerConfig({**SERVERS, "partitioner.rack.aware": True})
    partitioner = resolve_partitioner(None, ProducerConfig({**SERVERS, "client.rack": "r1"}))
    assert set(partitioner.route(TOPIC, racks("r1", "r2")).available) == {0, 1}


def test_leader_when_it_moves_then_the_next_choice_follows() -> None:
    partitioner = DefaultPartitioner(rack="r1")
    assert partitioner.route(TOPIC, racks("r1", "r2")).available == (0,)
    assert partitioner.route(TOPIC, racks("-", "r2")).available == (1,)
    assert partitioner.route(TOPIC, racks("r2", "r1")).available == (1,)


def test_load_when_weighted_then_only_the_queues_led_there_count() -> None:
    numbers = count()
    cluster = racks("r1", "r2", "r1", "r2")
    built_in = BuiltInPartitioner(TOPIC, 1, lambda: next(numbers), rack="r1")
    built_in.update_partition_load_stats([0, 100, 3, 50], [0, 1, 2, 3], 4)
    chosen = []
    for _ in range(10):
        chosen.append(built_in.peek_current_partition(cluster))
        built_in.update_partition_info(chosen[-1], 1, cluster)
    assert chosen == [0, 0, 0, 0, 2, 0, 0, 0, 0, 2]  # queues 0 and 3 weigh 4 and 1, whatever the others hold


def test_load_when_all_led_there_are_left_out_then_any_of_the_others() -> None:
    cluster = racks("r1", "r2", "r1", "r2")
    built_in = BuiltInPartitioner(TOPIC, 1, count().__next__, rack="r1")
    built_in.update_partition_load_stats([0, 1], [1, 3], 4)
    chosen = []
    for _ in range(6):
        chosen.append(built_in.peek_current_partition(cluster))
        built_in.update_partition_info(chosen[-1], 1, cluster)
    assert chosen == [1, 1, 3, 1, 1, 3]
