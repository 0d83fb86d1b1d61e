"""UniformStickyPartitioner: fill a batch of one partition, then go to another; what Java does for records without key.

Road:    serializers -> [partitioner] -> accumulator
Thread:  partition, on_append: any caller. update_load: the sender thread. Makes a topic's state without a lock.
Source:  Java KafkaProducer.partition, RecordAccumulator.partitionReady, BuiltInPartitioner (4.1); KIP-480, KIP-794,
         KIP-1123.
         Differs from Java: bytes are counted for every record that goes to the sticky partition, keyed ones too.
"""

from __future__ import annotations

from _thread import RLock
from collections.abc import Callable, Sequence
from typing import Any

from pyproducer.common.cluster import Cluster
from pyproducer.common.public import public
from pyproducer.hotpath import MURMUR2, NO_HASH, Route, murmur2
from pyproducer.producer.partitioners.built_in import BuiltInPartitioner
from pyproducer.producer.partitioners.partitioner import POSITIVE_MASK, NextRandom, any_number, partition_count


@public
class UniformStickyPartitioner:
    """With a key: murmur2, as DefaultPartitioner. Without: one partition until it got batch.size bytes.

    Args:
        batch_size_bytes: `batch.size`; how much a partition gets at a time, at least 1 is used.
        is_adaptive: `partitioner.adaptive.partitioning.enable`: prefer partitions with short queues.
        availability_timeout_ms: `partitioner.availability.timeout.ms`: leave out partitions whose leader took nothing
            for longer; 0 leaves out none.
        ignore_keys: `partitioner.ignore.keys`: treat every record as one without key.
        rack: `client.rack` with `partitioner.rack.aware`: prefer partitions that are led there.
        next_random: Gives a random number from 0 to 2**31 - 1: which partition is next.
        make_lock: Makes the lock of each topic.
    """

    def __init__(self, batch_size_bytes: int = 16384, *, is_adaptive: bool = True, availability_timeout_ms: int = 0,
                 ignore_keys: bool = False, rack: str = "", next_random: NextRandom = any_number,
                 make_lock: Callable[[], RLock] = RLock) -> None:
        self._batch_size_bytes = max(1, batch_size_bytes)
        self.is_adaptive = is_adaptive
        self._availability_timeout_ms = availability_timeout_ms
        self._ignore_keys = ignore_keys
        self._rack = rack
        self._next_random = next_random
        self._make_lock = make_lock
        self._by_topic: dict[str, BuiltInPartitioner] = {}

    def partition(self, topic: str, key: Any, key_bytes: bytes | None, value: Any, value_bytes: bytes | None,
                  cluster: Cluster) -> int:
        """Return the partition; see Partitioner."""
        if key_bytes is not None and not self._ignore_keys:
            return (murmur2(key_bytes) & POSITIVE_MASK) % partition_count(topic, cluster)
        return self._of_topic(topic).peek_current_partition(cluster)

    def route(self, topic: str, cluster: Cluster) -> Route:
        """Return how records of a known topic are spread, for send()."""
        built_in = self._of_topic(topic)
        built_in.peek_current_partition(cluster)
        return Route(cluster.table(topic).count, NO_HASH if self._ignore_keys else MURMUR2, sticky=built_in.sticky)

    def switch(self, topic: str, cluster: Cluster) -> None:
        """Leave a topic's sticky partition, which got enough."""
        self._of_topic(topic).switch(cluster)

    def on_append(self, topic: str, partition: int, size_bytes: int, cluster: Cluster,
                  enable_switch: bool = True) -> None:
        """Learn that a record was appended; maybe switch the sticky partition.

        Args:
            topic: Its topic.
            partition: Its partition.
            size_bytes: What it takes in its batch.
            cluster: Who leads what.
            enable_switch: Whether every batch of the partition is full or done; see BuiltInPartitioner.
        """
        built_in = self._by_topic.get(topic)
        if built_in is not None:
            built_in.update_partition_info(partition, size_bytes, cluster, enable_switch=enable_switch)

    def update_load(self, topic: str, queue_sizes: Sequence[int], partition_ids: Sequence[int],
                    partition_count: int, leader_latency_ms: Sequence[int] | None = None) -> None:
        """Learn how long the queues are; once per turn of the sender.

        One that is not named here is not chosen any more; where none is, all are alike.

        Args:
            topic: The topic.
            queue_sizes: Batches that wait, for each partition that has a leader.
            partition_ids: Those partitions, in the same order.
            partition_count: How many partitions the topic has, with those that have no leader.
            leader_latency_ms: For each, how long its leader has been ready without taking anything, or None.
        """
        if not self.is_adaptive:
            return
        limit_ms = self._availability_timeout_ms
        if limit_ms > 0 and leader_latency_ms is not None:
            kept = [i for i, latency_ms in enumerate(leader_latency_ms) if latency_ms <= limit_ms]
            queue_sizes = [queue_sizes[i] for i in kept]
            partition_ids = [partition_ids[i] for i in kept]
        self._of_topic(topic).update_partition_load_stats(queue_sizes, partition_ids, partition_count)

    def on_forked(self) -> None:
        """In a child process: release what another thread held; an instance that was given is used there, too."""
        for built_in in list(self._by_topic.values()):
            built_in.on_forked()

    def _of_topic(self, topic: str) -> BuiltInPartitioner:
        built_in = self._by_topic.get(topic)
        if built_in is None:
            built_in = self._by_topic.setdefault(topic, BuiltInPartitioner(
                topic, self._batch_size_bytes, self._next_random, self._make_lock, rack=self._rack))
        return built_in
