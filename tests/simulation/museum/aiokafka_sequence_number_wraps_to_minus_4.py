"""The sequence number was wrapped around, and not to 0.

Reference: Aiokafka, whose own test asserted -4 (tests/test_transaction_manager.py).
Seen:      Nothing, until somebody sends 2**31 records to one partition: then no more is stored.
Planted:   2147483647 is followed by -4; and a partition begins a few numbers before that, as a broker allows.
"""

from __future__ import annotations

from tests.simulation.museum import Edit

PATCH = (
    Edit("transaction/transaction_manager.py", """
            partition.start_at_beginning(self.producer_id_and_epoch)
        partition.number(batch)
""", """
            partition.start_at_beginning(self.producer_id_and_epoch)
            if not self.producer_id_and_epoch.epoch:
                partition.next_sequence = 2**31 - 8
        partition.number(batch)
"""),
    Edit("record/layout.py", """
        return increment - (MAX_SEQUENCE - sequence) - 1
""", """
        return increment - (MAX_SEQUENCE - sequence) - 5
"""),
)
