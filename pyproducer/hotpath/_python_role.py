# cython: language_level=3, freethreading_compatible=True, annotation_typing=False
"""Who takes the sender's turns now: its own thread, or for one step a caller who waits for his record.

    the thread's  --stand_aside-->  free  --run-->  a caller's
         ^                           | ^                |
         +---------take_back---------+ +----------------+

One text. Interpreted it is this file; compiled it is _native_role, made of the same file with the types that
_native_role.pxd declares. An exception from outside (Ctrl-C, an alarm) may end a caller between any two lines of
Python. Compiled, `run` gives the role back in the same call that took it, and nothing comes between; interpreted it
cannot promise that, so there the thread never stands aside (hotpath.ROLE_IS_SAFE).

Road:    beside it.
Thread:  `run` any caller; `ring` any; the rest the sender thread.
Source:  ours (Java always hands over). Imports nothing of ours.
"""

from __future__ import annotations

from _thread import LockType, get_ident
from collections.abc import Callable
from typing import Any


class Role:
    """The right to take the sender's turns; it begins as the thread's.

    Attributes:
        is_free: Whether the next caller may have it. Written here only.
        caller: The ident of the thread that takes a step as a caller, 0 where none does. Written here only.
        is_called: Whether somebody rang, and the thread is not back yet. Written here only.
        step_count: How many steps callers took. Written here only.
        is_torn: Whether a step of a caller ended by an exception; who recovers sets it back.
        rings_at_end: Whether the end of the present step wakes the thread in any case, without calling it: the thread's
            wish, while it stands aside.
        bell: The cell in which the thread sleeps while it stands aside, or None. Written here only.
    """

    __slots__ = ("bell", "caller", "is_called", "is_free", "is_torn", "rings_at_end", "step_count")

    def __init__(self) -> None:
        self.is_free: bool = False
        self.caller: int = 0
        self.is_called: bool = False
        self.step_count: int = 0
        self.is_torn: bool = False
        self.rings_at_end: bool = False
        self.bell: LockType | None = None

    def run(self, step: Callable[[Any, Any], bool], outcome: Any, deadline_ms: Any) -> bool:
        """Take one step as a caller, if the role is free; the thread is rung unless the step says that all is done.

        Whoever rang is served first: from then on nobody takes a step before the thread was back. After an exception,
        too, so that nobody goes on from what it left before the thread has recovered.

        Args:
            step: Called with the other two; says whether the thread has nothing to do.
            outcome: What the caller waits for.
            deadline_ms: Until when.

        Returns:
            Whether the step was taken and all is done.

        Raises:
            BaseException: Whatever ended the step, which the thread recovers from.
        """
        if not self.is_free or self.is_called:
            return False
        self.is_free = False
        self.caller = get_ident()
        self.step_count += 1
        is_all_done = False
        try:
            is_all_done = step(outcome, deadline_ms) is True
        except BaseException:
            self.is_torn = True
            raise
        finally:
            self.caller = 0
            self.is_free = True
            if not is_all_done or self.is_called:
                self.ring()
            elif self.rings_at_end:
                self._open()
        return is_all_done

    def ring(self) -> None:
        """Call the thread, if it stands aside: from now on no step begins until it is back."""
        if self.bell is not None:
            self.is_called = True
            self._open()

    def _open(self) -> None:
        bell = self.bell
        if bell is not None and bell.locked():
            bell.release()

    def stand_aside(self, bell: LockType) -> None:
        """Give the role to callers; the thread sleeps in `bell`.

        Args:
            bell: A cell, closed.
        """
        self.bell = bell
        self.is_free = True

    def take_back(self) -> bool:
        """Take the role for the thread; False while a caller has it."""
        if self.caller:
            return False
        self.is_free = False
        self.is_called = False
        self.rings_at_end = False
        self.bell = None
        return True
