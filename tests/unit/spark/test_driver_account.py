"""How the numbers of tasks come to the driver, without Spark: what it pickles, adds and gives back."""

from __future__ import annotations

import gc
import logging
import pickle
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from pyproducer.spark import DeliveredNumbers, KafkaSink, TaskNumbers, driver_account
from pyproducer.spark.driver_account import DriverAccount, TaskAccount
from pyproducer.spark.task_numbers import PROGRESS_MS
from tests.support.clock import ManualClock


class Accumulator:
    """Spark's: on the driver it has the value, in a task it begins with zero; `all` are those of one process."""

    def __init__(self, value: Any, addition: Any) -> None:
        self.value = value
        self.addition = addition

    def add(self, term: Any) -> None:
        self.value = self.addition.addInPlace(self.value, term)

    def __reduce__(self) -> Any:
        return Accumulator, (self.addition.zero(self.value), self.addition)


class Context:
    """What a sink needs of a SparkContext: its accumulators, and settings."""

    def __init__(self, accumulator: Any) -> None:
        self.accumulator = accumulator
        self._conf = {"spark.master": "local[2]"}


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Accumulator]:
    """The accumulators of a driver with a SparkContext."""
    accumulators: list[Accumulator] = []

    def accumulator(value: Any, addition: Any) -> Accumulator:
        accumulators.append(Accumulator(value, addition))
        return accumulators[-1]

    context = Context(accumulator)
    module = SimpleNamespace(SparkContext=SimpleNamespace(_active_spark_context=context))
    monkeypatch.setitem(sys.modules, "pyspark", module)
    monkeypatch.setattr(driver_account, "_made", None)
    return accumulators


def travelled(account: DriverAccount) -> TaskAccount:
    task = pickle.loads(pickle.dumps(account))
    assert isinstance(task, TaskAccount)
    return task


def test_account_gets_what_tasks_told_each_sink_its_own(made: list[Accumulator]) -> None:
    mine, others = DriverAccount(), DriverAccount()
    for attempt in range(2):
        task = travelled(mine)
        for _ in range(3):  # as df.foreach(sink) does, row by row
            task.add(TaskNumbers(row_count=1, spark_partition=4, attempt=attempt))
        made[0].add(task._accumulator.value)  # what Spark brings back when a task ended well
    assert mine.total == DeliveredNumbers(row_count=6, task_count=2, repeated_task_count=1, failed_attempt_count=1)
    assert others.total == DeliveredNumbers()
    assert len(made) == 1
    assert task.total == DeliveredNumbers()


def test_account_when_its_sink_is_gone_then_what_comes_late_is_dropped(made: list[Accumulator]) -> None:
    """Spark never lets go of an accumulator; what one sink for each micro-batch left behind would grow for ever."""
    account = DriverAccount()
    task = travelled(account)
    task.add(TaskNumbers(row_count=1))
    name = account._name
    del account
    gc.collect()
    made[0].add(task._accumulator.value)
    assert name not in driver_account._ACCOUNTS


def test_account_when_the_spark_context_is_another_one_then_it_gets_an_accumulator_of_that(
        made: list[Accumulator]) -> None:
    """A notebook stops its session and begins another: what tasks tell the first one's accumulator, nobody brings."""
    travelled(DriverAccount())
    module: Any = sys.modules["pyspark"]
    module.SparkContext._active_spark_context = Context(module.SparkContext._active_spark_context.accumulator)
    account = DriverAccount()
    task = travelled(account)
    task.add(TaskNumbers(row_count=1))
    assert len(made) == 2
    made[1].add(task._accumulator.value)
    assert account.total.row_count == 1


def test_account_without_a_spark_context_tells_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "pyspark", raising=False)
    task = travelled(DriverAccount())
    task.add(TaskNumbers(row_count=1))
    assert pickle.loads(pickle.dumps(task)).total == DeliveredNumbers()


def test_account_of_a_long_write_says_now_and_then_how_far_it_is(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    account = DriverAccount(clock)
    clock.advance(10 * PROGRESS_MS)
    account.begin()
    with caplog.at_level(logging.INFO, "pyproducer.spark"):
        for _ in range(4):
            clock.advance(PROGRESS_MS // 2)
            account.add(TaskNumbers(row_count=10))
    assert [record.getMessage().partition(":")[0] for record in caplog.records] == [
        f"after {PROGRESS_MS // 1000} s, so far", f"after {2 * PROGRESS_MS // 1000} s, so far"]
    assert "20 rows stored by 2 tasks" in caplog.text
    assert "40 rows stored by 4 tasks" in caplog.text


def test_account_of_a_sink_that_was_made_long_ago_counts_the_time_from_when_it_goes_to_the_tasks(
        monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """A sink of a notebook is made in one cell and used an hour later: its first task told of an hour."""
    monkeypatch.delitem(sys.modules, "pyspark", raising=False)
    clock = ManualClock()
    account = DriverAccount(clock)
    clock.advance(100 * PROGRESS_MS)
    travelled(account)
    with caplog.at_level(logging.INFO, "pyproducer.spark"):
        account.add(TaskNumbers(row_count=10))
        assert caplog.messages == []
        clock.advance(PROGRESS_MS)
        account.add(TaskNumbers(row_count=10))
    assert [message.partition(":")[0] for message in caplog.messages] == [f"after {PROGRESS_MS // 1000} s, so far"]


def test_sink_tells_what_it_delivered_and_a_copy_in_a_worker_nothing(made: list[Accumulator]) -> None:
    sink = KafkaSink({"bootstrap.servers": "127.0.0.1:9092"}, topic="t")
    copy = pickle.loads(pickle.dumps(sink))
    copy.tell(TaskNumbers(row_count=3, slowest_node=2, slowest_node_ms=5))
    made[0].add(copy._account._accumulator.value)
    assert sink.delivered == DeliveredNumbers(task_count=1, row_count=3, slowest_node=2, slowest_node_ms=5)
    assert str(sink.delivered) == ("3 rows stored by 1 tasks: 0 bytes in 0 batches and 0 requests, 0 rows sent again; "
                                   "the slowest broker, node 2, took 5 ms for a request")
    assert copy.delivered == DeliveredNumbers()
