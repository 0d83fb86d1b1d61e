"""A call that waits for the end of what it asked for."""

from __future__ import annotations

import sys
import threading
from types import FrameType
from typing import Any

from pyproducer.common.errors import KafkaError
from pyproducer.transaction.pending_call import PendingCall


def test_wait_when_the_outcome_comes_between_the_look_and_the_line_then_nobody_sleeps() -> None:
    """Who rings does not ring for those who enter the line later."""
    call = PendingCall("commit_transaction()", threading.Lock)
    waiters: Any = call.waiters
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

    call.waiters = Settling()  # type: ignore[assignment]
    assert call.wait(sleep)
    assert (slept, call.value, call.error) == ([], 7, None)


def test_settle_when_another_thread_does_so_at_any_line_then_one_of_both_counts_as_a_whole() -> None:
    """prepare_transaction() returned None: the error of one, none, and the value of the other."""
    error = KafkaError("the other one")
    seen: set[tuple[str, object]] = set()
    for line in range(20):
        call = PendingCall("prepare_transaction()", threading.Lock)
        left = line

        def trace(frame: FrameType, event: str, _argument: object, call: PendingCall = call) -> Any:
            nonlocal left
            if frame.f_code is not PendingCall.settle.__code__:
                return None
            if event == "line":
                left -= 1
                if left == -1:
                    sys.settrace(None)
                    call.settle(error)  # as another thread, which the first one knows nothing of
            return trace

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            call.settle(value=7)
        finally:
            sys.settrace(before)
        seen.add((type(call.error).__name__, call.value))
    assert seen == {("NoneType", 7), ("KafkaError", None)}


def test_settle_when_it_is_done_again_then_the_first_time_counts() -> None:
    call = PendingCall("commit_transaction()", threading.Lock)
    assert (call.is_set, call.error, call.value) == (False, None, None)
    call.settle(value=7)
    call.settle(KafkaError("late"))
    assert (call.is_set, call.error, call.value) == (True, None, 7)
