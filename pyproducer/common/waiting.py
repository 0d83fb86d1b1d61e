"""How one thread waits for another: each in a cell of its own, which whoever has news opens.

    waiters = Waiters()
    cell = waiters.enter()                      # 1. be there to be rung
    if not happened:                            # 2. look: what happened before 1 rang nobody
        clock.wait(cell, timeout)               # 3. sleep; the only call that blocks a caller
    ...
    happened = True; waiters.ring()             # the other thread: write it down first, ring then

Nothing is shared but the set of cells, which changes by single steps of C. So an exception from outside (Ctrl-C, an
alarm) that ends a wait at any line leaves nothing locked: a Condition or an Event may be left with its lock taken, and
then whoever has the news sleeps for ever. A cell whose waiter is gone is gone from the set, too.

Road:    beside it.
Thread:  any.
Source:  ours; Java parks its threads.
"""

from __future__ import annotations

import threading
import weakref
from _thread import LockType, RLock, allocate_lock
from collections.abc import Callable
from typing import NamedTuple

LONGEST_WAIT_S = threading.TIMEOUT_MAX
"""CPython's locks raise OverflowError above it: 292 years on Linux, 49 days on Windows. Java waits 2**63 - 1 ms."""
Cell = LockType
"""A lock that is taken: it opens by being released, once."""


def new_cell() -> Cell:
    """Return a cell, closed."""
    cell = allocate_lock()
    cell.acquire()
    return cell


class Locks(NamedTuple):
    """What makes the locks and cells of a producer.

    Attributes:
        lock: Makes a lock.
        rlock: Makes one that its owner may take again, and that can be asked whether this very thread has it.
        cell: Makes a cell, closed.
    """

    lock: Callable[[], LockType] = allocate_lock
    rlock: Callable[[], RLock] = threading.RLock
    cell: Callable[[], Cell] = new_cell


SYSTEM_LOCKS = Locks()


def is_owned(lock: RLock) -> bool:
    """Whether the current thread has a lock."""
    return bool(lock._is_owned())  # type: ignore[attr-defined]  # threading.Condition asks it, too


def release_in_child(lock: RLock) -> None:
    """In a child process: release a lock that another thread held at the fork, for none of the others is here.

    What the thread that forked holds itself stays held: it goes on where it was, in the middle of a send() perhaps.
    """
    if is_owned(lock):
        return
    try:
        # As that thread's own release: who waits for the lock here, because his signal's handler forked, gets it.
        lock._release_save()  # type: ignore[attr-defined]  # threading.Condition calls it, too
    except RuntimeError:  # nobody has it; or this Python lets none but its owner release it
        lock._at_fork_reinit()  # type: ignore[attr-defined]  # threading calls it of its own locks


class Waiters:
    """Those who wait for one thing.

    Args:
        make_cell: See Locks.
    """

    __slots__ = ("_cells", "_make_cell")

    def __init__(self, make_cell: Callable[[], Cell] = new_cell) -> None:
        self._make_cell = make_cell
        self._cells: set[weakref.ref[Cell]] = set()

    def __len__(self) -> int:
        return len(self._cells)

    def enter(self, own: Cell | None = None) -> Cell:
        """Return a cell that the next ring opens. Look whether the thing happened meanwhile before waiting in it.

        Args:
            own: The caller's own, as what rings an event loop; a new one unless given.
        """
        cell = self._make_cell() if own is None else own
        self._cells.add(weakref.ref(cell, self._cells.discard))
        return cell

    def leave(self, cell: Cell) -> None:
        """Have a cell not opened, whose caller waits no more; again is no error."""
        self._cells.discard(weakref.ref(cell))

    def ring(self) -> None:
        """Open the cells of all who wait, once."""
        while self._cells:
            try:
                cell = self._cells.pop()()
            except KeyError:
                return  # somebody else rings, too, or the last one left
            if cell is not None:
                cell.release()


def checked_timeout(timeout: float | None) -> float | None:
    """Return a caller's timeout in seconds, 0 where it is negative, and None, which is for ever, where it is huge.

    Raises:
        TypeError: It is not a number.
        ValueError: It is NaN.
    """
    if timeout is None:
        return None
    if isinstance(timeout, bool) or not hasattr(timeout, "__float__"):
        raise TypeError(f"timeout must be a number of seconds or None, got {type(timeout).__name__}: {timeout!r}")
    if timeout > LONGEST_WAIT_S:  # asked first: an int may be too large for a float
        return None
    seconds = float(timeout)
    if seconds != seconds:
        raise ValueError("timeout nan is not a number of seconds: give 0 or more, or None to wait until all is done")
    return max(0.0, seconds)
