"""The number of a topic's partitions was how many an answer told of, not the highest id and one more.

Reference: Ours, before the core was built anew. Brokers below 2.8 answer with gaps, lawfully.
Seen:      A crash of the process, keys in the wrong partition, a ValueError that blamed the partitioner.
Planted:   Partitions are counted.
"""

from __future__ import annotations

from tests.simulation.museum import Edit

PATCH = (
    Edit("common/cluster.py", """
        self.count: int = self.in_order[-1].partition + 1 if self.in_order else 0
""", """
        self.count = len(self.in_order)
"""),
)
