"""Which nodes can be drained now, and when to look again.

Road:    accumulator -> [ready] -> sender
Thread:  sender thread only; takes no lock, calls no clock.
Source:  Java RecordAccumulator.ready, partitionReady, batchReady (4.1).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from pyproducer.accumulator.partition import Partition
from pyproducer.common.clock import NEVER_MS
from pyproducer.common.cluster import Cluster, Node


class ReadyCheckResult(NamedTuple):
    """What a look at all partitions gave."""

    ready_nodes: dict[int, Node]
    next_ready_check_delay_ms: int
    unknown_leader_topics: set[str]


def ready(partitions: Iterable[Partition], cluster: Cluster, now_ms: int, *, linger_ms: int,
          is_exhausted: bool, is_closing: bool, one_at_a_time: bool) -> ReadyCheckResult:
    """Find the nodes that lead a partition with something to send.

    A partition is ready when its first waiting batch is full, lingered long enough or finished its backoff, when
    somebody waits for a record of it, or when memory is exhausted, a flush waits for it or the producer closes.

    Args:
        partitions: The partitions that hold batches.
        cluster: Who leads what.
        now_ms: Monotonic time, in ms.
        linger_ms: How long a batch that is not full waits for company.
        is_exhausted: Whether a caller waits for buffer.memory.
        is_closing: Whether everything should go out now.
        one_at_a_time: Whether a partition waits while a request reads any of its batches.
    """
    ready_nodes: dict[int, Node] = {}
    unknown_leader_topics: set[str] = set()
    next_delay_ms = NEVER_MS
    for partition in partitions:
        first = partition.head()
        if first is None or (one_at_a_time and partition.is_read_by_a_request):
            continue
        is_full = first.is_full or partition.batches[-1] is not first
        info = cluster.partition(partition.topic_partition)
        leader = None if info is None else info.leader
        if leader is None or info is None:
            unknown_leader_topics.add(partition.topic_partition.topic)
            continue
        first.leader_epoch = info.leader_epoch
        if first.attempts > 0:
            wait_ms = first.backoff_left_ms(now_ms)
        elif is_full or is_exhausted or is_closing or first.skips_linger:
            wait_ms = 0
        else:
            wait_ms = first.created_ms + linger_ms - now_ms
        if wait_ms <= 0:
            ready_nodes[leader.node_id] = leader
        else:
            # The delay is a guess, as in Java: another record may make the batch ready earlier, and wakes the sender.
            next_delay_ms = min(next_delay_ms, wait_ms)
    return ReadyCheckResult(ready_nodes, next_delay_ms, unknown_leader_topics)
