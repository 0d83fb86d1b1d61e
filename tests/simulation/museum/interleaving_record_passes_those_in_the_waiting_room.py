"""A topic has just become known, and a record goes by the road while those before it are in the waiting room still.

Reference: Ours, planted for the museum: only an interleaving shows it.
Seen:      The first records to a new topic out of order.
Planted:   Nobody looks whether records wait before he passes.
"""

from __future__ import annotations

from tests.simulation.museum import Edit

PATCH = (
    Edit("producer/do_send.py", """
        if not count or self.room.is_waiting(topic):
            return None
""", """
        if not count:
            return None
"""),
    Edit("producer/do_send.py", """
        if self.room.is_waiting(topic):  # since the look above: later records go behind those
            self._routes.forget(topic)
            return None
""", """
"""),
    Edit("producer/do_send.py", """
            if table is not None and table.count and not (room.queues and room.is_waiting(topic)):
""", """
            if table is not None and table.count:
"""),
)
