"""After an epoch bump, partitions with nothing on its way went on with their old numbers.

Reference: KAFKA-12152 (apache/kafka#9832); Dekaf #3342 again, five years later.
Seen:      OutOfOrderSequenceException for partitions that nothing had happened to.
Planted:   A partition that meets a new epoch takes it, and does not begin at 0. Nobody is lied to by it:
           it shows to who looks whether a healthy cluster gets its records.
"""

from __future__ import annotations

from tests.simulation.museum import Edit

PATCH = (
    Edit("accumulator/partition_sequence.py", """
        self._has_doubt = False
        self.next_sequence = 0
""", """
        self._has_doubt = False
"""),
)
