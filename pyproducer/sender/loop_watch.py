"""An event loop watches the sender's sockets, all in one: what asks the system about them is a descriptor itself.

    event loop's select                        the sender's
      its own sockets
      a copy of the sender's descriptor -----> wakeup, broker 1, broker 2, ...

So a loop that took a turn of the sender's, and sent a record, is told of the answer as of anything else that it waits
for. While the sender's thread has the role it reads the sockets; then the loop is told for nothing, once, and looks no
more until its next turn.

The copy is the loop's to close: what it watches has to stay open until it does not watch it any more.

Road:    answers -> [watch] -> turns.py
Thread:  the loop's; `end` the sender thread's.
Source:  ours. epoll and kqueue can be watched by another of their kind; elsewhere there is no such descriptor, and the
         sender's thread does all.
"""

from __future__ import annotations

import os
import select
from collections.abc import Callable
from typing import Any, Protocol

from pyproducer.common.loop_inbox import LoopInbox

# Either kind closes its descriptor with its last reference, as a loop's that was closed.
_COPY: Any = getattr(select, "epoll", None) or getattr(select, "kqueue", None)


class Client(Protocol):
    """What is watched."""

    def fileno(self) -> int:
        """Return the descriptor; -1 where there is none."""


class HasClient(Protocol):
    """Who has the present client."""

    @property
    def client(self) -> Client:
        """The one of now; another one when a turn ended half way."""


class LoopWatch:
    """Has one event loop call when a broker may have answered.

    Args:
        wire: Has the client.

    Attributes:
        is_possible: Whether `begin` may be of use; written here only.
    """

    def __init__(self, wire: HasClient) -> None:
        self._wire = wire
        self._inbox: LoopInbox | None = None  # of the loop that watches, or rests
        self._client: Client | None = None  # of which the copy is
        self._copy: Any = None
        self._is_watching = False
        self.is_possible: bool = _COPY is not None

    def begin(self, inbox: LoopInbox, on_readable: Callable[[LoopInbox], None]) -> bool:
        """Watch; where it does so already, go on. False where that is not possible.

        The caller has the role, so that nobody closes the client meanwhile.

        Args:
            inbox: Of the loop that calls this.
            on_readable: Called with it in the loop, when there is something to read, and again until that was read.
        """
        client = self._wire.client
        if self._is_watching and client is self._client and inbox is self._inbox:
            return True
        if not self.is_possible:
            return False
        try:
            self.rest()
            if client is not self._client:
                self._client = self._copy = None
                descriptor = client.fileno()
                if descriptor < 0:
                    self.is_possible = False
                    return False
                self._copy = _COPY.fromfd(os.dup(descriptor))
                self._client = client
            self._inbox = inbox
            loop = inbox.loop
            assert loop is not None, "it runs"
            loop.add_reader(self._copy, on_readable, inbox)
            self._is_watching = True  # last: after Ctrl-C in between the next `begin` does it again
        except (NotImplementedError, OSError):  # not every loop can; there may be no more descriptors
            self.is_possible = False
            return False
        return True

    def rest(self) -> None:
        """Watch no more, until `begin`. From the loop."""
        inbox, copy = self._inbox, self._copy
        loop = None if inbox is None else inbox.loop
        self._is_watching = False
        if copy is not None and loop is not None and not loop.is_closed():
            loop.remove_reader(copy)  # does nothing where it is not watched

    def end(self) -> None:
        """Have the loop watch no more, for good: the sockets are about to be closed. From any thread."""
        self.is_possible = False
        inbox = self._inbox
        loop = None if inbox is None else inbox.loop
        if inbox is None or loop is None or loop.is_closed():
            self._forget()
        else:
            inbox.put(self._forget)

    def _forget(self) -> None:
        self.rest()
        self._client = self._copy = None
