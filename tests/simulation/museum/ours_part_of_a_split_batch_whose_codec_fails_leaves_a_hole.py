"""A codec failed for a part of a split batch: the part failed, and the next one went out behind the hole.

Reference: Ours, seed 901688 of this simulation.
Seen:      Records twice in the log: a broker that did not know the producer yet stored the next part, its answer was
           lost, and the hole asked for a new epoch.
Planted:   A part that cannot be compressed fails; what is behind it goes at once; what is in doubt steps aside.
"""

from __future__ import annotations

from tests.simulation.museum import Edit

PATCH = (
    Edit("accumulator/record_accumulator.py", """
                first.close(_UNCOMPRESSED)
""", """
                if first.has_sequence and sequence is not None:
                    sequence.on_end(first, SequenceEvent.FAILED)
                    first.fail(lambda _index: KafkaError("no memory"))
                    self.finish(first)
                    continue
                first.close(_UNCOMPRESSED)
"""),
    Edit("accumulator/partition_sequence.py", """
            return oldest is batch and (batch.may_be_in_log or not self._is_behind_hole(batch))
""", """
            return oldest is batch
"""),
    Edit("accumulator/partition_sequence.py", """
                if batch.state in WAITING and not batch.may_be_in_log and self._is_behind_hole(batch):
""", """
                if batch.state in WAITING and self._is_behind_hole(batch):
"""),
)
