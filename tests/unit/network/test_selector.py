from __future__ import annotations

import errno
import os
import socket
import struct
import threading
import time

import pytest

from pyproducer.common.errors import (
    AuthenticationError,
    ConfigError,
    DisconnectedError,
    IllegalStateError,
    InvalidReceiveError,
)
from pyproducer.network.channel import ChannelPhase, KafkaChannel
from pyproducer.network.channel_builder import PlaintextChannelBuilder
from pyproducer.network.interest import READ, WRITE
from pyproducer.network.receive import SCRATCH_BYTES, FrameReader
from pyproducer.network.selector import Selector
from pyproducer.network.send import NetworkSend
from tests.support.clock import ManualClock
from tests.support.patience import GIVE_UP_S
from tests.support.selector_pair import BROKER, CLIENT, SelectorPair, make_selector, make_server_selector, poll_until
from tests.unit.network.watching import await_delivery, await_end, watch_sleeps


def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
    return port


def reset(sock: socket.socket) -> None:
    """Close with RST."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


def test_round_trip_when_both_sides_poll_then_the_payloads_arrive() -> None:
    with SelectorPair() as pair:
        pair.request(b"question")
        receive = pair.next_at_broker()
        assert (receive.source, receive.payload) == (BROKER, b"question")
        pair.respond(b"answer")
        assert pair.next_at_client() == [b"answer"]
        assert pair.client.bytes_written == pair.broker.bytes_read == 12
        assert pair.client.bytes_read == pair.broker.bytes_written == 10


def test_connect_when_accepted_then_connected_and_ready() -> None:
    selector = make_selector()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        host, port = listener.getsockname()
        selector.connect("7", (host, port), now_ms=0)
        assert not selector.is_channel_ready("7")
        poll_until(selector, lambda: selector.connected)
        assert selector.connected == ["7"]
        assert selector.is_channel_ready("7")
        channel = selector.channel("7")
        assert channel is not None
        assert channel.remote_address == f"127.0.0.1:{port}"
        sock = channel.transport.sock
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        selector.close_all()
    assert selector.channels() == []


def test_connect_when_refused_then_disconnected_with_the_systems_error() -> None:
    selector = make_selector()
    port = closed_port()
    selector.connect("7", ("127.0.0.1", port), now_ms=0)
    poll_until(selector, lambda: selector.disconnected)
    state = selector.disconnected["7"]
    assert state.phase is ChannelPhase.NOT_CONNECTED
    assert isinstance(state.error, ConnectionRefusedError)
    assert state.remote_address == f"127.0.0.1:{port}"
    assert selector.connected == []
    selector.poll(0, 0)
    assert selector.disconnected == {}
    selector.close_all()


def test_connect_when_the_system_refuses_at_once_then_the_next_poll_says_so(
        monkeypatch: pytest.MonkeyPatch) -> None:
    selector = make_selector()
    selector.connect("7", ("127.0.0.1", 1), family=socket.AF_INET6, now_ms=0)  # an address of the wrong family
    sleeps = watch_sleeps(monkeypatch)
    selector.poll(5000, 0)
    assert [sleep.timeout_s for sleep in sleeps] == [0]
    assert selector.disconnected["7"].phase == "not_connected"
    assert isinstance(selector.disconnected["7"].error, OSError)
    selector.close_all()


def test_connect_when_the_process_may_open_no_more_files_then_the_next_poll_says_so() -> None:
    def refuse(family: int, kind: int) -> socket.socket:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    selector = Selector(max_receive_size_bytes=None, connections_max_idle_ms=-1,
                        channel_builder=PlaintextChannelBuilder(), make_socket=refuse)
    selector.connect("7", ("127.0.0.1", 9092), now_ms=0)
    selector.poll(0, 0)
    state = selector.disconnected["7"]
    assert state.phase is ChannelPhase.NOT_CONNECTED
    assert isinstance(state.error, OSError)
    assert state.error.errno == errno.EMFILE
    assert state.remote_address == "127.0.0.1:9092"
    selector.close_all()


@pytest.mark.parametrize("port", [-1, 65536])
def test_connect_when_the_port_is_none_then_the_next_poll_says_so(port: int) -> None:
    selector = make_selector()
    selector.connect("7", ("127.0.0.1", port), now_ms=0)
    selector.poll(0, 0)
    error = selector.disconnected["7"].error
    assert isinstance(error, OSError)
    assert str(error) == f"{port} is not a port (0 to 65535)"
    selector.close_all()


def test_connect_when_the_builder_refuses_then_the_next_poll_says_so() -> None:
    class Refusing(PlaintextChannelBuilder):
        def build(self, connection_id: str, sock: socket.socket, *, server_side: bool,
                  server_hostname: str | None) -> KafkaChannel:
            raise ConfigError("ssl.key", 1, "no")

    selector = make_selector(channel_builder=Refusing())
    with socket.create_server(("127.0.0.1", 0)) as listener:
        selector.connect("7", listener.getsockname(), now_ms=0)
    selector.poll(0, 0)
    assert isinstance(selector.disconnected["7"].error, ConfigError)
    selector.close_all()


def test_connect_when_the_id_is_in_use_then_illegal() -> None:
    with SelectorPair() as pair, pytest.raises(IllegalStateError, match="already a connection for id client"):
        pair.client.connect(CLIENT, ("127.0.0.1", 1), now_ms=0)


def test_send_when_the_socket_takes_all_then_it_is_with_the_kernel_at_once() -> None:
    with SelectorPair() as pair:
        send = NetworkSend(CLIENT, [b"question"])
        pair.client.send(send)
        assert send.completed
        assert pair.client_channel.registered_events == READ
        pair.client.poll(5000, 0)  # does not sleep: there is something to tell
        assert pair.client.completed_sends == [send]
        pair.client.poll(0, 0)
        assert pair.client.completed_sends == []


def test_poll_when_a_frame_was_written_at_once_and_nobody_wants_to_know_then_it_sleeps(
        monkeypatch: pytest.MonkeyPatch) -> None:
    with SelectorPair() as pair:
        sleeps = watch_sleeps(monkeypatch)
        pair.client.send(NetworkSend(CLIENT, [b"question"]))
        pair.client.poll(5, 0, tells_sends=False)
        pair.client.send(NetworkSend(CLIENT, [b"question"]))
        pair.client.poll(5, 0)
        assert [sleep.timeout_s for sleep in sleeps] == [0.005, 0]


def test_send_when_no_such_connection_then_illegal() -> None:
    selector = make_selector()
    with pytest.raises(IllegalStateError, match="not ready, id 7"):
        selector.send(NetworkSend("7", [b"x"]))
    selector.close_all()
    server = make_server_selector()
    with pytest.raises(IllegalStateError, match=r"no connection\. Connection id 7"):
        server.mute("7")
    server.close_all()


@pytest.mark.parametrize("is_sending", [False, True])
def test_poll_when_an_error_is_nobodys_then_the_poll_raises_it(
        monkeypatch: pytest.MonkeyPatch, *, is_sending: bool) -> None:
    """It was said to be the connection's end; whoever polls throws the whole wire away, see Wire."""
    def fail(*_: object, **_named: object) -> None:
        raise ZeroDivisionError("a bug")

    with SelectorPair() as pair:
        pair.respond(b"answer")
        await_delivery(pair.broker_channel.transport.sock)
        monkeypatch.setattr(*(KafkaChannel, "write") if is_sending else (FrameReader, "read"), fail)
        with pytest.raises(ZeroDivisionError):
            pair.request(b"question") if is_sending else pair.client.poll(0, 0)


def test_send_when_the_reader_is_slow_then_write_interest_comes_and_goes() -> None:
    payload = bytes(range(256)) * (9 * 4096)  # 9 MiB
    with SelectorPair(receive_buffer_bytes=65_536) as pair:
        send = NetworkSend(BROKER, [payload[:1000], memoryview(payload)[1000:]])
        pair.broker.send(send)
        assert not send.completed
        assert pair.broker_channel.registered_events == READ | WRITE
        with pytest.raises(IllegalStateError, match="prior send operation still in progress"):
            pair.respond(b"second")
        for _ in range(3):  # the reader does not read: nothing is complete, and nothing spins
            pair.broker.poll(0, 0)
            assert pair.broker.completed_sends == []
        received: list[bytes] = []

        def both_done() -> bool:
            received.extend(bytes(receive.payload) for receive in pair.client.completed_receives)
            return bool(received) and send.completed

        pair.step_until(both_done, within_s=GIVE_UP_S)
        assert received == [payload]
        assert pair.broker_channel.registered_events == READ


def test_poll_when_several_answers_arrived_then_the_client_gets_them_in_one_poll() -> None:
    with SelectorPair() as pair:
        for index in range(5):
            pair.respond(b"%d" % index)
        await_delivery(pair.broker_channel.transport.sock)
        pair.client.poll(5000, 0)
        assert [receive.payload for receive in pair.client.completed_receives] == [b"0", b"1", b"2", b"3", b"4"]


@pytest.mark.parametrize("size", [0, -1, 1001])
def test_receive_when_the_size_is_invalid_then_that_connection_ends_and_others_live(size: int) -> None:
    broker = make_server_selector(max_receive_size_bytes=1000)
    with SelectorPair(broker=broker) as pair, socket.create_server(("127.0.0.1", 0)) as listener:
        bad = socket.create_connection(listener.getsockname())
        accepted, _ = listener.accept()
        broker.register("bad", accepted, 0)
        bad.sendall(struct.pack(">i", size))
        poll_until(broker, lambda: broker.disconnected)
        assert isinstance(broker.disconnected["bad"].error, InvalidReceiveError)
        assert bad.recv(10) == b""
        bad.close()
        pair.request(bytes(1000))
        assert len(pair.next_at_broker().payload) == 1000


def test_receive_when_the_peer_speaks_tls_then_the_error_says_so() -> None:
    client = make_selector()
    with SelectorPair(client=client) as pair:
        pair.broker_channel.transport.sock.send(b"\x15\x03\x03\x00\x02\x02\x46")  # an alert
        poll_until(client, lambda: client.disconnected)
        error = client.disconnected[CLIENT].error
        assert isinstance(error, InvalidReceiveError)
        assert "seems to speak TLS" in str(error)
        assert "127.0.0.1:" in str(error)


@pytest.mark.parametrize("data", [b"", b"\0\0", b"\0\0\0\x09pay"])
def test_receive_when_the_peer_hangs_up_mid_frame_then_disconnected(data: bytes) -> None:
    with SelectorPair() as pair:
        pair.client_channel.transport.sock.send(data)
        pair.client.close(CLIENT)
        poll_until(pair.broker, lambda: pair.broker.disconnected)
        state = pair.broker.disconnected[BROKER]
        assert state.phase is ChannelPhase.READY
        assert isinstance(state.error, DisconnectedError)
        assert pair.broker.completed_receives == []
        assert pair.broker.channels() == []
        assert pair.client.disconnected == {}  # who closes is not told


def test_receive_when_the_peer_resets_then_disconnected_with_the_systems_error() -> None:
    with SelectorPair() as pair:
        reset(pair.broker_channel.transport.sock)
        poll_until(pair.client, lambda: pair.client.disconnected)
        assert isinstance(pair.client.disconnected[CLIENT].error, ConnectionResetError)


@pytest.mark.parametrize("size", [70_000, SCRATCH_BYTES - 4])
def test_receive_when_the_peer_resets_behind_a_frame_that_fills_a_read_then_the_frame_counts(size: int) -> None:
    """An answer that was there whole was lost: it filled a read, so another one was tried, and that raised."""
    answer = bytes(size)
    with SelectorPair() as pair:
        pair.respond(answer)
        poll_until(pair.broker, lambda: not pair.broker_channel.has_send)
        broker_sock = pair.broker_channel.transport.sock
        await_delivery(broker_sock)
        reset(broker_sock)
        await_end(pair.client_channel.transport.sock)
        answers: list[bytes] = []

        def has_ended() -> bool:
            answers.extend(bytes(receive.payload) for receive in pair.client.completed_receives)
            return CLIENT in pair.client.disconnected

        poll_until(pair.client, has_ended)
        assert answers == [answer]
        assert isinstance(pair.client.disconnected[CLIENT].error, ConnectionResetError)


def test_send_when_the_peer_is_gone_then_send_does_not_raise_and_the_answers_before_count() -> None:
    with SelectorPair() as pair:
        pair.respond(b"answer")
        reset(pair.broker_channel.transport.sock)
        await_end(pair.client_channel.transport.sock)
        answers: list[bytes] = []
        sends = 0
        while not pair.client.disconnected:
            if sends < 3:
                sends += 1
                try:
                    pair.request(b"question")
                except IllegalStateError:  # the send before failed and is still there
                    pass
            pair.client.poll(5, 0)
            answers += [bytes(receive.payload) for receive in pair.client.completed_receives]
        assert answers == [b"answer"]
        assert isinstance(pair.client.disconnected[CLIENT].error, OSError)


def test_close_when_a_send_has_just_failed_then_its_end_is_told_to_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who closes a connection has done with it: the next one may have its id by the time of the poll."""
    with SelectorPair() as pair:
        def break_off(**_how: bool) -> None:
            raise ConnectionResetError(errno.ECONNRESET, "Connection reset by peer")

        monkeypatch.setattr(type(pair.client_channel), "write", lambda _channel, **how: break_off(**how))
        pair.request(b"question")
        pair.client.close(CLIENT)
        pair.client.poll(0, 0)
        assert pair.client.disconnected == {}
        assert pair.client.channels() == []


def test_close_when_unknown_then_harmless() -> None:
    selector = make_selector()
    selector.close("7")
    selector.close_all()


def test_poll_when_nothing_happens_then_it_sleeps() -> None:
    with SelectorPair() as pair:
        before = pair.client.interest.select_count
        begin = time.monotonic()
        assert pair.client.poll(100, 0) == 100
        assert time.monotonic() - begin >= 0.09
        assert pair.client.interest.select_count == before + 1
        pair.client.wakeup()
        assert pair.client.poll(100, 0) == 0


def test_wakeup_when_the_poll_sleeps_then_it_returns(monkeypatch: pytest.MonkeyPatch) -> None:
    selector = make_selector()
    sleeps = watch_sleeps(monkeypatch)
    timer = threading.Timer(0.05, selector.wakeup)
    timer.start()
    selector.poll(30_000, 0)
    timer.join()
    [sleep] = sleeps
    assert sleep.event_count == int(sleep.timeout_s > 0), "it slept, and did not end by its timeout"
    selector.close_all()


def test_register_when_the_peer_has_gone_then_oserror_and_the_socket_is_the_callers() -> None:
    selector: Selector = make_server_selector()
    with socket.socket() as never_connected, pytest.raises(OSError):
        selector.register("7", never_connected, 0)
    assert selector.channels() == []
    selector.close_all()


def test_connect_when_buffer_sizes_are_given_then_the_socket_has_them() -> None:
    selector = make_selector()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        selector.connect("7", listener.getsockname(), send_buffer_bytes=50_000, receive_buffer_bytes=40_000, now_ms=0)
        channel = selector.channel("7")
        assert channel is not None
        sock = channel.transport.sock
        # Linux doubles what it is told, for its own bookkeeping.
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) in (50_000, 100_000)
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) in (40_000, 80_000)
        selector.close_all()


@pytest.mark.parametrize(("last_words", "phase", "is_last_words"), [
    (AuthenticationError("refused"), "authentication_failed", True),
    (ConnectionResetError("reset"), "ready", False)])
def test_send_when_it_fails_then_what_the_peer_said_last_is_the_better_reason(
        monkeypatch: pytest.MonkeyPatch, last_words: Exception, phase: str, is_last_words: bool) -> None:
    def write(channel: KafkaChannel, **_: object) -> None:
        raise BrokenPipeError("broken pipe")

    def read(channel: KafkaChannel) -> None:
        raise last_words

    with SelectorPair() as pair, monkeypatch.context() as patch:
        patch.setattr(KafkaChannel, "write", write)
        patch.setattr(KafkaChannel, "read", read)
        pair.request(b"question")
        pair.client.poll(0, 0)
        state = pair.client.disconnected[CLIENT]
        assert state.phase == phase
        assert (state.error is last_words) == is_last_words


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


def test_idle_when_an_answer_came_during_a_callback_then_it_is_read_and_the_connection_lives() -> None:
    """The next poll looked at the clock first: the answer was dropped, and with acks=1 the record written twice."""
    client = make_selector(connections_max_idle_ms=1000)
    with SelectorPair(client=client) as pair:
        pair.respond(b"answer")
        await_delivery(client.channels()[0].transport.sock)
        assert client.poll(0, 5000) == 0
        assert [bytes(receive.payload) for receive in client.completed_receives] == [b"answer"]
        assert client.disconnected == {}
        client.poll(0, 5999)
        assert client.disconnected == {}
        client.poll(0, 6000)
        assert client.disconnected[CLIENT].phase is ChannelPhase.EXPIRED


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


def test_idle_when_half_a_frame_has_come_then_its_sender_is_waited_for() -> None:
    broker = make_server_selector(connections_max_idle_ms=1000)
    with SelectorPair(broker=broker) as pair:
        client_sock = pair.client_channel.transport.sock
        client_sock.send(b"\0\0\0\6que")
        poll_until(broker, lambda: pair.broker_channel.is_busy)
        for now_ms in (1000, 2000, 3000):
            broker.poll(0, now_ms)
            assert broker.disconnected == {}
        client_sock.send(b"sti")
        poll_until(broker, lambda: broker.completed_receives, now_ms=3000)
        broker.poll(0, 4000)  # from here on it is idle, see the poll that slept
        broker.poll(0, 5000)
        assert BROKER in broker.disconnected


def test_idle_when_the_poll_may_sleep_longer_than_that_then_it_wakes_in_time(
        monkeypatch: pytest.MonkeyPatch) -> None:
    client = make_selector(connections_max_idle_ms=50)
    with SelectorPair(client=client):
        sleeps = watch_sleeps(monkeypatch)
        client.poll(10_000, 0)
        assert [sleep.timeout_s for sleep in sleeps] == [0.05]


def test_write_when_another_connection_waits_to_write_then_it_is_not_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several brokers were written one after the other, each to its end: the sockets of the others ran empty."""
    alone: list[tuple[str, bool]] = []
    write = KafkaChannel.write

    def noted(channel: KafkaChannel, *, is_alone: bool) -> NetworkSend | None:
        alone.append((channel.id, is_alone))
        return write(channel, is_alone=is_alone)

    monkeypatch.setattr(KafkaChannel, "write", noted)
    broker = make_server_selector()
    with SelectorPair() as pair, socket.create_server(("127.0.0.1", 0)) as listener:
        client = pair.client
        client.connect("second", listener.getsockname(), now_ms=0)
        broker.register("second", listener.accept()[0], 0)
        pair.step_until(lambda: client.is_channel_ready("second"))
        alone.clear()
        pair.request(b"a")
        client.send(NetworkSend("second", [b"b"]))
        pair.request(b"x" * 20_000_000)  # nobody reads, so it waits
        client.send(NetworkSend("second", [b"c"]))
        client.close(CLIENT)
        client.send(NetworkSend("second", [b"d"]))
        broker.close_all()
    assert [of for of in alone if of[0] != BROKER] == [
        (CLIENT, True), ("second", True), (CLIENT, True), ("second", False), ("second", True)]
