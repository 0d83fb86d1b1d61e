"""After an epoch bump, partitions with nothing on its way went on with their old numbers.

Reference: KAFKA-12152 (apache/kafka#9832); Dekaf #3342 again, five years later.
Seen:      OutOfOrderSequenceException for partitions that nothing had happened to.
Planted:   A partition that meets a new epoch takes it, and does not begin at 0; as nothing of it was acknowledged in
           this epoch, a refusal does not begin another. Nobody is lied to by it: it shows to who looks whether a
           healthy cluster gets its records.
"""

from __future__ import annotations

from tests.simulation.museum import Edit

PATCH = (
    Edit("transaction/transaction_manager.py", """
        if partition.owner != self.producer_id_and_epoch:
            partition.start_at_beginning(self.producer_id_and_epoch)
        partition.number(batch)
""", """
        if partition.owner != self.producer_id_and_epoch:
            partition.owner = self.producer_id_and_epoch
            partition.last_acked_sequence = NO_SEQUENCE
        partition.number(batch)
"""),
)
