from __future__ import annotations

import selectors
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pyproducer.network.interest import Interest
from pyproducer.network.wakeup import Wakeup
from tests.support.selector_pair import make_selector
from tests.unit.network.watching import watch_sleeps


class ScriptedPoller(selectors.DefaultSelector):
    """The system's, which does not sleep: it says for how long it was to, and does something meanwhile."""

    def __init__(self) -> None:
        super().__init__()
        self.timeouts: list[float | None] = []
        self.meanwhile: Callable[[], object] = lambda: None

    def select(self, timeout: float | None = None) -> Any:
        self.timeouts.append(timeout)
        self.meanwhile()
        return super().select(0)


@pytest.fixture
def waker() -> Iterator[Wakeup]:
    waker = Wakeup()
    yield waker
    waker.close()


@pytest.fixture
def poller() -> ScriptedPoller:
    return ScriptedPoller()


@pytest.fixture
def interest(waker: Wakeup, poller: ScriptedPoller) -> Iterator[Interest]:
    interest = Interest(waker, lambda: poller)
    yield interest
    interest.close(())


def pending_bytes(waker: Wakeup) -> int:
    try:
        return len(waker.receiver.recv(10_000, socket.MSG_PEEK))
    except BlockingIOError:
        return 0


def test_wakeup_when_nobody_sleeps_then_no_byte_and_the_next_sleep_does_not_happen(
        waker: Wakeup, poller: ScriptedPoller, interest: Interest) -> None:
    for _ in range(1000):
        waker.wakeup()
    assert pending_bytes(waker) == 0
    for _ in range(2):
        assert interest.select(1000) == []
    assert poller.timeouts == [0, 1]


def test_wakeup_when_a_thousand_call_during_a_sleep_then_one_byte(
        waker: Wakeup, poller: ScriptedPoller, interest: Interest) -> None:
    seen: list[int] = []

    def ring() -> None:
        for _ in range(1000):
            waker.wakeup()
        seen.append(pending_bytes(waker))

    poller.meanwhile = ring
    assert interest.select(1000) == []
    assert seen == [1]
    assert pending_bytes(waker) == 0
    poller.meanwhile = lambda: None
    interest.select(1000)
    assert poller.timeouts == [1, 1], "what was asked for then was done then"


def test_wakeup_when_its_byte_comes_late_then_the_next_sleep_ends_early_and_none_is_lost(
        waker: Wakeup, poller: ScriptedPoller, interest: Interest) -> None:
    def stop_between_flag_and_byte() -> None:
        waker.is_requested = True

    poller.meanwhile = stop_between_flag_and_byte  # while the sleep ends for another reason
    interest.select(1000)
    waker._sender.send(b"\0")
    seen: list[int] = []
    poller.meanwhile = lambda: seen.append(pending_bytes(waker))
    interest.select(1000)  # may sleep: the work of that caller was seen; its byte ends this sleep
    assert poller.timeouts == [1, 1]
    assert seen == [1]
    assert pending_bytes(waker) == 0
    poller.meanwhile = waker.wakeup
    interest.select(1000)
    assert not waker.is_requested


def test_wakeup_when_it_comes_beside_the_drain_then_the_next_one_rings_again(
        waker: Wakeup, poller: ScriptedPoller, interest: Interest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A flag that stays, without its byte, silences all that call later."""
    drain = waker.drain

    def drain_beside_a_call() -> None:
        waker.wakeup()
        drain()

    monkeypatch.setattr(Wakeup, "drain", lambda _waker: drain_beside_a_call())
    poller.meanwhile = waker.wakeup
    interest.select(1000)
    monkeypatch.undo()
    seen: list[int] = []

    def ring() -> None:
        waker.wakeup()
        seen.append(pending_bytes(waker))

    poller.meanwhile = ring
    interest.select(1000)
    assert seen == [1]


def test_wakeup_when_the_sleep_ends_by_an_exception_then_nothing_is_left_of_it(
        waker: Wakeup, poller: ScriptedPoller, interest: Interest) -> None:
    def fail() -> None:
        waker.wakeup()
        raise KeyboardInterrupt

    poller.meanwhile = fail
    with pytest.raises(KeyboardInterrupt):
        interest.select(1000)
    assert not waker.is_sleeping
    assert not waker.is_requested
    poller.meanwhile = lambda: None
    interest.select(1000)
    assert pending_bytes(waker) == 0, "its byte ended the next sleep"


def test_wakeup_when_closed_then_harmless() -> None:
    waker = Wakeup()
    waker.is_sleeping = True
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
