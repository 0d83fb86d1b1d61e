"""Lines that a peer can cause as often as it likes: some are written, the others counted.

A connection that sends nonsense is closed, and costs its peer nothing; 88,000 of them wrote twelve megabytes.

Road:    Processor, KafkaRequestHandler, refused batches -> [flood log] -> logging
Thread:  any; one lock.
Source:  ours.
"""

from __future__ import annotations

import logging
import threading

# So many lines in so long a time; who is refused sends the next one at once.
LINES = 10
WINDOW_MS = 10_000


class FloodLog:
    """Lets the first lines of each window through.

    Args:
        logger: Where to.
        left_out: The line for the others, with two numbers: how many, and of how many seconds.
    """

    def __init__(self, logger: logging.Logger, left_out: str) -> None:
        self._logger = logger
        self._left_out = left_out
        self._lock = threading.Lock()  # guards the rest
        self._window_begin_ms = 0
        self._told = 0
        self._untold = 0

    def log(self, now_ms: int, level: int, text: str, *arguments: object) -> None:
        """Write a line, or count it.

        Args:
            now_ms: Monotonic time of the call.
            level: Of the line.
            text: The line, with places for `arguments`.
            arguments: What stands there.
        """
        untold = 0
        with self._lock:
            if now_ms - self._window_begin_ms >= WINDOW_MS or not self._told:
                untold = self._untold
                self._window_begin_ms, self._told, self._untold = now_ms, 0, 0
            is_told = self._told < LINES
            self._told += is_told
            self._untold += not is_told
        if untold:
            self._logger.warning(self._left_out, untold, WINDOW_MS // 1000)
        if is_told:
            self._logger.log(level, text, *arguments)


def flood_log_of_frames(logger: logging.Logger) -> FloodLog:
    """Return where connections are told that sent what nobody can read, or could not prove who they are."""
    return FloodLog(logger, "Closed %d more connections within %d s that sent nonsense or could not log in")
