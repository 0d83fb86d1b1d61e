"""A connection that is awaited is looked at first; nothing else is lost or held up by that."""

from __future__ import annotations

import select
import socket

import pytest

from pyproducer.network.interest import MOST_LOOKS_IN_A_ROW, READ, WRITE
from pyproducer.network.short_wait import ShortWait
from tests.support.selector_pair import CLIENT, SelectorPair, poll_until
from tests.unit.network.watching import watch_sleeps


def test_poll_when_an_answer_is_awaited_then_it_is_read_without_asking_the_system_for_events(
        monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ShortWait, "is_enough",
                        lambda wait, sock, timeout_ms: bool(select.select([sock], [], [], timeout_ms / 1000)[0]))
    with SelectorPair() as pair:
        pair.client.wakeup()
        monkeypatch.setattr(pair.client.interest, "_selector", None)  # would fail if it were asked
        pair.respond(b"answer")
        pair.broker.poll(0, 0)
        pair.client.poll(5000, 0, CLIENT)
        assert [receive.payload for receive in pair.client.completed_receives] == [b"answer"]
        monkeypatch.undo()
        sleeps = watch_sleeps(monkeypatch)
        pair.client.poll(5000, 0)
        assert [sleep.timeout_s for sleep in sleeps] == [0], "the wake-up was lost"


def test_poll_when_the_awaited_answer_does_not_come_then_it_sleeps_and_sees_everything(
        monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ShortWait, "is_enough", lambda wait, sock, timeout_ms: False)
    with SelectorPair() as pair:
        pair.respond(b"answer")
        pair.broker.poll(0, 0)
        pair.client.poll(5000, 0, CLIENT)
        assert [receive.payload for receive in pair.client.completed_receives] == [b"answer"]
        pair.client.poll(0, 0, "unknown")
        assert pair.client.completed_receives == []


def test_poll_when_the_awaited_connection_is_muted_then_it_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ShortWait, "is_enough", lambda wait, sock, timeout_ms: True)
    with SelectorPair() as pair:
        pair.client.mute(CLIENT)
        pair.respond(b"answer")
        pair.broker.poll(0, 0)
        pair.client.poll(20, 0, CLIENT)
        assert pair.client.completed_receives == []
        pair.client.unmute(CLIENT)
        pair.client.poll(5000, 0, CLIENT)
        assert [receive.payload for receive in pair.client.completed_receives] == [b"answer"]


def test_poll_when_the_awaited_connection_has_not_written_all_then_it_is_not_looked_at_alone(
        monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[bool] = []
    monkeypatch.setattr(ShortWait, "is_enough", lambda wait, sock, timeout_ms: looks.append(True))
    with SelectorPair() as pair:
        pair.request(bytes(16 << 20))
        assert pair.client_channel.registered_events == READ | WRITE
        while pair.client_channel.has_send:
            pair.client.poll(1000, 0, CLIENT)
            assert not looks, "no answer comes before the whole request is there"
            pair.broker.poll(0, 0)
        pair.client.poll(1, 0, CLIENT)
        assert looks


def test_poll_when_every_answer_comes_at_once_then_a_peer_that_hung_up_is_noticed_all_the_same(
        monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ShortWait, "is_enough", lambda wait, sock, timeout_ms: True)
    with SelectorPair() as pair, socket.create_server(("127.0.0.1", 0)) as listener:
        pair.client.connect("other", listener.getsockname(), now_ms=0)
        peer, _ = listener.accept()
        poll_until(pair.client, lambda: pair.client.is_channel_ready("other"))
        peer.close()
        for _ in range(MOST_LOOKS_IN_A_ROW + 1):
            pair.client.poll(5000, 0, CLIENT)
        assert "other" in pair.client.disconnected
