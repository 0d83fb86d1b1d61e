"""Sequence numbers were given when a batch was written, each time that it was.

Reference: Dekaf, where sequence numbers went from seal to send and back.
Seen:      Records twice in the log whenever an answer was lost.
Planted:   A batch that is retried has no number, and gets the next one.
"""

from __future__ import annotations

from tests.simulation.museum import Edit

PATCH = (
    Edit("sender/completion.py", """
            if sequence is not None:
                sequence.on_retry(batch, code)
""", """
            if sequence is not None:
                batch.base_sequence = -1
"""),
)
