"""Choose from the partitions of a node what goes into its next request.

Road:    accumulator -> [drain] -> produce request
Thread:  sender thread only; holds one partition's lock at a time, calls no clock.
Source:  Java RecordAccumulator.drain, drainBatchesForOneNode (4.1).
"""

from __future__ import annotations

from typing import Protocol

from pyproducer.accumulator.partition import Partition
from pyproducer.accumulator.producer_batch import ProducerBatch


class SequenceKeeper(Protocol):
    """The part of the TransactionManager that decides whether a batch may go, and gives it its sequence numbers."""

    def can_send(self, batch: ProducerBatch) -> bool:
        """Whether the first batch of a partition may be sent now."""

    def on_drained(self, batch: ProducerBatch) -> None:
        """Give the batch its place in the sequence, unless it has one, and track it as in flight."""


def choose_batches(partitions: list[Partition], start: int, max_size_bytes: int, now_ms: int,
                   sequences: SequenceKeeper | None) -> tuple[list[ProducerBatch], int]:
    """Choose at most one batch of each partition, up to a total size.

    Args:
        partitions: Those that the node leads, in a stable order.
        start: Index where to begin, so that no partition starves while requests are full.
        max_size_bytes: max.request.size; a single batch above it goes alone.
        now_ms: Monotonic time, in ms.
        sequences: Who keeps order and sequence numbers; None when idempotence is off.

    Returns:
        The batches, sealed and in their places, and the index where to begin next time.
    """
    chosen: list[ProducerBatch] = []
    size_bytes = 0
    count = len(partitions)
    for step in range(count):
        index = (start + step) % count
        partition = partitions[index]
        first = partition.head()
        if first is None or first.backoff_left_ms(now_ms):
            continue
        if chosen and size_bytes + first.size_bytes > max_size_bytes:
            return chosen, index
        if sequences is not None and not sequences.can_send(first):
            continue
        with partition.lock:
            first.seal()
        size_bytes += first.size_bytes
        chosen.append(first)
    return chosen, (start + 1) % count if count else 0
