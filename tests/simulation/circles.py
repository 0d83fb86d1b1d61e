"""Finds a thread that turns in a circle: it neither waits nor gives the baton away, so that no time passes.

A seed takes a fifth of a second of CPU, and some ten thousand pauses. When none came in seconds of it, the seed has
failed, with the stack of who has the baton; that thread is told to end, as far as it can be told.

Thread:  one that looks on.
Source:  ours.
"""

from __future__ import annotations

import _thread
import contextlib
import ctypes
import sys
import time
import traceback
from collections.abc import Iterator

from tests.simulation.schedule import Scheduler, SimulationFailed

_CIRCLE_CPU_S = 4.0
_LOOK_S = 1.0


class _Watch:
    """Looks on while a scheduler works."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._end = _thread.allocate_lock()
        self._has_ended = _thread.allocate_lock()
        self._end.acquire()
        self._has_ended.acquire()
        _thread.start_new_thread(self._run, ())

    def end(self) -> None:
        self._end.release()
        self._has_ended.acquire()

    def _run(self) -> None:
        seen, since_s = -1, time.process_time()
        while not self._end.acquire(timeout=_LOOK_S):
            now_s = time.process_time()
            if self._scheduler.pauses != seen:
                seen, since_s = self._scheduler.pauses, now_s
            elif now_s - since_s > _CIRCLE_CPU_S:
                since_s = now_s
                self._stop()
        self._has_ended.release()

    def _stop(self) -> None:
        """Have the main thread fail, and the one that turns end."""
        scheduler = self._scheduler
        thread, main = scheduler.current, scheduler.main
        frame = sys._current_frames().get(thread.ident)
        where = "".join(traceback.format_stack(frame)) if frame is not None else "nowhere"
        if scheduler.failure is None:
            scheduler.failure = f"{thread.name} turns in a circle at\n{where}"
            raised: type[BaseException] = SimulationFailed if thread is main else SystemExit
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(raised))
            if thread is not main:
                scheduler.current = main
                main.gate.release()


@contextlib.contextmanager
def found(scheduler: Scheduler) -> Iterator[None]:
    """Fail where somebody turns in a circle meanwhile.

    Raises:
        SimulationFailed: Somebody did.
    """
    watch = _Watch(scheduler)
    try:
        yield
    finally:
        watch.end()
