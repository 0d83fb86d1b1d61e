"""The table of a producer's life: its moves, its deadline, and what each state says to a call."""

from __future__ import annotations

import threading

import pytest

from pyproducer.accumulator.life import Life, LifeState
from pyproducer.common.errors import ForkedProducerError, IllegalStateError, ProducerClosedError, ProducerDeadError
from pyproducer.common.waiting import Cell
from tests.support.clock import ManualClock
from tests.support.patience import GIVE_UP_S


def life_in(state: LifeState) -> Life:
    life = Life("orders", ManualClock(1000))
    if state in (LifeState.CLOSING, LifeState.CLOSED):
        assert life.begin_closing("close() was called", None)
    if state is LifeState.CLOSED:
        life.end()
    elif state is LifeState.DEAD:
        life.die(RuntimeError("a bug"))
    elif state is LifeState.FORKED:
        life.mark_forked()
    assert life.state is state
    return life


def test_deadline_when_several_close_then_the_earliest_holds() -> None:
    life = life_in(LifeState.OPEN)
    assert life.begin_closing("first", 10)
    assert life.ms_to_forced_end(1000) == 10_000
    for timeout_s, left_ms in ((5, 5000), (7.5, 5000), (None, 5000), (0, 0)):
        assert not life.begin_closing("again", timeout_s)
        assert life.ms_to_forced_end(1000) == left_ms
    assert "(first)" in str(life.refusal())


def test_deadline_when_time_passes_then_it_comes_nearer_and_never_below_zero() -> None:
    life = life_in(LifeState.OPEN)
    assert life.ms_to_forced_end(1000) is None
    life.begin_closing("somebody", 2)
    assert [life.ms_to_forced_end(now_ms) for now_ms in (1000, 2999, 3000, 9000)] == [2000, 1, 0, 0]


@pytest.mark.parametrize(("state", "error"), [
    (LifeState.CLOSING, ProducerClosedError), (LifeState.CLOSED, ProducerClosedError),
    (LifeState.DEAD, ProducerDeadError), (LifeState.FORKED, ForkedProducerError)])
def test_call_when_the_state_does_not_allow_it_then_the_error_says_why(
        state: LifeState, error: type[IllegalStateError]) -> None:
    life = life_in(state)
    with pytest.raises(error) as raised:
        life.ensure_open()
    assert raised.value.outcome == "not_sent"
    if state is not LifeState.FORKED:
        assert "orders" in str(raised.value)
        life.ensure_may_wait("flush()")
    else:
        with pytest.raises(ForkedProducerError) as raised:
            life.ensure_may_wait("flush()")
        assert raised.value.outcome == "unknown", "the records are the parent's, which goes on with them"


def test_move_when_the_table_has_none_then_the_state_stays() -> None:
    for state in (LifeState.CLOSED, LifeState.DEAD, LifeState.FORKED):
        life = life_in(state)
        assert not life.begin_closing("too late", 1)
        life.die(ValueError("too late"))
        life.end()
        assert life.state is state
        life.mark_forked()
        assert life.is_forked


def test_end_when_somebody_waits_for_it_then_he_goes_on() -> None:
    life = life_in(LifeState.CLOSING)
    assert not life.await_end(0)
    waiting = threading.Thread(target=life.await_end, args=(None,))
    waiting.start()
    life.end()
    waiting.join(GIVE_UP_S)
    assert not waiting.is_alive()
    assert life.await_end(0)


def test_end_when_another_thread_gets_the_ident_of_the_sender_thread_then_it_may_wait() -> None:
    """Idents are given again: flush() in a thread that began after close() was taken for one in a callback."""
    life = life_in(LifeState.CLOSING)
    life.sender_ident = threading.get_ident()
    life.end()
    life.ensure_may_wait("flush()")
    assert not life.is_on_sender_thread


def test_wait_when_the_sender_thread_asks_then_it_is_refused() -> None:
    life = life_in(LifeState.OPEN)
    life.sender_ident = threading.get_ident()
    with pytest.raises(IllegalStateError, match="inside a callback"):
        life.ensure_may_wait("result()")
    life.ensure_open()


@pytest.mark.parametrize("state", [LifeState.OPEN, LifeState.CLOSING, LifeState.CLOSED, LifeState.DEAD])
def test_fork_when_the_child_rebuilds_then_only_what_was_open_gets_another_life(state: LifeState) -> None:
    life = life_in(state)
    life.mark_forked(rebuilds=True)
    assert life.can_be_rebuilt == (state is LifeState.OPEN)
    if state is LifeState.OPEN:
        with pytest.raises(ForkedProducerError, match="the parent's"):
            life.ensure_may_wait("result()")
        life.close_in_child("close() was called in the child")
        assert not life.can_be_rebuilt
        assert life.closed_in_child_by == "close() was called in the child"
    with pytest.raises(ProducerClosedError):
        life.ensure_open()


def test_wait_when_a_signals_handler_forks_in_it_then_the_child_is_told() -> None:
    """It slept on in the child, where nobody rings."""
    life = life_in(LifeState.OPEN)
    cell = life.locks.cell()
    cell.release()
    life.mark_forked()
    with pytest.raises(ForkedProducerError):
        life.wait(cell, None)


def test_wait_when_nobody_rings_it_in_a_child_then_it_is_woken_there() -> None:
    """Who waited for the rows of a send_batch that go one by one slept on in the child: no batch has his future."""
    class ForkingClock(ManualClock):
        def wait(self, cell: Cell, timeout_s: float | None) -> bool:
            life.mark_forked()
            life.wake_in_child()
            assert not cell.locked()
            life.wake_in_child()  # a cell opens once
            return True

    life = Life("orders", ForkingClock(1000))
    with pytest.raises(ForkedProducerError):
        life.wait(life.locks.cell(), None)
    life.wake_in_child()
