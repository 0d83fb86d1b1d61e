"""What other threads have for an event loop: it is woken once for all that came meanwhile.

    sender thread                                  event loop
    put(a)   first: wake the loop  ------------>   drain: a, b, c
    put(b)   it is woken already
    put(c)

A request's answer tells of hundreds of records; the loop is woken once for them, and holds itself up for a part of
them at a time.

Road:    completion -> [inbox] -> tasks that await records; callbacks of aio/
Thread:  `put` from any; `drain` on the loop's. asyncio is imported by who calls from a running loop only.
Source:  ours.
"""

from __future__ import annotations

import sys
import weakref
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from pyproducer.common.errors import IllegalStateError
from pyproducer.common.sender_log import SenderLog, sender_log

if TYPE_CHECKING:
    import asyncio

log: SenderLog = sender_log(__name__)

# Each is a callback or the end of an await, some microseconds; then the loop's other work has its turn.
_MOST_AT_ONCE = 200


class Wake:
    """Ends the wait of a task, and calls nothing of the application's.

    Called by whoever has news, on any thread, or released by him as the cell of a thread that sleeps, it puts itself
    into the loop's inbox, which lets the task go on. That may be done again, so it stays there until it was done.

    Args:
        likely: The running loop's inbox, probably.

    Attributes:
        inbox: The running loop's.
        waiter: What the task awaits; done when it waits no more, because it was cancelled.
    """

    __slots__ = ("__weakref__", "_is_closed", "inbox", "waiter")

    def __init__(self, likely: LoopInbox | None = None) -> None:
        self.inbox: LoopInbox
        self.inbox, loop = inbox_of_running_loop(likely)
        self.waiter: asyncio.Future[None] = loop.create_future()
        self._is_closed = True

    def __call__(self, _news: object = None) -> None:
        """Have the loop go on with the task. Thread: any."""
        self.inbox.put(self)

    def locked(self) -> bool:
        """Whether it was not released."""
        return self._is_closed

    def release(self) -> None:
        """Have the loop go on with the task, as a cell does with a thread. Thread: any."""
        self._is_closed = False
        self.inbox.put(self)

    def go_on(self) -> None:
        """Let the task go on, unless it does. From the loop."""
        if not self.waiter.done():
            self.waiter.set_result(None)

    def rearm(self) -> None:
        """Forget what came before, for another wait. From the loop."""
        self.waiter = self.waiter.get_loop().create_future()
        self._is_closed = True


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
        self._wake()

    def _wake(self) -> None:
        loop = self._loop()
        if loop is None or loop.is_closed():  # also one that was woken, and closed before it looked
            self._drop()
        elif not self._is_called:
            try:
                self._have_it_look(loop.call_soon_threadsafe)
            except RuntimeError:  # it is closed since
                self._drop()

    def _have_it_look(self, call_soon: Callable[[Callable[[], object]], object]) -> None:
        try:
            self._is_called = True
            call_soon(self.drain)
        except BaseException:  # Ctrl-C, in the loop's own thread: whoever puts next wakes it
            self._is_called = False
            raise

    def call_after_turn(self, call: Callable[[], object]) -> None:
        """Make a call, once, when the tasks that are ready now had their turn: at once for the last. From the loop."""
        if self._after_turn:
            self._after_turn[call] = None
            return
        loop = self._loop()
        assert loop is not None, "it runs"
        if getattr(loop, "_ready", True):  # asyncio's own loops show who is; others tell of nobody
            self._after_turn[call] = None
            loop.call_soon(self._end_turn)
        else:
            call()

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

    def drain(self) -> None:
        """Make the calls that are here, as many as do not hold the loop up. From the loop alone."""
        try:
            items = self._items
            self._is_called = False  # first: what is put from now on wakes the loop again
            for _ in range(min(len(items), _MOST_AT_ONCE)):
                item = items[0]
                if type(item) is Wake:
                    item.go_on()  # Ctrl-C before its end leaves it here
                    items.popleft()
                else:
                    items.popleft()()
        except BaseException:
            self._is_called = False  # Ctrl-C may come before the line above did it: this call of the loop's is over
            raise
        finally:  # Ctrl-C in a callback ends the loop's run, and it may run again
            loop = self._loop()
            if self._items and not self._is_called and loop is not None:
                self._have_it_look(loop.call_soon)


_inboxes: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, LoopInbox] = weakref.WeakKeyDictionary()


def inbox_of_running_loop(likely: LoopInbox | None = None) -> tuple[LoopInbox, asyncio.AbstractEventLoop]:
    """Return the inbox of the event loop that runs in this thread, and the loop.

    Args:
        likely: The one that it probably is, so that it need not be looked up.

    Raises:
        IllegalStateError: None does; it is a RuntimeError, and says what to do.
    """
    import asyncio

    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        raise _no_loop() from None
    if likely is not None and likely._loop() is loop:
        return likely, loop
    inbox = _inboxes.get(loop)
    if inbox is None:
        inbox = _inboxes[loop] = LoopInbox(loop)
    return inbox, loop


def _no_loop() -> IllegalStateError:
    """Return the error for who awaits, or sends from a loop, where none of asyncio's runs."""
    if _is_in_trio():
        return IllegalStateError("this is trio's event loop, and pyproducer awaits in asyncio's (uvloop's, too): use "
                                 "a KafkaProducer, whose send() waits for memory alone, and wait for its futures by "
                                 "`await trio.to_thread.run_sync(future.result)`")
    return IllegalStateError("no event loop of asyncio runs in this thread: await, or call send_nowait(), in a "
                             "coroutine of the loop that the producer belongs to; for other threads there is "
                             "KafkaProducer, whose futures have result()")


def _is_in_trio() -> bool:
    trio = sys.modules.get("trio")
    try:
        return trio is not None and trio.lowlevel.current_task() is not None
    except (AttributeError, RuntimeError):  # none runs here
        return False
