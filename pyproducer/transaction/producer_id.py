"""A producer id with its epoch, and which of two sequence numbers comes first.

Road:    transaction -> [producer id] -> batch header
Thread:  values.
Source:  Java ProducerIdAndEpoch (4.1). The arithmetic of sequence numbers is record/layout.py's.
"""

from __future__ import annotations

from typing import NamedTuple

from pyproducer.record.layout import MAX_SEQUENCE, NO_PRODUCER_EPOCH, NO_PRODUCER_ID


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
