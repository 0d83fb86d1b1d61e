"""Batches that were sent and are not answered: where a delivery may time out while nobody looks.

Road:    produce request -> [in flight] -> completion
Thread:  sender thread only.
Source:  Java Sender.inFlightBatches, getExpiredInflightBatches (4.1).
"""

from __future__ import annotations

from pyproducer.accumulator.producer_batch import ProducerBatch

NEVER_MS = 2**62


class InFlightBatches:
    """The batches on the wire, and the earliest moment when one of them expires."""

    def __init__(self, delivery_timeout_ms: int) -> None:
        self._delivery_timeout_ms = delivery_timeout_ms
        self._batches: dict[int, ProducerBatch] = {}
        self._next_expiry_ms = NEVER_MS  # not above the true one, so most turns need no search

    def add(self, batch: ProducerBatch) -> None:
        """Track a batch that is handed to the client now."""
        batch.is_in_flight = True
        self._batches[id(batch)] = batch
        self._next_expiry_ms = min(self._next_expiry_ms, batch.created_ms + self._delivery_timeout_ms)

    def remove(self, batch: ProducerBatch) -> None:
        """Stop tracking a batch: it was answered, or its connection ended."""
        batch.is_in_flight = False
        self._batches.pop(id(batch), None)

    def clear(self) -> None:
        """Stop tracking all batches: no connection is left."""
        for batch in self._batches.values():
            batch.is_in_flight = False
        self._batches.clear()
        self._next_expiry_ms = NEVER_MS

    def take_expired(self, now_ms: int) -> list[ProducerBatch]:
        """Return the batches whose delivery.timeout.ms passed; they stay on the wire, but are not tracked any more."""
        if now_ms < self._next_expiry_ms:
            return []
        expired = [batch for batch in self._batches.values()
                   if batch.has_reached_delivery_timeout(self._delivery_timeout_ms, now_ms)]
        for batch in expired:
            del self._batches[id(batch)]
        self._next_expiry_ms = min((batch.created_ms + self._delivery_timeout_ms for batch in self._batches.values()),
                                   default=NEVER_MS)
        return expired

    def ms_to_next_expiry(self, now_ms: int) -> int:
        """Return how long until a batch may expire, in ms."""
        return max(self._next_expiry_ms - now_ms, 0)

    def __len__(self) -> int:
        return len(self._batches)
