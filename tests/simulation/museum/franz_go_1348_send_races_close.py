"""A record was buffered behind the last look of close(), and nobody was left to fail it.

Reference: Franz-go #1348, 'fail produces racing/after Close instead of orphaning them'.
Seen:      A promise that never fires; a later flush waits for ever.
Planted:   A caller who was past the look at is_closed opens a batch although the producer is closed, and close() does
           not wait for him.
"""

from __future__ import annotations

from tests.simulation.museum import Edit

PATCH = (
    Edit("accumulator/buffer_pool.py", """
            if self._closed:
                raise self._life.refusal()
            if not self._has_room(""", """
            if not self._has_room("""),
    Edit("accumulator/record_accumulator.py", """
        for partition in list(self._partitions.values()):
            with partition.lock:
                pass
""", """
"""),
)
