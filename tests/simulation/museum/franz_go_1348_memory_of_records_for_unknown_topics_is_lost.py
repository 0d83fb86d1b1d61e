"""Records that had waited for their topic in vain were failed, and went on being counted.

Reference: Franz-go #1348, 'keep unknown-topic waiters and the producer topics map in sync'.
Seen:      A count of buffered records that stays above zero, and in the end no room for others.
Planted:   A record that fails while it waits for its topic does not give its memory back.
"""

from __future__ import annotations

from tests.simulation.museum import Edit

PATCH = (
    Edit("accumulator/waiting_records.py", """
            self._pool.release(record, queue.records)
""", """
            self._pool.take_out(record, queue.records)
"""),
)
