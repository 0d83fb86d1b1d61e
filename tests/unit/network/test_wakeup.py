from __future__ import annotations

import threading
import time

import pytest

from pyproducer.network.wakeup import Wakeup
from tests.support.selector_pair import make_selector
from tests.unit.network.watching import watch_sleeps


def pending_bytes(waker: Wakeup) -> int:
    try:
        return len(waker.receiver.recv(10_000))
    except BlockingIOError:
        return 0


def test_wakeup_when_nobody_sleeps_then_no_byte_and_the_next_sleep_does_not_happen() -> None:
    waker = Wakeup()
    for _ in range(1000):
        waker.wakeup()
    assert pending_bytes(waker) == 0
    assert not waker.begin_sleep()
    waker.end_sleep(drain=False)
    assert waker.begin_sleep()
    waker.end_sleep(drain=False)
    waker.close()


def test_wakeup_when_a_thousand_call_during_a_sleep_then_one_byte() -> None:
    waker = Wakeup()
    assert waker.begin_sleep()
    for _ in range(1000):
        waker.wakeup()
    assert pending_bytes(waker) == 1
    waker.end_sleep(drain=True)
    assert waker.begin_sleep()
    waker.end_sleep(drain=False)
    waker.close()


def test_wakeup_when_its_byte_comes_late_then_the_next_sleep_ends_early_and_none_is_lost() -> None:
    waker = Wakeup()
    assert waker.begin_sleep()
    waker.is_requested = True  # a caller stopped here, between its two flags and its byte ...
    waker.end_sleep(drain=False)  # ... while the sleep ends for another reason
    waker._sender.send(b"\0")
    assert waker.begin_sleep()  # may sleep: the work of that caller was seen; its byte will end this sleep
    waker.end_sleep(drain=True)
    assert pending_bytes(waker) == 0
    waker.begin_sleep()
    waker.wakeup()
    assert pending_bytes(waker) == 1
    waker.close()


def test_wakeup_when_closed_then_harmless() -> None:
    waker = Wakeup()
    waker.begin_sleep()
    waker.close()
    waker.wakeup()


def test_wakeup_when_many_threads_hand_over_work_then_none_waits_for_the_timeout(
        monkeypatch: pytest.MonkeyPatch) -> None:
    """Every item is put and then announced; a lost wakeup would leave one lying for the whole timeout."""
    selector = make_selector()
    sleeps = watch_sleeps(monkeypatch)
    timeout_ms = 30_000
    workers, each = 4, 1500
    queue: list[int] = []
    taken = 0

    def work(seed: int) -> None:
        for index in range(each):
            queue.append(index)
            selector.wakeup()
            if (index + seed) % 7 == 0:  # let the poller fall asleep now and then
                time.sleep(0.0002)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(workers)]
    for thread in threads:
        thread.start()
    while taken < workers * each:
        selector.poll(timeout_ms, 0)
        while queue:
            queue.pop()
            taken += 1
    for thread in threads:
        thread.join()
    selector.close_all()
    assert [sleep for sleep in sleeps if sleep.timeout_s and not sleep.event_count] == []
