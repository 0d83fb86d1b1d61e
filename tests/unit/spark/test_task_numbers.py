"""Numbers of tasks, and the line that a log gets."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from pyproducer.spark.task_numbers import TaskMeter, TaskNumbers, WriteNumbers, this_task
from tests.support.clock import ManualClock
from tests.unit.spark.doubles import FakeProducer


def test_write_numbers_add_up_and_say_what_is_not_known() -> None:
    numbers = WriteNumbers.of([
        TaskNumbers(row_count=10, byte_count=100, batch_count=2, request_count=1, retry_count=3, hand_over_ms=5,
                    flush_ms=4, spark_partition=0),
        TaskNumbers(row_count=5, byte_count=50, batch_count=1, request_count=1, hand_over_ms=9, flush_ms=1,
                    spark_partition=1, attempt=2), None], 7)
    assert (numbers.row_count, numbers.byte_count, numbers.batch_count, numbers.request_count, numbers.retry_count,
            numbers.repeated_task_count, numbers.unknown_count) == (15, 150, 3, 2, 3, 1, 1)
    assert str(numbers) == (
        "micro-batch 7: 15 rows stored by 2 tasks: 150 bytes in 3 batches and 2 requests, 3 rows sent again; the "
        "slowest task, of partition 1, took 9 ms to hand over and 1 ms to wait for the last answers; Spark ran 1 tasks "
        "again, whose rows may be stored more than once; how many rows 1 other tasks stored is unknown")


def test_write_numbers_without_a_task_are_a_line_too() -> None:
    assert str(WriteNumbers.of([])) == ("0 rows stored by 0 tasks: 0 bytes in 0 batches and 0 requests, 0 rows sent "
                                        "again")


class CountingProducer(FakeProducer):
    """Its counters are what a test puts there; flush takes time."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__()
        self.clock = clock
        self.counters: dict[str, float] = {"request-total": 7.0, "batch-bytes-total": 10.0}

    def metrics(self) -> dict[str, float]:
        return dict(self.counters)

    def flush(self) -> None:
        self.clock.advance(30)


def test_meter_counts_what_grew_since_the_task_began() -> None:
    clock = ManualClock()
    producer = CountingProducer(clock)
    meter = TaskMeter(producer, clock)
    clock.advance(20)
    producer.counters = {"request-total": 9.0, "batch-bytes-total": 110.0, "record-retry-total": 4.0}
    meter.flush()
    numbers = meter.numbers(12)
    assert numbers == TaskNumbers(row_count=12, byte_count=100, request_count=2, retry_count=4, hand_over_ms=20,
                                  flush_ms=30)


def test_this_task_outside_of_a_task_is_none() -> None:
    assert this_task() == TaskNumbers(spark_partition=-1, attempt=0)


def test_this_task_in_a_task_tells_sparks_partition_and_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    context = SimpleNamespace(partitionId=lambda: 5, attemptNumber=lambda: 2, taskAttemptId=lambda: 99)
    module = SimpleNamespace(TaskContext=SimpleNamespace(get=lambda: context))
    monkeypatch.setitem(sys.modules, "pyspark", SimpleNamespace(taskcontext=module))  # type: ignore[arg-type]
    monkeypatch.setitem(sys.modules, "pyspark.taskcontext", module)  # type: ignore[arg-type]
    assert this_task() == TaskNumbers(spark_partition=5, attempt=2)
