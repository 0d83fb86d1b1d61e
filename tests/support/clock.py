"""A clock that stands still until a test moves it."""

from __future__ import annotations

from pyproducer.common.clock import SystemClock
from pyproducer.common.waiting import Cell


class ManualClock:
    """Both clocks of `Clock`, moved together by `advance`."""

    def __init__(self, now_ms: int = 0, timestamp_ms: int = 1_700_000_000_000) -> None:
        self._now_ms = now_ms
        self._timestamp_ms = timestamp_ms
        self._suspended_ms = 0

    def now_ms(self) -> int:
        return self._now_ms

    def timestamp_ms(self) -> int:
        return self._timestamp_ms

    def suspended_ms(self) -> int:
        return self._suspended_ms

    def suspend(self, ms: int) -> None:
        """Let the machine sleep: the wall's clock goes on, the other one stands still."""
        self._timestamp_ms += ms
        self._suspended_ms += ms

    def wait(self, cell: Cell, timeout_s: float | None) -> bool:
        """Wait in real time: what moves this clock does not open cells."""
        return SystemClock().wait(cell, timeout_s)

    def advance(self, ms: int) -> int:
        self._now_ms += ms
        self._timestamp_ms += ms
        return self._now_ms
