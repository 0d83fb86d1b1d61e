"""The sequence number ran over the end of its 32 bits, and became negative.

Reference: Franz-go #216, #227; KAFKA-7693 before it.
Seen:      INVALID_RECORD for everything, after 2**31 records of one producer to one partition.
Planted:   2147483647 is followed by -2147483648; and a partition begins a few numbers before that, as a broker allows.
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
        return sequence + increment - 2**32
"""),
)
