"""A leader that had appended a batch answered with a timeout; what failed later was told as rejected.

Reference: Ours, before the core was built anew. Codes 7 and 20; 6 and 56 until not long ago.
Seen:      Who trusts that sends it again: twice in the log.
Planted:   No code leaves the outcome open for the attempts that follow.
"""

from __future__ import annotations

from tests.simulation.museum import Edit

PATCH = (
    Edit("sender/completion.py", """
        elif error.outcome == UNKNOWN:
""", """
        elif error.outcome == UNKNOWN and known is None:
"""),
)
