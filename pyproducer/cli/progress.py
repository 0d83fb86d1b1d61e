"""A line of progress on a terminal, and nothing anywhere else: a CI log is no place for it.

Road:    send, perf -> [progress] -> standard error
Thread:  the main thread.
Source:  ours.
"""

from __future__ import annotations

import sys
import time

_EVERY_S = 0.2


class Progress:
    """Rewrites one line of standard error, a few times a second."""

    def __init__(self) -> None:
        self._is_shown = sys.stderr is not None and sys.stderr.isatty()
        self._began_s = time.monotonic()
        self._due_s = self._began_s + _EVERY_S
        self._width = 0

    def step(self, count: int, total: int | None = None) -> None:
        """So many records were handed over."""
        now_s = time.monotonic()
        if not self._is_shown or now_s < self._due_s:
            return
        self._due_s = now_s + _EVERY_S
        part = f" of {total:,}" if total else ""
        self._write(f"{count:,}{part} records, {count / (now_s - self._began_s):,.0f} a second")

    def end(self) -> float:
        """Remove the line; return how many seconds have passed."""
        if self._width:
            self._write("")
            self._write_raw("\r")
        return time.monotonic() - self._began_s

    def _write(self, text: str) -> None:
        self._write_raw(f"\r{text:<{self._width}}")
        self._width = len(text)

    def _write_raw(self, text: str) -> None:
        try:
            sys.stderr.write(text)
            sys.stderr.flush()
        except OSError:  # the terminal is gone; the records are not
            self._is_shown = False
