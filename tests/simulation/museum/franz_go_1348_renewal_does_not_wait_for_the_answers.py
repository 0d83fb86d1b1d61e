"""A session was renewed while answers to other requests were on their way.

Reference: Franz-go #1348, its audit of re-authentication beside pipelined requests (2026).
Seen:      Answers of Produce were read as those of SaslHandshake, and the other way round: connections broke.
Planted:   A session that is due is renewed at once, whatever is in flight.
"""

from __future__ import annotations

from tests.simulation.museum import Edit

PATCH = (
    Edit("client/connections.py", """
            if self.in_flight.count(state.node.node_id) or state.node.node_id in self.writing:
                continue  # an answer ends the poll
            if may_ms > now_ms:""", """
            if may_ms > now_ms:"""),
)
