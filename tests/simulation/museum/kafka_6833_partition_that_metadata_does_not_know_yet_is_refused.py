"""A record for a partition that the newest metadata did not have yet was refused on the spot.

Reference: KAFKA-6833.
Seen:      'Invalid partition given with record' for minutes after partitions were added, until metadata was refreshed.
Planted:   Send() raises where it should let the record wait for its partition.
"""

from __future__ import annotations

from tests.simulation.museum import Edit

PATCH = (
    Edit("hotpath/_python_road.py", """
        if route is None or (partition is not None and not 0 <= partition < route.count):
""", """
        if route is not None and partition is not None and partition >= route.count:
            raise ValueError(f"Invalid partition given with record: {partition} is not in [0...{route.count})")
        if route is None:
"""),
)
