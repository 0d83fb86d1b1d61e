"""A batch that was too large was split, and its memory given back by itself and by its parts.

Reference: KAFKA-8325, KAFKA-8202.
Seen:      Errors when a split batch expired, and a buffer.memory that bounded nothing any more.
Planted:   A split batch keeps its share when its parts have got theirs.
"""

from __future__ import annotations

from tests.simulation.museum import Edit

PATCH = (
    Edit("accumulator/buffer_pool.py", """
            more_bytes = sum(taker.reserved_bytes for taker in new) - giver.reserved_bytes
""", """
            more_bytes = 0
"""),
    Edit("accumulator/buffer_pool.py", """
            holders[place:place] = new
            giver.reserved_bytes = 0
""", """
            holders[place:place] = new
"""),
)
