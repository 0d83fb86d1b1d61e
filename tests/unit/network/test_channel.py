from __future__ import annotations

import socket

import pytest

from pyproducer.common.errors import IllegalStateError
from pyproducer.network.channel import ChannelPhase, KafkaChannel, PlaintextAuthenticator
from pyproducer.network.send import NetworkSend
from pyproducer.network.transport import PlaintextTransportLayer, socket_address_text
from tests.support.transports import ScriptedTransport


def make_channel(transport: ScriptedTransport) -> KafkaChannel:
    channel = KafkaChannel("7", transport, PlaintextAuthenticator(transport))
    channel.phase = ChannelPhase.AUTHENTICATING
    channel.prepare()
    channel.set_reader(max_size_bytes=1000, one_at_a_time=False)
    return channel


def test_set_send_when_another_is_on_its_way_then_kafkas_error_and_the_first_goes_on() -> None:
    transport = ScriptedTransport(write_sizes=[2])
    channel = make_channel(transport)
    channel.set_send(NetworkSend("7", [b"first"]))
    assert channel.write(is_alone=False) is None
    with pytest.raises(IllegalStateError, match="Attempt to begin a send operation with prior send operation still in "
                                                "progress, connection id is 7"):
        channel.set_send(NetworkSend("7", [b"other"]))
    assert channel.wants_write
    done = channel.write(is_alone=False)
    assert done is not None
    assert done.completed
    assert transport.written == b"\0\0\0\x05first"
    assert not channel.has_send
    assert channel.bytes_written == 9


def test_write_when_there_is_no_send_then_it_flushes_only() -> None:
    transport = ScriptedTransport()
    assert make_channel(transport).write(is_alone=False) is None
    assert (transport.write_calls, transport.flush_calls) == (0, 1)


def test_prepare_when_plaintext_then_ready_and_anonymous() -> None:
    channel = make_channel(ScriptedTransport())
    assert channel.ready
    assert channel.phase is ChannelPhase.READY
    assert channel.principal_name == "User:ANONYMOUS"


def test_principal_when_the_peer_showed_a_certificate_then_it_is_the_subject() -> None:
    transport = ScriptedTransport()
    transport.principal_name = "CN=client"
    assert make_channel(transport).principal_name == "User:CN=client"


def test_busy_when_a_frame_is_on_its_way_then_true() -> None:
    transport = ScriptedTransport([b"\0\0\0"])
    channel = make_channel(transport)
    before = channel.is_busy
    channel.read()
    assert (before, channel.is_busy) == (False, True)


def test_close_when_the_peer_was_proved_something_then_what_was_negotiated_is_forgotten() -> None:
    class Secretive(PlaintextAuthenticator):
        secret: str | None = "a key of this session"

        def close(self) -> None:
            self.secret = None

    transport = ScriptedTransport()
    authenticator = Secretive(transport)
    KafkaChannel("7", transport, authenticator).close()
    assert authenticator.secret is None


def test_close_when_called_twice_then_harmless() -> None:
    transport = ScriptedTransport()
    channel = make_channel(transport)
    channel.close()
    channel.close()
    assert transport.is_closed
    assert not channel.ready


def test_finish_connect_when_the_socket_met_itself_then_refused() -> None:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        sock.connect(sock.getsockname())  # TCP's simultaneous open
        transport = PlaintextTransportLayer(sock)
        channel = KafkaChannel("7", transport, PlaintextAuthenticator(transport))
        with pytest.raises(ConnectionRefusedError):
            channel.finish_connect()


@pytest.mark.parametrize(("address", "text"), [
    (("127.0.0.1", 9092), "127.0.0.1:9092"), (("::1", 9092, 0, 0), "[::1]:9092"), ("", "an unnamed peer")])
def test_address_text_when_ipv6_then_brackets(address: object, text: str) -> None:
    assert socket_address_text(address) == text


def test_phase_when_compared_with_its_name_then_equal() -> None:
    name: str = "authentication_failed"
    assert name == ChannelPhase.AUTHENTICATION_FAILED
