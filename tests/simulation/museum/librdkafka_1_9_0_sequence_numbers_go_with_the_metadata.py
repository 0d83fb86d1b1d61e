"""A topic vanished from metadata for a moment, and its partitions' sequence numbers with it.

Reference: Librdkafka 1.9.0, release notes: message loss in the idempotent producer.
Seen:      Records that were acknowledged and are in no log: their numbers, from 0 again, were those of stored ones.
Planted:   A partition whose leader metadata does not know forgets its numbers, and goes on in the same epoch.
"""

from __future__ import annotations

from tests.simulation.museum import Edit

PATCH = (
    Edit("sender/sender.py", """
            for topic in check.unknown_leader_topics:
                self._metadata.add(topic, now_ms)
""", """
            for topic in check.unknown_leader_topics:
                self._metadata.add(topic, now_ms)
                for partition in self._accumulator.busy:
                    if partition.topic_partition[0] == topic and partition.sequence is not None:
                        partition.sequence.next_sequence = 0
"""),
)
