"""Sequence numbers were given when a batch was written, each time that it was.

Reference: Dekaf, where sequence numbers went from seal to send and back.
Seen:      Records twice in the log whenever an answer was lost.
Planted:   A batch that is retried has no number, and gets the next one.
"""

from __future__ import annotations

from tests.simulation.museum import Edit

PATCH = (
    Edit("sender/completion.py", """
            self._accumulator.reenqueue(batch, now_ms)
""", """
            self._accumulator.reenqueue(batch, now_ms)
            if self._transaction_manager is not None and batch.has_sequence:
                self._transaction_manager.on_split(batch, [])
                batch.reset_producer_state(-1, -1, -1)
"""),
)
