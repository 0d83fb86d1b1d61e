"""Partitioners that hash the key as other clients do.

Road:    serializers -> [partitioner] -> accumulator
Thread:  any caller; no state but DefaultPartitioner's counters.
Source:  librdkafka rd_kafka_msg_partitioner_{consistent,murmur2,fnv1a}_random, rd_fnv1a (2.x); murmur3 is ours.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

from pyproducer.common.cluster import Cluster
from pyproducer.common.public import public
from pyproducer.hotpath import CRC32, MURMUR2, Route, murmur2
from pyproducer.producer.partitioners.default import DefaultPartitioner
from pyproducer.producer.partitioners.partitioner import (
    POSITIVE_MASK,
    NextRandom,
    any_number,
    partition_by_number,
    partition_count,
    route_in_turns,
)

_FNV_OFFSET = 0x811C9DC5
_FNV_PRIME = 0x01000193
_MASK = 0xFFFFFFFF


def fnv1a(data: bytes) -> int:
    """Hash as librdkafka's rd_fnv1a: 32-bit FNV-1a, and the absolute value of it as a signed number (as Sarama)."""
    h = _FNV_OFFSET
    for byte in data:
        h = ((h ^ byte) * _FNV_PRIME) & _MASK
    return h if h < 2**31 else 2**32 - h


class _HashOrRandom:
    """The hash of a record's key; without a key, any partition that has a leader, or any at all when none has.

    Args:
        next_random: Gives a random number from 0 to 2**31 - 1.
    """

    _hash: Callable[[bytes], int]  # a subclass has it
    _key_hash: int  # and this, where the road of send() can do the same

    def __init__(self, next_random: NextRandom = any_number) -> None:
        self._next_random = next_random

    def partition(self, topic: str, key: Any, key_bytes: bytes | None, value: Any, value_bytes: bytes | None,
                  cluster: Cluster) -> int:
        """Return the partition; see Partitioner."""
        if key_bytes is None:
            return partition_by_number(self._next_random(), topic, cluster)
        return self._hash(key_bytes) % partition_count(topic, cluster)

    def route(self, topic: str, cluster: Cluster) -> Route:
        """Return how records of a known topic are spread, for send()."""
        # Turns by chance: no number is -1, so they never end.
        return route_in_turns(topic, cluster, iter(self._next_random, -1), key_hash=self._key_hash)


@public
class Crc32Partitioner(_HashOrRandom):
    """CRC-32 of the key; without a key, or with an empty one, at random. librdkafka's default, consistent_random."""

    _hash = staticmethod(zlib.crc32)
    _key_hash = CRC32

    def partition(self, topic: str, key: Any, key_bytes: bytes | None, value: Any, value_bytes: bytes | None,
                  cluster: Cluster) -> int:
        """Return the partition; see Partitioner."""
        return super().partition(topic, key, key_bytes or None, value, value_bytes, cluster)


@public
class Fnv1aPartitioner(_HashOrRandom):
    """FNV-1a of the key; without a key at random. librdkafka's fnv1a_random, Sarama's hash partitioner."""

    _hash = staticmethod(fnv1a)


class Murmur2RandomPartitioner(_HashOrRandom):
    """Java's murmur2 of the key; without a key at random. librdkafka's murmur2_random."""

    _key_hash = MURMUR2

    @staticmethod
    def _hash(key: bytes) -> int:
        return murmur2(key) & POSITIVE_MASK


@public
class Murmur3Partitioner(DefaultPartitioner):
    """MurmurHash3 (x86, 32 bits, seed 0) of the key, made positive as Java does; without a key round-robin.

    Raises:
        ImportError: mmh3 cannot be loaded; not every interpreter of a process can.
    """

    def __init__(self, next_random: NextRandom = any_number) -> None:
        import mmh3  # here: where it cannot be loaded, all else works

        super().__init__(next_random)
        self._hash: Callable[..., int] = mmh3.hash

    def partition(self, topic: str, key: Any, key_bytes: bytes | None, value: Any, value_bytes: bytes | None,
                  cluster: Cluster) -> int:
        """Return the partition; see Partitioner."""
        if key_bytes is None:
            return super().partition(topic, key, None, value, value_bytes, cluster)
        return (self._hash(key_bytes, 0, signed=False) & POSITIVE_MASK) % partition_count(topic, cluster)
