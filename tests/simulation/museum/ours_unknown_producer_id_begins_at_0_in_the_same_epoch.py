"""A broker did not know the producer id any more, and the numbers began at 0 again in the same epoch.

Reference: Ours, until a review; for transactional producers Java 4.1 does so still.
Seen:      A record that was acknowledged and is in no log, with brokers before 2.5: a replica that still knew the
           producer took its numbers for those of the records that it had.
Planted:   UNKNOWN_PRODUCER_ID gives the partition its first number again, and no new epoch.
"""

from __future__ import annotations

from tests.simulation.museum import Edit

PATCH = (
    Edit("accumulator/partition_sequence.py", """
        if code is not ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER or self._oldest() is batch:
""", """
        if code is ErrorCode.UNKNOWN_PRODUCER_ID and self.undecided() == [batch]:
            batch.base_sequence = self.memory.last_acked_sequence = NO_SEQUENCE
            self.next_sequence = 0
            return
        if code is not ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER or self._oldest() is batch:
"""),
)
