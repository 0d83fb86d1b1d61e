"""Who waits for a record looks whether it is done, and enters the line of those who are rung then.

Reference: Ours, planted for the museum: only an interleaving shows it.
Seen:      Result(), or flush(), that never returns although the record is stored.
Planted:   The look and the entry change places, and he looks at the clock between: what happens then rings nobody.
"""

from __future__ import annotations

from tests.simulation.museum import Edit

PATCH = (
    Edit("accumulator/produce_result.py", """
        cell = self.waiters.enter()
        if self.is_told:
            return True
        return self._life.wait(cell, deadline_ms)
""", """
        if self.is_told:
            return True
        clock = self._life._clock
        now_ms = clock.now_ms()
        return clock.wait(self.waiters.enter(), None if deadline_ms is None else (deadline_ms - now_ms) / 1000)
"""),
)
