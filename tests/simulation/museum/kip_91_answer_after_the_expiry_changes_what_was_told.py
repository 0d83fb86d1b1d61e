"""A batch that had expired on the wire was answered after all, and its future changed its mind.

Reference: KIP-91 (KAFKA-5886) lets batches expire while a request has them, and so gave a batch two ends; Java's
           ProducerBatch.done takes the first.
Seen:      A callback that was told of a timeout, and a future that said stored.
Planted:   The outcome of a batch may be decided again until its request is over.
"""

from __future__ import annotations

from tests.simulation.museum import Edit

PATCH = (
    Edit("accumulator/producer_batch.py", """
        if self.is_done:
            return False
        failure = None if error_for""", """
        if self.state in (BatchState.SPLIT, BatchState.DONE):
            return False
        failure = None if error_for"""),
)
