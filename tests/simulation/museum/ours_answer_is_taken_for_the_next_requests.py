"""A request was given up, its connection kept, and its late answer taken for that of the next one.

Reference: What correlation ids are there to prevent, and what clients have to look at them for.
Seen:      Offsets of other records, and acknowledgements of what was not stored.
Planted:   A late request is failed alone, and answers are matched by their order only.
"""

from __future__ import annotations

from tests.simulation.museum import Edit

PATCH = (
    Edit("client/network_client.py", """
        if correlation_id != request.correlation_id:
            raise CorrelationIdMismatchError(""", """
        if correlation_id < 0:
            raise CorrelationIdMismatchError("""),
    Edit("client/network_client.py", """
            self._connections.break_off(responses, state, now_ms, waited_ms=now_ms - late.sent_ms)
""", """
            if late.internal:
                self._connections.break_off(responses, state, now_ms, waited_ms=now_ms - late.sent_ms)
            else:
                self._in_flight.complete_next(node_id)
                responses.append(late.disconnected(now_ms, timed_out=True, error=None))
"""),
)
