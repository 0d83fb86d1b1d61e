"""How long a caller waits; what a lock is in a child process, where none of the threads is that may have held it."""

from __future__ import annotations

import threading
from decimal import Decimal
from fractions import Fraction

import pytest

from pyproducer.common.clock import SystemClock
from pyproducer.common.waiting import SYSTEM_LOCKS, checked_timeout, new_cell, release_in_child
from tests.support.patience import GIVE_UP_S


@pytest.mark.parametrize(("timeout", "seconds"), [
    (None, None), (0, 0.0), (1.5, 1.5), (threading.TIMEOUT_MAX, threading.TIMEOUT_MAX), (Decimal("0.5"), 0.5),
    (Fraction(1, 4), 0.25), (-1, 0.0), (-0.001, 0.0), (float("-inf"), 0.0), (float("inf"), None), (1e300, None),
    (10**400, None), (threading.TIMEOUT_MAX + 1000, None)])
def test_timeout_when_it_is_a_number_then_seconds_that_a_thread_can_wait(timeout, seconds):
    assert checked_timeout(timeout) == seconds
    assert threading.Event().wait(0 if seconds is None else seconds and 0.001) is False


def test_wait_when_it_is_longer_than_a_thread_can_wait_then_there_is_no_overflow() -> None:
    cell = new_cell()
    cell.release()
    assert SystemClock().wait(cell, (2**63 - 1) / 1000)


def test_lock_when_another_thread_held_it_then_whoever_waits_for_it_gets_it() -> None:
    """The one who waits is the caller whose signal's handler forked: he goes on waiting in the child."""
    lock = SYSTEM_LOCKS.rlock()
    holding = threading.Thread(target=lambda: (lock.acquire(), lock.acquire()))
    holding.start()
    holding.join()
    began, got = threading.Event(), threading.Event()

    def wait() -> None:
        began.set()
        if lock.acquire(timeout=GIVE_UP_S):
            got.set()
            lock.release()

    waiting = threading.Thread(target=wait)
    waiting.start()
    assert began.wait(GIVE_UP_S)
    release_in_child(lock)
    waiting.join(GIVE_UP_S)
    assert got.is_set()


def test_lock_when_this_thread_holds_it_then_it_stays_held() -> None:
    lock = SYSTEM_LOCKS.rlock()
    with lock:
        release_in_child(lock)
        assert lock._is_owned()


def test_lock_when_nobody_has_it_then_it_is_as_before() -> None:
    lock = SYSTEM_LOCKS.rlock()
    release_in_child(lock)
    with lock:
        pass
