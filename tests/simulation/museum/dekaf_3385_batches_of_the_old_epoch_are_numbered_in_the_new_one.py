"""A batch met a new epoch, and the ones before it, which were on the wire with the old one, were numbered again.

Reference: Dekaf #3385, and its check of producer ids that was taken back once.
Seen:      Records twice in the log, when an epoch bump of one partition met lost answers of another.
Planted:   A partition does not wait for its batches of the old epoch before it begins the new one.
"""

from __future__ import annotations

from tests.simulation.museum import Edit

PATCH = (
    Edit("transaction/transaction_manager.py", """
            return not partition.in_flight or (partition.owner == self.producer_id_and_epoch
                                               and partition.last_acked""", """
            return not partition.in_flight or (partition.last_acked"""),
)
