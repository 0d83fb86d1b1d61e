"""A batch that may be in the log got new numbers, because one before it was refused.

Reference: Ours, until a review; Java 4.1 and librdkafka 2.16 do so still.
Seen:      A record twice in the log, after a day of silence in a partition: a broker that has forgotten the producer
           takes the second batch when it refuses the first, and its answer is lost.
Planted:   What is in doubt behind a hole steps aside with the others.
"""

from __future__ import annotations

from tests.simulation.museum import Edit

PATCH = (
    Edit("accumulator/partition_sequence.py", """
                if batch.state in WAITING and not batch.may_be_in_log and self._is_behind_hole(batch):
""", """
                if batch.state in WAITING and self._is_behind_hole(batch):
"""),
)
