"""The only place that reads a clock, and the only one where a caller sleeps.

Road:    beside it; every step takes `now_ms` from the thread that loops.
Thread:  any.
Source:  Java org.apache.kafka.common.utils.Time (4.1).
"""

from __future__ import annotations

import time
from typing import Protocol

from pyproducer.common.waiting import LONGEST_WAIT_S, Cell

NEVER_MS = 2**62
"""Longer than any wait: nothing is due, or an event will tell."""


class Clock(Protocol):
    """Two clocks: one that only goes forward, for waiting, and the wall's, for records."""

    def now_ms(self) -> int:
        """Return monotonic milliseconds; only differences mean something."""

    def timestamp_ms(self) -> int:
        """Return milliseconds since the Unix epoch."""

    def wait(self, cell: Cell, timeout_s: float | None) -> bool:
        """Sleep until a cell opens; False when `timeout_s` seconds passed first. None is no limit."""


class SystemClock:
    """The operating system's clocks."""

    def now_ms(self) -> int:
        """Return monotonic milliseconds."""
        return time.monotonic_ns() // 1_000_000

    def timestamp_ms(self) -> int:
        """Return milliseconds since the Unix epoch."""
        return time.time_ns() // 1_000_000

    def wait(self, cell: Cell, timeout_s: float | None) -> bool:
        """Sleep until a cell opens; False when `timeout_s` seconds passed first. None is no limit."""
        if timeout_s is None or timeout_s >= LONGEST_WAIT_S:
            timeout_s = LONGEST_WAIT_S
        return cell.acquire(timeout=max(timeout_s, 0.0))
