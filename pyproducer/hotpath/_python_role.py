"""Who takes the sender's turns now: its own thread, or for one step a caller who waits for his record.

    the thread's  --stand_aside-->  free  --run-->  a caller's
         ^                           | ^                |
         +---------take_back---------+ +----------------+

An exception from outside (Ctrl-C, an alarm) may end a caller between any two lines of Python. Compiled, `run` gives the
role back in the same call that took it, and nothing comes between; this text cannot promise that, so where it runs the
thread never stands aside.

Road:    beside it.
Thread:  `run` any caller; `ring` any; the rest the sender thread.
Source:  ours (Java always hands over). Imports nothing of ours.
"""

from __future__ import annotations

from _thread import LockType, get_ident
from collections.abc import Callable
from typing import Any

IS_SAFE = False
"""Whether nothing from outside can end `run` half way."""


class Role:
    """The right to take the sender's turns; it begins as the thread's.

    Attributes:
        is_free: Whether the next caller may have it. Written here only.
        caller: The ident of the thread that takes a step as a caller, 0 where none does. Written here only.
        step_count: How many steps callers took. Written here only.
        is_torn: Whether a step of a caller ended by an exception; who recovers sets it back.
        bell: The cell in which the thread sleeps while it stands aside, or None.
    """

    __slots__ = ("bell", "caller", "is_free", "is_torn", "step_count")

    def __init__(self) -> None:
        self.is_free = False
        self.caller = 0
        self.step_count = 0
        self.is_torn = False
        self.bell: LockType | None = None

    def run(self, step: Callable[[Any, Any], bool], outcome: Any, deadline_ms: Any) -> bool:
        """Take one step as a caller, if the role is free; the thread is rung unless the step says that all is done.

        Args:
            step: Called with the other two; says whether the thread has nothing to do.
            outcome: What the caller waits for.
            deadline_ms: Until when.

        Returns:
            Whether the step was taken and all is done.

        Raises:
            BaseException: Whatever ended the step, which the thread recovers from.
        """
        if not self.is_free:
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
            if not is_all_done:
                self.ring()
        return is_all_done

    def ring(self) -> None:
        """Wake the thread, if it stands aside."""
        bell = self.bell
        if bell is not None and bell.locked():
            bell.release()

    def stand_aside(self, bell: LockType) -> None:
        """Give the role to the next caller, or leave it to the one who has it; the thread sleeps in `bell`.

        Args:
            bell: A cell, closed.
        """
        self.bell = bell
        if not self.caller:
            self.is_free = True

    def take_back(self) -> bool:
        """Take the role for the thread; False while a caller has it."""
        if self.caller:
            return False
        self.is_free = False
        self.bell = None
        return True
