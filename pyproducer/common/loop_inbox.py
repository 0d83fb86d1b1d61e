"""What other threads have for an event loop: it is woken once for all that came meanwhile.

    sender thread                                  event loop
    put(a)   first: wake the loop  ------------>   drain: a, b, c
    put(b)   it is woken already
    put(c)

A request's answer tells of hundreds of records; the loop is woken once for them, and holds itself up for a part of
them at a time.

Road:    completion -> [inbox] -> tasks that await records; callbacks of aio.py
Thread:  `put` from any; `drain` on the loop's. asyncio is imported by who calls from a running loop only.
Source:  ours.
"""

from __future__ import annotations

import logging
import weakref
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio

log: logging.Logger = logging.getLogger(__name__)

# Each is a callback or the end of an await, some microseconds; then the loop's other work has its turn.
_MOST_AT_ONCE = 200


class LoopInbox:
    """Calls in order, on its loop, what other threads put here.

    Args:
        loop: The event loop.

    Attributes:
        dropped_count: How many calls were not made, because the loop was closed before.
    """

    __slots__ = ("_after_turn", "_is_called", "_items", "_loop", "dropped_count")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = weakref.ref(loop)
        self._items: deque[Callable[[], object]] = deque()
        self._is_called = False  # the loop was woken, and did not look yet
        self._after_turn: dict[Callable[[], object], None] = {}
        self.dropped_count: int = 0

    @property
    def loop_runs(self) -> bool:
        """Whether the loop runs, in whatever thread."""
        loop = self._loop()
        return loop is not None and loop.is_running()

    def put(self, item: Callable[[], object]) -> None:
        """Have the loop call `item`, which must not raise; where the loop is closed nobody is there to hear of it."""
        self._items.append(item)  # first: a loop that looks finds it, or is woken
        loop = self._loop()
        if loop is None or loop.is_closed():  # also one that was woken, and closed before it looked
            self._drop()
        elif not self._is_called:
            try:
                self._is_called = True
                loop.call_soon_threadsafe(self._drain)
            except RuntimeError:  # it is closed since
                self._drop()
            except BaseException:  # Ctrl-C, in the loop's own thread: whoever puts next wakes it
                self._is_called = False
                raise

    def call_after_turn(self, call: Callable[[], object]) -> None:
        """Have the loop make a call, once, when the tasks that are ready now had their turn. From the loop alone."""
        is_first = not self._after_turn
        self._after_turn[call] = None
        if is_first:
            loop = self._loop()
            assert loop is not None
            loop.call_soon(self._end_turn)

    def _end_turn(self) -> None:
        calls, self._after_turn = self._after_turn, {}
        for call in calls:
            call()

    def _drop(self) -> None:
        self._is_called = False
        while self._items:
            try:
                self._items.popleft()
            except IndexError:  # another thread drops, too
                break
            self.dropped_count += 1
        log.debug("the event loop that awaited records is closed; %d calls were not made", self.dropped_count)

    def _drain(self) -> None:
        self._is_called = False  # first: what is put from now on wakes the loop again
        items = self._items
        try:
            for _ in range(min(len(items), _MOST_AT_ONCE)):
                items.popleft()()
        finally:  # Ctrl-C in a callback ends the loop's run, and it may run again
            loop = self._loop()
            if items and not self._is_called and loop is not None:
                self._is_called = True
                loop.call_soon(self._drain)


_inboxes: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, LoopInbox] = weakref.WeakKeyDictionary()


def inbox_of_running_loop(likely: LoopInbox | None = None) -> tuple[LoopInbox, asyncio.AbstractEventLoop]:
    """Return the inbox of the event loop that runs in this thread, and the loop.

    Args:
        likely: The one that it probably is, so that it need not be looked up.

    Raises:
        RuntimeError: None does.
    """
    import asyncio

    loop = asyncio.get_running_loop()
    if likely is not None and likely._loop() is loop:
        return likely, loop
    inbox = _inboxes.get(loop)
    if inbox is None:
        inbox = _inboxes[loop] = LoopInbox(loop)
    return inbox, loop
