"""Requests that wait for something to happen, without a handler thread: the purgatory.

Road:    Fetch with nothing to read -> [purgatory] -> append to the partition, or time is up -> response
Thread:  any; an operation completes exactly once, on the thread that made it complete.
Source:  Java DelayedOperation, DelayedOperationPurgatory (4.1).
"""

from __future__ import annotations

import threading
from collections.abc import Hashable, Iterable
from typing import Any, Generic, TypeVar

from pyproducer.broker.cluster.timer import Timer, TimerTask
from pyproducer.common.cluster import TopicPartition

K = TypeVar("K", bound=Hashable)


class DelayedOperation:
    """Something that is done when `can_complete` says so, or when `delay_ms` is over."""

    def __init__(self, delay_ms: int) -> None:
        self.delay_ms = delay_ms
        self._claim = threading.Lock()  # taken once, by the thread that completes the operation, and kept
        self.timer_task: TimerTask | None = None
        self.watch_keys: tuple[Any, ...] = ()

    @property
    def is_completed(self) -> bool:
        """Whether somebody has completed it."""
        return self._claim.locked()

    def can_complete(self) -> bool:
        """Return whether what is waited for has happened. May be called by several threads at once."""
        raise NotImplementedError

    def on_complete(self, *, expired: bool) -> None:
        """Do it; called once."""
        raise NotImplementedError

    def complete(self, *, expired: bool = False) -> bool:
        """Complete now, whatever `can_complete` says; return whether this call did it."""
        if not self._claim.acquire(blocking=False):
            return False
        if self.timer_task is not None:
            self.timer_task.cancel()
        self.on_complete(expired=expired)
        return True


class DelayedOperationPurgatory(Generic[K]):
    """Operations by the keys whose events can complete them.

    The race of an event that comes between the first look and the entry into the lists is closed by looking again
    after the entry: the event is then either seen by that second look or finds the operation in the lists.
    """

    def __init__(self, timer: Timer) -> None:
        self._timer = timer
        self._lock = threading.Lock()  # guards _watched
        self._watched: dict[K, dict[DelayedOperation, None]] = {}

    def __len__(self) -> int:
        """Return how many operations wait."""
        with self._lock:
            return len({operation for operations in self._watched.values() for operation in operations})

    def try_complete_else_watch(self, operation: DelayedOperation, keys: Iterable[K]) -> bool:
        """Complete the operation now if it can be, else keep it until an event or its time; return which."""
        if operation.can_complete():
            return operation.complete()
        operation.watch_keys = tuple(keys)
        with self._lock:
            for key in operation.watch_keys:
                self._watched.setdefault(key, {})[operation] = None
        if operation.can_complete():
            self._forget(operation)
            return operation.complete()
        task = self._timer.schedule(operation.delay_ms, lambda: self._expire(operation))
        operation.timer_task = task
        if operation.is_completed:  # an event was faster than the line above
            task.cancel()
        return False

    def check_and_complete(self, key: K) -> int:
        """Complete the operations of a key that can be now; return how many."""
        if key not in self._watched:  # without the lock: nearly every append finds nobody waiting
            return 0
        with self._lock:
            operations = list(self._watched.get(key, ()))
        completed = 0
        for operation in operations:
            if operation.can_complete():
                self._forget(operation)
                completed += operation.complete()
        return completed

    def complete_all(self) -> None:
        """Complete everything that waits as if its time were over: the broker stops."""
        with self._lock:
            operations = {operation: None for waiting in self._watched.values() for operation in waiting}
            self._watched.clear()
        for operation in operations:
            operation.complete(expired=True)

    def _expire(self, operation: DelayedOperation) -> None:
        self._forget(operation)
        operation.complete(expired=True)

    def _forget(self, operation: DelayedOperation) -> None:
        with self._lock:
            for key in operation.watch_keys:
                operations = self._watched.get(key)
                if operations is not None:
                    operations.pop(operation, None)
                    if not operations:
                        del self._watched[key]


DelayedFetches = DelayedOperationPurgatory[TopicPartition]
"""The fetches that wait for something to read, by the partitions that they would read from."""
