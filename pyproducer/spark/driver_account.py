"""What the tasks of a sink delivered, brought to the driver by an accumulator of Spark's.

Rows go by roads that return nothing (`df.foreachPartition(sink)`), and what a task counts would be lost. Spark adds a
task's numbers once, when it ended well; of attempts that failed it adds none. There is one accumulator for all sinks of
a driver, since Spark never lets go of one, and programs make a sink for each micro-batch.

Road:    task -> TaskAccount -> Spark -> DriverAccount, [this] -> KafkaSink.delivered, a progress line in the log
Thread:  a task's in a worker; that of Spark's accumulator server on the driver.
Source:  pyspark.accumulators (4.0). Ours otherwise.
"""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Mapping
from typing import Any
from weakref import WeakValueDictionary

from pyproducer.common.clock import Clock, SystemClock
from pyproducer.spark.session import active_context
from pyproducer.spark.task_numbers import PROGRESS_MS, DeliveredNumbers, TaskNumbers

log: logging.Logger = logging.getLogger("pyproducer.spark")

_ACCOUNTS: WeakValueDictionary[str, DriverAccount] = WeakValueDictionary()
"""Of the sinks that are alive on this driver, by name: where the accumulator adds what tasks told."""


class DriverAccount:
    """What a sink's tasks delivered; pickled, it becomes the TaskAccount that tells of one task.

    Args:
        clock: To know when a progress line is due.
    """

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._name = uuid.uuid4().hex
        self._lock = threading.Lock()  # guards the two below
        self._total = DeliveredNumbers()
        self._began_ms = self._told_ms = self._clock.now_ms()
        _ACCOUNTS[self._name] = self

    @property
    def total(self) -> DeliveredNumbers:
        """All that was told up to now."""
        return self._total

    def add(self, numbers: TaskNumbers) -> None:
        """Add what a task told; where the last line is long ago, log how far the tasks are."""
        with self._lock:
            self._total = self._total.plus(numbers)
            now_ms = self._clock.now_ms()
            is_due = now_ms - self._told_ms >= PROGRESS_MS
            if is_due:
                self._told_ms = now_ms
            total, seconds = self._total, (now_ms - self._began_ms) // 1000
        if is_due:
            log.info("after %d s, so far: %s", seconds, total)

    def begin(self) -> None:
        """Note that tasks are about to begin: the next progress line is due some time after that."""
        with self._lock:
            self._began_ms = self._told_ms = self._clock.now_ms()

    def __reduce__(self) -> tuple[type[TaskAccount], tuple[str, Any]]:
        """Travel to the tasks."""
        self.begin()
        return TaskAccount, (self._name, _accumulator())


class TaskAccount:
    """Tells the driver what a task delivered, where there is an accumulator; in a worker, or in a copy of a sink.

    Args:
        name: Of the DriverAccount.
        accumulator: Of the driver's SparkContext; None where there is none, as with Spark Connect.
    """

    total: DeliveredNumbers = DeliveredNumbers()
    """Only the driver knows."""

    def __init__(self, name: str, accumulator: Any) -> None:
        self._name = name
        self._accumulator = accumulator

    def add(self, numbers: TaskNumbers) -> None:
        """Tell what the task delivered; several times in a task add up."""
        if self._accumulator is not None:
            self._accumulator.add({self._name: numbers})


class _Addition:
    """How Spark adds: TaskNumbers by account in a worker, which runs one task at a time; into accounts on the driver.

    Pyspark asks for an AccumulatorParam, whose two methods these are; the class is not needed, and loads pyspark.
    """

    def zero(self, value: Mapping[str, TaskNumbers]) -> dict[str, TaskNumbers]:
        """Return what a task begins with."""
        return {}

    def addInPlace(self, value1: Any, value2: Mapping[str, TaskNumbers]) -> Any:  # noqa: N802 - Spark's name
        """Add what is told to what was told."""
        if value1 is _ACCOUNTS:
            for name, numbers in value2.items():
                account = _ACCOUNTS.get(name)
                if account is not None:  # else its sink is gone, and nobody will ask
                    account.add(numbers)
            return value1
        for name, numbers in value2.items():
            value1[name] = value1[name].plus(numbers) if name in value1 else numbers
        return value1


_made: tuple[Any, Any] | None = None  # (a SparkContext, its accumulator)


def _accumulator() -> Any:
    """Return the accumulator of this process's SparkContext, made at first; None where there is no SparkContext."""
    global _made
    context = active_context()
    if context is None:
        return None
    if _made is None or _made[0] is not context:
        _made = context, context.accumulator(_ACCOUNTS, _Addition())
    return _made[1]
