"""A batch met a new epoch, and the ones before it, which were on the wire with the old one, were numbered again.

Reference: Dekaf #3385, and its check of producer ids that was taken back once.
Seen:      Records twice in the log, when an epoch bump of one partition met lost answers of another.
Planted:   A partition does not wait for its batches of the old epoch before it begins the new one, and
           numbers them in it.
"""

from __future__ import annotations

from tests.simulation.museum import Edit

PATCH = (
    Edit("accumulator/partition_sequence.py", """
        return (state is _FLOWING and self.owner == manager.producer_id_and_epoch
                and oldest""", """
        return (state is _FLOWING
                and oldest"""),
    Edit("accumulator/partition_sequence.py", """
        self._newest = ()
        self._hole""", """
        for batch in self.undecided():
            batch.base_sequence = NO_SEQUENCE
        self._newest = ()
        self._hole"""),
)
