"""The only place that reads a clock, and the only one where a caller sleeps.

Road:    beside it; every step takes `now_ms` from the thread that loops.
Thread:  any.
Source:  Java org.apache.kafka.common.utils.Time (4.1).
"""

from __future__ import annotations

import sys
import threading
import time
from typing import Protocol

from pyproducer.common.waiting import LONGEST_WAIT_S, Cell

NEVER_MS = 2**62
"""Longer than any wait: nothing is due, or an event will tell."""


class Clock(Protocol):
    """Two clocks, one that only goes forward, for waiting, and the wall's, for records; and what the first missed."""

    def now_ms(self) -> int:
        """Return monotonic milliseconds; only differences mean something."""

    def timestamp_ms(self) -> int:
        """Return milliseconds since the Unix epoch."""

    def suspended_ms(self) -> int:
        """Return for how long, in ms, the machine slept in all while `now_ms` stood still.

        Only differences mean something. Always 0 where `now_ms` goes on meanwhile, or the system does not tell.
        """

    def wait(self, cell: Cell, timeout_s: float | None) -> bool:
        """Sleep until a cell opens; False when `timeout_s` seconds passed first. None is no limit."""


# A clock that goes on while the machine sleeps, beside time.monotonic(), which on these stands still: Linux has
# CLOCK_BOOTTIME for that; on macOS CLOCK_MONOTONIC is not what time.monotonic() reads. Elsewhere that one goes on.
_GOES_ON: int | None = getattr(time, "CLOCK_MONOTONIC" if sys.platform == "darwin" else "CLOCK_BOOTTIME", None)


def process_cpu_ms() -> int:
    """Return the CPU time of this process, in ms."""
    return time.process_time_ns() // 1_000_000


def cpu_clock_of_this_thread() -> int | None:
    """Return the number of the clock of this thread's CPU time; None where the system has none."""
    get_clock = getattr(time, "pthread_getcpuclockid", None)
    return None if get_clock is None else get_clock(threading.get_ident())


def thread_cpu_ms(clock_id: int) -> int:
    """Return the CPU time of a thread by the number of its clock, in ms; 0 when it has ended."""
    try:
        return time.clock_gettime_ns(clock_id) // 1_000_000
    except OSError:
        return 0


class SystemClock:
    """The operating system's clocks."""

    def now_ms(self) -> int:
        """Return monotonic milliseconds."""
        return time.monotonic_ns() // 1_000_000

    def timestamp_ms(self) -> int:
        """Return milliseconds since the Unix epoch."""
        return time.time_ns() // 1_000_000

    def suspended_ms(self) -> int:
        """Return for how long the machine slept in all while `now_ms` stood still; 0 where it does not tell."""
        if _GOES_ON is None:
            return 0
        return (time.clock_gettime_ns(_GOES_ON) - time.monotonic_ns()) // 1_000_000

    def wait(self, cell: Cell, timeout_s: float | None) -> bool:
        """Sleep until a cell opens; False when `timeout_s` seconds passed first. None is no limit."""
        if timeout_s is None or timeout_s >= LONGEST_WAIT_S:
            timeout_s = LONGEST_WAIT_S
        return cell.acquire(timeout=max(timeout_s, 0.0))
