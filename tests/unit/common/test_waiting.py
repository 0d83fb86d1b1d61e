"""What a lock is in a child process, where none of the threads is that may have held it."""

from __future__ import annotations

import threading

from pyproducer.common.waiting import SYSTEM_LOCKS, release_in_child
from tests.support.patience import GIVE_UP_S


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
