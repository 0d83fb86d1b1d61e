"""What a producer knows of the event loop that sends with it: in its thread nothing may wait.

Road:    beside it; aio.py writes, what would wait for memory or an outcome asks.
Thread:  written by the loop's; read by any.
Source:  ours; Java has no event loops.
"""

from __future__ import annotations

import threading

from pyproducer.common.loop_inbox import LoopInbox

_NOBODY = 0


class LoopSide:
    """The event loop of one producer, if it has one.

    Attributes:
        ident: The ident of the thread in which it runs, or 0.
        inbox: What brings calls into it, or None: there done callbacks run.
        bell: What the task waits in whose record that thread hands over now, or None: it keeps its place in the line
            for memory from one try to the next.
        deadline_ms: Until when that record may wait, by the clock; or None.
    """

    def __init__(self) -> None:
        self.ident: int = _NOBODY
        self.inbox: LoopInbox | None = None
        self.bell: object | None = None
        self.deadline_ms: int | None = None

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
