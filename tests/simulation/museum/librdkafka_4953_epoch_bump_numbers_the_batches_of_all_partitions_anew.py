"""One partition asked for a new epoch, and the batches on their way to all others were numbered again.

Reference: Librdkafka #4953.
Seen:      Values written twice during changes of leaders, though the producer was idempotent.
Planted:   What waits for its retry when another partition began an epoch is numbered in that.
"""

from __future__ import annotations

from tests.simulation.museum import Edit

PATCH = (
    Edit("accumulator/partition_sequence.py", """
        if batch.base_sequence == NO_SEQUENCE or batch.may_be_in_log or code not in REFUSALS:
            return
""", """
        if self.owner != self._manager.producer_id_and_epoch:
            batch.base_sequence = NO_SEQUENCE
        if batch.base_sequence == NO_SEQUENCE or batch.may_be_in_log or code not in REFUSALS:
            return
"""),
)
