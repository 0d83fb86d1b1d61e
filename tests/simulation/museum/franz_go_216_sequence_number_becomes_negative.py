"""The sequence number ran over the end of its 32 bits, and became negative.

Reference: Franz-go #216, #227; KAFKA-7693 before it.
Seen:      INVALID_RECORD for everything, after 2**31 records of one producer to one partition.
Planted:   2147483647 is followed by -2147483648.
"""

from __future__ import annotations

from tests.simulation.museum import Edit

PATCH = (
    Edit("record/layout.py", """
        return increment - (MAX_SEQUENCE - sequence) - 1
""", """
        return sequence + increment - 2**32
"""),
)
