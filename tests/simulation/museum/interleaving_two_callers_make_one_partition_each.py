"""Two threads send the first records of a partition, and each makes the partition's list of batches.

Reference: Ours, planted for the museum: only an interleaving shows it.
Seen:      Memory that never comes back, records out of order.
Planted:   The second replaces the first in the table, where the batches of the first look for their list.
"""

from __future__ import annotations

from tests.simulation.museum import Edit

PATCH = (
    Edit("accumulator/record_accumulator.py", """
        return self._partitions.setdefault(topic_partition, Partition(topic_partition, self._life.locks.rlock))
""", """
        made = self._partitions[topic_partition] = Partition(topic_partition, self._life.locks.rlock)
        return made
"""),
)
