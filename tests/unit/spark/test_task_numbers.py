"""Numbers of tasks, and the line that a log gets."""

from __future__ import annotations

import logging
import sys
from types import SimpleNamespace

import pytest

from pyproducer import ProducerMetrics
from pyproducer.spark.task_numbers import PROGRESS_MS, TaskMeter, TaskNumbers, WriteNumbers, this_task
from tests.support.clock import ManualClock
from tests.unit.spark.doubles import FakeProducer


def test_write_numbers_add_up_and_say_what_is_not_known() -> None:
    numbers = WriteNumbers.of([
        TaskNumbers(row_count=10, byte_count=100, batch_count=2, request_count=1, retry_count=3, hand_over_ms=5,
                    flush_ms=4, spark_partition=0, buffer_wait_ms=4, slowest_node=3, slowest_node_ms=20),
        TaskNumbers(row_count=5, byte_count=50, batch_count=1, request_count=1, hand_over_ms=9, flush_ms=1,
                    spark_partition=1, attempt=2, buffer_wait_ms=1, slowest_node=0, slowest_node_ms=21), None], 7)
    assert (numbers.row_count, numbers.byte_count, numbers.batch_count, numbers.request_count, numbers.retry_count,
            numbers.buffer_wait_ms, numbers.repeated_task_count, numbers.failed_attempt_count,
            numbers.unknown_count) == (15, 150, 3, 2, 3, 5, 1, 2, 1)
    assert str(numbers) == (
        "micro-batch 7: 15 rows stored by 2 tasks: 150 bytes in 3 batches and 2 requests, 3 rows sent again; the tasks "
        "waited 5 ms until brokers had taken earlier rows; the slowest broker, node 0, took 21 ms for a request; Spark "
        "ran 1 tasks again after 2 attempts that failed, whose rows may be stored more than once; the slowest task, of "
        "partition 1, took 9 ms to hand over and 1 ms to wait for the last answers; how many rows 1 other tasks stored "
        "is unknown")


def test_write_numbers_without_a_task_are_a_line_too() -> None:
    assert str(WriteNumbers.of([])) == ("0 rows stored by 0 tasks: 0 bytes in 0 batches and 0 requests, 0 rows sent "
                                        "again")


class CountingProducer(FakeProducer):
    """Its counters are what a test puts there; flush takes time."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__()
        self.clock = clock
        self.counters: dict[str, float] = {"produce-request-total": 7.0, "batch-bytes-total": 10.0}
        self.nodes: dict[int, dict[str, float]] = {}

    def metrics(self) -> dict[str, float]:
        found = ProducerMetrics(self.counters)
        found.nodes = dict(self.nodes)
        return found

    def flush(self) -> None:
        self.clock.advance(30)


def test_meter_counts_what_grew_since_the_task_began() -> None:
    clock = ManualClock()
    producer = CountingProducer(clock)
    meter = TaskMeter(producer, clock)
    clock.advance(20)
    producer.counters = {"produce-request-total": 9.0, "batch-bytes-total": 110.0, "record-retry-total": 4.0,
                         "bufferpool-wait-time-ns-total": 5_999_999.0}
    meter.flush()
    numbers = meter.numbers(12)
    assert numbers == TaskNumbers(row_count=12, byte_count=100, request_count=2, retry_count=4, hand_over_ms=20,
                                  flush_ms=30, buffer_wait_ms=5)


def test_meter_names_the_broker_whose_requests_took_longest_in_the_mean_of_this_task() -> None:
    clock = ManualClock()
    producer = CountingProducer(clock)
    producer.nodes = {1: {"produce-ended-total": 10.0, "produce-time-total": 90_000.0}}
    meter = TaskMeter(producer, clock)
    producer.nodes = {-1: {"produce-ended-total": 1.0, "produce-time-total": 99.0},  # a bootstrap address
                      1: {"produce-ended-total": 10.0, "produce-time-total": 90_000.0},  # not in this task
                      2: {"produce-ended-total": 4.0, "produce-time-total": 40.0},
                      30: {"produce-ended-total": 1.0, "produce-time-total": 11.0}}
    meter.flush()
    numbers = meter.numbers(1)
    assert (numbers.slowest_node, numbers.slowest_node_ms) == (30, 11)


def test_meter_of_a_producer_whose_numbers_are_a_plain_dict_names_no_broker() -> None:
    """A wrapper of the user's own, which the Protocol Producer allows."""
    clock = ManualClock()
    producer = CountingProducer(clock)
    producer.metrics = lambda: {"batch-total": 1.0}  # type: ignore[method-assign]
    meter = TaskMeter(producer, clock)
    meter.flush()
    assert meter.numbers(1).slowest_node == -1


def test_meter_of_a_long_task_says_now_and_then_how_far_it_is(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    producer = CountingProducer(clock)
    meter = TaskMeter(producer, clock)
    with caplog.at_level(logging.INFO, "pyproducer.spark"):
        for sent_count in range(1, 8):
            clock.advance(PROGRESS_MS // 3)
            producer.counters["bufferpool-wait-time-ns-total"] = 7e6
            meter.tick(sent_count)
    assert [record.getMessage() for record in caplog.records] == [
        f"partition -1, attempt 0: {count} rows handed over in {count * PROGRESS_MS // 3} ms, 7 ms of them waiting "
        "until brokers had taken earlier rows" for count in (3, 6)]


def test_meter_of_a_long_write_of_frames_says_it_in_the_users_log_alone(
        caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody set logging up: Spark's partition and attempt went to the stderr of a user who has no Spark."""
    clock = ManualClock()
    meter = TaskMeter(CountingProducer(clock), clock, is_task=False)
    with caplog.at_level(logging.INFO, "pyproducer"):
        clock.advance(PROGRESS_MS)
        meter.tick(5, held_ms=7)
    assert [(record.name, record.getMessage()) for record in caplog.records] == [
        ("pyproducer.frames", f"5 rows handed over in {PROGRESS_MS} ms, 7 ms of them waiting until brokers had taken "
                              "earlier rows")]
    monkeypatch.setattr(logging.getLogger("pyproducer"), "propagate", False)
    clock.advance(PROGRESS_MS)
    meter.tick(6)
    assert capsys.readouterr().err == ""


def test_parts_of_one_task_add_up() -> None:
    """df.foreach(sink) sends row by row, and each row is told."""
    part = TaskNumbers(1, 2, 3, 4, 5, 6, 7, spark_partition=8, attempt=1, buffer_wait_ms=9, slowest_node=0,
                       slowest_node_ms=0)
    nothing = TaskNumbers(spark_partition=8, attempt=1)
    assert nothing.plus(part) == part
    assert part.plus(part) == TaskNumbers(2, 4, 6, 8, 10, 12, 14, spark_partition=8, attempt=1, buffer_wait_ms=18,
                                          slowest_node=0, slowest_node_ms=0)


def test_this_task_outside_of_a_task_is_none() -> None:
    assert this_task() == TaskNumbers(spark_partition=-1, attempt=0)


def test_this_task_in_a_task_tells_sparks_partition_and_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    context = SimpleNamespace(partitionId=lambda: 5, attemptNumber=lambda: 2, taskAttemptId=lambda: 99,
                              stageId=lambda: 3)
    module = SimpleNamespace(TaskContext=SimpleNamespace(get=lambda: context))
    monkeypatch.setitem(sys.modules, "pyspark", SimpleNamespace(taskcontext=module))  # type: ignore[arg-type]
    monkeypatch.setitem(sys.modules, "pyspark.taskcontext", module)  # type: ignore[arg-type]
    assert this_task() == TaskNumbers(spark_partition=5, attempt=2, stage=3)
