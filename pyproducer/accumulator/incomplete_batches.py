"""Batches whose outcome is not known yet: what flush() waits for and close() aborts.

Road:    append -> [incomplete] -> completion
Thread:  any; one lock.
Source:  Java IncompleteBatches (4.1).
"""

from __future__ import annotations

import threading

from pyproducer.accumulator.producer_batch import ProducerBatch


class IncompleteBatches:
    """A set of batches, by identity.

    Attributes:
        by_id: The batches by their `id`; to look at whether and how many there are, which needs no lock.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()  # guards by_id; innermost
        self.by_id: dict[int, ProducerBatch] = {}

    def add(self, batch: ProducerBatch) -> None:
        """Remember a batch when it is opened."""
        with self._lock:
            self.by_id[id(batch)] = batch

    def remove(self, batch: ProducerBatch) -> None:
        """Forget a batch when it is complete; removing it again does nothing."""
        with self._lock:
            self.by_id.pop(id(batch), None)

    def copy(self) -> list[ProducerBatch]:
        """Return the batches that are incomplete now, oldest first."""
        with self._lock:
            return list(self.by_id.values())
