"""A connection ended, and of the requests on it one was failed.

Reference: Dekaf, one of four ways to a future that never completes; KAFKA-4669 is another.
Seen:      Batches that neither end nor are retried; their memory never comes back.
Planted:   Only the oldest request in flight hears of the end.
"""

from __future__ import annotations

from tests.simulation.museum import Edit

PATCH = (
    Edit("client/connections.py", """
        in_flight = self.in_flight.clear_all(node_id)
""", """
        in_flight = self.in_flight.clear_all(node_id)[:1]
"""),
)
