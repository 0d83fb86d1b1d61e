"""After an epoch bump, partitions with nothing on its way went on with their old numbers.

Reference: KAFKA-12152 (apache/kafka#9832); Dekaf #3342 again, five years later.
Seen:      OutOfOrderSequenceException for partitions that nothing had happened to; each bump brought about the next.
Planted:   A partition that meets a new epoch takes it, and does not begin at 0. No record is lost by it: what shows it
           is a first batch of an epoch whose number is not 0.
"""

from __future__ import annotations

from tests.simulation.museum import Edit

PATCH = (
    Edit("transaction/transaction_manager.py", """
        if partition.owner != self.producer_id_and_epoch:
            partition.start_at_beginning(self.producer_id_and_epoch)
        partition.number(batch)
""", """
        partition.owner = self.producer_id_and_epoch
        partition.number(batch)
"""),
)
