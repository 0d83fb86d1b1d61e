"""Time, threads and locks of a simulation: real threads of which one runs at a time, and a clock that jumps.

    a thread   runs ... pause() ... runs ... block() -.                         .-> runs ...
                                                       v                       |
    scheduler                         who can run? ---> chosen by chance ------'
                                        | nobody
                                        v
                                      the time of the next event, or of who waits for a time

A thread has the baton from when its gate is opened until it opens another's. Whoever has it decides by chance at each
pause() (a lock, a ring, a look at the clock, a socket) whether another goes on; so a seed is a schedule, and the same
seed is the same schedule. No time passes while anybody can run, but for a tick now and then.

Source:  ours; FoundationDB's simulator and Loom have the idea.
"""

from __future__ import annotations

import _thread
import heapq
import math
import random
import traceback
from collections import deque
from collections.abc import Callable
from typing import Any

# A seed takes some ten thousand; what takes so many goes round in circles without any time passing.
MOST_PAUSES = 2_000_000
# Of simulated time. A seed takes some minutes.
MOST_MS = 6 * 3600 * 1000
_STORY_LINES = 4000
# Below the shortest request.timeout.ms: above it the producer takes itself for frozen.
LONGEST_HOLD_MS = 50


class SimulationFailed(Exception):
    """The simulated producer did what it must not do; the text says what."""


class SimThread:
    """One thread of the simulation.

    Attributes:
        name: For the story.
        ident: The operating system's thread, once it runs.
        is_runnable: Whether it may be given the baton.
        waits_for: What it waits for, while it is not.
        deadline_ms: When it goes on in any case, or None.
        pending: What its wait is to raise, or to call, as a signal's handler does.
        is_interruptible: Whether exceptions from outside may come at all: not where no signal arrives.
        is_over: Whether it ended.
        is_held: Whether the machine has no time for it: nothing comes from outside then.
    """

    __slots__ = ("deadline_ms", "gate", "ident", "is_held", "is_interruptible", "is_over", "is_runnable", "name",
                 "pending", "timed_out", "waits_for")

    def __init__(self, name: str) -> None:
        self.name = name
        self.ident = 0
        self.gate = _thread.allocate_lock()
        self.gate.acquire()
        self.is_runnable = True
        self.waits_for: object = None
        self.deadline_ms: int | None = None
        self.timed_out = False
        self.pending: BaseException | Callable[[], object] | None = None
        self.is_interruptible = False
        self.is_over = False
        self.is_held = False


class Scheduler:
    """Decides who runs, and what time it is.

    Args:
        chance: Its own stream of chance.
        switch_rate: How probable it is at each pause that another thread goes on.
        tick_rate: How probable it is that time passes there, as on a busy machine.
        longest_tick_ms: How much at most.
        hold_rate: How probable it is that the machine has no time for the thread for a while.
        is_telling: Whether a story is told.

    Attributes:
        now_ms: The time.
        current: Who has the baton.
        failure: Why the simulation is over, or None.
        pauses: How many there were.
        switches: How often the baton went to another thread.
        trace: Installs a tracer in a thread that begins; None for none.
        is_alone: Whether this is a child process, where no other thread is, or is about to be: who waits for a time has
            it at once, and whoever waits for somebody would do so for ever. Of all schedulers: a producer of a seed
            before may still be there.
    """

    is_alone = False

    def __init__(self, chance: random.Random, *, switch_rate: float, tick_rate: float, longest_tick_ms: int,
                 is_telling: bool, hold_rate: float = 0.0) -> None:
        self.now_ms = 1_000
        self.main = SimThread("main")
        self.main.ident = _thread.get_ident()
        self.current = self.main
        self.failure: str | None = None
        self.is_telling = is_telling
        self.pauses = 0
        self.switches = 0
        self.trace: Callable[[], None] | None = None
        self.thread_errors: list[tuple[str, BaseException]] = []
        self._random = chance.random
        self._switch_rate = switch_rate
        self._tick_from = 1.0 - tick_rate
        self._hold_from = self._tick_from - hold_rate
        self._longest_tick_ms = longest_tick_ms
        self._threads = [self.main]
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._numbers = 0
        self._story: deque[tuple[int, str, str]] = deque(maxlen=_STORY_LINES)
        self._is_in_event = False

    # -- the story

    def tell(self, what: str) -> None:
        """Add a line to the story of this seed, if one is told."""
        if self.is_telling:
            self._story.append((self.now_ms, "network" if self._is_in_event else self.current.name, what))

    def story(self) -> list[str]:
        """Return what happened, line by line."""
        return [f"{now_ms / 1000:10.3f} s  {who:<12.12} {what}" for now_ms, who, what in self._story]

    # -- what code that is simulated calls, through locks, clock and sockets

    def pause(self) -> None:
        """Perhaps let another thread go on here, or time pass."""
        if self._is_in_event or self.is_alone:
            return
        self.pauses += 1
        draw = self._random()
        if self._switch_rate <= draw <= self._hold_from:  # as nearly always
            if self.pauses > MOST_PAUSES:
                self.fail(f"{MOST_PAUSES} steps were taken, and there is no end")
        elif draw < self._switch_rate:
            self._dispatch(self.current)
        elif draw > self._tick_from:
            self.advance(1 + int(self._random() * self._longest_tick_ms))
        else:
            self._hold(1 + int(self._random() * LONGEST_HOLD_MS))

    def _hold(self, ms: int) -> None:
        """Have no time for the current thread for a while, whatever it holds; the others go on."""
        me = self.current
        me.is_runnable = False
        me.is_held = True
        me.waits_for = me
        me.deadline_ms = self.now_ms + ms
        self._dispatch(me)
        me.is_held = False

    def switch(self) -> None:
        """Let any thread that can go on do so, this one included."""
        if not (self._is_in_event or self.is_alone):
            self._dispatch(self.current)

    def block(self, waits_for: object, deadline_ms: int | None) -> bool:
        """Wait until `wake(waits_for)`; False when the deadline came first. It may wake for nothing."""
        if self.is_alone:
            return self._sleep_alone(waits_for, deadline_ms)
        me = self.current
        me.is_runnable = False
        me.waits_for = waits_for
        me.deadline_ms = deadline_ms
        me.timed_out = False
        self._dispatch(me)
        if me.pending is not None and me.is_interruptible:
            pending, me.pending = me.pending, None
            if isinstance(pending, BaseException):
                raise pending
            pending()
        return not me.timed_out

    def _sleep_alone(self, waits_for: object, deadline_ms: int | None) -> bool:
        if deadline_ms is None:
            raise SimulationFailed(f"in a child process somebody waits for {waits_for!r}, for ever")
        self.now_ms = max(self.now_ms, deadline_ms)
        return False

    def wake(self, waited_for: object) -> None:
        """Let those go on who wait for it."""
        for thread in self._threads:
            if not thread.is_runnable and thread.waits_for is waited_for:
                thread.is_runnable = True

    def interrupt(self, thread: SimThread, handler: BaseException | Callable[[], object]) -> None:
        """Raise in a thread that waits, or call something there, as a signal's handler does."""
        if not thread.is_runnable and thread.is_interruptible and not thread.is_held:
            thread.pending = handler
            thread.is_runnable = True

    # -- time

    def stop_ticks(self) -> None:
        """Let no time pass any more while anybody can run, and all run who can."""
        self._tick_from = self._hold_from = 1.0
        for thread in self._threads:
            thread.is_runnable |= thread.is_held

    def crowd(self) -> None:
        """Let threads interleave as much as they can from now on."""
        self._switch_rate = max(self._switch_rate, 0.2)
        self._hold_from = self._tick_from - 0.1

    def at(self, at_ms: int, event: Callable[[], None]) -> None:
        """Have something happen at a time; of the same time, in the order of the calls."""
        self._numbers += 1
        heapq.heappush(self._events, (at_ms, self._numbers, event))

    def advance(self, ms: int) -> None:
        """Let time pass, with what happens meanwhile."""
        until_ms = self.now_ms + ms
        while self._events and self._events[0][0] <= until_ms:
            self._happen()
        self.now_ms = max(self.now_ms, until_ms)
        self._wake_late()

    def jump(self, ms: int) -> None:
        """Let time pass in which nothing of this process runs, as while it is stopped: events are found late."""
        self.now_ms += ms
        self.advance(0)

    def _happen(self) -> None:
        at_ms, _, event = heapq.heappop(self._events)
        self.now_ms = max(self.now_ms, at_ms)
        self._is_in_event = True
        try:
            event()
        except Exception as error:  # a broker's, who was told what no correct client says
            self.failure = self.failure or f"{type(error).__name__}: {error}\n{traceback.format_exc()}"
        finally:
            self._is_in_event = False

    def _wake_late(self) -> None:
        for thread in self._threads:
            if not thread.is_runnable and thread.deadline_ms is not None and thread.deadline_ms <= self.now_ms:
                thread.is_runnable = True
                thread.timed_out = True

    def _next_time(self) -> None:
        deadline_ms: int | None = None
        for thread in self._threads:
            own_ms = thread.deadline_ms
            if own_ms is not None and (deadline_ms is None or own_ms < deadline_ms):
                deadline_ms = own_ms
        if self._events and (deadline_ms is None or self._events[0][0] <= deadline_ms):
            self._happen()
        elif deadline_ms is not None:
            self.now_ms = max(self.now_ms, deadline_ms)
        else:
            waiting = ", ".join(f"{thread.name} for {thread.waits_for!r}" for thread in self._threads)
            self.failure = f"nobody can go on: {waiting}"
        if deadline_ms is not None and deadline_ms <= self.now_ms:
            self._wake_late()
        if self.now_ms > MOST_MS:
            self.failure = self.failure or f"{self.now_ms} ms passed, and there is no end"

    # -- threads

    def start(self, run: Callable[[], None], name: str, *, is_interruptible: bool = False) -> SimThread:
        """Start a thread, which waits for the baton."""
        thread = SimThread(name)
        thread.is_interruptible = is_interruptible
        self._threads.append(thread)
        _thread.start_new_thread(self._run, (thread, run))
        self.pause()
        return thread

    def _run(self, thread: SimThread, run: Callable[[], None]) -> None:
        thread.ident = _thread.get_ident()
        thread.gate.acquire()
        try:
            if self.trace is not None:
                self.trace()
            run()
        except BaseException as error:
            self.thread_errors.append((thread.name, error))
        finally:
            if self.trace is not None:
                import sys

                sys.settrace(None)
            thread.is_over = True
            thread.is_runnable = False
            self._threads.remove(thread)
            self.wake(thread)
            self._dispatch(thread, is_over=True)

    def join(self, thread: SimThread) -> None:
        """Wait until a thread ended."""
        while not thread.is_over:
            self.block(thread, None)

    def fail(self, why: str) -> None:
        """End the simulation: the main thread is told, all others stay where they are."""
        if self.failure is None:
            self.failure = f"{why}; {self.current.name} was at\n{''.join(traceback.format_stack())}"
        self._dispatch(self.current)

    def _dispatch(self, me: SimThread, *, is_over: bool = False) -> None:
        """Give the baton to somebody who can go on, and wait until it comes back."""
        while self.failure is None:
            runnable = [thread for thread in self._threads if thread.is_runnable]
            if runnable:
                chosen = runnable[int(self._random() * len(runnable))] if len(runnable) > 1 else runnable[0]
                break
            self._next_time()
        else:
            chosen = self.main
        chosen.deadline_ms = None
        if chosen is not me:
            self.switches += 1
            self.current = chosen
            chosen.gate.release()
            if is_over:
                return
            me.gate.acquire()
        if self.failure is not None:  # only the main thread comes here
            raise SimulationFailed(self.failure)


class SimLock:
    """A lock, or a cell if it is made taken."""

    __slots__ = ("__weakref__", "_is_locked", "_number", "_scheduler", "_waiter_count")

    def __init__(self, scheduler: Scheduler, *, is_locked: bool = False) -> None:
        self._scheduler = scheduler
        self._is_locked = is_locked
        self._waiter_count = 0  # who is not there need not be looked for
        scheduler._numbers += 1
        self._number = scheduler._numbers

    def __hash__(self) -> int:
        return self._number  # not the address: sets are walked in the same order again

    def __eq__(self, other: object) -> bool:
        return self is other

    def __repr__(self) -> str:
        return f"lock {self._number}"

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        scheduler = self._scheduler
        scheduler.pause()
        if not self._is_locked:
            self._is_locked = True
            return True
        if not blocking:
            return False
        deadline_ms = None if timeout < 0 or timeout > 2**40 else scheduler.now_ms + math.ceil(timeout * 1000)
        self._waiter_count += 1
        try:
            while True:
                is_woken = scheduler.block(self, deadline_ms)
                if not self._is_locked:
                    self._is_locked = True
                    return True
                if not is_woken:
                    return False
        finally:
            self._waiter_count -= 1

    def release(self) -> None:
        if not self._is_locked:
            raise RuntimeError("release unlocked lock")
        self._is_locked = False
        scheduler = self._scheduler
        if self._waiter_count:
            scheduler.wake(self)
        scheduler.pause()

    def locked(self) -> bool:
        return self._is_locked

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_raised: object) -> None:
        self.release()


class SimRLock:
    """A lock that its owner may take again."""

    __slots__ = ("__weakref__", "_count", "_owner", "_scheduler")

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._owner: SimThread | None = None
        self._count = 0

    def _is_owned(self) -> bool:
        return self._owner is self._scheduler.current

    def _release_save(self) -> None:
        """Have nobody hold it: in a child process, see release_in_child."""
        if self._owner is None:
            raise RuntimeError("cannot release un-acquired lock")
        self._owner, self._count = None, 0

    def _at_fork_reinit(self) -> None:
        self._owner, self._count = None, 0

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        scheduler = self._scheduler
        me = scheduler.current
        if self._owner is me:
            self._count += 1
            return True
        scheduler.pause()
        while self._owner is not None:
            if not blocking:
                return False
            scheduler.block(self, None)
        self._owner = me
        self._count = 1
        return True

    def release(self) -> None:
        if self._owner is not self._scheduler.current:
            raise RuntimeError("cannot release un-acquired lock")
        self._count -= 1
        if not self._count:
            self._owner = None
            self._scheduler.wake(self)
            self._scheduler.pause()

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_raised: object) -> None:
        self.release()


class SimClock:
    """The `Clock` of a simulated producer.

    Attributes:
        wall_offset_ms: How far the wall's clock is from where it began; a fault moves it.
        slept_ms: How long the machine slept, while this clock stood still.
    """

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self.wall_offset_ms = 1_700_000_000_000
        self.slept_ms = 0

    def now_ms(self) -> int:
        scheduler = self._scheduler
        scheduler.pause()
        return scheduler.now_ms

    def timestamp_ms(self) -> int:
        return self._scheduler.now_ms + self.wall_offset_ms

    def suspended_ms(self) -> int:
        return self.slept_ms

    def wait(self, cell: Any, timeout_s: float | None) -> bool:
        taken: bool = cell.acquire(timeout=-1 if timeout_s is None else max(timeout_s, 0.0))
        return taken

    def sleep(self, ms: int) -> None:
        """Sleep; for the workload."""
        until_ms = self._scheduler.now_ms + ms
        while self._scheduler.now_ms < until_ms:
            self._scheduler.block(None, until_ms)
