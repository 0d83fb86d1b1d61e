"""Who wakes the sender writes the byte first, and then notes that he did.

Reference: Ours, planted for the museum: only an interleaving shows it.
Seen:      The sender sleeps with a note that says it was woken, and nobody wakes it again; records wait until something
           else happens on a socket.
Planted:   The two lines of wakeup() change places: the sender may wake, work, take the note back and sleep between
           them.
"""

from __future__ import annotations

from tests.simulation.museum import Edit

PATCH = (
    Edit("network/wakeup.py", """
        self.is_requested = True
        if self._is_sleeping:
""", """
        if self._is_sleeping:
"""),
    Edit("network/wakeup.py", """
                pass  # full: bytes enough are on their way; closed: nobody sleeps there any more
""", """
                pass  # full: bytes enough are on their way; closed: nobody sleeps there any more
        self.is_requested = True
"""),
)
