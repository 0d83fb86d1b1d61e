"""Batches that were refused, told to who runs the broker: mostly the one whose producer it is.

Road:    Produce -> [refusal log] -> logging
Thread:  handler threads; one lock.
Source:  ours.
"""

from __future__ import annotations

import logging
import threading

from pyproducer.common.error_code import ErrorCode
from pyproducer.common.printable import printable

_logger = logging.getLogger(__name__)
# So many lines in so long a time; a producer that is refused sends its next batch at once.
LINES = 10
WINDOW_MS = 10_000
# The usual course of things between transactions, and between large batches: the same batch is taken a moment later.
_NOT_YET = (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.CONCURRENT_TRANSACTIONS)


class RefusalLog:
    """Tells some refused batches and counts the others."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # guards the rest
        self._window_begin_ms = 0
        self._told = 0
        self._untold = 0

    def refused(self, place: object, client_id: str | None, error_code: ErrorCode, why: str, *, now_ms: int) -> None:
        """Tell that a batch was refused: a warning, unless the client only has to try again.

        Args:
            place: The partition.
            client_id: Whose batch.
            error_code: What is answered.
            why: What is wrong, in more words than the answer has.
            now_ms: Monotonic time of the call.
        """
        level = logging.INFO if error_code in _NOT_YET else logging.WARNING
        with self._lock:
            if now_ms - self._window_begin_ms >= WINDOW_MS:
                if self._untold:
                    _logger.warning("Refused %d more batches within %d s", self._untold, WINDOW_MS // 1000)
                self._window_begin_ms, self._told, self._untold = now_ms, 0, 0
            is_told = self._told < LINES
            self._told += is_told
            self._untold += not is_told
        if is_told:
            _logger.log(level, "Refused a batch of client %s for %s with %s: %s", printable(client_id or ""), place,
                        error_code.name, why)
