"""The sequence number ran over the end of its 32 bits, and became negative.

Reference: Franz-go #216, #227; KAFKA-7693 before it.
Seen:      INVALID_RECORD for everything, after 2**31 records of one producer to one partition.
Planted:   2147483647 is followed by -2147483648; and a partition begins a few numbers before that, as a broker allows.
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
        return sequence + increment - 2**32
"""),
)
