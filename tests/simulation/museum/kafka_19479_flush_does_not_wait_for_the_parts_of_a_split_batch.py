"""flush() took a batch that was split for a batch that was done.

Reference: KAFKA-19479 (apache/kafka#20285).
Seen:      Kafka Streams committed offsets of records that were not stored, and then failed to store them: data lost
           with at_least_once.
Planted:   Flush() does not look at the outcomes that take a split batch's place. It shows to who looks, after a
           flush(), whether the records before it are done.
"""

from __future__ import annotations

from tests.simulation.museum import Edit

PATCH = (
    Edit("producer/kafka_producer.py", """
        results.extend(result.successors)
""", """
"""),
)
