"""Counters and gauges under Java's metric names.

Road:    beside it; written by the thread that does the work, read by any.
Thread:  one writer per metric; a reader may see a value that is one update old.
Source:  Java producer-metrics group (4.1). Ours: totals and gauges only; rates are the reader's to compute.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable


class Metrics:
    """A small registry: totals that only grow, and gauges that are asked when read.

    Attributes:
        totals: Whoever does the work adds to them; each is written by one thread only.
    """

    def __init__(self) -> None:
        self.totals: defaultdict[str, float] = defaultdict(int)
        self._gauges: dict[str, Callable[[], float | None]] = {}

    def gauge(self, name: str, read: Callable[[], float | None]) -> None:
        """Register a value that is computed when it is read; None while there is none."""
        self._gauges[name] = read

    def snapshot(self) -> dict[str, float]:
        """Return all values by name."""
        values = dict(self.totals)
        for name, read in self._gauges.items():
            value = read()
            if value is not None:
                values[name] = value
        return values
