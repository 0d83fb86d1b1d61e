"""close() in a callback, or in another thread, made every later close() return at once.

Reference: Ours, before the core was built anew.
Seen:      A with-block that ended with 84 of 3,001 records in the log.
Planted:   Who closes what somebody has begun to close does not wait for the end.
"""

from __future__ import annotations

from tests.simulation.museum import Edit

PATCH = (
    Edit("accumulator/life.py", """
            if not self._move(LifeState.CLOSING):
                return False
""", """
            if not self._move(LifeState.CLOSING):
                self.waits_for_end = False
                return False
"""),
    Edit("accumulator/life.py", """
            return self.is_over or""", """
            return not getattr(self, "waits_for_end", True) or self.is_over or"""),
)
