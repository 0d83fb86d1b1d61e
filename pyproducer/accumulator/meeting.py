"""What concurrent.futures.wait() and as_completed() install themselves in, for one record's future.

They read three private attributes of a concurrent.futures.Future: `_condition`, `_state`, `_waiters`, which have been
the same from Python 3.2 to 3.14. A record's future has none of its own: most are never waited for together, so there
is a meeting only for those that are, among the future's done callbacks, also after these ran.

Road:    wait(), as_completed() -> [meeting] <- the record's outcome
Thread:  any; `condition` guards the rest.
Source:  concurrent.futures._base; ours.
"""

from __future__ import annotations

import threading
from typing import Any

PENDING, FINISHED = "PENDING", "FINISHED"


class Meeting:
    """Who waits for a future among others; as a done callback it tells them.

    Args:
        is_done: Whether the outcome was decided before.
    """

    __slots__ = ("condition", "their_state", "waiters")

    def __init__(self, *, is_done: bool) -> None:
        self.condition = threading.Condition(threading.RLock())  # callers hold several, in order of the futures' ids
        self.their_state = FINISHED if is_done else PENDING
        self.waiters: list[Any] = []

    def __call__(self, future: Any) -> None:
        """Tell who waits, once."""
        is_failed = future._result.error_for is not None
        with self.condition:
            if self.their_state == FINISHED:
                return
            self.their_state = FINISHED
            for waiter in self.waiters:
                if is_failed:
                    waiter.add_exception(future)
                else:
                    waiter.add_result(future)
            self.condition.notify_all()
