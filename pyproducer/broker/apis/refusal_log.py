"""Batches that were refused, told to who runs the broker: mostly the one whose producer it is.

Road:    Produce -> [refusal log] -> flood log
Thread:  handler threads.
Source:  ours.
"""

from __future__ import annotations

import logging

from pyproducer.broker.network.flood_log import FloodLog
from pyproducer.common.error_codes import ErrorCode
from pyproducer.common.printable import printable

_logger = logging.getLogger(__name__)
# The usual course of things between transactions, and between large batches: the same batch is taken a moment later.
_NOT_YET = (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
            ErrorCode.CONCURRENT_TRANSACTIONS)


class RefusalLog:
    """Tells some refused batches and counts the others."""

    def __init__(self) -> None:
        self._lines = FloodLog(_logger, "Refused %d more batches within %d s")

    def refused(self, place: object, client_id: str | None, error_code: ErrorCode, why: str, *, now_ms: int) -> None:
        """Tell that a batch was refused: a warning, unless the client only has to try again.

        Args:
            place: The partition.
            client_id: Whose batch.
            error_code: What is answered.
            why: What is wrong, in more words than the answer has.
            now_ms: Monotonic time of the call.
        """
        self._lines.log(now_ms, logging.INFO if error_code in _NOT_YET else logging.WARNING,
                        "Refused a batch of client %s for %s with %s: %s", printable(client_id or ""), place,
                        error_code.name, why)
