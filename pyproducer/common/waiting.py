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
from _thread import LockType, allocate_lock

LONGEST_WAIT_S = threading.TIMEOUT_MAX
Cell = LockType
"""A lock that is taken: it opens by being released, once."""


def new_cell() -> Cell:
    """Return a cell, closed."""
    cell = allocate_lock()
    cell.acquire()
    return cell


class Waiters:
    """Those who wait for one thing."""

    __slots__ = ("_cells",)

    def __init__(self) -> None:
        self._cells: set[weakref.ref[Cell]] = set()

    def enter(self) -> Cell:
        """Return a cell that the next ring opens. Look whether the thing happened meanwhile before waiting in it."""
        cell = new_cell()
        self._cells.add(weakref.ref(cell, self._cells.discard))
        return cell

    def ring(self) -> None:
        """Open the cells of all who wait, once."""
        while self._cells:
            try:
                cell = self._cells.pop()()
            except KeyError:
                return  # somebody else rings, too, or the last one left
            if cell is not None:
                cell.release()
