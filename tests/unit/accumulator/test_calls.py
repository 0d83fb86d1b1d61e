"""Calls in the middle of others: what is noted, and what is refused."""

from __future__ import annotations

import threading

import pytest

from pyproducer.accumulator.calls import Calls
from pyproducer.common.errors import IllegalStateError
from tests.support.patience import GIVE_UP_S


def test_call_when_it_comes_in_the_middle_of_another_then_it_is_refused_and_that_one_goes_on() -> None:
    calls = Calls(threading.RLock())
    told: list[str] = []

    def nested() -> str:
        assert calls.is_nested
        with pytest.raises(IllegalStateError, match=r"flush\(\) was called in the middle of another call"):
            calls.run("flush()", told.append, "flush")
        assert calls.is_nested, "who was refused does not end what he came into"
        thread = threading.Thread(target=calls.run, args=("send()", told.append, "another thread"))
        thread.start()
        thread.join(GIVE_UP_S)
        return "done"

    assert calls.run("send()", nested) == "done"
    assert told == ["another thread"]
    assert not calls.inside
    with pytest.raises(ZeroDivisionError):
        calls.run("send()", lambda: 1 // 0)
    assert not calls.is_nested
    assert not calls.inside


def test_note_when_two_interrupts_left_it_then_it_is_forgotten_by_the_next_call() -> None:
    """The traceback of the second may be kept, as an interactive interpreter does: he was inside for ever."""
    calls = Calls(threading.RLock())
    calls.inside[threading.get_ident()] = threading.Lock()  # nobody has it
    assert not calls.is_nested
    assert not calls.inside
    assert calls.run("send()", lambda: 5) == 5


def test_note_when_a_finalizer_calls_as_it_is_made_then_the_call_is_inside_all_the_same(
        monkeypatch: pytest.MonkeyPatch) -> None:
    """It was written before its lock was taken: the finalizer took it for one that was left, and removed it."""
    calls = Calls(threading.RLock())
    real = threading.get_ident
    seen: list[bool] = []

    def get_ident() -> int:  # as if the collector ran there
        monkeypatch.setattr(threading, "get_ident", real)
        calls.run("flush()", lambda: None)
        return real()

    def step() -> None:
        seen.append(calls.is_nested)

    monkeypatch.setattr(threading, "get_ident", get_ident)
    calls.run("send()", step)
    assert seen == [True]


def test_future_when_its_lock_is_held_by_the_thread_then_a_call_is_in_the_middle_of_that() -> None:
    """A handler's send() waited for memory that the sender gives back when it has told futures, with their lock."""
    lock = threading.RLock()
    calls = Calls(lock)
    with lock, pytest.raises(IllegalStateError, match="in the middle"):
        calls.run("send()", lambda: None)
    assert calls.run("send()", lambda: 5) == 5
