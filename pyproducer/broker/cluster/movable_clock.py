"""The broker's clock, which a test may move on: fifteen minutes pass in none.

Sessions of groups, transactions, retention, producer ids, tokens, throttles and delays are measured by it. Connections
are not: what is idle for the broker was not idle for the client, which has its own clock.

Road:    InProcessCluster -> [movable clock] -> cluster state
Thread:  any; `advance` is one assignment under a lock.
Source:  ours.
"""

from __future__ import annotations

import threading

from pyproducer.common.clock import Clock, SystemClock
from pyproducer.common.errors import ConfigError
from pyproducer.common.waiting import Cell


class MovableClock:
    """The system's clocks, and what they were moved on. See Clock."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()  # guards _ahead_ms
        self._ahead_ms = 0

    def now_ms(self) -> int:
        """Return monotonic milliseconds."""
        return self._clock.now_ms() + self._ahead_ms

    def timestamp_ms(self) -> int:
        """Return milliseconds since the Unix epoch."""
        return self._clock.timestamp_ms() + self._ahead_ms

    def suspended_ms(self) -> int:
        """Return for how long the machine slept in all while the clock stood still."""
        return self._clock.suspended_ms()

    def wait(self, cell: Cell, timeout_s: float | None) -> bool:
        """Sleep until a cell opens; in the system's time."""
        return self._clock.wait(cell, timeout_s)

    def advance(self, ms: int) -> None:
        """Let time pass; what is due then is done by who waits for it, see ClusterState.advance_clock.

        Raises:
            ConfigError: It would go back, or beyond all times.
        """
        if not isinstance(ms, int) or isinstance(ms, bool) or not 0 <= ms < 2**52:
            raise ConfigError("ms", ms, "a broker's clock goes forward, by whole milliseconds")
        with self._lock:
            self._ahead_ms += ms
