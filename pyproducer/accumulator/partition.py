"""The batches of one partition, from the first record of each to its end.

Road:    append -> [partition] -> drain ... completion -> [partition]
Thread:  `lock` guards the end of `batches`, where callers append, and the open batch's contents. Only the sender thread
         takes a batch out, with the lock held, so it reads the list without.
Source:  Java RecordAccumulator.TopicInfo (4.1). Differs from Java: a batch stays in the list while it is on the wire
         and while it waits for a retry, so its place is its order, and nothing is put back.
"""

from __future__ import annotations

import itertools
from _thread import RLock
from collections.abc import Callable
from uuid import UUID

from pyproducer.accumulator.batch_state import READ_BY_A_REQUEST, WAITING, BatchState
from pyproducer.accumulator.partition_sequence import PartitionSequence
from pyproducer.accumulator.producer_batch import ProducerBatch
from pyproducer.common.cluster import TopicPartition
from pyproducer.hotpath import IMPL

BATCH_BYTES = 1200
"""What a batch is besides its buffer and its futures: its objects, locks and places in tables (measured)."""

FUTURE_BYTES = 88 if IMPL == "native" else 176
"""What a future is with its place in the batch's list (resident size measured); the compiled one has no ints beside."""

_ESTIMATION_MARGIN = 1.05
"""So much larger than estimated a compressed batch is taken to be (Java's COMPRESSION_RATE_ESTIMATION_FACTOR)."""

_IMPROVEMENT = 0.005
"""How much a batch that was compressed better lowers the estimated ratio (Java's COMPRESSION_RATIO_IMPROVING_STEP)."""

_numbers = itertools.count(1)


class Partition:
    """A list of batches in order of their records, with its lock; the last one may be open for appends."""

    __slots__ = ("_sends_one_at_a_time", "batches", "compression_ratio", "last_future_count", "leader_epoch", "lock",
                 "number", "sequence", "topic_id", "topic_partition")

    def __init__(self, topic_partition: TopicPartition, make_lock: Callable[[], RLock], *,
                 sends_one_at_a_time: bool = False,
                 make_sequence: Callable[[list[ProducerBatch]], PartitionSequence] | None = None) -> None:
        self.topic_partition: TopicPartition = topic_partition
        # Java's guaranteeMessageOrder: with one request in flight, one batch is on the wire.
        self._sends_one_at_a_time = sends_one_at_a_time
        self.lock: RLock = make_lock()  # taken before the pool's; reentrant only so that a fork finds out whose it is
        # Its place among all partitions, by their first records: requests are filled in this order.
        self.number: int = next(_numbers)
        self.batches: list[ProducerBatch] = []
        # The numbers of its batches; None without idempotence.
        self.sequence: PartitionSequence | None = None if make_sequence is None else make_sequence(self.batches)
        # As metadata had them when the sender looked last.
        self.topic_id: UUID | None = None
        self.leader_epoch: int = -1
        # What is estimated of the next batch; written by the sender thread.
        self.compression_ratio: float = 1.0
        # Of the last batch that left while it was the newest: what the next one is charged for.
        self.last_future_count: int | None = None

    def bookkeeping_bytes(self, first_future_count: int) -> int:
        """Return how much of buffer.memory a new batch takes besides its buffer: itself, and a future for each record.

        With the lock held.

        How many records will fit is not known before they come, and asking for memory record by record would cost each
        of them. So a batch is charged for the futures of the batch before it. However the sizes of records vary, all
        batches of a partition together are then charged for all their futures but those of the newest batch, and for
        those of the one before the oldest instead. What a batch grew by was charged as it grew.

        Args:
            first_future_count: What the partition's first batch is charged for: there is none before it.
        """
        last = self.batches[-1] if self.batches else None
        count = self.last_future_count if last is None else last.future_count - last.grown_future_count
        return BATCH_BYTES + FUTURE_BYTES * (first_future_count if count is None else max(0, count))

    def open_batch(self) -> ProducerBatch | None:
        """Return the batch that takes records, if there is one. With the lock held."""
        if self.batches:
            last = self.batches[-1]
            if last.state is BatchState.OPEN:
                return last
        return None

    def uncompressed_bytes(self, compressed_bytes: int) -> int:
        """Return how many bytes of records are estimated to become so many when they are compressed, with a margin."""
        return int(compressed_bytes / (self.compression_ratio * _ESTIMATION_MARGIN))

    # The sender's side.

    def on_compressed(self, ratio: float) -> None:
        """Learn from a batch: at once what it was worse than estimated, in small steps what it was better.

        Args:
            ratio: Its bytes compressed by its bytes uncompressed.

        Source: Java CompressionRatioEstimator (4.1), which keeps one for each topic.
        """
        self.compression_ratio = max(ratio, self.compression_ratio - _IMPROVEMENT)

    def head(self) -> ProducerBatch | None:
        """Return the first batch that waits to be sent; None, too, while it has to wait for a request to end."""
        if self._sends_one_at_a_time and any(batch.state in READ_BY_A_REQUEST for batch in self.batches):
            return None
        sequence = self.sequence
        if sequence is not None and sequence.is_disturbed:
            return sequence.head()
        for batch in self.batches:
            if batch.state in WAITING:
                return batch
        return None

    @property
    def waiting_count(self) -> int:
        """How many batches wait to be sent."""
        return sum(batch.state in WAITING for batch in self.batches)
