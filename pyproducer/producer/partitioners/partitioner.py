"""What a partitioner is, and what several of them need.

Road:    serializers -> [partitioner] -> accumulator
Thread:  any caller, several at once; for records that waited for their topic the sender thread, one after the other.
Source:  Java Partitioner, Utils.toPositive (4.1).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from pyproducer.common.cluster import Cluster, PartitionInfo, PartitionTable
from pyproducer.common.errors import IllegalStateError
from pyproducer.common.public import public
from pyproducer.hotpath import Route

POSITIVE_MASK = 0x7FFFFFFF
"""Java's Utils.toPositive: clears the sign of a 32-bit number."""


NextRandom = Callable[[], int]
"""Gives a random number from 0 to 2**31 - 1; called by any caller."""


def any_number() -> int:
    """Return a random number: the NextRandom of who is given none."""
    return random.getrandbits(31)


@public
class Partitioner(Protocol):
    """Chooses partitions.

    It may also have `close()`, and `on_append(topic, partition, size_bytes, cluster, batch_is_full)`, which is told of
    each record that is in a batch; what that raises is logged, and the record goes its way.
    """

    def partition(self, topic: str, key: Any, key_bytes: bytes | None, value: Any, value_bytes: bytes | None,
                  cluster: Cluster) -> int:
        """Return the partition of a record.

        Args:
            topic: Where the record goes; the cluster knows at least one partition of it.
            key: The key as the application gave it, or None.
            key_bytes: The serialized key, or None.
            value: The value as the application gave it, or None.
            value_bytes: The serialized value, or None.
            cluster: The cluster as it is known now.

        Returns:
            An index from 0 to the number of partitions less one. A record for one that is missing between others
            waits for it up to max.block.ms.
        """


def choices(table: PartitionTable, rack: str = "") -> tuple[PartitionInfo, ...]:
    """Return the partitions that a record without a key may go to: those with a leader, or all when none has.

    Args:
        table: Those of a topic.
        rack: Where the leader shall be, if one is there; empty for anywhere.

    Source: KIP-1123 for the rack.
    """
    return (table.led_in(rack) if rack else ()) or table.available or table.in_order


def partition_by_number(number: int, topic: str, cluster: Cluster, rack: str = "") -> int:
    """Return the partition that a number not below zero falls on; see `choices`.

    Raises:
        IllegalStateError: The cluster knows no partition of the topic. Not sent.
    """
    infos = choices(cluster.table(topic), rack)
    if not infos:
        partition_count(topic, cluster)
    return infos[number % len(infos)].partition


def partition_count(topic: str, cluster: Cluster) -> int:
    """Return how many partitions a topic has: the number that keys are hashed over.

    Raises:
        IllegalStateError: The cluster knows none. Not sent.
    """
    count = cluster.partition_count_for_topic(topic)
    if not count:
        raise IllegalStateError(f"no partition of topic {topic!r} is known: wait for metadata before partitioning")
    return count


def route_in_turns(topic: str, cluster: Cluster, turns: Iterator[int], *, key_hash: int, rack: str = "") -> Route:
    """Return the route of a known topic whose records go in turns over the partitions that `partition_by_number` has.

    Args:
        topic: The topic.
        cluster: Which partitions it has.
        turns: Numbers; the positive part of each says whose turn it is.
        key_hash: By which those with a key go instead; see Route.
        rack: Where their leaders shall be.
    """
    table = cluster.table(topic)
    return Route(table.count, key_hash, turns, tuple(info.partition for info in choices(table, rack)))
