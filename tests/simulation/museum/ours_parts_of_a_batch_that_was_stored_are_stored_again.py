"""The answer was lost, and the retry found too large: the parts of what was in the log were stored a second time.

Reference: Ours, before the core was built anew. Java does so still.
Seen:      Records twice in the log, where a topic's max.message.bytes was lowered under load.
Planted:   The parts of a batch that may be in the log do not know it.
"""

from __future__ import annotations

from tests.simulation.museum import Edit

PATCH = (
    Edit("accumulator/record_accumulator.py", """
        batch.parts = batch.split(self._batch_size_bytes)
""", """
        batch.parts = batch.split(self._batch_size_bytes)
        for part in batch.parts:
            part.parts_in_doubt = []
"""),
)
