"""The first batches after a silence were sent one behind the other, to a broker that had forgotten the producer.

Reference: Ours, until a review; Java 4.1 and librdkafka 2.16 do so still.
Seen:      Two records of one key the other way round, after a day of silence in a partition: the first was refused for
           a moment, and the second one's number was taken as the first.
Planted:   Silence is not looked at.
"""

from __future__ import annotations

from tests.simulation.museum import Edit

PATCH = (
    Edit("accumulator/broker_memory.py", """
        return (now_ms < self.until_ms and batch.leader_epoch == self._leader_epoch
""", """
        return (batch.leader_epoch == self._leader_epoch
"""),
)
