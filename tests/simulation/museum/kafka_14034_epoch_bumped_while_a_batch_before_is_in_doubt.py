"""A batch was refused for good, and the one before it, which was retried, got new numbers and was stored twice.

Reference: KAFKA-14034 (apache/kafka#13796, closed).
Seen:      Records twice in the log, where timeouts met errors that no retry heals.
Planted:   What may be in the log steps aside with the refused one, and is numbered anew.
"""

from __future__ import annotations

from tests.simulation.museum import Edit

PATCH = (
    Edit("accumulator/partition_sequence.py", """
                if batch.state in WAITING and not batch.may_be_in_log and self._is_behind_hole(batch):
""", """
                if batch.state in WAITING:
"""),
)
