"""Batches whose outcome is not known yet: what flush() waits for and close() aborts.

Road:    append -> [incomplete] -> completion
Thread:  any; one lock.
Source:  Java IncompleteBatches (4.1).
"""

from __future__ import annotations

import threading

from pyproducer.accumulator.producer_batch import ProducerBatch


class IncompleteBatches:
    """A set of batches, by identity."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # guards _batches; innermost
        self._batches: dict[int, ProducerBatch] = {}

    def add(self, batch: ProducerBatch) -> None:
        """Remember a batch when it is opened."""
        with self._lock:
            self._batches[id(batch)] = batch

    def remove(self, batch: ProducerBatch) -> None:
        """Forget a batch when it is complete; removing it again does nothing."""
        with self._lock:
            self._batches.pop(id(batch), None)

    def copy(self) -> list[ProducerBatch]:
        """Return the batches that are incomplete now, oldest first."""
        with self._lock:
            return list(self._batches.values())

    def __len__(self) -> int:
        return len(self._batches)
