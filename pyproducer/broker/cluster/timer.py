"""One thread that runs things when their time has come: delayed operations expire here.

Road:    delayed operations -> [timer] -> response
Thread:  schedule and cancel from any; the callbacks run on the timer's own thread and must be short.
Source:  Java SystemTimer and ExpiredOperationReaper (4.1), with a heap in place of the hierarchical wheels: a test
         broker has hundreds of waiting operations, not millions.
"""

from __future__ import annotations

import heapq
import itertools
import logging
import threading
from collections.abc import Callable

from pyproducer.common.clock import Clock

_logger = logging.getLogger(__name__)
# Who waits for what is due is woken when it is done; this often it looks whether the thread has ended.
_LOOK_S = 0.1


class TimerTask:
    """A callback with a deadline; `cancel` makes the timer forget it."""

    __slots__ = ("_callback", "deadline_ms")

    def __init__(self, deadline_ms: int, callback: Callable[[], None]) -> None:
        self.deadline_ms: int = deadline_ms
        self._callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        """Do not run. A task that is running already is not stopped."""
        self._callback = None

    @property
    def is_cancelled(self) -> bool:
        """Whether the task ran or was cancelled."""
        return self._callback is None

    def run(self) -> None:
        """Run the callback, once."""
        callback, self._callback = self._callback, None
        if callback is not None:
            callback()


class Timer:
    """Runs callbacks at their deadlines."""

    # Cancelled tasks stay in the heap until their deadline; when they are the majority of a heap of this size or
    # more, it is rebuilt without them. 1024: a rebuild then costs less than a millisecond and is rare.
    _REBUILD_FROM = 1024

    def __init__(self, clock: Clock, *, name: str) -> None:
        self._clock = clock
        self._condition = threading.Condition()  # guards the heap and the counters below
        self._heap: list[tuple[int, int, TimerTask]] = []
        self._numbers = itertools.count()
        self._stopped = False
        self._is_running = False  # what was due is being run
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def __len__(self) -> int:
        """Return how many tasks are kept, with those that were cancelled and are not forgotten yet."""
        return len(self._heap)

    def schedule(self, delay_ms: int, callback: Callable[[], None]) -> TimerTask:
        """Run `callback` on the timer's thread in `delay_ms`."""
        task = TimerTask(self._clock.now_ms() + max(delay_ms, 0), callback)
        with self._condition:
            if len(self._heap) >= self._REBUILD_FROM:
                self._drop_cancelled()
            heapq.heappush(self._heap, (task.deadline_ms, next(self._numbers), task))
            if self._heap[0][2] is task:
                self._condition.notify_all()
        return task

    def run_due(self) -> None:
        """Return when nothing is due any more: everything was run that is, and what that has scheduled in turn.

        Thread: any but the timer's own.
        """
        with self._condition:
            self._condition.notify_all()
            while not self._stopped and self._thread.is_alive() and (
                    self._is_running or (self._heap and self._heap[0][0] <= self._clock.now_ms())):
                self._condition.wait(_LOOK_S)

    def stop(self) -> None:
        """Stop the thread; tasks that are left do not run."""
        with self._condition:
            self._stopped = True
            self._condition.notify_all()
        if self._thread.is_alive():
            self._thread.join()
        self._heap.clear()

    def _drop_cancelled(self) -> None:
        alive = [entry for entry in self._heap if not entry[2].is_cancelled]
        if len(alive) * 2 < len(self._heap):
            heapq.heapify(alive)
            self._heap = alive

    def _run(self) -> None:
        while (due := self._next_due()) is not None:
            for task in due:
                try:
                    task.run()
                except Exception:
                    _logger.exception("A timer task failed")

    def _next_due(self) -> list[TimerTask] | None:
        """Wait until something is due; None when the timer is stopped."""
        with self._condition:
            if self._is_running:
                self._is_running = False
                self._condition.notify_all()
            while not self._stopped:
                now_ms = self._clock.now_ms()
                due: list[TimerTask] = []
                while self._heap and self._heap[0][0] <= now_ms:
                    due.append(heapq.heappop(self._heap)[2])
                if due:
                    self._is_running = True
                    return due
                self._condition.wait((self._heap[0][0] - now_ms) / 1000 if self._heap else None)
            return None
