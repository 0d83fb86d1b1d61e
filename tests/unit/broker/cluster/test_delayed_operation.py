from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from pyproducer.broker.cluster.delayed_operation import DelayedOperation, DelayedOperationPurgatory
from pyproducer.broker.cluster.timer import Timer
from pyproducer.common.clock import SystemClock
from tests.support.clock import ManualClock
from tests.support.patience import GIVE_UP_S


class Waiting(DelayedOperation):
    def __init__(self, delay_ms: int = 60_000) -> None:
        super().__init__(delay_ms)
        self.happened = False
        self.looks = 0
        self.outcomes: list[bool] = []
        self.done = threading.Event()

    def can_complete(self) -> bool:
        self.looks += 1
        return self.happened

    def on_complete(self, *, expired: bool) -> None:
        self.outcomes.append(expired)
        self.done.set()


@pytest.fixture
def timer() -> Iterator[Timer]:
    made = Timer(SystemClock(), name="test-timer")
    made.start()
    yield made
    made.stop()


@pytest.fixture
def purgatory(timer: Timer) -> DelayedOperationPurgatory[str]:
    return DelayedOperationPurgatory(timer)


def test_operation_that_can_complete_does_so_at_once(purgatory: DelayedOperationPurgatory[str]) -> None:
    operation = Waiting()
    operation.happened = True
    assert purgatory.try_complete_else_watch(operation, ["a"])
    assert operation.outcomes == [False]
    assert len(purgatory) == 0


def test_event_completes_the_operations_of_its_key_only(purgatory: DelayedOperationPurgatory[str]) -> None:
    first, second = Waiting(), Waiting()
    assert not purgatory.try_complete_else_watch(first, ["a", "b"])
    assert not purgatory.try_complete_else_watch(second, ["c"])
    first.happened = second.happened = True
    assert purgatory.check_and_complete("b") == 1
    assert (first.outcomes, second.outcomes) == ([False], [])
    assert purgatory.check_and_complete("a") == 0, "it is forgotten under its other keys too"
    assert len(purgatory) == 1


def test_event_that_is_not_enough_leaves_the_operation(purgatory: DelayedOperationPurgatory[str]) -> None:
    operation = Waiting()
    purgatory.try_complete_else_watch(operation, ["a"])
    assert purgatory.check_and_complete("a") == 0
    assert operation.outcomes == []
    assert len(purgatory) == 1


def test_event_between_the_first_look_and_the_entry_is_not_lost(purgatory: DelayedOperationPurgatory[str]) -> None:
    class Racing(Waiting):
        def can_complete(self) -> bool:
            found = super().can_complete()
            self.happened = True  # right after the first look
            return found

    operation = Racing()
    assert purgatory.try_complete_else_watch(operation, ["a"])
    assert (operation.looks, operation.outcomes) == (2, [False])
    assert len(purgatory) == 0


def test_time_completes_as_expired_once(purgatory: DelayedOperationPurgatory[str]) -> None:
    operation = Waiting(20)
    purgatory.try_complete_else_watch(operation, ["a"])
    assert operation.done.wait(GIVE_UP_S)
    operation.happened = True
    assert purgatory.check_and_complete("a") == 0
    assert operation.outcomes == [True]
    assert len(purgatory) == 0
    assert len(purgatory) == 0


def test_complete_all_ends_everything(purgatory: DelayedOperationPurgatory[str]) -> None:
    operations = [Waiting() for _ in range(3)]
    for operation in operations:
        purgatory.try_complete_else_watch(operation, ["a", "b"])
    purgatory.complete_all()
    assert [operation.outcomes for operation in operations] == [[True]] * 3
    assert len(purgatory) == 0


def test_many_threads_complete_each_operation_once(purgatory: DelayedOperationPurgatory[str]) -> None:
    operations = [Waiting() for _ in range(200)]
    for operation in operations:
        purgatory.try_complete_else_watch(operation, ["a"])
        operation.happened = True
    threads = [threading.Thread(target=purgatory.check_and_complete, args=("a",)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [operation.outcomes for operation in operations] == [[False]] * 200


def test_timer_runs_tasks_in_the_order_of_their_time() -> None:
    clock = ManualClock()
    timer = Timer(clock, name="test-timer")
    ran: list[str] = []
    done = threading.Event()
    timer.schedule(60, done.set)
    timer.schedule(40, lambda: ran.append("third"))
    timer.schedule(10, lambda: ran.append("first"))
    timer.schedule(20, lambda: ran.append("cancelled")).cancel()
    timer.schedule(30, lambda: ran.append("second"))
    timer.schedule(61, lambda: ran.append("too early"))
    clock.advance(60)
    timer.start()
    assert done.wait(GIVE_UP_S)
    timer.stop()
    assert ran == ["first", "second", "third"]


def test_timer_when_an_earlier_task_comes_then_it_does_not_sleep_for_the_later_one(timer: Timer) -> None:
    done = threading.Event()
    timer.schedule(3_600_000, lambda: None)
    timer.schedule(1, done.set)
    assert done.wait(GIVE_UP_S)


def test_timer_goes_on_after_a_task_that_fails(timer: Timer, caplog: pytest.LogCaptureFixture) -> None:
    def fail() -> None:
        raise RuntimeError("by the test")

    done = threading.Event()
    timer.schedule(1, fail)
    timer.schedule(5, done.set)
    assert done.wait(GIVE_UP_S)
    assert "by the test" in caplog.text


def test_timer_drops_cancelled_tasks_when_they_are_many(timer: Timer) -> None:
    for _ in range(5000):
        timer.schedule(60_000, lambda: None).cancel()
    assert len(timer) < 2100
