"""A batch in doubt was refused for its old epoch (47), and sent again in a new one.

Reference: Ours, planted by a review; 132 seeds of this simulation did not find it.
Seen:      Records twice in the log, where a broker had raised the producer's epoch behind a lost answer.
Planted:   INVALID_PRODUCER_EPOCH is taken as proof that no attempt was stored.
"""

from __future__ import annotations

from tests.simulation.museum import Edit

PATCH = (
    Edit("accumulator/broker_memory.py", """
        if code is ErrorCode.INVALID_PRODUCER_EPOCH:
            return f"the broker knows a later epoch of {me} than {batch.producer_epoch}, and looks at no numbers then"
""", """
        if code is ErrorCode.INVALID_PRODUCER_EPOCH:
            return None
"""),
)
