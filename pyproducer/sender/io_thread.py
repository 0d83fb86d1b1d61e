"""The one background thread of a producer: it loops, everything below it steps.

Road:    beside it.
Thread:  this is the sender thread.
Source:  Java Sender.run, KafkaThread (4.1).
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from pyproducer.accumulator.record_accumulator import RecordAccumulator
from pyproducer.common.errors import ProducerClosedError
from pyproducer.sender.turns import SenderTurns

if TYPE_CHECKING:
    from pyproducer.client.kafka_client import KafkaClient

log = logging.getLogger(__name__)

# After an error that nobody expected: long enough not to fill a log, short enough to be a hiccup.
_PAUSE_AFTER_BUG_SECONDS = 0.1


class IoThread:
    """Runs the sender until it is told to close; then sends what was accepted, and ends."""

    def __init__(self, turns: SenderTurns, client: KafkaClient, accumulator: RecordAccumulator,
                 client_id: str) -> None:
        self._turns = turns
        self._client = client
        self._accumulator = accumulator
        self._is_closing = False  # written by any thread, read by the loop
        self._is_forced = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"kafka-producer-network-thread | {client_id}",
                                        daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def initiate_close(self) -> None:
        """Refuse new records; send those that were accepted, then end."""
        self._accumulator.close()
        self._is_closing = True
        self._turns.stop()

    def force_close(self) -> None:
        """End now; records that are not done fail."""
        self._is_forced.set()
        self.initiate_close()

    def join(self, timeout: float | None) -> bool:
        """Wait for the thread's end; False when `timeout` seconds passed first."""
        self._thread.join(timeout)
        return not self._thread.is_alive()

    @property
    def is_current(self) -> bool:
        """Whether the caller is in a callback: on this thread, or on its own while it takes the sender's turns."""
        return threading.current_thread() is self._thread or self._turns.is_mine

    @property
    def is_alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    def _run(self) -> None:
        log.debug("The sender thread starts")
        while not self._is_closing:
            self._turn()
        while not self._is_forced.is_set() and self._accumulator.has_incomplete():
            self._turn()
        self._client.close()
        error = ProducerClosedError("The producer was closed before the record was acknowledged")
        aborted = self._accumulator.abort_batches(error)
        if aborted:
            log.warning("close() gave up on %d records that were not acknowledged in time", aborted)
        log.debug("The sender thread ends")

    def _turn(self) -> None:
        try:
            self._turns.take_one()
        except Exception:
            # Java's rule: a bug in one turn must not kill the producer silently; the records stay accepted and are
            # failed by delivery.timeout.ms at the latest.
            log.exception("Uncaught error in the sender thread")
            self._is_forced.wait(_PAUSE_AFTER_BUG_SECONDS)
