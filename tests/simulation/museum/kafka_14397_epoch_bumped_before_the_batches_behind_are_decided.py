"""A batch expired, and the ones behind it got new numbers while the broker might have had them.

Reference: KAFKA-14397, found by a simulation that was never merged (apache/kafka#12873).
Seen:      Records twice in the log, after a broker had been away for about delivery.timeout.ms.
Planted:   A partition whose failed batch may be in the log does not wait for the batches behind it before it starts a
           new epoch.
"""

from __future__ import annotations

from tests.simulation.museum import Edit

PATCH = (
    Edit("transaction/transaction_manager.py", """
            if partition.in_flight:
                continue
            if partition.last_acked_sequence == decrement""", """
            if partition.last_acked_sequence == decrement"""),
)
