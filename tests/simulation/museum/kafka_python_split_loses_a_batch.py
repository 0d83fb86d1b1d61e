"""A batch that was too large was split, and not all of its parts were queued.

Reference: Kafka-python, the splitting of KIP-126 (#2839).
Seen:      Futures that never end.
Planted:   The list of the partition gets the first part alone.
"""

from __future__ import annotations

from tests.simulation.museum import Edit

PATCH = (
    Edit("accumulator/buffer_pool.py", """
            holders[place:place] = new
""", """
            holders[place:place] = new[:1]
"""),
)
