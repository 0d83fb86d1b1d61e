"""One producer per process and key."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pytest

from pyproducer.common.errors import DeliveryFailedError
from pyproducer.common.waiting import Cell
from pyproducer.spark.pool import ProducerPool
from tests.support.clock import ManualClock
from tests.support.patience import GIVE_UP_S
from tests.unit.spark.doubles import FakeProducer


class PassingClock(ManualClock):
    """A wait takes as long as it was meant to, unless the cell is open."""

    def wait(self, cell: Cell, timeout_s: float | None) -> bool:
        assert timeout_s is not None
        if cell.locked():
            self.advance(round(timeout_s * 1000))
        return not cell.locked()


def make_pool(threads: list[Callable[[], None]] | None = None) -> tuple[ProducerPool, ManualClock, list[FakeProducer]]:
    """Return a pool whose thread does not run but where a test calls what was to run."""
    started = [] if threads is None else threads
    made: list[FakeProducer] = []

    def make(props: Any) -> FakeProducer:
        made.append(FakeProducer(props))
        return made[-1]

    clock = PassingClock()
    return (ProducerPool(make, clock=clock, idle_ms=1000, start_thread=lambda run, name: started.append(run)), clock,
            made)


def test_lease_twice_gives_the_same_producer_and_leaves_it_open() -> None:
    pool, _, made = make_pool()
    with pool.lease("a", {"x": 1}) as first:
        pass
    with pool.lease("a", {"x": 1}) as second:
        pass
    assert first.producer is second.producer
    assert first.window is second.window
    assert len(made) == 1
    assert made[0].close_timeouts == []
    assert made[0].props == {"x": 1}


def test_lease_when_the_task_fails_closes_that_producer_and_makes_another() -> None:
    pool, _, made = make_pool()
    with pytest.raises(ArithmeticError), pool.lease("a", {}):
        raise ArithmeticError
    assert len(made[0].close_timeouts) == 1
    with pool.lease("a", {}) as second:
        assert second.producer is not made[0]


def test_lease_when_another_task_uses_the_failed_one_closes_it_after_both() -> None:
    pool, _, made = make_pool()
    with pool.lease("a", {}):
        with pytest.raises(ArithmeticError), pool.lease("a", {}):
            raise ArithmeticError
        assert made[0].close_timeouts == []
    assert len(made[0].close_timeouts) == 1


def test_lease_when_a_failed_ones_other_task_fails_later_leaves_the_new_one_alone() -> None:
    pool, _, made = make_pool()
    older = pool.lease("a", {})
    older.__enter__()
    with pytest.raises(ArithmeticError), pool.lease("a", {}):
        raise ArithmeticError
    with pool.lease("a", {}) as second:
        assert second.producer is made[1]
    older.__exit__(ArithmeticError, ArithmeticError(), None)
    with pool.lease("a", {}) as third:
        assert third.producer is made[1]
    assert [len(producer.close_timeouts) for producer in made] == [1, 0]


def test_lease_when_others_are_idle_closes_them_but_none_in_use() -> None:
    pool, clock, made = make_pool()
    with pool.lease("idle", {}):
        pass
    with pool.lease("used", {}):
        clock.advance(1000)
        with pool.lease("new", {}):
            pass
        assert [len(producer.close_timeouts) for producer in made] == [1, 0, 0]


def test_lease_when_the_pool_is_full_closes_the_longest_unused_but_none_in_use() -> None:
    pool, clock, made = make_pool()
    with pool.lease("used", {}, pool_size=3):
        for key in ("first", "second"):
            clock.advance(1)
            with pool.lease(key, {}, pool_size=3):
                pass
        clock.advance(1)
        with pool.lease("first", {}, pool_size=3):
            pass
        with pool.lease("third", {}, pool_size=3):
            assert [len(producer.close_timeouts) for producer in made] == [0, 0, 1, 0]
            with pool.lease("fourth", {}, pool_size=1):  # the others are in use, but for "first"
                assert [len(producer.close_timeouts) for producer in made] == [0, 1, 1, 0, 0]


def test_close_closes_what_is_not_in_use() -> None:
    pool, _, made = make_pool()
    with pool.lease("used", {}):
        with pool.lease("unused", {}):
            pass
        pool.close()
        assert [len(producer.close_timeouts) for producer in made] == [0, 1]


def test_lease_after_fork_makes_a_producer_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    pool, _, made = make_pool()
    with pool.lease("a", {}):
        pass
    pid = os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: pid + 1)
    with pool.lease("a", {}) as child:
        assert child.producer is made[1]
    assert made[0].close_timeouts == []  # the parent's is the parent's to close


def test_lease_when_closing_an_idle_one_is_interrupted_gives_back_what_it_took() -> None:
    """It stayed lent for good: neither the next tasks nor close() ended it."""
    def interrupted(timeout: float | None = None) -> None:
        raise KeyboardInterrupt

    pool, clock, made = make_pool()
    with pool.lease("idle", {}):
        pass
    made[0].close = interrupted  # type: ignore[method-assign]  # a double's
    clock.advance(1000)
    with pytest.raises(KeyboardInterrupt), pool.lease("new", {}):
        pytest.fail("lent all the same")
    pool.close()
    assert len(made[1].close_timeouts) == 1


def test_lease_when_the_producer_cannot_be_made_keeps_the_others() -> None:
    """A worker has not got the trust store: what had been taken out for the new one was nobody's any more, and stayed
    connected until the garbage collector came upon it.
    """
    pool, clock, made = make_pool()
    for key in ("first", "second"):
        with pool.lease(key, {}):
            clock.advance(1)

    def refuse(props: Any) -> FakeProducer:
        raise ArithmeticError

    pool._make_producer = refuse
    with pytest.raises(ArithmeticError), pool.lease("new", {}, pool_size=1):
        pytest.fail("lent all the same")
    pool.close()
    assert [len(producer.close_timeouts) for producer in made] == [1, 1]


def test_lease_when_closing_an_idle_one_is_interrupted_closes_the_other_idle_ones() -> None:
    def interrupted(timeout: float | None = None) -> None:
        raise KeyboardInterrupt

    pool, clock, made = make_pool()
    for key in ("first", "second"):
        with pool.lease(key, {}):
            clock.advance(1)
    made[0].close = interrupted  # type: ignore[method-assign]  # a double's
    with pytest.raises(KeyboardInterrupt), pool.lease("new", {}, pool_size=1):
        pytest.fail("lent all the same")
    assert len(made[1].close_timeouts) == 1


def test_lease_when_close_tells_of_failed_records_keeps_the_tasks_own_error() -> None:
    """With pyproducer.on.unretrieved=raise close() raises, too; its error took the place of the one with the counts."""
    def telling(timeout: float | None = None) -> None:
        closed.append(timeout)
        raise DeliveryFailedError("1 record(s) failed")

    def fail(producer: Any) -> None:
        producer.close = telling
        raise ArithmeticError

    closed: list[float | None] = []
    pool, clock, made = make_pool()
    with pytest.raises(ArithmeticError), pool.lease("a", {}) as lent:
        fail(lent.producer)
    with pool.lease("b", {}):
        pass
    made[1].close = telling  # type: ignore[method-assign]  # a double's
    clock.advance(1000)
    with pool.lease("c", {}):
        pass
    assert len(closed) == 2


def cannot_close(producer: FakeProducer) -> None:
    """Make close() fail as nothing that it documents does: by a bug, or an interrupt."""
    def failing(timeout: float | None = None) -> None:
        FakeProducer.close(producer, timeout)
        raise ArithmeticError(f"close number {len(producer.close_timeouts)}")

    producer.close = failing  # type: ignore[method-assign]  # a double's


def test_close_when_one_producer_cannot_be_closed_then_the_others_are() -> None:
    """They were out of the pool already, and open for good."""
    pool, _, made = make_pool()
    with ExitStack() as leases:
        for key in "abc":
            leases.enter_context(pool.lease(key, {}))
    cannot_close(made[0])
    with pytest.raises(ArithmeticError):
        pool.close()
    assert [len(producer.close_timeouts) for producer in made] == [1, 1, 1]


def test_lease_when_an_idle_producer_cannot_be_closed_then_the_other_idle_ones_are() -> None:
    pool, clock, made = make_pool()
    for key in "ab":
        with pool.lease(key, {}):
            pass
    cannot_close(made[0])
    clock.advance(1000)
    with pytest.raises(ArithmeticError), pool.lease("new", {}):
        pytest.fail("lent all the same")
    assert [len(producer.close_timeouts) for producer in made] == [1, 1, 1]  # its own, too: nobody got it


def test_pool_when_a_producer_cannot_be_closed_then_its_thread_goes_on_with_the_rest(
        caplog: pytest.LogCaptureFixture) -> None:
    """The thread ended, and the pool believed that it watched: what was idle stayed open."""
    threads: list[Callable[[], None]] = []
    pool, clock, made = make_pool(threads)
    with pool.lease("a", {}):
        pass
    clock.advance(400)
    with pool.lease("b", {}):
        pass
    cannot_close(made[0])
    threads[0]()
    assert [len(producer.close_timeouts) for producer in made] == [1, 1]
    assert "close number 1" in caplog.text
    with pool.lease("a", {}):
        pass
    assert len(threads) == 2


def test_pool_when_nobody_asks_any_more_closes_each_producer_after_its_time() -> None:
    """They stayed open until the next task of ours: a worker that went on with others' kept connections for ever."""
    threads: list[Callable[[], None]] = []
    pool, clock, made = make_pool(threads)
    with pool.lease("a", {}):
        assert threads == []  # nothing is idle yet
    clock.advance(400)
    with pool.lease("b", {}):
        pass
    assert len(threads) == 1
    closed_ms: list[int] = []
    for producer in made:
        producer.close = lambda timeout=None: closed_ms.append(clock.now_ms())  # type: ignore[method-assign, misc]
    threads[0]()
    assert closed_ms == [1000, 1400]
    with pool.lease("a", {}) as again:
        assert again.producer is made[2]
    assert len(threads) == 2


def test_pool_when_a_producer_is_in_use_again_it_is_not_closed_and_its_time_begins_anew() -> None:
    threads: list[Callable[[], None]] = []
    pool, clock, made = make_pool(threads)
    with pool.lease("a", {}):
        pass
    with pool.lease("a", {}):
        threads[0]()  # nothing is idle: it ends
        assert made[0].close_timeouts == []
        clock.advance(5000)
    assert len(threads) == 2
    threads[1]()
    assert clock.now_ms() == 6000
    assert len(made[0].close_timeouts) == 1


def test_close_ends_the_thread_at_once() -> None:
    ended = threading.Event()

    def start(run: Callable[[], None], name: str) -> None:
        threading.Thread(target=lambda: (run(), ended.set()), name=name, daemon=True).start()

    pool = ProducerPool(FakeProducer, start_thread=start)
    with pool.lease("a", {}):
        pass
    pool.close()
    assert ended.wait(GIVE_UP_S)


def test_lease_when_no_thread_can_be_had_then_the_next_task_closes_what_is_idle() -> None:
    def refuse(run: Callable[[], None], name: str) -> None:
        raise RuntimeError("can't start new thread")

    clock = ManualClock()
    made: list[FakeProducer] = []

    def make(props: Any) -> FakeProducer:
        made.append(FakeProducer(props))
        return made[-1]

    pool = ProducerPool(make, clock=clock, idle_ms=1000, start_thread=refuse)
    with pool.lease("a", {}):
        pass
    clock.advance(1000)
    with pool.lease("b", {}):
        assert [len(producer.close_timeouts) for producer in made] == [1, 0]
