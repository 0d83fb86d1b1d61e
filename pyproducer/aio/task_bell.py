"""What is rung, from any thread, to wake a task: a bell in the place of the cell that a thread sleeps in.

Road:    beside it; a BufferPool's Place, or what callers of flush() and of transactions wait for, rings it.
Thread:  made and awaited in the event loop; rung from any.
Source:  ours.
"""

from __future__ import annotations

import asyncio
from asyncio import get_running_loop

from pyproducer.common.loop_inbox import LoopInbox


class TaskBell:
    """What the buffer pool rings when memory came back: wakes the task that waits first; see BufferPool.

    Attributes:
        rung: Done when it was rung.
    """

    __slots__ = ("__weakref__", "_inbox", "_is_closed", "rung")

    def __init__(self, inbox: LoopInbox) -> None:
        self._inbox = inbox
        self._is_closed = True
        self.rung: asyncio.Future[None] = get_running_loop().create_future()

    def locked(self) -> bool:
        """Whether it was not rung."""
        return self._is_closed

    def release(self) -> None:
        """Ring it, from any thread."""
        self._is_closed = False
        self._inbox.put(self.ring)

    def ring(self) -> None:
        """Ring it, in the loop."""
        if not self.rung.done():
            self.rung.set_result(None)

    def rearm(self) -> None:
        """Forget what rang before."""
        self.rung = get_running_loop().create_future()
        self._is_closed = True
