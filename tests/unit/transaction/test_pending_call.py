"""A call that waits for the end of what it asked for."""

from __future__ import annotations

import threading
from typing import Any

from pyproducer.transaction.pending_call import PendingCall


def test_wait_when_the_outcome_comes_between_the_look_and_the_line_then_nobody_sleeps() -> None:
    """Who rings does not ring for those who enter the line later."""
    call = PendingCall("commit_transaction()", threading.Lock)
    waiters: Any = call._waiters
    slept: list[object] = []

    class Settling:
        """The sender settles the call just before its caller is in the line."""

        def enter(self) -> Any:
            call.settle(value=7)
            return waiters.enter()

        def ring(self) -> None:
            waiters.ring()

    def sleep(cell: object) -> bool:
        slept.append(cell)
        return False

    call._waiters = Settling()  # type: ignore[assignment]
    assert call.wait(sleep)
    assert (slept, call.value, call.error) == ([], 7, None)
