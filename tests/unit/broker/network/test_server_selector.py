"""What had arrived before the peer hung up is still handed out, one frame per poll, in order."""

from __future__ import annotations

import select
import socket
import struct
import time

import pytest

from pyproducer.broker.network.channel_mute import ChannelMuteEvent as Event
from pyproducer.broker.network.channel_mute import ChannelMuteState as State
from pyproducer.broker.network.server_selector import ServerSelector
from pyproducer.common.errors import IllegalStateError
from pyproducer.network.interest import WRITE
from pyproducer.network.receive import FrameReader
from pyproducer.network.send import NetworkSend
from tests.support.patience import GIVE_UP_S
from tests.support.selector_pair import BROKER, CLIENT, SelectorPair, poll_until
from tests.unit.network.watching import await_delivery, await_end, watch_sleeps


def serve(broker: ServerSelector, *, respond: bool) -> list[bytes]:
    """What a Processor does, until the connection is gone; return the requests."""
    handled: list[bytes] = []
    deadline = time.monotonic() + GIVE_UP_S
    pending: list[str] = []
    while time.monotonic() < deadline:
        for connection_id in pending:
            if respond:
                broker.send(NetworkSend(connection_id, [b"answer to " + handled[-1]]))
            else:
                broker.handle_channel_mute_event(connection_id, Event.RESPONSE_SENT)
                broker.unmute(connection_id)
        pending = []
        broker.poll(20, 0)
        assert len(broker.completed_receives) <= 1
        for receive in broker.completed_receives:
            handled.append(bytes(receive.payload))
            broker.mute(receive.source)
            broker.handle_channel_mute_event(receive.source, Event.REQUEST_RECEIVED)
            pending.append(receive.source)
        for send in broker.completed_sends:
            broker.handle_channel_mute_event(send.destination, Event.RESPONSE_SENT)
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


def test_send_when_the_caller_takes_the_completed_ones_then_the_poll_does_not_tell_them() -> None:
    with SelectorPair() as pair:
        send = NetworkSend(BROKER, [b"answer"])
        pair.broker.send(send)
        assert pair.broker.take_completed_sends() == [send]
        assert pair.broker.take_completed_sends() == []
        pair.broker.poll(0, 0)
        assert pair.broker.completed_sends == []


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


def test_poll_when_one_receive_at_a_time_then_pipelined_frames_come_one_per_poll() -> None:
    with SelectorPair() as pair:
        for index in range(5):
            pair.request(b"%d" % index)
        await_delivery(pair.client_channel.transport.sock)
        for index in range(5):
            pair.broker.poll(5000, 0)
            assert [receive.payload for receive in pair.broker.completed_receives] == [b"%d" % index]
        pair.broker.poll(0, 0)
        assert pair.broker.completed_receives == []


def test_poll_when_the_socket_turns_writable_then_the_next_pipelined_frame_comes() -> None:
    """Frames that were read ahead were forgotten where the socket had nothing but room: for an answer, half written."""
    with SelectorPair(receive_buffer_bytes=65_536) as pair:
        client_sock, broker_sock = send_three(pair), pair.broker_channel.transport.sock
        await_delivery(client_sock)
        assert pair.next_at_broker().payload == b"1"
        pair.respond(bytes(32 << 20))
        assert pair.broker_channel.registered_events & WRITE
        poll_until(pair.client, lambda: select.select([], [broker_sock], [], 0)[1])
        for payload in (b"2", b"3"):
            pair.broker.poll(0, 0)
            assert [receive.payload for receive in pair.broker.completed_receives] == [payload]


def test_mute_when_set_then_no_read_interest_and_the_bytes_stay() -> None:
    with SelectorPair() as pair:
        pair.broker.mute(BROKER)
        assert pair.broker.is_muted(BROKER)
        assert pair.broker_channel.registered_events == 0
        pair.request(b"question")
        for _ in range(3):
            pair.broker.poll(10, 0)
        assert pair.broker.completed_receives == []
        assert pair.broker.bytes_read == 0
        assert pair.broker.unmute(BROKER)
        assert pair.next_at_broker().payload == b"question"


def test_mute_when_frames_were_read_ahead_then_they_wait_too() -> None:
    with SelectorPair() as pair:
        pair.request(b"first")
        pair.request(b"second")
        await_delivery(pair.client_channel.transport.sock)
        assert pair.next_at_broker().payload == b"first"
        pair.broker.mute(BROKER)
        for _ in range(3):
            pair.broker.poll(5, 0)
            assert pair.broker.completed_receives == []
        pair.broker.unmute(BROKER)
        assert pair.next_at_broker().payload == b"second"


def test_poll_when_a_channel_fails_in_an_unexpected_way_then_only_it_ends(
        caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("a bug")

    with SelectorPair() as pair:
        monkeypatch.setattr(FrameReader, "read", fail)
        pair.request(b"question")
        poll_until(pair.broker, lambda: pair.broker.disconnected)
        assert isinstance(pair.broker.disconnected[BROKER].error, ZeroDivisionError)
        assert "unexpected error on connection broker" in caplog.text


def test_send_when_muted_and_the_reader_is_slow_then_nothing_is_read_until_the_last_byte() -> None:
    with SelectorPair(receive_buffer_bytes=4096) as pair:
        pair.request(b"first")
        pair.request(b"second")
        pair.next_at_broker()
        pair.broker.mute(BROKER)
        send = NetworkSend(BROKER, [bytes(8 << 20)])
        pair.broker.send(send)
        while not send.completed:
            assert pair.broker_channel.registered_events == WRITE
            pair.client.poll(0, 0)
            pair.broker.poll(0, 0)
            assert pair.broker.completed_receives == []
        assert pair.broker_channel.registered_events == 0
        assert pair.broker.unmute(BROKER)
        assert pair.next_at_broker().payload == b"second"


def test_mute_when_throttled_then_it_waits_for_both_the_response_and_the_end_of_the_throttle() -> None:
    for last in ((Event.RESPONSE_SENT, Event.THROTTLE_ENDED), (Event.THROTTLE_ENDED, Event.RESPONSE_SENT)):
        with SelectorPair() as pair:
            pair.broker.mute(BROKER)
            pair.broker.handle_channel_mute_event(BROKER, Event.REQUEST_RECEIVED)
            pair.broker.handle_channel_mute_event(BROKER, Event.THROTTLE_STARTED)
            for event in last:
                assert not pair.broker.unmute(BROKER)
                pair.broker.handle_channel_mute_event(BROKER, event)
            assert pair.broker.mute_state(BROKER) is State.MUTED
            assert pair.broker.unmute(BROKER)
            assert not pair.broker.is_muted(BROKER)
            assert pair.broker.mute_state(BROKER) is State.NOT_MUTED


def test_mute_when_already_muted_then_the_state_stays() -> None:
    with SelectorPair() as pair:
        pair.broker.mute(BROKER)
        pair.broker.handle_channel_mute_event(BROKER, Event.REQUEST_RECEIVED)
        pair.broker.mute(BROKER)
        assert pair.broker.mute_state(BROKER) is State.MUTED_AND_RESPONSE_PENDING


def test_mute_when_an_event_is_illegal_or_the_connection_unknown_then_the_state_stays() -> None:
    with SelectorPair() as pair:
        for connection_id in (BROKER, "7"):
            with pytest.raises(IllegalStateError):
                pair.broker.handle_channel_mute_event(connection_id, Event.RESPONSE_SENT)
            assert pair.broker.mute_state(connection_id) is State.NOT_MUTED


def test_mute_when_the_connection_ended_then_its_name_has_no_state_left() -> None:
    with SelectorPair() as pair:
        pair.broker.mute(BROKER)
        pair.broker.close(BROKER)
        assert pair.broker.mute_state(BROKER) is State.NOT_MUTED
