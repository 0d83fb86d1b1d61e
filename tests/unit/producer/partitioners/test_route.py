"""The routes of partitioners: send() makes their choice itself, and must make the same one."""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable
from typing import Any

import pytest

from pyproducer.hotpath import CRC32, MURMUR2, Route, murmur2
from pyproducer.producer.partitioners import (
    Crc32Partitioner,
    DefaultPartitioner,
    Murmur2RandomPartitioner,
    RoundRobinPartitioner,
    UniformStickyPartitioner,
)
from tests.unit.producer.partitioners.clusters import TOPIC, cluster_of

KEYS = [None, b"a", b"b", None, b"", None, b"c", None, None, b"a"] * 3


def chosen_by(route: Route, key: bytes | None) -> int:
    """What the road does, step by step."""
    if key is not None and route.key_hash == MURMUR2:
        return (murmur2(key) & 0x7FFFFFFF) % route.count
    if key and route.key_hash == CRC32:
        return zlib.crc32(key) % route.count
    if route.turns is not None:
        return route.available[(next(route.turns) & 0x7FFFFFFF) % len(route.available)]
    assert route.sticky is not None
    return route.sticky.partition


@pytest.mark.parametrize("leaderless", [[], [1], [0, 1, 2, 3, 4]])
@pytest.mark.parametrize("make", [
    DefaultPartitioner, RoundRobinPartitioner, UniformStickyPartitioner,
    lambda: UniformStickyPartitioner(ignore_keys=True), Crc32Partitioner, Murmur2RandomPartitioner])
def test_route_when_records_take_it_then_they_go_where_the_partitioner_says(
        make: Callable[[], Any], leaderless: list[int]) -> None:
    cluster = cluster_of(5, leaderless=leaderless)
    random.seed(3)
    asked = make()
    by_partitioner = [asked.partition(TOPIC, key, key, None, None, cluster) for key in KEYS]
    random.seed(3)
    route = make().route(TOPIC, cluster)
    assert route.count == 5
    assert [chosen_by(route, key) for key in KEYS] == by_partitioner


@pytest.mark.parametrize("make", [DefaultPartitioner, RoundRobinPartitioner])
def test_route_when_there_is_another_for_a_newer_snapshot_then_the_turns_go_on(make: Callable[[], Any]) -> None:
    partitioner, cluster = make(), cluster_of(5)
    first = chosen_by(partitioner.route(TOPIC, cluster), None)
    assert chosen_by(partitioner.route(TOPIC, cluster), None) == (first + 1) % 5


def test_sticky_route_when_the_partition_got_enough_then_switch_chooses_another_once() -> None:
    partitioner, cluster = UniformStickyPartitioner(100), cluster_of(5)
    route = partitioner.route(TOPIC, cluster)
    assert route.sticky is not None
    partition = route.sticky.partition
    assert not route.sticky.add(partition, 99, True)
    assert not route.sticky.add((partition + 1) % 5, 99, True), "bytes for another partition do not count"
    assert not route.sticky.add(partition, 100, False), "a batch that is not full may fill up to twice the size"
    assert route.sticky.add(partition, 1, False)
    seen = set()
    for _ in range(50):
        route.sticky.add(route.sticky.partition, 100, True)
        partitioner.switch(TOPIC, cluster)
        assert route.sticky.produced_bytes == 0
        seen.add(route.sticky.partition)
        partition = route.sticky.partition
        partitioner.switch(TOPIC, cluster)
        assert route.sticky.partition == partition, "somebody else switched already"
    assert seen == set(range(5))
