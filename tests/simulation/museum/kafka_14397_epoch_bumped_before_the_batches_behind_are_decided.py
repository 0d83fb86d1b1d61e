"""A batch expired, and the ones behind it got new numbers while the broker might have had them.

Reference: KAFKA-14397, found by a simulation that was never merged (apache/kafka#12873).
Seen:      Records twice in the log, after a broker had been away for about delivery.timeout.ms.
Planted:   A partition whose failed batch may be in the log does not wait for the batches behind it before it starts a
           new epoch, in which they are numbered anew.
"""

from __future__ import annotations

from tests.simulation.museum import Edit

PATCH = (
    Edit("accumulator/partition_sequence.py", """
        if self._oldest() is None and self.state is not _BUMP_DUE:
""", """
        if self.state is _IN_DOUBT:
            for batch in self.undecided():
                if batch.state in WAITING:
                    self._step_aside(batch)
        if self._oldest() is None and self.state is not _BUMP_DUE:
"""),
)
