"""An exception in a turn of the sender left the batches on the wire to nobody.

Reference: Ours, before the core was built anew. What expires and what flush() waited for were two lists.
Seen:      A record that was pending for ever after one MemoryError, and close() with it.
Planted:   Recovery takes up what was not sent yet, and expiry leaves what is on the wire to its request.
"""

from __future__ import annotations

from tests.simulation.museum import Edit

PATCH = (
    Edit("sender/completion.py", """
        elif batch.state is BatchState.ON_WIRE:
            batch.may_be_in_log = True
""", """
        elif batch.state is BatchState.ON_WIRE and batch.attempts < 0:
            batch.may_be_in_log = True
"""),
    Edit("accumulator/record_accumulator.py", """
            if batch.is_done:
                continue
""", """
            if batch.is_done or batch.is_in_flight:
                continue
"""),
)
