"""Which partition a record goes to when it names none.

Road:    serializers -> [partitioner] -> accumulator
Thread:  any caller; see each partitioner.
Source:  Java Partitioner and its implementations (4.1, seed 001); librdkafka's rd_kafka_msg_partitioner_*.
"""

from __future__ import annotations

from pyproducer.producer.partitioners.built_in import BuiltInPartitioner
from pyproducer.producer.partitioners.default import DefaultPartitioner, partition_for
from pyproducer.producer.partitioners.hashed import (
    Crc32Partitioner,
    Fnv1aPartitioner,
    Murmur2RandomPartitioner,
    Murmur3Partitioner,
)
from pyproducer.producer.partitioners.partitioner import Partitioner
from pyproducer.producer.partitioners.resolve import CallablePartitioner, resolve_partitioner
from pyproducer.producer.partitioners.round_robin import RoundRobinPartitioner
from pyproducer.producer.partitioners.uniform_sticky import UniformStickyPartitioner

OUR_PARTITIONERS = frozenset({Crc32Partitioner, DefaultPartitioner, Fnv1aPartitioner, Murmur2RandomPartitioner,
                              Murmur3Partitioner, RoundRobinPartitioner, UniformStickyPartitioner})
"""Those that raise nothing."""

__all__ = ["OUR_PARTITIONERS", "BuiltInPartitioner", "CallablePartitioner", "Crc32Partitioner", "DefaultPartitioner",
           "Fnv1aPartitioner", "Murmur2RandomPartitioner", "Murmur3Partitioner", "Partitioner", "RoundRobinPartitioner",
           "UniformStickyPartitioner", "partition_for", "resolve_partitioner"]
