"""The sequence number was wrapped around, and not to 0.

Reference: Aiokafka, whose own test asserted -4 (tests/test_transaction_manager.py).
Seen:      Nothing, until somebody sends 2**31 records to one partition: then no more is stored.
Planted:   2147483647 is followed by -4; and a partition begins a few numbers before that, as a broker allows.
"""

from __future__ import annotations

from tests.simulation.museum import Edit

PATCH = (
    Edit("accumulator/partition_sequence.py", """
        self._has_doubt = False
        self.next_sequence = 0
""", """
        self._has_doubt = False
        self.next_sequence = 0 if owner.epoch else 2**31 - 8
"""),
    Edit("record/layout.py", """
        return increment - (MAX_SEQUENCE - sequence) - 1
""", """
        return increment - (MAX_SEQUENCE - sequence) - 5
"""),
)
