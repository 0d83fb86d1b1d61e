"""What concurrent.futures.wait() and as_completed() install themselves in, for one future of a record or of columns.

They read three private attributes of a concurrent.futures.Future: `_condition`, `_state`, `_waiters`, which have been
the same from Python 3.2 to 3.14. Ours have none of their own: most are never waited for together, so there is one
of these for each that is. That of a record is among its done callbacks, also after these ran.

Road:    wait(), as_completed() -> [concurrent state] <- the record's outcome, or that of all rows
Thread:  any; `condition` guards the rest.
Source:  concurrent.futures._base; ours.
"""

from __future__ import annotations

import threading
from typing import Any

from pyproducer.accumulator.life import Life

PENDING, FINISHED = "PENDING", "FINISHED"


class ConcurrentState:
    """What they look at, and who waits for the future; as a record's done callback it notifies them.

    Args:
        is_done: Whether the outcome was decided before.
        life: The producer's: it knows where nobody would tell who waits.
    """

    __slots__ = ("_is_told", "_life", "_told", "condition", "waiters")

    def __init__(self, *, is_done: bool, life: Life) -> None:
        # Callers hold several, in order of the futures' ids.
        self.condition: threading.Condition = threading.Condition(threading.RLock())
        self.waiters: list[Any] = []
        self._is_told = is_done
        self._told: list[Any] = []  # of the waiters, while they are told
        self._life = life

    @property
    def name(self) -> str:
        """Whether it is done, for who is about to wait.

        He is refused here, not where he asks for `condition`: by now he has acquired all, and what is raised releases
        them. Before, those of other futures, an executor's too, would stay locked for ever.

        Raises:
            IllegalStateError: It is not done, and this is a callback, which would wait for itself.
            ForkedProducerError: It is not done, and this is a child process: nobody would tell.
        """
        if self._is_told:
            return FINISHED
        self._life.ensure_may_wait("concurrent.futures.wait()")
        return PENDING

    def __call__(self, future: Any) -> None:
        """Tell who waits for a record."""
        self.tell(future, is_failed=future._result.error_for is not None)

    def tell(self, future: Any, *, is_failed: bool) -> None:
        """Tell who waits, each once; again, after an exception half way, is no error."""
        with self.condition:
            if self._is_told:
                return
            for waiter in self.waiters:
                if waiter in self._told:
                    continue
                if is_failed:
                    waiter.add_exception(future)
                else:
                    waiter.add_result(future)
                self._told.append(waiter)
            self.condition.notify_all()
            self._is_told = True
            self._told = []
