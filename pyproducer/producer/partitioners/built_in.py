"""BuiltInPartitioner: the sticky partition of one topic, switched by bytes and weighted by load.

Road:    serializers -> [partitioner] -> accumulator
Thread:  any caller appends; the sender thread updates the load. `_lock` guards the sticky partition's byte count.
Source:  Java BuiltInPartitioner (4.1), KIP-794; KIP-1123 for the rack. Differs from Java: switching is under a lock of
         its own, not under the partition's queue, so a record may still go to a partition that another caller has just
         left; its bytes count for nothing then.
"""

from __future__ import annotations

from _thread import RLock
from bisect import bisect_right
from collections.abc import Callable, Container, Sequence
from itertools import accumulate
from typing import NamedTuple

from pyproducer.common.cluster import Cluster
from pyproducer.common.waiting import release_in_child
from pyproducer.hotpath import StickyPartition
from pyproducer.producer.partitioners.partitioner import NextRandom, any_number, partition_by_number


class PartitionLoadStats(NamedTuple):
    """Weights of partitions as a running sum: number n < sums[-1] means the first partition whose sum is above n."""

    cumulative_frequency_table: tuple[int, ...]
    partition_ids: tuple[int, ...]
    queue_sizes: tuple[int, ...]

    @classmethod
    def of(cls, queue_sizes: Sequence[int], partition_ids: Sequence[int]) -> PartitionLoadStats:
        """Weight partitions by the lengths of their queues."""
        # Queues 0 3 1 become weights 4 1 3 (longest + 1 - length) and sums 4 5 8: 0..3 is the first partition, 4 the
        # second, 5..7 the third.
        longest_plus_1 = max(queue_sizes) + 1
        sums = tuple(accumulate(longest_plus_1 - size for size in queue_sizes))
        return cls(sums, tuple(partition_ids), tuple(queue_sizes))

    def among(self, partitions: Container[int]) -> PartitionLoadStats | None:
        """Return the weights among some partitions; None when there is none of them here."""
        kept = [i for i, partition in enumerate(self.partition_ids) if partition in partitions]
        if not kept:
            return None
        return self.of([self.queue_sizes[i] for i in kept], [self.partition_ids[i] for i in kept])


class BuiltInPartitioner:
    """Chooses partitions for one topic.

    Args:
        topic: The topic.
        sticky_batch_size_bytes: How much goes to a partition before the next; at least 1.
        next_random: Gives a random number from 0 to 2**31 - 1.
        make_lock: Makes its lock.
        rack: Where the leader of a partition shall be, if one is there; empty for anywhere.

    Raises:
        ValueError: sticky_batch_size_bytes is below 1.
    """

    def __init__(self, topic: str, sticky_batch_size_bytes: int,
                 next_random: NextRandom = any_number, make_lock: Callable[[], RLock] = RLock, *,
                 rack: str = "") -> None:
        if sticky_batch_size_bytes < 1:
            raise ValueError(f"sticky_batch_size_bytes must be >= 1 but got {sticky_batch_size_bytes}")
        self._topic = topic
        self._next_random = next_random
        self._rack = rack
        # Guards writes of `sticky`; the last lock: nothing is taken under it. Reentrant, because a signal's handler may
        # send in the middle of a switch; then both switch.
        self._lock = make_lock()
        self.sticky: StickyPartition = StickyPartition(sticky_batch_size_bytes)
        # None: partitions are chosen uniformly. Written by the sender thread, read by any: one reference.
        self._load_stats: PartitionLoadStats | None = None

    def peek_current_partition(self, cluster: Cluster) -> int:
        """Return the sticky partition; chosen by the first call, and again once the topic has it no more.

        Raises:
            IllegalStateError: The cluster knows no partition of the topic. Not sent.
        """
        sticky, known = self.sticky, cluster.table(self._topic).by_index
        if sticky.partition not in known:
            with self._lock:
                if sticky.partition not in known:
                    sticky.switch_to(self._next_partition(cluster))
        return sticky.partition

    def update_partition_info(self, partition: int, appended_bytes: int, cluster: Cluster, *,
                              enable_switch: bool = True) -> None:
        """Count bytes that were appended, and switch to another partition when there are enough.

        Args:
            partition: Where they went; bytes for another partition than the sticky one do not count.
            appended_bytes: How many.
            cluster: Who leads what, for the next choice.
            enable_switch: False keeps the partition until twice the size, so that a batch that is not full can fill.
        """
        with self._lock:
            if self.sticky.add(partition, appended_bytes, enable_switch):
                self.sticky.switch_to(self._next_partition(cluster))

    def switch(self, cluster: Cluster) -> None:
        """Go on with another partition; unless somebody else did that just now."""
        sticky = self.sticky
        with self._lock:
            if sticky.produced_bytes >= sticky.limit_bytes:
                sticky.switch_to(self._next_partition(cluster))

    def update_partition_load_stats(self, queue_sizes: Sequence[int] | None, partition_ids: Sequence[int],
                                    partition_count: int) -> None:
        """Weight partitions by the lengths of their queues: the shorter, the likelier.

        Args:
            queue_sizes: Batches that wait, by partition; without those that have no leader or answer too slowly. None
                goes back to a uniform choice.
            partition_ids: The partitions, in the same order.
            partition_count: How many partitions the topic has, those that were left out included.
        """
        if queue_sizes is None or not queue_sizes or partition_count < 2:
            self._load_stats = None
            return
        if len(queue_sizes) == partition_count and min(queue_sizes) == max(queue_sizes):
            self._load_stats = None  # all alike, none left out: uniform
            return
        self._load_stats = PartitionLoadStats.of(queue_sizes, partition_ids)

    def on_forked(self) -> None:
        """In a child process: release the lock, if another thread held it."""
        release_in_child(self._lock)

    def _next_partition(self, cluster: Cluster) -> int:
        number = self._next_random()
        stats = self._load_stats
        if stats is None:
            return partition_by_number(number, self._topic, cluster, self._rack)
        if self._rack:
            # Those that are led there may all be left out: then any of the others, as when none is led there.
            stats = stats.among({info.partition for info in cluster.table(self._topic).led_in(self._rack)}) or stats
        sums = stats.cumulative_frequency_table
        partition = stats.partition_ids[bisect_right(sums, number % sums[-1])]
        # The topic may have been created again with fewer partitions since the queues were looked at.
        if partition in cluster.table(self._topic).by_index:
            return partition
        return partition_by_number(number, self._topic, cluster, self._rack)
