"""The only place that reads a clock.

Road:    beside it; every step takes `now_ms` from the thread that loops.
Thread:  any.
Source:  Java org.apache.kafka.common.utils.Time (4.1).
"""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Two clocks: one that only goes forward, for waiting, and the wall's, for records."""

    def now_ms(self) -> int:
        """Return monotonic milliseconds; only differences mean something."""

    def timestamp_ms(self) -> int:
        """Return milliseconds since the Unix epoch."""


class SystemClock:
    """The operating system's clocks."""

    def now_ms(self) -> int:
        """Return monotonic milliseconds."""
        return time.monotonic_ns() // 1_000_000

    def timestamp_ms(self) -> int:
        """Return milliseconds since the Unix epoch."""
        return time.time_ns() // 1_000_000
