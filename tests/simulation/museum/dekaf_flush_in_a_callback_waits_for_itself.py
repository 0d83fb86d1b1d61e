"""flush() in a callback waited for the thread that it ran on.

Reference: Dekaf; Java documents it, and hangs as well.
Seen:      A producer that stands still from then on, with every record of every thread.
Planted:   A wait in a callback is not refused, and has no end.
"""

from __future__ import annotations

from tests.simulation.museum import Edit

PATCH = (
    Edit("accumulator/life.py", """
        self.ensure_may_wait(call)
        if self.loop.is_here and""", """
        if self.is_on_sender_thread:
            return None
        self.ensure_may_wait(call)
        if self.loop.is_here and"""),
)
