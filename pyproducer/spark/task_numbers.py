"""What a task, and a write of many tasks, did: rows, bytes, requests, retries, time, the slowest broker.

Road:    rows, arrow -> [task numbers] -> commit messages -> driver's log, KafkaSink.last_commit
         rows, arrow -> [task numbers] -> driver account -> KafkaSink.delivered
Thread:  immutable values, but for TaskMeter: one task's thread.
Source:  ours; the counters are those of Java's producer-metrics (4.1).
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from pyproducer.common.clock import Clock, SystemClock
from pyproducer.spark.driver_log import say
from pyproducer.spark.row_producer import RowProducer

PROGRESS_MS = 30_000
"""Who waits for a long task or write hears of it so often: rarely enough for a log, often enough to see it move."""

_frames_log: logging.Logger = logging.getLogger("pyproducer.frames")


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
        buffer_wait_ms: Of hand_over_ms, the waits for room in buffer.memory, or for answers before more was handed
            over: brokers are slower than the rows come.
        slowest_node: Id of the broker whose requests took longest in the mean; -1 without any request.
        slowest_node_ms: What they took, from the connection's send to the answer.
        spark_partition: Which partition of the DataFrame; -1 outside a task.
        attempt: Of the task, from 0 on. Above 0, an earlier one may have stored some of the same rows.
        stage: Id of Spark's stage; -1 outside a task.
        is_exactly_once: Whether the rows of earlier attempts are in transactions that are aborted.
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
    buffer_wait_ms: int = 0
    slowest_node: int = -1
    slowest_node_ms: int = 0
    stage: int = -1
    is_exactly_once: bool = False

    def plus(self, other: TaskNumbers) -> TaskNumbers:
        """Return the numbers of both parts of one task."""
        slower = other if _slowness(other) > _slowness(self) else self
        return replace(self, row_count=self.row_count + other.row_count, byte_count=self.byte_count + other.byte_count,
                       batch_count=self.batch_count + other.batch_count,
                       request_count=self.request_count + other.request_count,
                       retry_count=self.retry_count + other.retry_count,
                       hand_over_ms=self.hand_over_ms + other.hand_over_ms, flush_ms=self.flush_ms + other.flush_ms,
                       buffer_wait_ms=self.buffer_wait_ms + other.buffer_wait_ms,
                       slowest_node=slower.slowest_node, slowest_node_ms=slower.slowest_node_ms)


def _slowness(numbers: TaskNumbers | DeliveredNumbers) -> tuple[bool, int]:
    return numbers.slowest_node >= 0, numbers.slowest_node_ms


@dataclass(frozen=True)
class DeliveredNumbers:
    """What all tasks of a sink did together, in all its writes; `str()` is a line for a log.

    Attributes:
        task_count: Tasks that ended well.
        repeated_task_count: Of these, how many Spark ran again: rows of their earlier attempts may be stored, too.
        failed_attempt_count: How many attempts those were.
        row_count: Rows that are acknowledged; and so on as in TaskNumbers.
        is_exactly_once: Whether any of the tasks' was.
    """

    task_count: int = 0
    repeated_task_count: int = 0
    failed_attempt_count: int = 0
    row_count: int = 0
    byte_count: int = 0
    batch_count: int = 0
    request_count: int = 0
    retry_count: int = 0
    buffer_wait_ms: int = 0
    slowest_node: int = -1
    slowest_node_ms: int = 0
    is_exactly_once: bool = False

    def plus(self, task: TaskNumbers) -> DeliveredNumbers:
        """Return the numbers with those of one more task."""
        slower = task if _slowness(task) > _slowness(self) else self
        return DeliveredNumbers(
            task_count=self.task_count + 1, repeated_task_count=self.repeated_task_count + (task.attempt > 0),
            failed_attempt_count=self.failed_attempt_count + task.attempt, row_count=self.row_count + task.row_count,
            byte_count=self.byte_count + task.byte_count, batch_count=self.batch_count + task.batch_count,
            request_count=self.request_count + task.request_count, retry_count=self.retry_count + task.retry_count,
            buffer_wait_ms=self.buffer_wait_ms + task.buffer_wait_ms, slowest_node=slower.slowest_node,
            slowest_node_ms=slower.slowest_node_ms, is_exactly_once=self.is_exactly_once or task.is_exactly_once)

    def __str__(self) -> str:
        told = (f"{self.row_count} rows stored by {self.task_count} tasks: {self.byte_count} bytes in "
                f"{self.batch_count} batches and {self.request_count} requests, {self.retry_count} rows sent again")
        if self.buffer_wait_ms:
            told += f"; the tasks waited {self.buffer_wait_ms} ms until brokers had taken earlier rows"
        if self.slowest_node >= 0:
            told += f"; the slowest broker, node {self.slowest_node}, took {self.slowest_node_ms} ms for a request"
        if self.repeated_task_count:
            told += (f"; Spark ran {self.repeated_task_count} tasks again after {self.failed_attempt_count} attempts "
                     f"that failed, whose rows {'nobody sees' if self.is_exactly_once else _TWICE}")
        return told


@dataclass(frozen=True)
class WriteNumbers:
    """What the tasks of one write, or of one micro-batch, did together; `str()` is a line for a log.

    Attributes:
        tasks: Those that ended well, each with the numbers of its last attempt.
        unknown_count: Tasks that failed or were killed: how many rows they stored is not known here.
        batch_id: Of the micro-batch; None for a batch write.
        stage_again_count: How many times Spark ran the whole stage again, as where what it reads was lost. Attempts of
            tasks count from 0 anew then; rows that the tasks had stored before may be stored more than once.
    """

    tasks: tuple[TaskNumbers, ...]
    unknown_count: int = 0
    batch_id: int | None = None
    stage_again_count: int = 0

    @classmethod
    def of(cls, numbers: Iterable[TaskNumbers | None], batch_id: int | None = None,
           stage_again_count: int = 0) -> WriteNumbers:
        """Put together what tasks told; None stands for one that told nothing."""
        told = tuple(numbers)
        known = tuple(task for task in told if task is not None)
        return cls(known, len(told) - len(known), batch_id, stage_again_count)

    @property
    def total(self) -> DeliveredNumbers:
        """The sums."""
        total = DeliveredNumbers()
        for task in self.tasks:
            total = total.plus(task)
        return total

    @property
    def row_count(self) -> int:
        """Rows that are acknowledged, by the tasks that ended well."""
        return self.total.row_count

    @property
    def byte_count(self) -> int:
        """Record batches on the wire, compressed, in bytes."""
        return self.total.byte_count

    @property
    def batch_count(self) -> int:
        """How many record batches."""
        return self.total.batch_count

    @property
    def request_count(self) -> int:
        """How many Produce requests."""
        return self.total.request_count

    @property
    def retry_count(self) -> int:
        """How many rows were sent again by a producer; they are stored once where idempotence is on."""
        return self.total.retry_count

    @property
    def buffer_wait_ms(self) -> int:
        """How long tasks waited for room in buffer.memory, in all."""
        return self.total.buffer_wait_ms

    @property
    def repeated_task_count(self) -> int:
        """How many tasks were run again by Spark: of each, rows of the earlier attempts may be stored, too."""
        return self.total.repeated_task_count

    @property
    def failed_attempt_count(self) -> int:
        """How many attempts of these failed, or were lost, before."""
        return self.total.failed_attempt_count

    def __str__(self) -> str:
        name = "" if self.batch_id is None else f"micro-batch {self.batch_id}: "
        told = f"{name}{self.total}"
        if self.tasks:
            slowest = max(self.tasks, key=lambda task: task.hand_over_ms + task.flush_ms)
            told += (f"; the slowest task, of partition {slowest.spark_partition}, took {slowest.hand_over_ms} ms to "
                     f"hand over and {slowest.flush_ms} ms to wait for the last answers")
        if self.stage_again_count:
            told += f"; Spark ran the stage again ({self.stage_again_count})" + (
                "" if self.total.is_exactly_once else f", so rows that its tasks had stored before {_TWICE}")
        if self.unknown_count:
            told += f"; how many rows {self.unknown_count} other tasks stored is unknown"
        return told


class TaskMeter:
    """Counts what a producer does for one task; the producer serves no other meanwhile.

    Args:
        producer: Whose counters are read.
        clock: To know how long it takes.
        is_task: Whether Spark runs this; a write of frames is none, and its user need not know Spark's words.
    """

    def __init__(self, producer: RowProducer, clock: Clock | None = None, *, is_task: bool = True) -> None:
        self._producer = producer
        self._is_task = is_task
        self._clock = clock or SystemClock()
        self._before = producer.metrics()
        self._began_ms = self._clock.now_ms()
        self._due_ms = self._began_ms + PROGRESS_MS

    def tick(self, sent_count: int, held_ms: int = 0) -> None:
        """Say how far a long task is, now and then: in the worker's log, or for a write of frames in the user's.

        Args:
            sent_count: Rows that were handed over up to now.
            held_ms: As in numbers().
        """
        now_ms = self._clock.now_ms()
        if now_ms < self._due_ms:
            return
        self._due_ms = now_ms + PROGRESS_MS
        told = sent_count, now_ms - self._began_ms, self._buffer_wait_ms(self._producer.metrics()) + held_ms
        if self._is_task:
            task = this_task()
            say(logging.INFO, f"partition %d, attempt %d: {_PROGRESS}", task.spark_partition, task.attempt, *told)
        else:
            _frames_log.info(_PROGRESS, *told)

    def flush(self) -> None:
        """Wait for all answers, and note how long that and all before it took."""
        flushed_ms = self._clock.now_ms()
        try:
            self._producer.flush()
        finally:
            self._times = flushed_ms - self._began_ms, self._clock.now_ms() - flushed_ms

    def numbers(self, row_count: int, held_ms: int = 0) -> TaskNumbers:
        """Return what was counted, after flush().

        Args:
            row_count: Rows that were stored.
            held_ms: How long the task held rows back until earlier ones had answers.
        """
        after = self._producer.metrics()
        grown = partial(self._grown, after)
        slowest_node, slowest_node_ms = -1, 0
        of_nodes = _nodes(self._before)
        for node_id, node in _nodes(after).items():
            before = of_nodes.get(node_id, {})
            count, took_ms = (int(node.get(name, 0) - before.get(name, 0)) for name in _OF_NODE)
            if node_id >= 0 and count and (slowest_node < 0 or took_ms // count > slowest_node_ms):
                slowest_node, slowest_node_ms = node_id, took_ms // count
        return replace(this_task(), row_count=row_count, byte_count=grown("batch-bytes-total"),
                       batch_count=grown("batch-total"), request_count=grown("produce-request-total"),
                       retry_count=grown("record-retry-total"), hand_over_ms=self._times[0], flush_ms=self._times[1],
                       buffer_wait_ms=self._buffer_wait_ms(after) + held_ms, slowest_node=slowest_node,
                       slowest_node_ms=slowest_node_ms)

    def _buffer_wait_ms(self, after: Mapping[str, float]) -> int:
        return self._grown(after, "bufferpool-wait-time-ns-total") // 1_000_000

    def _grown(self, after: Mapping[str, float], name: str) -> int:
        """Return by how much a counter grew since the task began."""
        return int(after.get(name, 0) - self._before.get(name, 0))


_TWICE = "may be stored more than once"
_PROGRESS = "%d rows handed over in %d ms, %d ms of them waiting until brokers had taken earlier rows"
_OF_NODE = ("produce-ended-total", "produce-time-total")


def _nodes(metrics: Mapping[str, float]) -> Mapping[int, Mapping[str, float]]:
    """Return the numbers by node; none where a producer of the user's own gives a plain dict."""
    return getattr(metrics, "nodes", {})


def this_task() -> TaskNumbers:
    """Return the numbers of a task that has done nothing: which partition and attempt of Spark's it is."""
    if "pyspark" not in sys.modules:
        return TaskNumbers()
    from pyspark.taskcontext import TaskContext

    context = TaskContext.get()
    if context is None:
        return TaskNumbers()
    return TaskNumbers(spark_partition=context.partitionId(), attempt=context.attemptNumber(),
                       stage=context.stageId())
