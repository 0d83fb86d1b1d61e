"""Who takes the sender's turns: both twins, side by side."""

from __future__ import annotations

import importlib
import sys
import threading
from _thread import LockType, allocate_lock
from typing import Any

import pytest

from pyproducer import hotpath
from tests.support.patience import GIVE_UP_S

TWINS = ["python", *(["native"] if hotpath.IMPL == "native" else [])]


@pytest.fixture(params=TWINS)
def role(request: pytest.FixtureRequest) -> Any:
    return importlib.import_module(f"pyproducer.hotpath._{request.param}_role").Role()


def closed_cell() -> LockType:
    cell = allocate_lock()
    cell.acquire()
    return cell


def test_role_when_new_then_it_is_the_threads(role: Any) -> None:
    assert (role.is_free, role.caller, role.step_count, role.is_torn, role.bell) == (False, 0, 0, False, None)
    assert role.run(lambda *_: pytest.fail("nobody gave it away"), 1, 2) is False
    assert role.step_count == 0


def test_run_when_the_role_is_free_then_the_step_is_taken_with_it(role: Any) -> None:
    bell = closed_cell()
    role.stand_aside(bell)
    seen = []

    def step(outcome: object, deadline_ms: object) -> bool:
        seen.append((outcome, deadline_ms, role.caller, role.is_free, role.take_back()))
        return True

    assert role.run(step, "outcome", 7) is True
    assert seen == [("outcome", 7, threading.get_ident(), False, False)]
    assert (role.is_free, role.caller, role.step_count, role.is_torn) == (True, 0, 1, False)
    assert bell.locked(), "all is done: the thread need not look"


@pytest.mark.parametrize("said", [False, None, 1, "yes"])
def test_run_when_the_step_does_not_say_that_all_is_done_then_the_thread_is_rung(role: Any, said: object) -> None:
    bell = closed_cell()
    role.stand_aside(bell)
    assert role.run(lambda *_: said, None, None) is False
    assert not bell.locked()
    assert role.is_free
    assert not role.is_torn


@pytest.mark.parametrize("raised", [ValueError("x"), KeyboardInterrupt(), SystemExit(3)])
def test_run_when_the_step_raises_then_the_role_is_torn_and_free_and_the_thread_is_rung(
        role: Any, raised: BaseException) -> None:
    bell = closed_cell()
    role.stand_aside(bell)

    def step(*_: object) -> bool:
        raise raised

    with pytest.raises(type(raised)) as caught:
        role.run(step, None, None)
    assert caught.value is raised
    assert (role.is_torn, role.is_free, role.caller) == (True, True, 0)
    assert not bell.locked()


def test_run_when_another_caller_has_the_role_then_no_step_is_taken(role: Any) -> None:
    role.stand_aside(closed_cell())
    inside, go_on = threading.Event(), threading.Event()

    def step(*_: object) -> bool:
        inside.set()
        return go_on.wait(GIVE_UP_S)

    thread = threading.Thread(target=role.run, args=(step, None, None), daemon=True)
    thread.start()
    assert inside.wait(GIVE_UP_S)
    assert role.caller == thread.ident
    assert role.run(lambda *_: pytest.fail("it is taken"), None, None) is False
    assert role.take_back() is False
    go_on.set()
    thread.join(GIVE_UP_S)
    assert role.is_free
    assert role.take_back()


@pytest.mark.parametrize("after", ["a ring", "an exception"])
def test_run_when_the_thread_was_called_and_is_not_back_yet_then_no_step_is_taken(role: Any, after: str) -> None:
    """Who waited again after Ctrl-C went on from what it had left: for an answer that was read, until its timeout."""
    role.stand_aside(closed_cell())
    if after == "a ring":
        role.ring()
    else:
        with pytest.raises(ZeroDivisionError):
            role.run(lambda *_: 1 / 0, None, None)
    assert role.is_called
    assert role.run(lambda *_: pytest.fail("the thread comes first"), None, None) is False
    assert role.take_back()
    assert not role.is_called
    role.stand_aside(closed_cell())
    assert role.run(lambda *_: True, None, None) is True


def test_run_when_somebody_rang_in_the_step_then_the_thread_is_rung_once_more_at_its_end(role: Any) -> None:
    bell = closed_cell()
    role.stand_aside(bell)

    def step(*_: object) -> bool:
        role.ring()
        assert bell.acquire(blocking=False), "the thread woke up"
        assert role.take_back() is False
        return True

    assert role.run(step, None, None) is True
    assert not bell.locked()
    assert role.is_called


def test_run_when_the_thread_wants_to_know_the_end_then_it_is_woken_and_not_called(role: Any) -> None:
    bell = closed_cell()
    role.stand_aside(bell)
    role.rings_at_end = True
    assert role.run(lambda *_: True, None, None) is True
    assert not bell.locked()
    assert not role.is_called
    assert role.take_back()
    assert not role.rings_at_end


def test_take_back_when_nobody_has_the_role_then_it_is_the_threads_again(role: Any) -> None:
    role.stand_aside(closed_cell())
    assert role.take_back() is True
    assert (role.is_free, role.bell) == (False, None)
    assert role.run(lambda *_: pytest.fail("it was taken back"), None, None) is False


def test_ring_when_the_thread_is_up_or_was_rung_then_nothing_happens(role: Any) -> None:
    role.ring()
    assert not role.is_called
    bell = closed_cell()
    role.stand_aside(bell)
    role.ring()
    role.ring()
    assert not bell.locked()


def test_role_when_asked_whether_it_is_safe_then_it_is_where_it_is_compiled() -> None:
    # Without the GIL nobody is: two callers could find the role free in the same moment.
    has_gil = getattr(sys, "_is_gil_enabled", lambda: True)()
    assert hotpath.ROLE_IS_SAFE is (hotpath.IMPL == "native" and has_gil)
