"""The sequence numbers of one partition: whose, the next to give, the last acknowledged, the batches on their way.

Road:    drain -> [sequences] -> completion
Thread:  sender thread only.
Source:  Java ProducerIdAndEpoch, TxnPartitionEntry, TxnPartitionMap (4.1). The arithmetic of sequence numbers is
         record/layout.py's.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple, Protocol

from pyproducer.common.cluster import TopicPartition
from pyproducer.record.layout import MAX_SEQUENCE, NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, increment_sequence

# Java ProducerStateEntry.NUM_BATCHES_TO_RETAIN: of how many batches a broker knows that it has them already.
BATCHES_THAT_BROKERS_KNOW = 5


class ProducerIdAndEpoch(NamedTuple):
    """Who a batch comes from; the broker refuses older epochs of the same id."""

    producer_id: int
    epoch: int

    @property
    def is_valid(self) -> bool:
        """Whether a broker gave this id."""
        return self.producer_id > NO_PRODUCER_ID


NONE = ProducerIdAndEpoch(NO_PRODUCER_ID, NO_PRODUCER_EPOCH)


def is_earlier(first: int, second: int) -> bool:
    """Whether a sequence number comes before another on the ring; a distance of half the ring is out of reach."""
    return 0 < ((second - first) & MAX_SEQUENCE) < 2**30


class SequencedBatch(Protocol):
    """What the manager needs of a ProducerBatch; it lies below the accumulator and cannot import it."""

    topic_partition: TopicPartition
    producer_id: int
    producer_epoch: int
    base_sequence: int
    is_sequence_reset: bool
    may_be_in_log: bool

    @property
    def is_done(self) -> bool:
        """Whether the outcome of its records is decided."""

    @property
    def is_in_flight(self) -> bool:
        """Whether a request may read its bytes."""

    @property
    def record_count(self) -> int:
        """How many records the batch holds."""

    @property
    def has_sequence(self) -> bool:
        """Whether the batch has its place already."""

    def reset_producer_state(self, producer_id: int, producer_epoch: int, base_sequence: int) -> None:
        """Give the batch another place after an epoch bump."""


class PartitionSequences:
    """What is known of one partition's sequence."""

    __slots__ = ("_newest", "in_flight", "last_acked_offset", "last_acked_sequence", "next_sequence", "owner")

    def __init__(self) -> None:
        self.owner: ProducerIdAndEpoch = NONE  # the id and epoch that the numbers below belong to
        self.next_sequence: int = 0
        self.last_acked_sequence: int = NO_SEQUENCE
        self.last_acked_offset: int = -1
        self.in_flight: list[SequencedBatch] = []  # in sequence order; batches that wait for a retry stay in it
        # Where the batches begin that were numbered last: with one more, they are those that a broker knows.
        self._newest: deque[int] = deque(maxlen=BATCHES_THAT_BROKERS_KNOW - 1)

    def number(self, batch: SequencedBatch) -> None:
        """Give the next numbers to a new batch, and track it."""
        sequence = self.next_sequence
        batch.producer_id, batch.producer_epoch = self.owner
        batch.base_sequence = sequence  # last: a batch that has it has its place
        self._newest.append(sequence)
        self.next_sequence = increment_sequence(sequence, batch.record_count)
        self.in_flight.append(batch)  # the highest number of all

    @property
    def is_window_full(self) -> bool:
        """Whether, after one more batch, a broker might not know the oldest one on its way again."""
        return bool(self.in_flight) and self.in_flight[0].base_sequence not in self._newest

    def is_in_doubt_before(self, sequence: int) -> bool:
        """Whether the broker may have a batch on its way that comes before a sequence number."""
        return any(is_earlier(batch.base_sequence, sequence) and (batch.may_be_in_log or batch.is_in_flight)
                   for batch in self.in_flight)

    def add_in_flight(self, batch: SequencedBatch) -> None:
        """Track a batch that has its sequence numbers."""
        index = len(self.in_flight)
        while index and is_earlier(batch.base_sequence, self.in_flight[index - 1].base_sequence):
            index -= 1
        self.in_flight.insert(index, batch)

    def remove_in_flight(self, batch: SequencedBatch) -> None:
        """Stop tracking a batch; doing it again does nothing."""
        in_flight = self.in_flight
        if in_flight and in_flight[0] is batch:  # in order, nearly always
            self.in_flight = in_flight[1:]
        else:
            self.in_flight = [other for other in in_flight if other is not batch]

    def first_in_flight_sequence(self) -> int:
        """Return the lowest sequence number on its way, or -1."""
        return self.in_flight[0].base_sequence if self.in_flight else NO_SEQUENCE

    def start_at_beginning(self, owner: ProducerIdAndEpoch) -> None:
        """Number the batches on their way again from 0, for a new id or epoch."""
        sequence = 0
        self._newest.clear()
        for batch in self.in_flight:
            self._newest.append(sequence)
            batch.reset_producer_state(owner.producer_id, owner.epoch, sequence)
            sequence = increment_sequence(sequence, batch.record_count)
        self.owner = owner
        self.next_sequence = sequence
        self.last_acked_sequence = NO_SEQUENCE
