"""After a request whose answer was lost, the client did not know any more which number comes next.

Reference: Librdkafka #3584, #4438 ('rewound sequence number', 'sequence desynchronization').
Seen:      Fatal errors of idempotent producers; the records that were counted twice are dropped by the broker as
           duplicates.
Planted:   A batch that expires with nothing behind it gives its numbers back, although it may be in the log.
"""

from __future__ import annotations

from tests.simulation.museum import Edit

PATCH = (
    Edit("accumulator/partition_sequence.py", """
        if batch.base_sequence == NO_SEQUENCE:
            return
""", """
        if batch.base_sequence == NO_SEQUENCE:
            return
        if event is SequenceEvent.UNKNOWN and self.undecided()[-1:] == [batch]:
            self.next_sequence = batch.base_sequence
            return
"""),
)
