"""The batches of one partition that wait to be sent.

Road:    append -> [queue] -> drain
Thread:  `lock` guards `batches`; callers append at the end, the sender takes from and puts back at the front.
Source:  Java RecordAccumulator.TopicInfo (4.1), whose lock is the deque itself.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence

from pyproducer.accumulator.produce_result import OnCompletion
from pyproducer.accumulator.producer_batch import ProducerBatch
from pyproducer.common.cluster import TopicPartition
from pyproducer.hotpath import IMPL, FutureRecordMetadata

BATCH_BYTES = 1200
"""What a batch is besides its buffer and its futures: its objects, locks and places in tables (measured)."""

FUTURE_BYTES = 88 if IMPL == "native" else 176
"""What a future is with its place in the batch's list (resident size measured); the compiled one has no ints beside."""


class PartitionQueue:
    """A deque of batches with its lock; the last one may be open for appends."""

    __slots__ = ("_future_count", "_newest", "batches", "is_muted", "lock", "topic_partition")

    def __init__(self, topic_partition: TopicPartition) -> None:
        self.topic_partition = topic_partition
        self.lock = threading.Lock()  # guards batches and the open batch's contents; taken before the pool's lock
        self.batches: deque[ProducerBatch] = deque()
        self.is_muted = False  # sender thread only: one batch in flight is all that is allowed
        self._newest: ProducerBatch | None = None  # the last one that was opened, until it is let go; under the lock
        self._future_count: int | None = None  # of the last one that was let go while it was the newest

    def bookkeeping_bytes(self, first_future_count: int) -> int:
        """Return how much of buffer.memory a new batch takes besides its buffer: itself, and a future for each record.

        How many records will fit is not known before they come, and asking for memory record by record would cost each
        of them. So a batch is charged for the futures of the batch before it. However the sizes of records vary, all
        batches of a partition together are then charged for all their futures but those of the newest batch, and for
        those of the one before the oldest instead.

        Args:
            first_future_count: What the partition's first batch is charged for: there is none before it.
        """
        newest = self._newest  # let_go() writes the count first, so whoever finds None here finds the count
        count = self._future_count if newest is None else newest.future_count
        return BATCH_BYTES + FUTURE_BYTES * (first_future_count if count is None else count)

    def add(self, batch: ProducerBatch) -> None:
        """Add a batch that was just opened. With the lock held."""
        self.batches.append(batch)
        self._newest = batch

    def let_go(self, batch: ProducerBatch) -> None:
        """Keep no reference to a batch that is done, only what the next one is charged for."""
        with self.lock:
            if self._newest is batch:
                self._future_count = batch.future_count
                self._newest = None

    def try_append(self, timestamp: int, key: bytes | None, value: bytes | None,
                   headers: Sequence[tuple[str, bytes | None]],
                   on_completion: OnCompletion | None) -> FutureRecordMetadata | None:
        """Append to the last batch, or close it for appends and return None. With the lock held."""
        if not self.batches:
            return None
        last = self.batches[-1]
        future = last.try_append(timestamp, key, value, headers, on_completion)
        if future is None:
            last.close_for_appends()
        return future

    def put_back(self, batch: ProducerBatch, in_sequence: bool) -> None:
        """Put a batch that was sent before back to the front, for another attempt.

        Args:
            batch: The batch; it keeps its sequence numbers.
            in_sequence: Whether to keep the order of sequence numbers: several batches may come back, in any order.

        Source: Java RecordAccumulator.insertInSequenceOrder (4.1).
        """
        with self.lock:
            if not in_sequence or not batch.has_sequence:
                self.batches.appendleft(batch)
                return
            earlier: list[ProducerBatch] = []
            while self.batches and _is_before(self.batches[0], batch):
                earlier.append(self.batches.popleft())
            self.batches.appendleft(batch)
            self.batches.extendleft(reversed(earlier))


def _is_before(first: ProducerBatch, second: ProducerBatch) -> bool:
    """Whether a queued batch has sequence numbers that come before another's; wraps as sequences do."""
    if not first.has_sequence or (first.producer_id, first.producer_epoch) != (
            second.producer_id, second.producer_epoch):
        return False
    # Half the ring: at most a few batches have sequences at a time, so the distance is far below 2**30.
    return 0 < ((second.base_sequence - first.base_sequence) & 0x7FFFFFFF) < 2**30
