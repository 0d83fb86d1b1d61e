"""close(timeout) gave up on records whose requests were not answered, and said that they were not sent.

Reference: Ours, before the core was built anew.
Seen:      Who trusts that sends them again: twice in the log.
Planted:   The end of a producer does not ask what is on the wire.
"""

from __future__ import annotations

from tests.simulation.museum import Edit

PATCH = (
    Edit("accumulator/record_accumulator.py", """
                if batch.may_be_in_log or batch.state is BatchState.ON_WIRE:
""", """
                if batch.may_be_in_log:
"""),
)
