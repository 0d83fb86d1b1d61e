"""The answer was lost, and the retry found too large: the parts of what was in the log were stored a second time.

Reference: Ours, before the core was built anew. Java does so still.
Seen:      Records twice in the log, where a topic's max.message.bytes was lowered under load.
Planted:   A batch that is split forgets that it may be in the log as a whole.
"""

from __future__ import annotations

from tests.simulation.museum import Edit

PATCH = (
    Edit("accumulator/producer_batch.py", """
        if self.may_be_in_log:
            in_doubt = """, """
        if self.may_be_in_log and not self.has_sequence:
            in_doubt = """),
)
