"""A producer id with its epoch, and the arithmetic of sequence numbers.

Road:    transaction -> [producer id] -> batch header
Thread:  values.
Source:  Java ProducerIdAndEpoch, DefaultRecordBatch.incrementSequence (4.1).
"""

from __future__ import annotations

from typing import NamedTuple

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1
MAX_SEQUENCE = 2**31 - 1
MAX_EPOCH = 2**15 - 1


class ProducerIdAndEpoch(NamedTuple):
    """Who a batch comes from; the broker refuses older epochs of the same id."""

    producer_id: int
    epoch: int

    @property
    def is_valid(self) -> bool:
        """Whether a broker gave this id."""
        return self.producer_id > NO_PRODUCER_ID


NONE = ProducerIdAndEpoch(NO_PRODUCER_ID, NO_PRODUCER_EPOCH)


def increment_sequence(sequence: int, increment: int) -> int:
    """Return the sequence number `increment` further on; after 2147483647 comes 0."""
    if sequence > MAX_SEQUENCE - increment:
        return increment - (MAX_SEQUENCE - sequence) - 1
    return sequence + increment


def decrement_sequence(sequence: int, decrement: int) -> int:
    """Return the sequence number `decrement` before; before 0 comes 2147483647."""
    return MAX_SEQUENCE - (decrement - sequence) + 1 if sequence < decrement else sequence - decrement


def is_earlier(first: int, second: int) -> bool:
    """Whether a sequence number comes before another on the ring; a distance of half the ring is out of reach."""
    return 0 < ((second - first) & MAX_SEQUENCE) < 2**30
