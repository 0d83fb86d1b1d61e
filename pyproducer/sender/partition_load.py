"""Tells an adaptive partitioner how long the queues are and which brokers take nothing.

Road:    accumulator -> [load] -> partitioner
Thread:  sender thread only.
Source:  Java RecordAccumulator.partitionReady, NodeLatencyStats (4.1); KIP-794.
"""

from __future__ import annotations

from collections.abc import Callable

from pyproducer.accumulator.record_accumulator import RecordAccumulator
from pyproducer.common.cluster import Cluster

UpdateLoad = Callable[[str, list[int], list[int], int, "list[int] | None"], None]


class PartitionLoad:
    """Reports the load of each topic's partitions once per turn."""

    def __init__(self, accumulator: RecordAccumulator, update_load: UpdateLoad) -> None:
        self._accumulator = accumulator
        self._update_load = update_load
        self._drained_ms: dict[int, int] = {}  # node id -> when it last took something, or could have
        self._ready_ms: dict[int, int] = {}  # node id -> when there was last something for it

    def on_ready_node(self, node_id: int, now_ms: int, *, can_drain: bool) -> None:
        """There is something for a node, and it can take it or not."""
        self._ready_ms[node_id] = now_ms
        if can_drain or node_id not in self._drained_ms:
            self._drained_ms[node_id] = now_ms

    def report(self, cluster: Cluster) -> None:
        """Hand the partitioner the queues of each topic: none, which is a uniform choice, until each partition has one.

        A topic that grew has partitions that were never used; with weights they never would be. As in Java.
        """
        for topic, sizes in self._accumulator.queue_sizes().items():
            count = len(cluster.partitions_for_topic(topic))
            if not count:
                continue
            queue_sizes: list[int] = []
            partition_ids: list[int] = []
            latencies_ms: list[int] = []
            for partition, size in sizes if len(sizes) >= count else ():
                leader = cluster.leader_for((topic, partition))
                if leader is not None:
                    queue_sizes.append(size)
                    partition_ids.append(partition)
                    latencies_ms.append(self._ready_ms.get(leader.node_id, 0) - self._drained_ms.get(leader.node_id, 0))
            self._update_load(topic, queue_sizes, partition_ids, count, latencies_ms)
