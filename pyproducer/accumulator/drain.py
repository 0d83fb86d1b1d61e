"""Take from the partitions of a node what goes into its next request.

Road:    accumulator -> [drain] -> produce request
Thread:  sender thread only; holds one partition's lock at a time, calls no clock.
Source:  Java RecordAccumulator.drain, drainBatchesForOneNode (4.1).
"""

from __future__ import annotations

from typing import Protocol

from pyproducer.accumulator.partition_queue import PartitionQueue
from pyproducer.accumulator.producer_batch import ProducerBatch


class SequenceKeeper(Protocol):
    """The part of the TransactionManager that decides whether a batch may go, and gives it its sequence numbers."""

    def can_send(self, batch: ProducerBatch) -> bool:
        """Whether the first batch of a partition may be sent now."""

    def on_drained(self, batch: ProducerBatch) -> None:
        """Give the batch its place in the sequence, unless it has one, and track it as in flight."""


def drain_node(queues: list[PartitionQueue], start: int, max_size_bytes: int, now_ms: int,
               sequences: SequenceKeeper | None) -> tuple[list[ProducerBatch], int]:
    """Take at most one batch of each partition, up to a total size.

    Args:
        queues: The partitions that the node leads, in a stable order.
        start: Index where to begin, so that no partition starves while requests are full.
        max_size_bytes: max.request.size; a single batch above it goes alone.
        now_ms: Monotonic time, in ms.
        sequences: Who keeps order and sequence numbers; None when idempotence is off.

    Returns:
        The batches, closed for appends, and the index where to begin next time.
    """
    drained: list[ProducerBatch] = []
    size_bytes = 0
    count = len(queues)
    for step in range(count):
        index = (start + step) % count
        queue = queues[index]
        if queue.is_muted or not queue.batches:
            continue
        with queue.lock:
            if not queue.batches:
                continue
            first = queue.batches[0]
            if first.backoff_left_ms(now_ms):
                continue
            if drained and size_bytes + first.size_bytes > max_size_bytes:
                return drained, index
            if sequences is not None and not sequences.can_send(first):
                continue
            queue.batches.popleft()
            first.close_for_appends()
        # Outside the partition's lock: nobody appends to the batch any more, and callers may go on with the next one.
        if sequences is not None:
            sequences.on_drained(first)
        first.drained_ms = now_ms
        size_bytes += first.size_bytes
        drained.append(first)
    return drained, (start + 1) % count if count else 0
