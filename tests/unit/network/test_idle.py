from __future__ import annotations

import pytest

from pyproducer.network.channel_state import ChannelPhase
from tests.support.clock import ManualClock
from tests.support.selector_pair import BROKER, CLIENT, SelectorPair, make_selector, make_server_selector
from tests.unit.network.watching import watch_sleeps


def test_idle_when_nothing_happens_for_too_long_then_expired() -> None:
    clock = ManualClock()
    client = make_selector(connections_max_idle_ms=1000)
    with SelectorPair(client=client) as pair:
        client.poll(0, clock.advance(999))
        assert client.disconnected == {}
        pair.request(b"question")
        client.poll(0, clock.now_ms())
        client.poll(0, clock.advance(999))
        assert client.disconnected == {}
        client.poll(5000, clock.advance(1))
        assert client.disconnected[CLIENT].phase is ChannelPhase.EXPIRED
        assert client.disconnected[CLIENT].error is None


def test_idle_when_the_poll_slept_for_long_then_what_happened_in_it_counts_as_late() -> None:
    client = make_selector(connections_max_idle_ms=1000)
    with SelectorPair(client=client) as pair:
        pair.respond(b"answer")
        client.poll(1000, 0)  # began at 0 and, as far as it knows, saw the answer then
        assert client.completed_receives
        client.poll(0, 999)
        client.poll(0, 1998)
        assert client.disconnected == {}
        client.poll(0, 1999)
        assert CLIENT in client.disconnected


def test_idle_when_muted_or_mid_frame_then_not_idle() -> None:
    broker = make_server_selector(connections_max_idle_ms=1000)
    with SelectorPair(broker=broker):
        broker.mute(BROKER)
        for now_ms in (1000, 2000, 3000):
            broker.poll(0, now_ms)
        assert broker.disconnected == {}
        broker.unmute(BROKER)
        broker.poll(0, 3999)
        assert broker.disconnected == {}
        broker.poll(0, 4000)
        assert BROKER in broker.disconnected


def test_idle_when_the_poll_may_sleep_longer_than_that_then_it_wakes_in_time(
        monkeypatch: pytest.MonkeyPatch) -> None:
    client = make_selector(connections_max_idle_ms=50)
    with SelectorPair(client=client):
        sleeps = watch_sleeps(monkeypatch)
        client.poll(10_000, 0)
        assert [sleep.timeout_s for sleep in sleeps] == [0.05]
