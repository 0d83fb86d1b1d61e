"""What each producer last wrote to one partition: duplicates, gaps, old epochs and open transactions are found here.

Road:    Produce, markers -> [producer state] -> log
Thread:  under the partition's lock; `first_unstable_offset` and `active_producers` may be read without it.
Source:  Java ProducerStateManager, ProducerStateEntry, ProducerAppendInfo (4.1); the answers are measured ones.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from pyproducer.broker.storage.batch_header import BatchHeader
from pyproducer.common.error_codes import ErrorCode
from pyproducer.record.batch_reader import RecordBatch
from pyproducer.record.layout import (
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TRANSACTIONAL_MASK,
    increment_sequence,
)

# Java ProducerStateEntry.NUM_BATCHES_TO_RETAIN: why a producer may have at most five requests in flight.
BATCHES_TO_RETAIN = 5
NO_COORDINATOR_EPOCH = -1


class BatchMetadata(NamedTuple):
    """One remembered batch: enough to recognise it and to answer for it again."""

    first_sequence: int
    last_sequence: int
    first_offset: int
    timestamp: int


class LastState(NamedTuple):
    """A producer's epoch, and where the last batch that it wrote in that begins; None where it wrote none."""

    producer_epoch: int
    last_batch_offset: int | None


class _Attempt(NamedTuple):
    """The lowest sequence with which a producer that has written nothing asks to begin, and when it asked."""

    producer_epoch: int
    base_sequence: int
    timestamp_ms: int


class ProducerStateEntry:
    """The last batches of one producer id, all of one epoch, and its open transaction."""

    __slots__ = ("batches", "coordinator_epoch", "last_timestamp", "producer_epoch", "transaction_first_offset")

    def __init__(self, producer_epoch: int) -> None:
        self.producer_epoch: int = producer_epoch
        self.batches: deque[BatchMetadata] = deque(maxlen=BATCHES_TO_RETAIN)
        self.transaction_first_offset: int | None = None
        self.coordinator_epoch: int = NO_COORDINATOR_EPOCH
        self.last_timestamp: int = NO_TIMESTAMP

    @property
    def last_sequence(self) -> int:
        """The sequence of the last record of this epoch, or -1."""
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    def begin_epoch(self, producer_epoch: int) -> None:
        """Forget the batches of earlier epochs; a transaction that is open stays so."""
        if producer_epoch != self.producer_epoch:
            self.producer_epoch = producer_epoch
            self.batches.clear()


class ActiveProducer(NamedTuple):
    """One producer as DescribeProducers shows it."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int
    transaction_first_offset: int | None


class ProducerStateManager:
    """The producers of one partition."""

    def __init__(self) -> None:
        self._entries: dict[int, ProducerStateEntry] = {}
        self._attempts: dict[int, _Attempt] = {}  # of producers that have written nothing
        # Producer id to first offset. New transactions begin at the log's end, so the first entry is the oldest.
        self._open_transactions: dict[int, int] = {}
        self.first_unstable_offset: int | None = None

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

    def knows(self, producer_id: int) -> bool:
        """Whether this producer has written here."""
        return producer_id in self._entries

    def note_attempt(self, header: BatchHeader, timestamp_ms: int) -> None:
        """Remember that a producer is to write a batch of a transaction, which may still be refused.

        If it is the first one and is refused for something that passes, those behind it must not be written before it.

        Source: Java VerificationStateEntry.lowestSequence (4.1).
        """
        if header.producer_id in self._entries or header.base_sequence < 0:
            return
        known = self._attempts.get(header.producer_id)
        if known is None or header.producer_epoch > known.producer_epoch or (
                header.producer_epoch == known.producer_epoch and header.base_sequence < known.base_sequence):
            self._attempts[header.producer_id] = _Attempt(header.producer_epoch, header.base_sequence, timestamp_ms)

    def check(self, header: BatchHeader | RecordBatch) -> ErrorCode:
        """Return NONE when the batch continues what its producer wrote, or the code to refuse it with.

        An unknown producer id may start at any sequence (its records may have been deleted), but not above the lowest
        of its attempts; a new epoch of a known one starts at 0, also when a marker began the epoch; an old epoch is
        refused; anything but the next sequence is out of order, an old duplicate beyond the last five batches too.
        Coordinators write without sequences. Within a transaction every batch belongs to it.
        """
        entry = self._entries.get(header.producer_id)
        if entry is None:
            attempt = self._attempts.get(header.producer_id)
            is_ahead = attempt is not None and attempt.producer_epoch == header.producer_epoch and (
                header.base_sequence > attempt.base_sequence)
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER if is_ahead else ErrorCode.NONE
        if header.producer_epoch < entry.producer_epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if header.base_sequence != NO_SEQUENCE:
            expected = (0 if header.producer_epoch != entry.producer_epoch or not entry.batches
                        else increment_sequence(entry.batches[-1].last_sequence, 1))
            if header.base_sequence != expected:
                return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        if entry.transaction_first_offset is not None and not header.attributes & TRANSACTIONAL_MASK:
            return ErrorCode.INVALID_TXN_STATE
        return ErrorCode.NONE

    def update(self, header: BatchHeader | RecordBatch, first_offset: int, timestamp: int) -> None:
        """Remember a batch that was written (or found in the log at start)."""
        producer_id = header.producer_id
        if producer_id == NO_PRODUCER_ID:
            return
        entry = self._entry_of(producer_id, header.producer_epoch)
        if header.base_sequence >= 0:
            entry.batches.append(
                BatchMetadata(header.base_sequence, header.last_sequence, first_offset, timestamp))
        entry.last_timestamp = timestamp
        if header.attributes & TRANSACTIONAL_MASK and entry.transaction_first_offset is None:
            entry.transaction_first_offset = first_offset
            self._open_transactions[producer_id] = first_offset
            if self.first_unstable_offset is None:
                self.first_unstable_offset = first_offset

    # ---- transactions

    def has_open_transaction(self, producer_id: int, producer_epoch: int) -> bool:
        """Whether a producer of this epoch has a transaction open here."""
        entry = self._entries.get(producer_id)
        return (entry is not None and entry.transaction_first_offset is not None
                and entry.producer_epoch == producer_epoch)

    def transaction_first_offset(self, producer_id: int) -> int | None:
        """Return where a producer's open transaction begins; None when it has none."""
        return self._open_transactions.get(producer_id)

    def check_marker(self, producer_id: int, producer_epoch: int, coordinator_epoch: int) -> ErrorCode:
        """Return NONE when a marker may be written: neither its producer nor its coordinator is an old one."""
        entry = self._entries.get(producer_id)
        if entry is None:
            return ErrorCode.NONE
        if producer_epoch < entry.producer_epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if coordinator_epoch < entry.coordinator_epoch:
            return ErrorCode.TRANSACTION_COORDINATOR_FENCED
        return ErrorCode.NONE

    def next_unstable_offset(self, producer_id: int) -> int | None:
        """Return where the oldest open transaction begins when this producer's has ended; None when none is left."""
        return next((offset for open_id, offset in self._open_transactions.items() if open_id != producer_id), None)

    def end_transaction(self, producer_id: int, producer_epoch: int, coordinator_epoch: int, timestamp: int) -> None:
        """Remember a marker that was written; it may have had no transaction to end here."""
        entry = self._entry_of(producer_id, producer_epoch)
        entry.coordinator_epoch = coordinator_epoch
        entry.last_timestamp = timestamp
        entry.transaction_first_offset = None
        self._open_transactions.pop(producer_id, None)
        self.first_unstable_offset = next(iter(self._open_transactions.values()), None)

    def last_states(self) -> dict[int, LastState]:
        """Return of each producer what a restart must find in the log to know it again."""
        return {producer_id: LastState(entry.producer_epoch, entry.batches[-1].first_offset if entry.batches else None)
                for producer_id, entry in list(self._entries.items())}

    def remove_expired(self, timestamp_ms: int, expiration_ms: int) -> int:
        """Forget producers that have not written for so long, by their records' time; return how many.

        One with an open transaction stays.

        Args:
            timestamp_ms: The wall clock.
            expiration_ms: producer.id.expiration.ms.
        """
        expired = [producer_id for producer_id, entry in self._entries.items()
                   if entry.transaction_first_offset is None and timestamp_ms - entry.last_timestamp >= expiration_ms]
        for producer_id in expired:
            del self._entries[producer_id]
        self._attempts = {producer_id: attempt for producer_id, attempt in self._attempts.items()
                          if timestamp_ms - attempt.timestamp_ms < expiration_ms}
        return len(expired)

    def active_producers(self) -> list[ActiveProducer]:
        """Return all producers that wrote here."""
        return [ActiveProducer(producer_id, entry.producer_epoch, entry.last_sequence, entry.last_timestamp,
                               entry.coordinator_epoch, entry.transaction_first_offset)
                for producer_id, entry in list(self._entries.items())]

    def _entry_of(self, producer_id: int, producer_epoch: int) -> ProducerStateEntry:
        entry = self._entries.get(producer_id)
        if entry is None:
            entry = self._entries[producer_id] = ProducerStateEntry(producer_epoch)
            self._attempts.pop(producer_id, None)
        else:
            entry.begin_epoch(producer_epoch)
        return entry
