"""Wakes a thread that sleeps in select, from any other thread, for one byte at most.

Road:    KafkaProducer.send, handler threads -> [wakeup] -> Selector.poll
Thread:  `wakeup` from any; the rest from the thread that polls.
Source:  Java java.nio Selector.wakeup; ours: the byte is only written while the thread sleeps.

No wakeup is lost. W wakes, after it put its work where P, the polling thread, looks for it when poll has returned:

    P: is_sleeping = True                      W: is_requested already True -> returns
    P: is_requested? then do not sleep         W: is_requested = True
    P: select()                                W: is_sleeping? then write a byte
    P: is_sleeping = False
    P: drain the bytes, is_requested = False
    P: returns, and looks at its work

  * W sets is_requested before P asks: P does not sleep.
  * W sets it after P asked: is_sleeping was True before that, so W writes a byte and select returns.
  * W sets it after select has returned but before P clears it: the work was put before, and P looks after. The byte,
    if W saw is_sleeping, is drained or wakes the next select for nothing: harmless.
  * W finds it True and returns: whoever set it did one of the above, and P has not cleared it yet, so P's look at the
    work comes after W's.
  * P drains before it clears. The other way round a byte written in between would be eaten while is_requested stays
    True: every later W would return at once, and nobody would ever write a byte again.

Each of the two writes its flag before it reads the other's; that needs memory in program order, which the GIL gives.
"""

from __future__ import annotations

import socket


class Wakeup:
    """A socket pair and two flags.

    Attributes:
        receiver: To be watched for reading while the thread sleeps.
        is_sleeping: Whether the polling thread is about to sleep, or sleeps. Written by that thread only.
        is_requested: Whether somebody wants the next poll not to sleep. Taken back by the polling thread.
    """

    __slots__ = ("_sender", "is_requested", "is_sleeping", "receiver")

    def __init__(self) -> None:
        self.receiver: socket.socket
        self.receiver, self._sender = socket.socketpair()
        self.receiver.setblocking(False)
        self._sender.setblocking(False)
        self.is_requested: bool = False
        self.is_sleeping: bool = False

    def wakeup(self) -> None:
        """End the sleep of the polling thread, or its next one. Thread: any."""
        if self.is_requested:
            return
        self.is_requested = True
        if self.is_sleeping:
            try:
                self._sender.send(b"\0")
            except OSError:
                pass  # full: bytes enough are on their way; closed: nobody sleeps there any more

    def acknowledge(self) -> None:
        """Take back what was requested so far: who polls looks at all work before it polls. Thread: the polling one."""
        self.is_requested = False

    def drain(self) -> None:
        """Read the bytes, when the receiver was readable. Thread: the polling one."""
        try:
            self.receiver.recv(4096)
        except BlockingIOError:
            pass  # announced and not there: nothing to drain

    def close(self) -> None:
        """Close both ends."""
        self.receiver.close()
        self._sender.close()
