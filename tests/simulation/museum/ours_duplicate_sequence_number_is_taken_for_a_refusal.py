"""DUPLICATE_SEQUENCE_NUMBER (46), which brokers before 2.4 say of what they have, was told as a failure.

Reference: Ours, planted by a review; 132 seeds of this simulation did not find it.
Seen:      Records in the log that the application was told are rejected.
Planted:   46 is an error as any.
"""

from __future__ import annotations

from tests.simulation.museum import Edit

PATCH = (
    Edit("sender/completion.py", """
        if known is ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
            # It is in the log from an earlier attempt; where, the broker does not say.
            self._complete(batch, NO_OFFSET, -1, response.received_ms)
            return
""", """
"""),
)
