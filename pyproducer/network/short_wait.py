"""A wait for one answer that keeps the interpreter, where answers come within a moment.

Who sleeps in select gives up the interpreter and its processor. To get them back takes as long as a near broker's
whole answer, and beside a thread that computes 5 ms, the switch interval. So a caller who waits for the only batch on
its way looks at the socket for up to a millisecond before it sleeps: a fifth of what any thread may compute before
another one gets the interpreter.

Where brokers take longer this only costs, so waits in vain may take a tenth of the time at most, and a hundredth once
eight in a row were in vain: that broker is far away, or in this process, where it cannot answer while we look.

Road:    Interest.select -> [short wait] -> hotpath
Thread:  the thread that polls the selector.
Source:  ours.
"""

from __future__ import annotations

import os
import socket
import time

from pyproducer.hotpath import becomes_readable

LONGEST_US = 1_000
# Credit for waits in vain, in us: a tenth of the time that passes, and no more than this is saved up.
MOST_CREDIT_US = 20_000
TIME_PER_CREDIT = 10
MANY_IN_VAIN = 8
FAR_PRICE_US = 10 * LONGEST_US


def _has_several_processors() -> bool:
    """Whether a broker on this machine can work while we look."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0)) > 1
    return (os.cpu_count() or 1) > 1


class ShortWait:
    """Waits for an answer, as long as that is worth it."""

    __slots__ = ("_counted_us", "_credit_us", "_in_vain_count", "_is_possible")

    def __init__(self) -> None:
        self._is_possible = becomes_readable is not None and _has_several_processors()
        self._credit_us = MOST_CREDIT_US
        self._counted_us = 0  # up to when time was turned into credit
        self._in_vain_count = 0  # waits in vain in a row

    def is_enough(self, sock: socket.socket, timeout_ms: int) -> bool:
        """Wait for a moment, not above the timeout; return whether the socket can be read now (False: sleep)."""
        if not self._is_possible:
            return False
        price_us = LONGEST_US if self._in_vain_count < MANY_IN_VAIN else FAR_PRICE_US
        if self._credit_us < price_us:
            self._earn()
            if self._credit_us < price_us:
                return False
        if becomes_readable(sock.fileno(), min(LONGEST_US, timeout_ms * 1000)):
            self._in_vain_count = 0
            return True
        self._in_vain_count += 1
        self._earn()  # first: time that passed while the credit was full must not fill it again
        self._credit_us -= price_us
        return False

    def _earn(self) -> None:
        now_us = time.monotonic_ns() // 1000
        self._credit_us = min(self._credit_us + (now_us - self._counted_us) // TIME_PER_CREDIT, MOST_CREDIT_US)
        self._counted_us = now_us
