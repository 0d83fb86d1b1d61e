"""Who waits for a record looks whether it is done, and enters the line of those who are rung then.

Reference: Ours, planted for the museum: only an interleaving shows it.
Seen:      Result(), or flush(), that never returns although the record is stored.
Planted:   The look and the entry change places: what happens between them rings nobody.
"""

from __future__ import annotations

from tests.simulation.museum import Edit

PATCH = (
    Edit("accumulator/produce_result.py", """
        cell = self._waiters.enter()
        if self.is_told:
            return True
""", """
        if self.is_told:
            return True
        cell = self._waiters.enter()
"""),
)
