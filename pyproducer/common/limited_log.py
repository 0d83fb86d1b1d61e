"""Warnings that come in floods: a few lines of each are written, and how many were left out.

Road:    [failures] -> [lines] -> the application's log
Thread:  one, that of its owner; reads no clock.
Source:  ours.
"""

from __future__ import annotations

from pyproducer.common.clock import NEVER_MS
from pyproducer.common.sender_log import SenderLog

MOST_LINES = 5
WINDOW_MS = 10_000
"""A flood writes this many lines in so long, and one more for what was left out: enough to see what it is about."""


class LimitedLog:
    """Lets the first lines of each window through.

    Args:
        log: Where to.
        left_out: The line for the others, with two numbers: how many lines, and records, were left out.

    Attributes:
        left_out_count: How many lines were left out, and not told.
    """

    def __init__(self, log: SenderLog, left_out: str) -> None:
        self._log = log
        self._left_out = left_out
        self._lines = 0
        self._window_ends_ms = -NEVER_MS
        self.left_out_count: int = 0
        self._left_out_records = 0

    def warning(self, now_ms: int, record_count: int, text: str, *arguments: object) -> None:
        """Write a line about some records, or count it."""
        if now_ms >= self._window_ends_ms:
            self.tell_left_out()
            self._window_ends_ms = now_ms + WINDOW_MS
            self._lines = 0
        if self._lines < MOST_LINES:
            self._lines += 1
            self._log.warning(text, *arguments)
        else:
            self.left_out_count += 1
            self._left_out_records += record_count

    def step(self, now_ms: int) -> int:
        """Tell what was left out when its time has come; return how long that is, in ms; NEVER_MS without any."""
        if not self.left_out_count:
            return NEVER_MS
        left_ms = self._window_ends_ms - now_ms
        if left_ms <= 0:
            self.tell_left_out()
            return NEVER_MS
        return left_ms

    def tell_left_out(self) -> None:
        """Say how much was left out, if anything was."""
        lines, records = self.left_out_count, self._left_out_records
        if lines:
            self.left_out_count = self._left_out_records = 0  # first: the application's handler may raise
            self._log.warning(self._left_out, lines, records)
