"""Callers who wait for several futures at once, as concurrent.futures.wait() does, in simulated time.

What that function does is done here in order of the futures, and not in that of a set, so that a seed is the same
again; what it makes is the standard library's. Its locks, events and time are the scheduler's while a world has one.

    all       every future is done
    first     one is
    failed    one failed, or every one is done
    and none of them after the limit: then the rest is not done

Source:  concurrent.futures._base, Python 3.10 to 3.14; ours.
"""

from __future__ import annotations

import concurrent.futures._base as base
import contextlib
import math
import threading
from collections.abc import Iterator, Sequence
from typing import Any

from pyproducer.accumulator import concurrent_futures
from tests.simulation.schedule import Scheduler, SimLock, SimRLock

KINDS = (base.ALL_COMPLETED, base.FIRST_COMPLETED, base.FIRST_EXCEPTION)


class SimEvent:
    """An event whose waiters sleep in the scheduler."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._is_set = False

    def __repr__(self) -> str:
        return "a meeting"

    def set(self) -> None:
        self._is_set = True
        self._scheduler.wake(self)
        self._scheduler.pause()

    def wait(self, timeout: float | None = None) -> bool:
        scheduler = self._scheduler
        deadline_ms = None if timeout is None else scheduler.now_ms + math.ceil(timeout * 1000)
        while not self._is_set and (deadline_ms is None or scheduler.now_ms < deadline_ms):
            scheduler.block(self, deadline_ms)
        return self._is_set


class _Threading:
    """What the standard library and ours take of `threading` here."""

    Condition = threading.Condition
    local = threading.local

    def __init__(self, scheduler: Scheduler) -> None:
        self.Event = lambda: SimEvent(scheduler)
        self.Lock = lambda: SimLock(scheduler)
        self.RLock = lambda: SimRLock(scheduler)


@contextlib.contextmanager
def simulated(scheduler: Scheduler) -> Iterator[None]:
    """Have all who meet sleep in a scheduler."""
    modules: tuple[Any, ...] = base, concurrent_futures
    for module in modules:
        module.threading = _Threading(scheduler)
    try:
        yield
    finally:
        for module in modules:
            module.threading = threading


def wait(futures: Sequence[Any], timeout_s: float | None, kind: str) -> list[Any]:
    """Wait for some of the futures, or all; return those that are done.

    Source: concurrent.futures.wait().
    """
    module: Any = base
    with contextlib.ExitStack() as stack:
        for future in futures:
            stack.enter_context(future._condition)
        done = [future for future in futures if future._state in ("CANCELLED_AND_NOTIFIED", "FINISHED")]
        not_done = [future for future in futures if future not in done]
        if kind == base.FIRST_COMPLETED and done:
            return done
        if kind == base.FIRST_EXCEPTION and any(future.exception() is not None for future in done):
            return done
        if not not_done:
            return done
        waiter = module._create_and_install_waiters(not_done, kind)
    waiter.event.wait(timeout_s)
    for future in not_done:
        with future._condition:
            future._waiters.remove(waiter)
    return [*done, *waiter.finished_futures]
