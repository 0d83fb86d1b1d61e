"""A retry was made of the messages anew, and did not hold the same ones.

Reference: Librdkafka #4736, #4750, since 2.2.0.
Seen:      'Unable to reconstruct MessageSet', and producers that did not recover until they were restarted.
Planted:   A batch of several records that may be in the log is cut in pieces for its retry: the broker, which knows
           batches by their first and last numbers, does not know the pieces.
"""

from __future__ import annotations

from tests.simulation.museum import Edit

PATCH = (
    Edit("sender/completion.py", """
            self._accumulator.reenqueue(batch, now_ms)
""", """
            if batch.may_be_in_log and batch.record_count > 1:
                self._split(batch, error)
                for part in batch.parts:
                    part.parts_in_doubt = []
            else:
                self._accumulator.reenqueue(batch, now_ms)
"""),
)
