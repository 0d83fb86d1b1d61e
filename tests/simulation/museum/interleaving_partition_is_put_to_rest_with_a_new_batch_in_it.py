"""The sender sees that a partition holds nothing, and a caller opens a batch before it is passed over from now on.

Reference: Ours, planted for the museum: only an interleaving shows it.
Seen:      A record that is neither sent nor expires, until somebody fills its batch; flush() does not know of it.
Planted:   The lock is given back between the look at the list and what follows from it.
"""

from __future__ import annotations

from tests.simulation.museum import Edit

PATCH = (
    Edit("accumulator/record_accumulator.py", """
                self.pool.release(batch, batches)
            if not batches:
                self.busy.pop(partition, None)  # it is looked at no more
""", """
                self.pool.release(batch, batches)
            is_empty = not batches
        if is_empty:
            with partition.lock:
                self.busy.pop(partition, None)
"""),
)
