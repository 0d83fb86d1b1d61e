"""A batch that was too large was split, and the partition's numbers set back to where that had begun.

Reference: Kafka-python, split_and_reenqueue (#2839): right only as long as nothing is on its way behind the batch.
Seen:      Records that were acknowledged and are in no log: two batches had the same numbers.
Planted:   The parts of a split batch have no numbers, and the next number is the batch's first.
"""

from __future__ import annotations

from tests.simulation.museum import Edit

PATCH = (
    Edit("accumulator/producer_batch.py", """
            if self.has_sequence:
                batch.set_producer_state(""", """
            if self.has_sequence and self.is_transactional:
                batch.set_producer_state("""),
    Edit("sender/completion.py", """
        self._accumulator.split(batch)
""", """
        self._accumulator.split(batch)
        sequence = self._accumulator.sequence_of(batch)
        if sequence is not None:
            sequence.next_sequence = batch.base_sequence
"""),
)
