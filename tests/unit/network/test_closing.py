"""C28: what had arrived before the peer hung up is still handed out, one frame per poll, in order."""

from __future__ import annotations

import socket
import struct
import time

import pytest

from pyproducer.network.channel_mute import ChannelMuteEvent
from pyproducer.network.selector import Selector
from pyproducer.network.send import NetworkSend
from tests.support.selector_pair import BROKER, CLIENT, SelectorPair
from tests.unit.network.watching import GIVE_UP_S, await_end, watch_sleeps


def serve(broker: Selector, *, respond: bool) -> list[bytes]:
    """What a Processor does, until the connection is gone; return the requests."""
    handled: list[bytes] = []
    deadline = time.monotonic() + GIVE_UP_S
    pending: list[str] = []
    while time.monotonic() < deadline:
        for connection_id in pending:
            channel = broker.channel(connection_id) or broker.closing_channel(connection_id)
            assert channel is not None
            if respond:
                broker.send(NetworkSend(connection_id, [b"answer to " + handled[-1]]))
            else:
                channel.handle_channel_mute_event(ChannelMuteEvent.RESPONSE_SENT)
                broker.unmute(connection_id)
        pending = []
        broker.poll(20, 0)
        assert len(broker.completed_receives) <= 1
        for receive in broker.completed_receives:
            handled.append(bytes(receive.payload))
            channel = broker.channel(receive.source) or broker.closing_channel(receive.source)
            assert channel is not None
            broker.mute(receive.source)
            channel.handle_channel_mute_event(ChannelMuteEvent.REQUEST_RECEIVED)
            pending.append(receive.source)
        for send in broker.completed_sends:
            channel = broker.channel(send.destination) or broker.closing_channel(send.destination)
            assert channel is not None
            channel.handle_channel_mute_event(ChannelMuteEvent.RESPONSE_SENT)
            broker.unmute(send.destination)
        if broker.disconnected:
            assert list(broker.disconnected) == [BROKER]
            assert broker.channel(BROKER) is None
            assert broker.closing_channel(BROKER) is None
            return handled
    raise AssertionError("the connection did not end")


def send_three(pair: SelectorPair) -> socket.socket:
    for payload in (b"1", b"2", b"3"):
        pair.request(payload)
    return pair.client_channel.transport.sock


def test_peer_closes_when_no_answers_are_wanted_then_all_requests_are_handed_out() -> None:
    with SelectorPair() as pair:
        send_three(pair)
        pair.client.close(CLIENT)
        assert serve(pair.broker, respond=False) == [b"1", b"2", b"3"]


def test_peer_closes_when_answers_are_written_then_all_requests_are_handed_out() -> None:
    with SelectorPair() as pair:
        send_three(pair)
        pair.client.close(CLIENT)
        assert serve(pair.broker, respond=True) == [b"1", b"2", b"3"]


def test_peer_half_closes_when_answers_are_written_then_it_gets_them_and_the_end() -> None:
    with SelectorPair() as pair:
        sock = send_three(pair)
        sock.shutdown(socket.SHUT_WR)
        assert serve(pair.broker, respond=True) == [b"1", b"2", b"3"]
        sock.settimeout(GIVE_UP_S)
        received = b""
        while data := sock.recv(1000):
            received += data
        assert received == b"".join(struct.pack(">i", 11) + b"answer to " + name for name in (b"1", b"2", b"3"))


def test_peer_resets_when_answers_are_written_then_what_was_read_is_handed_out() -> None:
    with SelectorPair() as pair:
        sock = send_three(pair)
        pair.broker.poll(1000, 0)  # everything is read, one request is handed out
        [first] = pair.broker.completed_receives
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        sock.close()
        await_end(pair.broker_channel.transport.sock)
        assert first.payload == b"1"
        assert serve(pair.broker, respond=True) == [b"2", b"3"]


def test_closing_channel_when_closed_locally_then_it_is_gone() -> None:
    with SelectorPair() as pair:
        send_three(pair)
        pair.broker.poll(1000, 0)
        pair.broker.mute(BROKER)
        send = NetworkSend(BROKER, [bytes(8 << 20)])
        pair.client_channel.transport.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        pair.client.close(CLIENT)
        await_end(pair.broker_channel.transport.sock)
        pair.broker.send(send)
        pair.broker.poll(10, 0)
        assert pair.broker.completed_sends == [send]  # nobody will read it; the next request waits
        assert pair.broker.closing_channel(BROKER) is not None
        assert pair.broker.channel(BROKER) is None
        assert pair.broker.is_muted(BROKER)
        pair.broker.close(BROKER)
        assert pair.broker.closing_channel(BROKER) is None
        pair.broker.poll(0, 0)
        assert pair.broker.disconnected == {}


@pytest.mark.parametrize("mute", [False, True])
def test_select_when_a_channel_is_closing_then_it_sleeps_only_while_muted(
        monkeypatch: pytest.MonkeyPatch, mute: bool) -> None:
    with SelectorPair() as pair:
        send_three(pair)
        pair.broker.poll(1000, 0)
        pair.broker.mute(BROKER)
        pair.client_channel.transport.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        pair.client.close(CLIENT)
        await_end(pair.broker_channel.transport.sock)
        pair.broker.send(NetworkSend(BROKER, [b"answer"]))
        pair.broker.poll(10, 0)
        if not mute:
            pair.broker.unmute(BROKER)
        sleeps = watch_sleeps(monkeypatch)
        pair.broker.poll(100, 0)
        assert [sleep.timeout_s for sleep in sleeps] == [0.1 if mute else 0]
