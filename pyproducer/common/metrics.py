"""Counters and gauges under Java's metric names.

Road:    beside it; written by the thread that does the work, read by any.
Thread:  one writer per metric; a reader may see a value that is one update old.
Source:  Java producer-metrics group (4.1). Ours: totals and gauges only; rates are the reader's to compute.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping


class Metrics:
    """A small registry: totals that only grow, and gauges that are asked when read."""

    def __init__(self) -> None:
        self._totals: dict[str, float] = {}
        self._gauges: dict[str, Callable[[], float]] = {}

    def add(self, name: str, amount: float = 1) -> None:
        """Add to a total. Each total is written by one thread only."""
        self._totals[name] = self._totals.get(name, 0) + amount

    def add_all(self, amounts: Mapping[str, float]) -> None:
        """Add to several totals."""
        totals = self._totals
        for name, amount in amounts.items():
            totals[name] = totals.get(name, 0) + amount

    def set_max(self, name: str, value: float) -> None:
        """Keep the largest value seen."""
        if value > self._totals.get(name, float("-inf")):
            self._totals[name] = value

    def gauge(self, name: str, read: Callable[[], float]) -> None:
        """Register a value that is computed when it is read."""
        self._gauges[name] = read

    def snapshot(self) -> dict[str, float]:
        """Return all values by name."""
        values = dict(self._totals)
        for name, read in self._gauges.items():
            values[name] = read()
        return values
