"""RoundRobinPartitioner: in turn, whatever the key.

Road:    serializers -> [partitioner] -> accumulator
Thread:  any caller; holds no lock.
Source:  Java RoundRobinPartitioner (4.1), which has no on_new_batch any more: with it, every second partition was left
         out (KAFKA-9965).
"""

from __future__ import annotations

import itertools
from typing import Any

from pyproducer.common.cluster import Cluster
from pyproducer.common.public import public
from pyproducer.hotpath import NO_HASH, Route
from pyproducer.producer.partitioners.partitioner import POSITIVE_MASK, partition_by_number, route_in_turns


@public
class RoundRobinPartitioner:
    """Goes over the partitions that have a leader (over all when none has), per topic, from the first."""

    def __init__(self) -> None:
        self._counters: dict[str, itertools.count[int]] = {}  # see DefaultPartitioner why this needs no lock

    def partition(self, topic: str, key: Any, key_bytes: bytes | None, value: Any, value_bytes: bytes | None,
                  cluster: Cluster) -> int:
        """Return the partition; see Partitioner."""
        return partition_by_number(next(self._counter(topic)) & POSITIVE_MASK, topic, cluster)

    def route(self, topic: str, cluster: Cluster) -> Route:
        """Return how records of a known topic are spread, for send()."""
        return route_in_turns(topic, cluster, self._counter(topic), key_hash=NO_HASH)

    def _counter(self, topic: str) -> itertools.count[int]:
        counter = self._counters.get(topic)
        if counter is None:
            counter = self._counters.setdefault(topic, itertools.count())
        return counter
