"""A batch was refused for good, and the one before it, which was retried, got new numbers and was stored twice.

Reference: KAFKA-14034 (apache/kafka#13796, closed).
Seen:      Records twice in the log, where timeouts met errors that no retry heals.
Planted:   An epoch bump does not ask whether a batch before the refused one may be in the log.
"""

from __future__ import annotations

from tests.simulation.museum import Edit

PATCH = (
    Edit("transaction/transaction_manager.py", """
        ready = [topic_partition for topic_partition, refused in self._bump_requested_for.items()
                 if not self._partitions[topic_partition].is_in_doubt_before(refused)]
""", """
        ready = list(self._bump_requested_for)
"""),
)
