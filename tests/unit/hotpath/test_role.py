"""Who takes the sender's turns: both twins, side by side."""

from __future__ import annotations

import importlib
import threading
from _thread import LockType, allocate_lock
from typing import Any

import pytest

from pyproducer import hotpath
from pyproducer.hotpath import _python_role

GIVE_UP_S = 60
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
    role.stand_aside(closed_cell())  # the thread sleeps on, in another cell
    assert role.run(lambda *_: pytest.fail("it is taken"), None, None) is False
    go_on.set()
    thread.join(GIVE_UP_S)
    assert role.is_free
    assert role.take_back()


def test_take_back_when_nobody_has_the_role_then_it_is_the_threads_again(role: Any) -> None:
    role.stand_aside(closed_cell())
    assert role.take_back() is True
    assert (role.is_free, role.bell) == (False, None)
    assert role.run(lambda *_: pytest.fail("it was taken back"), None, None) is False


def test_ring_when_the_thread_is_up_or_was_rung_then_nothing_happens(role: Any) -> None:
    role.ring()
    bell = closed_cell()
    role.stand_aside(bell)
    role.ring()
    role.ring()
    assert not bell.locked()


def test_python_text_when_asked_whether_it_is_safe_then_it_is_not() -> None:
    assert _python_role.IS_SAFE is False
    assert hotpath.ROLE_IS_SAFE is (hotpath.IMPL == "native")
