"""How much of a task's rows may wait for answers: as much as brokers take in good time.

buffer.memory bounds it, too; but each worker has its own, and where a quota lets through less than buffer.memory in
delivery.timeout.ms (280 KB/s a worker by default) rows would expire in it while brokers answer well.

    at first    a quarter of buffer.memory, divided among the workers of this machine
    later on    what brokers took, of what waited before them, in a third of delivery.timeout.ms

Road:    rows, arrow -> [window] -> the task goes on reading rows, or waits
Thread:  the task's.
Source:  ours, after TCP's slow start. Spark's own sink has one producer, and one buffer.memory, for an executor.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Mapping
from typing import Protocol

from pyproducer.common.clock import Clock, SystemClock
from pyproducer.common.errors import DeliveryFailedError

_SHARE = 4  # of buffer.memory, with which a machine's workers together begin
_LEAST_BYTES = 64 * 1024  # some batches of many partitions
_LATE_SHARE = 3  # of delivery.timeout.ms
_SHORT_LINGER_MS = 50
_DEFAULTS = {"delivery.timeout.ms": 120_000, "buffer.memory": 32 << 20, "linger.ms": 5}
_GROWTH = 2  # at once: a quota lets a burst through before it holds


class Answer(Protocol):
    """What send() and send_batch() return."""

    def done(self) -> bool:
        """Whether the outcome is known."""

    def exception(self) -> BaseException | None:
        """Wait for it."""


class Window:
    """How many bytes may wait for answers: kept with the producer, for the tasks to come.

    Args:
        delivery_timeout_ms: After so long without an answer a row fails.
        buffer_bytes: buffer.memory of the producer.
        worker_count: How many workers may have one, on this machine.
        linger_ms: What is not full waits so long, also for a task that waits for it.
    """

    def __init__(self, delivery_timeout_ms: int, buffer_bytes: int, worker_count: int, linger_ms: int = 0) -> None:
        self._most_bytes = buffer_bytes
        self.limit_bytes: int = min(buffer_bytes, max(_LEAST_BYTES, buffer_bytes // (_SHARE * worker_count)))
        self._least_bytes = self.limit_bytes
        self.late_ms: int = delivery_timeout_ms // _LATE_SHARE
        self.lingers: bool = linger_ms > _SHORT_LINGER_MS

    @classmethod
    def of(cls, config: Mapping[str, str | None]) -> Window:
        """Make one for a producer of these settings, on this machine.

        An executor's cores are not told to its workers; the machine's are at least as many.
        """
        # What a config provider answered is hidden: then the default is as good a guess as any.
        timeout_ms, buffer_bytes, linger_ms = (
            int(given) if (given := config[name] or "").isdigit() else default for name, default in _DEFAULTS.items())
        return cls(timeout_ms, buffer_bytes, os.cpu_count() or 1, linger_ms)

    def learn(self, byte_count: int, age_ms: int) -> None:
        """Take in how long an answer took for which a task had to wait.

        Args:
            byte_count: What waited for answers when it was handed over, itself included.
            age_ms: From then to the answer.
        """
        in_time = byte_count * self.late_ms // max(age_ms, 1)
        self.limit_bytes = max(self._least_bytes, min(in_time, _GROWTH * self.limit_bytes, self._most_bytes))


class Unanswered:
    """What a task has handed over and has no answer for.

    Args:
        window: How much that may be.
        flush: Sends what lingers, and waits for all.
        clock: To know how old it is.

    Attributes:
        held_ms: How long the task has waited here.
        failures: What flush() told of records that nobody asked for; they may be others than those of the task.
    """

    def __init__(self, window: Window, flush: Callable[[], object], clock: Clock | None = None) -> None:
        self.window: Window = window
        self._flush = flush
        self.held_ms: int = 0
        self.failures: DeliveryFailedError | None = None
        self._clock = clock or SystemClock()
        self._waiting: deque[tuple[Answer, int, int, int]] = deque()
        self._byte_count = 0

    def add(self, answer: Answer, byte_count: int) -> None:
        """Note what was handed over; wait as long as it is too much, or the oldest of it too old."""
        self._byte_count += byte_count
        self._waiting.append((answer, byte_count, self._byte_count, self._clock.now_ms()))
        while self._waiting:
            oldest, byte_count, all_bytes, since_ms = self._waiting[0]
            if not oldest.done():
                began_ms = self._clock.now_ms()
                is_too_much = self._byte_count > self.window.limit_bytes
                if not is_too_much and began_ms - since_ms <= self.window.late_ms:
                    return
                if self.window.lingers:
                    try:
                        self._flush()
                    except DeliveryFailedError as error:  # with pyproducer.on.unretrieved=raise
                        self.failures = error
                oldest.exception()  # what failed is told where answers are counted
                ended_ms = self._clock.now_ms()
                self.held_ms += ended_ms - began_ms
                self.window.learn(all_bytes, ended_ms - since_ms)
            self._waiting.popleft()
            self._byte_count -= byte_count
