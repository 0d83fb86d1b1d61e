"""A record whose answer was lost, and which expired while it waited for its retry, was told as not sent.

Reference: Ours, before the core was built anew.
Seen:      Who trusts that sends it again: twice in the log.
Planted:   An expired batch that is not on the wire says not_sent.
"""

from __future__ import annotations

from tests.simulation.museum import Edit

PATCH = (
    Edit("sender/completion.py", """
        maybe_in_log = batch.may_be_in_log or batch.is_in_flight
""", """
        maybe_in_log = batch.is_in_flight
"""),
)
