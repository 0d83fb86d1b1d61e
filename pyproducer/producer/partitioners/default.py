"""DefaultPartitioner: by the hash of the key, or round-robin.

Road:    serializers -> [partitioner] -> accumulator
Thread:  any caller; holds no lock.
Source:  Java DefaultPartitioner as in seed 001 (before KIP-480); Utils.murmur2, Utils.toPositive; KIP-1123.
"""

from __future__ import annotations

import collections
import itertools
from typing import Any

from pyproducer.common.cluster import Cluster
from pyproducer.common.public import public
from pyproducer.common.records import plain_bytes
from pyproducer.hotpath import MURMUR2, Route, murmur2
from pyproducer.producer.partitioners.partitioner import (
    POSITIVE_MASK,
    NextRandom,
    any_number,
    partition_by_number,
    partition_count,
    route_in_turns,
)


@public
class DefaultPartitioner:
    """With a key: toPositive(murmur2(key)) modulo the number of partitions, led or not. Without: round-robin.

    Round-robin goes over the partitions that have a leader (over all when none has), per topic, from a random start.

    Args:
        next_random: Gives that start.
        rack: `client.rack` with `partitioner.rack.aware`: round-robin over the partitions led there, if any is.

    Attributes:
        rack: The same.
    """

    def __init__(self, next_random: NextRandom = any_number, *, rack: str = "") -> None:
        self._next_random = next_random
        self.rack = rack
        # next() of an itertools.count is one call in C, so two callers never get the same number and need no lock.
        # Two that both make a topic's counter: setdefault lets one win, and both use that one.
        self._counters: dict[str, itertools.count[int]] = {}

    def partition(self, topic: str, key: Any, key_bytes: bytes | None, value: Any, value_bytes: bytes | None,
                  cluster: Cluster) -> int:
        """Return the partition; see Partitioner."""
        if key_bytes is not None:
            count = cluster.partition_count_for_topic(topic) or partition_count(topic, cluster)
            return (murmur2(key_bytes) & POSITIVE_MASK) % count
        return partition_by_number(next(self.counter(topic)) & POSITIVE_MASK, topic, cluster, self.rack)

    def route(self, topic: str, cluster: Cluster) -> Route:
        """Return how records of a known topic are spread, for send()."""
        return route_in_turns(topic, cluster, self.counter(topic), key_hash=MURMUR2, rack=self.rack)

    def counter(self, topic: str) -> itertools.count[int]:
        """Return the counter of a topic, whose positive part modulo the available partitions is the next turn."""
        counter = self._counters.get(topic)
        if counter is None:
            # Java's AtomicInteger wraps at 32 bits; the mask above makes an endless count the same.
            counter = self._counters.setdefault(topic, itertools.count(self._next_random()))
        return counter

    def take_turns(self, topic: str, count: int) -> int:
        """Take that many numbers of a topic's counter at once; return the first. The others follow it."""
        counter = self.counter(topic)
        turns = itertools.islice(counter, count)
        first = next(turns)
        # One call in C takes the rest; a number that another caller took in between is his turn and ours.
        collections.deque(turns, maxlen=0)
        return first


def partition_for(key: bytes, partition_count: int) -> int:
    """Return the partition of a serialized key, as DefaultPartitioner and the Java producer choose it.

    Args:
        key: The serialized key; not None.
        partition_count: How many partitions the topic has.

    Raises:
        TypeError: The key is not bytes.
        ValueError: There is no partition.
    """
    if not isinstance(key, (bytes, bytearray, memoryview)):
        raise TypeError(f"the key must be bytes as they are sent, got {type(key).__name__}")
    if partition_count < 1:
        raise ValueError(f"partition_count must be at least 1, got {partition_count}")
    return (murmur2(plain_bytes(key)) & POSITIVE_MASK) % partition_count
