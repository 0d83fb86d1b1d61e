"""After a request whose answer was lost, the client did not know any more which number comes next.

Reference: Librdkafka #3584, #4438 ('rewound sequence number', 'sequence desynchronization').
Seen:      Fatal errors of idempotent producers; the records that were counted twice are dropped by the broker as
           duplicates.
Planted:   A batch that expires with nothing behind it gives its numbers back, although it may be in the log.
"""

from __future__ import annotations

from tests.simulation.museum import Edit

PATCH = (
    Edit("transaction/transaction_manager.py", """
            self._unresolved[batch.topic_partition] = increment_sequence(batch.base_sequence, batch.record_count)
""", """
            if partition.in_flight:
                self._unresolved[batch.topic_partition] = increment_sequence(batch.base_sequence, batch.record_count)
            else:
                partition.next_sequence = batch.base_sequence
"""),
)
