"""What each idempotent producer last wrote to one partition: duplicates, gaps and old epochs are found here.

Road:    Produce -> [producer state] -> log
Thread:  under the partition's lock.
Source:  Java ProducerStateManager, ProducerStateEntry, ProducerAppendInfo (4.1); the answers are measured ones.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from pyproducer.broker.storage.batch_header import BatchHeader
from pyproducer.common.error_codes import ErrorCode
from pyproducer.record.batch_reader import RecordBatch
from pyproducer.record.layout import NO_PRODUCER_ID, increment_sequence

# Java ProducerStateEntry.NUM_BATCHES_TO_RETAIN: why a producer may have at most five requests in flight.
BATCHES_TO_RETAIN = 5


class BatchMetadata(NamedTuple):
    """One remembered batch: enough to recognise it and to answer for it again."""

    first_sequence: int
    last_sequence: int
    first_offset: int
    timestamp: int


class ProducerStateEntry:
    """The last batches of one producer id, all of one epoch."""

    __slots__ = ("batches", "producer_epoch")

    def __init__(self, producer_epoch: int) -> None:
        self.producer_epoch = producer_epoch
        self.batches: deque[BatchMetadata] = deque(maxlen=BATCHES_TO_RETAIN)


class ProducerStateManager:
    """The producers of one partition."""

    def __init__(self) -> None:
        self._entries: dict[int, ProducerStateEntry] = {}

    def find_duplicate(self, header: BatchHeader | RecordBatch) -> BatchMetadata | None:
        """Return the batch that this one repeats, if it is among the last five of its producer and epoch."""
        entry = self._entries.get(header.producer_id)
        if entry is None or entry.producer_epoch != header.producer_epoch:
            return None
        first, last = header.base_sequence, header.last_sequence
        for batch in entry.batches:
            if batch.first_sequence == first and batch.last_sequence == last:
                return batch
        return None

    def check(self, header: BatchHeader | RecordBatch) -> ErrorCode:
        """Return NONE when the batch continues what its producer wrote, or the code to refuse it with.

        An unknown producer id may start at any sequence (its records may have been deleted); a new epoch of a
        known one starts at 0; an old epoch is refused; anything but the next sequence is out of order, an
        old duplicate beyond the last five batches too.
        """
        entry = self._entries.get(header.producer_id)
        if entry is None:
            return ErrorCode.NONE
        if header.producer_epoch < entry.producer_epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if header.producer_epoch > entry.producer_epoch:
            return ErrorCode.NONE if header.base_sequence == 0 else ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        if not entry.batches:
            return ErrorCode.NONE
        expected = increment_sequence(entry.batches[-1].last_sequence, 1)
        return ErrorCode.NONE if header.base_sequence == expected else ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER

    def update(self, header: BatchHeader | RecordBatch, first_offset: int, timestamp: int) -> None:
        """Remember a batch that was written (or found in the log at start)."""
        if header.producer_id == NO_PRODUCER_ID:
            return
        entry = self._entries.get(header.producer_id)
        if entry is None or entry.producer_epoch != header.producer_epoch:
            entry = self._entries[header.producer_id] = ProducerStateEntry(header.producer_epoch)
        if header.base_sequence >= 0:
            entry.batches.append(
                BatchMetadata(header.base_sequence, header.last_sequence, first_offset, timestamp))
