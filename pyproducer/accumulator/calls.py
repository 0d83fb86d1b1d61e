"""Calls in the middle of others: each thread's is noted, and a second one of the same thread is refused.

A signal's handler, or a finalizer, may come in the middle of a call of a producer, and call it again on the same
thread. What it interrupted has a lock, or a place among those who wait, and goes on only when it returns. So each call
that takes a lock or waits goes through `run`, which notes it for its thread and refuses it where the thread is noted.
What send() calls of the application's (interceptors, serializers, a partitioner) is not inside, nor is a callback.

Road:    beside it; whatever takes locks or waits for a caller.
Thread:  any; each writes its own note.
Source:  ours; Java has no handlers that come in the middle.
"""

from __future__ import annotations

import threading
from _thread import LockType, RLock, allocate_lock
from collections.abc import Callable
from typing import Any, TypeVar

from pyproducer.common.errors import IllegalStateError
from pyproducer.common.waiting import is_owned

T = TypeVar("T")


class Calls:
    """The calls of one producer that threads are in the middle of.

    Args:
        futures_lock: What is done with futures is not noted, for it may be asked for in a call; who has this lock is in
            the middle of it.

    Attributes:
        inside: By ident the threads that are in the middle of a call, while they have the lock. Written here only.
    """

    def __init__(self, futures_lock: RLock) -> None:
        self.inside: dict[int, LockType] = {}
        self._futures_lock = futures_lock

    def run(self, call: str, step: Callable[..., T], *arguments: Any) -> T:
        """Do what a call does that takes locks, or waits, and note meanwhile that the current thread is inside.

        It is so while it has the lock that is noted, which is its alone: that is taken and released by `with`, in one
        step for whatever comes from outside.

        Args:
            call: Its name, for the error.
            step: What it does.
            arguments: The step's.

        Raises:
            IllegalStateError: The thread is inside: this is a signal's handler, a finalizer. Nothing was sent.
        """
        self.ensure_not_nested(call)
        ident, note = threading.get_ident(), allocate_lock()
        try:
            with note:
                self.inside[ident] = note  # now: a note that nobody has is taken for one that was left
                return step(*arguments)
        finally:
            self.inside.pop(ident, None)

    @property
    def is_nested(self) -> bool:
        """Whether the current thread is in a signal's handler, or a finalizer, in the middle of a call."""
        ident = threading.get_ident()
        note = self.inside.get(ident)
        if note is not None:
            if note.locked():
                return True
            self.inside.pop(ident, None)  # who was interrupted twice did not
        return is_owned(self._futures_lock)

    def ensure_not_nested(self, call: str) -> None:
        """Do nothing where the current thread is in no call.

        Args:
            call: Its name, for the error.

        Raises:
            IllegalStateError: It is in one: see `is_nested`. Nothing was sent.
        """
        if self.is_nested:
            raise self.nested(call)

    def forget_others(self) -> None:
        """In a child process: only the current thread is here, and one that begins may get an ident of another's."""
        own = self.inside.pop(threading.get_ident(), None)
        self.inside.clear()
        if own is not None:
            self.inside[threading.get_ident()] = own

    @staticmethod
    def nested(call: str) -> IllegalStateError:
        """Return the error for a call out of a signal's handler, or a finalizer, in the middle of a call of ours."""
        return IllegalStateError(f"{call} was called in the middle of another call of this producer, by a signal's "
                                 "handler or a finalizer on the same thread, and would wait for what it interrupted: "
                                 "set a flag there, and act on it in the main program")
