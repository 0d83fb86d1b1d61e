"""What a producer knows of the event loop that sends with it: in its thread nothing may wait.

Road:    beside it; aio/ writes, what would wait for memory or an outcome asks.
Thread:  written by the loop's; read by any.
Source:  ours; Java has no event loops.
"""

from __future__ import annotations

import threading
from typing import Any, NamedTuple

from pyproducer.common.loop_inbox import LoopInbox

_NOBODY = 0


class BatchBeginning(NamedTuple):
    """How a send_batch() began, which may have to wait for others before it is on its way.

    Attributes:
        within: The transaction of all its rows; None without transactions.
        timestamp_ms: The time of rows that have none, since the Unix epoch.
        deadline_ms: Until when it may wait, by the clock.
    """

    within: Any
    timestamp_ms: int
    deadline_ms: int


class LoopSide:
    """The event loop of one producer, if it has one.

    Attributes:
        ident: The ident of the thread in which it runs, or 0.
        inbox: What brings calls into it, or None: there done callbacks run.
        batch: How the send_batch() of a task began that is on its thread now; or None.
    """

    def __init__(self) -> None:
        self.ident: int = _NOBODY
        self.inbox: LoopInbox | None = None
        self.batch: BatchBeginning | None = None

    @property
    def is_here(self) -> bool:
        """Whether it runs in the current thread, which nothing may hold up then."""
        if self.ident == _NOBODY or threading.get_ident() != self.ident:
            return False
        inbox = self.inbox
        return inbox is not None and inbox.loop_runs

    def leave(self) -> None:
        """In a child process: its thread is not here, or runs no loop that would go on."""
        self.ident = _NOBODY
