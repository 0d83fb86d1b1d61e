"""What a task, and a write of many tasks, did: rows, bytes, requests, retries, time.

Road:    rows, arrow -> [task numbers] -> commit messages -> driver's log, KafkaSink.last_commit
Thread:  immutable values, but for TaskMeter: one task's thread.
Source:  ours; the counters are those of Java's producer-metrics (4.1).
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass, replace

from pyproducer.common.clock import Clock, SystemClock
from pyproducer.spark.row_producer import RowProducer


@dataclass(frozen=True)
class TaskNumbers:
    """What one attempt of a task did.

    Attributes:
        row_count: Rows that are acknowledged.
        byte_count: Record batches on the wire, compressed, those of retries included.
        batch_count: Of these batches.
        request_count: Of Produce requests.
        retry_count: Rows that were sent again after an answer that could be retried.
        hand_over_ms: Reading rows and handing them over; waits for room in buffer.memory included.
        flush_ms: Waiting for the last answers.
        spark_partition: Which partition of the DataFrame; -1 outside a task.
        attempt: Of the task, from 0 on. Above 0, an earlier one may have stored some of the same rows.
    """

    row_count: int = 0
    byte_count: int = 0
    batch_count: int = 0
    request_count: int = 0
    retry_count: int = 0
    hand_over_ms: int = 0
    flush_ms: int = 0
    spark_partition: int = -1
    attempt: int = 0


@dataclass(frozen=True)
class WriteNumbers:
    """What the tasks of one write, or of one micro-batch, did together; `str()` is a line for a log.

    Attributes:
        tasks: Those that ended well, each with the numbers of its last attempt.
        unknown_count: Tasks that failed or were killed: how many rows they stored is not known here.
        batch_id: Of the micro-batch; None for a batch write.
    """

    tasks: tuple[TaskNumbers, ...]
    unknown_count: int = 0
    batch_id: int | None = None

    @classmethod
    def of(cls, numbers: Iterable[TaskNumbers | None], batch_id: int | None = None) -> WriteNumbers:
        """Put together what tasks told; None stands for one that told nothing."""
        told = tuple(numbers)
        known = tuple(task for task in told if task is not None)
        return cls(known, len(told) - len(known), batch_id)

    @property
    def row_count(self) -> int:
        """Rows that are acknowledged, by the tasks that ended well."""
        return sum(task.row_count for task in self.tasks)

    @property
    def byte_count(self) -> int:
        """Record batches on the wire, compressed, in bytes."""
        return sum(task.byte_count for task in self.tasks)

    @property
    def batch_count(self) -> int:
        """How many record batches."""
        return sum(task.batch_count for task in self.tasks)

    @property
    def request_count(self) -> int:
        """How many Produce requests."""
        return sum(task.request_count for task in self.tasks)

    @property
    def retry_count(self) -> int:
        """How many rows were sent again by a producer; they are stored once where idempotence is on."""
        return sum(task.retry_count for task in self.tasks)

    @property
    def repeated_task_count(self) -> int:
        """How many tasks were run again by Spark: of each, rows of the earlier attempts may be stored, too."""
        return sum(task.attempt > 0 for task in self.tasks)

    def __str__(self) -> str:
        name = "" if self.batch_id is None else f"micro-batch {self.batch_id}: "
        told = (f"{name}{self.row_count} rows stored by {len(self.tasks)} tasks: {self.byte_count} bytes in "
                f"{self.batch_count} batches and {self.request_count} requests, {self.retry_count} rows sent again")
        if self.tasks:
            slowest = max(self.tasks, key=lambda task: task.hand_over_ms + task.flush_ms)
            told += (f"; the slowest task, of partition {slowest.spark_partition}, took {slowest.hand_over_ms} ms to "
                     f"hand over and {slowest.flush_ms} ms to wait for the last answers")
        if self.repeated_task_count:
            told += f"; Spark ran {self.repeated_task_count} tasks again, whose rows may be stored more than once"
        if self.unknown_count:
            told += f"; how many rows {self.unknown_count} other tasks stored is unknown"
        return told


class TaskMeter:
    """Counts what a producer does for one task; the producer serves no other meanwhile."""

    def __init__(self, producer: RowProducer, clock: Clock | None = None) -> None:
        self._producer = producer
        self._clock = clock or SystemClock()
        self._before = producer.metrics()
        self._began_ms = self._clock.now_ms()

    def flush(self) -> None:
        """Wait for all answers, and note how long that and all before it took."""
        flushed_ms = self._clock.now_ms()
        try:
            self._producer.flush()
        finally:
            self._times = flushed_ms - self._began_ms, self._clock.now_ms() - flushed_ms

    def numbers(self, row_count: int) -> TaskNumbers:
        """Return what was counted, after flush()."""
        after = self._producer.metrics()

        def grown(name: str) -> int:
            return int(after.get(name, 0) - self._before.get(name, 0))

        return replace(this_task(), row_count=row_count, byte_count=grown("batch-bytes-total"),
                       batch_count=grown("batch-total"), request_count=grown("request-total"),
                       retry_count=grown("record-retry-total"), hand_over_ms=self._times[0], flush_ms=self._times[1])


def this_task() -> TaskNumbers:
    """Return the numbers of a task that has done nothing: which partition and attempt of Spark's it is."""
    if "pyspark" not in sys.modules:
        return TaskNumbers()
    from pyspark.taskcontext import TaskContext

    context = TaskContext.get()
    if context is None:
        return TaskNumbers()
    return TaskNumbers(spark_partition=context.partitionId(), attempt=context.attemptNumber())
