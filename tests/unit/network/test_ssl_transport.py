from __future__ import annotations

import random
import select
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from pyproducer.broker.network.x500_name import subject_name
from pyproducer.common.errors import AuthenticationError, DisconnectedError, InvalidReceiveError
from pyproducer.network.certificates import distinguished_name
from pyproducer.network.channel import ChannelPhase, ChannelState
from pyproducer.network.selector import WRITE, Selector
from pyproducer.network.send import NetworkSend
from pyproducer.network.ssl_channel_builder import SslChannelBuilder
from pyproducer.network.ssl_context import ContextFromFiles, build_client_ssl_context, build_server_ssl_context
from pyproducer.network.ssl_transport import RECORD_BYTES, coalesce
from pyproducer.network.transport import Buffer
from tests.support.certificates import Certificates, Identity
from tests.support.patience import GIVE_UP_S
from tests.support.selector_pair import BROKER, CLIENT, SelectorPair, make_selector, make_server_selector, poll_until
from tests.unit.network.watching import await_delivery


def client_selector(settings: dict[str, Any]) -> Selector:
    return make_selector(channel_builder=SslChannelBuilder(build_client_ssl_context(settings)))


def trusting(certificates: Certificates, **more: str) -> dict[str, Any]:
    settings = {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(certificates.ca)}
    return {**settings, **{key.replace("_", "."): value for key, value in more.items()}}


def tls_pair(certificates: Certificates, settings: dict[str, Any] | None = None, *, server: Identity | None = None,
             client_auth: str = "none", host: str = "localhost", wait: bool = True,
             receive_buffer_bytes: int = -1) -> SelectorPair:
    context = build_server_ssl_context(
        keystore_location=str((server or certificates.server).keystore), client_auth=client_auth,
        truststore_location=str(certificates.ca))
    broker = make_server_selector(channel_builder=SslChannelBuilder(context, subject_of=subject_name))
    return SelectorPair(client=client_selector(settings or trusting(certificates)), broker=broker,
                        server_hostname=host, wait=wait, receive_buffer_bytes=receive_buffer_bytes)


def how_it_ended(pair: SelectorPair) -> tuple[ChannelState, ChannelState]:
    """Poll both sides until both are disconnected."""
    found: dict[str, ChannelState] = {}

    def ended() -> bool:
        found.update(pair.client.disconnected)
        found.update(pair.broker.disconnected)
        return len(found) == 2

    pair.step_until(ended)
    return found[CLIENT], found[BROKER]


@contextmanager
def serving(handle: Any) -> Iterator[tuple[str, int]]:
    """Run a function on the first accepted socket in a thread; the address to connect to."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        def run() -> None:
            accepted, _ = listener.accept()
            accepted.settimeout(GIVE_UP_S)
            with accepted:
                handle(accepted)

        thread = threading.Thread(target=run)
        thread.start()
        yield listener.getsockname()
        thread.join()


# ---- it works


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_round_trip_when_both_sides_speak_tls_then_the_payloads_arrive(
        certificates: Certificates, version: str) -> None:
    with tls_pair(certificates, trusting(certificates, ssl_enabled_protocols=version)) as pair:
        for index in range(3):
            pair.request(b"question %d" % index)
            assert pair.next_at_broker().payload == b"question %d" % index
            pair.respond(b"answer %d" % index)
            assert pair.next_at_client() == [b"answer %d" % index]
        assert pair.broker_channel.principal_name == "User:ANONYMOUS"


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
def test_handshake_when_the_certificate_has_the_name_then_ready(certificates: Certificates, host: str) -> None:
    with tls_pair(certificates, host=host) as pair:
        assert pair.client_channel.phase is ChannelPhase.READY


def test_mutual_tls_when_the_client_shows_a_certificate_then_its_subject_is_the_principal(
        certificates: Certificates) -> None:
    settings = trusting(certificates, ssl_keystore_location=str(certificates.client.keystore))
    with tls_pair(certificates, settings, client_auth="required") as pair:
        assert pair.broker_channel.principal_name == "User:CN=client"
        assert pair.client_channel.principal_name == "User:ANONYMOUS"


def test_send_when_large_and_in_many_pieces_then_it_arrives_whole_at_a_slow_reader(certificates: Certificates) -> None:
    pieces: list[Buffer] = [b"x" * 7, bytes(range(256)) * 20_000, b"", b"y" * 16_384, b"z" * 16_385,
                            memoryview(b"tail")] * 2
    expected = b"".join(pieces)
    with tls_pair(certificates) as pair:
        send = NetworkSend(CLIENT, pieces)
        pair.client.send(send)
        assert not send.completed
        received: list[bytes] = []

        def done() -> bool:
            received.extend(bytes(receive.payload) for receive in pair.broker.completed_receives)
            return bool(received) and send.completed

        pair.step_until(done, within_s=GIVE_UP_S)
        assert received == [expected]


def test_poll_when_tls_holds_more_frames_than_the_socket_tells_then_each_poll_gives_the_next(
        certificates: Certificates) -> None:
    with tls_pair(certificates) as pair:
        for index in range(50):
            pair.request(bytes(1000) + b"%d" % index)
        await_delivery(pair.client_channel.transport.sock)
        for index in range(50):
            pair.broker.poll(5000, 0)
            [receive] = pair.broker.completed_receives
            assert bytes(receive.payload[1000:]) == b"%d" % index
        before = pair.broker.interest.select_count
        begin = time.monotonic()
        pair.broker.poll(100, 0)  # and when nothing is left it sleeps
        assert time.monotonic() - begin >= 0.09
        assert pair.broker.interest.select_count == before + 1


def test_poll_when_a_frame_lies_in_the_record_that_ended_a_longer_one_then_the_next_poll_gives_it(
        certificates: Certificates) -> None:
    """The longer frame is read in place, up to its last byte: the rest of the record is with TLS, not the socket."""
    payloads = [bytes(40_000), b"small"]
    stream = b"".join(struct.pack(">i", len(payload)) + payload for payload in payloads)
    with tls_pair(certificates) as pair:
        transport = pair.client_channel.transport
        assert transport.write_chunks([stream]) == len(stream)
        assert not transport.has_pending_writes
        await_delivery(transport.sock)
        assert pair.next_at_broker().payload == payloads[0]
        pair.broker.poll(5000, 0)
        [receive] = pair.broker.completed_receives
        assert receive.payload == payloads[1]


def test_poll_when_the_socket_turns_writable_then_what_tls_holds_is_read(certificates: Certificates) -> None:
    """An answer stood still beside a request that was half written.

    TLS had it whole, more than one poll reads. The socket had nothing to read any more and turned writable, for the
    request; so the channel counted as polled, and its bytes were forgotten until the peer sent others.
    """
    answer = bytes(300 * 1024)
    with tls_pair(certificates, receive_buffer_bytes=1 << 20) as pair:
        client_sock, broker_sock = pair.client_channel.transport.sock, pair.broker_channel.transport.sock
        pair.request(bytes(32 << 20))
        assert pair.client_channel.has_send
        pair.broker.mute(BROKER)
        pair.respond(answer)
        poll_until(pair.broker, lambda: not pair.broker_channel.has_send)
        await_delivery(broker_sock)
        pair.client.poll(0, 0)
        assert pair.client.completed_receives == []
        assert pair.client_channel.has_buffered
        pair.broker.unmute(BROKER)
        poll_until(pair.broker, lambda: select.select([], [client_sock], [], 0)[1])
        assert not select.select([client_sock], [], [], 0)[0]
        pair.client.poll(0, 0)
        assert [bytes(receive.payload) for receive in pair.client.completed_receives] == [answer]
        assert pair.client_channel.has_send


def test_poll_when_half_a_record_is_there_then_it_sleeps(certificates: Certificates) -> None:
    with tls_pair(certificates) as pair:
        client_sock = pair.client_channel.transport.sock
        reader, writer = socket.socketpair()  # catch the ciphertext on its way
        with reader, writer:
            pair.client_channel.transport.sock = writer
            pair.request(b"question")
            ciphertext = reader.recv(1000)
            pair.client_channel.transport.sock = client_sock
        client_sock.send(ciphertext[:-3])
        pair.broker.poll(1000, 0)
        pair.broker.poll(0, 0)
        begin = time.monotonic()
        pair.broker.poll(100, 0)
        assert time.monotonic() - begin >= 0.09
        client_sock.send(ciphertext[-3:])
        assert pair.next_at_broker().payload == b"question"


def test_mute_when_tls_holds_frames_then_they_wait(certificates: Certificates) -> None:
    with tls_pair(certificates) as pair:
        for index in range(3):
            pair.request(b"%d" % index)
        await_delivery(pair.client_channel.transport.sock)
        for index in range(3):
            assert pair.next_at_broker().payload == b"%d" % index
            pair.broker.mute(BROKER)
            for _ in range(2):
                pair.broker.poll(5, 0)
                assert pair.broker.completed_receives == []
            pair.broker.unmute(BROKER)


def test_close_when_the_peer_says_goodbye_then_disconnected(certificates: Certificates) -> None:
    with tls_pair(certificates) as pair:
        pair.request(b"last words")
        pair.client.close(CLIENT)
        assert pair.next_at_broker().payload == b"last words"
        poll_until(pair.broker, lambda: pair.broker.disconnected)
        assert isinstance(pair.broker.disconnected[BROKER].error, DisconnectedError)


def test_server_when_it_is_pythons_own_then_the_selector_talks_to_it(certificates: Certificates) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.server.keystore)

    def handle(sock: socket.socket) -> None:
        with context.wrap_socket(sock, server_side=True) as tls:
            question = tls.recv(100)
            for byte in question:  # a record for each byte
                tls.send(bytes([byte]))

    client = client_selector(trusting(certificates))
    with serving(handle) as address:
        client.connect(CLIENT, address, now_ms=0, server_hostname="localhost")
        poll_until(client, lambda: client.is_channel_ready(CLIENT))
        client.send(NetworkSend(CLIENT, [b"echo"]))
        poll_until(client, lambda: client.completed_receives)
        assert client.completed_receives[0].payload == b"echo"
        client.close_all()


# ---- the first frame comes together with the handshake's last bytes

class RawPeer:
    """The other end of a TLS connection, whose ciphertext goes out when the test says so."""

    def __init__(self, context: ssl.SSLContext, sock: socket.socket, *, server_side: bool) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=server_side,
                                     server_hostname=None if server_side else "localhost")
        self.sock = sock
        sock.settimeout(GIVE_UP_S)

    def is_through(self) -> bool:
        """Go on with the handshake; whether that is done on this side."""
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
        return True

    def receive(self) -> None:
        """Take what the other end sent."""
        self._incoming.write(self.sock.recv(1 << 16))

    def send(self, data: bytes) -> None:
        self.sock.sendall(data)

    def write(self, *payloads: bytes) -> None:
        """Encrypt frames, each in a record of its own."""
        for payload in payloads:
            self._tls.write(struct.pack(">i", len(payload)) + payload)

    def ciphertext(self) -> bytes:
        """What is to be sent, and was not yet."""
        return self._outgoing.read()


def take(selector: Selector, *, turns: int = 30) -> list[bytes]:
    """Poll without waiting, when what was sent has arrived; the payloads of the frames that were read.

    Each poll gives one frame of a connection, so this many are more than enough for what is there.
    """
    found: list[bytes] = []
    for _ in range(turns):
        selector.poll(0, 0)
        found.extend(bytes(receive.payload) for receive in selector.completed_receives)
        selector.completed_receives = []
    return found


FIRST_FRAMES = pytest.mark.parametrize("payloads", [
    [b"first"], [b"first", b"second", b"third"], [bytes(40_000)], [b"first", bytes(RECORD_BYTES - 4)]],
    ids=["one", "three", "of several records", "a full record"])


@contextmanager
def far_end(certificates: Certificates) -> Iterator[tuple[Selector, RawPeer]]:
    """A broker's selector, and a client of TLS 1.3 that has not sent the end of its handshake yet."""
    context = ssl.create_default_context(cafile=str(certificates.ca))
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    broker = make_server_selector(channel_builder=SslChannelBuilder(build_server_ssl_context(
        keystore_location=str(certificates.server.keystore), client_auth="none",
        truststore_location=str(certificates.ca))))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        near = socket.create_connection(listener.getsockname())
        far, _ = listener.accept()
    with near:
        broker.register(BROKER, far, 0)
        peer = RawPeer(context, near, server_side=False)
        while not peer.is_through():
            peer.send(peer.ciphertext())
            poll_until(broker, lambda: select.select([near], [], [], 0)[0])
            peer.receive()
        yield broker, peer
        broker.close_all()


def pieces_of(flight: bytes, cut: int | None) -> list[bytes]:
    return [flight] if cut is None else [flight[:cut], flight[cut:]]


@FIRST_FRAMES
@pytest.mark.parametrize("cut", [None, 1, -1, -10], ids=str)
def test_broker_when_the_first_frame_comes_with_the_last_bytes_of_the_handshake_then_it_is_read_at_once(
        certificates: Certificates, cut: int | None, payloads: list[bytes]) -> None:
    """A producer's first request got no answer: it lay in the broker's TLS, and the socket told of nothing new.

    In TLS 1.3 the client has the last word of the handshake, and its first request goes with it. One read takes both,
    and no later byte comes before the answer: the request waited until request.timeout.ms.
    """
    with far_end(certificates) as (broker, peer):
        peer.write(*payloads)
        found = []
        for piece in pieces_of(peer.ciphertext(), cut):
            peer.send(piece)
            await_delivery(peer.sock)
            found += take(broker)
        assert found == payloads


@pytest.mark.parametrize("payloads", [[b"first"], [b"first", b"second", b"third"]], ids=["one", "three"])
def test_broker_when_its_socket_turns_writable_as_handshake_and_first_frame_come_then_the_frame_is_read_at_once(
        certificates: Certificates, monkeypatch: pytest.MonkeyPatch, payloads: list[bytes]) -> None:
    """The same request, when the select before had told only that the socket is writable: nobody looked for a frame.

    The broker still has bytes of its own half to write; the client's arrive between select and the handshake's read.
    """
    with far_end(certificates) as (broker, peer):
        peer.write(*payloads)
        peer.send(peer.ciphertext())
        await_delivery(peer.sock)
        real = broker.interest.select
        with monkeypatch.context() as patch:
            patch.setattr(broker.interest, "select", lambda timeout_ms: [
                (channel, WRITE) for channel, _ in real(timeout_ms)])
            broker.poll(int(GIVE_UP_S * 1000), 0)
        assert [bytes(receive.payload) for receive in broker.completed_receives] == []
        assert take(broker) == payloads


@FIRST_FRAMES
@pytest.mark.parametrize("cut", [None, 1, -1, -10], ids=str)
def test_client_when_the_first_frame_comes_with_the_last_bytes_of_the_handshake_then_it_is_read_at_once(
        certificates: Certificates, cut: int | None, payloads: list[bytes]) -> None:
    """The same on the client's side: in TLS 1.2 it is the server that has the last word."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.server.keystore)
    client = client_selector(trusting(certificates, ssl_enabled_protocols="TLSv1.2"))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client.connect(CLIENT, listener.getsockname(), now_ms=0, server_hostname="localhost")
        near, _ = listener.accept()
    with near:
        peer = RawPeer(context, near, server_side=True)
        is_done = False
        while not is_done:
            poll_until(client, lambda: select.select([near], [], [], 0)[0])
            peer.receive()
            is_done = peer.is_through()
            if not is_done:
                peer.send(peer.ciphertext())
        peer.write(*payloads)
        found = []
        for piece in pieces_of(peer.ciphertext(), cut):
            peer.send(piece)
            await_delivery(near)
            found += take(client)
        assert found == payloads
        client.close_all()


# ---- it does not


@pytest.mark.parametrize(("server", "host"), [
    ("server", "localhost."), ("server", "127.0.0.1"), ("link_local_server", "fe80::1"),
    ("link_local_server", "fe80::1%eth0"), ("link_local_server", "fe80::1%1")])
def test_name_when_it_has_what_only_resolvers_read_then_the_certificate_needs_it_not(
        certificates: Certificates, server: str, host: str) -> None:
    """A final dot and the zone of an address were part of what the certificate had to show: it never does."""
    with tls_pair(certificates, server=getattr(certificates, server), host=host) as pair:
        assert pair.client_channel.transport.session().checks_name


def test_name_when_it_has_a_final_dot_then_the_peer_is_asked_for_the_name_without_it(
        certificates: Certificates) -> None:
    """RFC 6066 3: the name that is asked for has none."""
    asked: list[str | None] = []
    context = build_server_ssl_context(keystore_location=str(certificates.server.keystore))
    context.sni_callback = lambda _object, name, _context: asked.append(name)
    broker = make_server_selector(channel_builder=SslChannelBuilder(context))
    with SelectorPair(client=client_selector(trusting(certificates)), broker=broker, server_hostname="localhost."):
        assert asked == ["localhost"]


@pytest.mark.parametrize(("host", "words"), [
    ("localhost.", "Hostname mismatch, certificate is not valid for 'localhost'"),
    ("localhost..", "Hostname mismatch"),  # no resolver knows it
    ("fe80::2%eth0", "IP address mismatch, certificate is not valid for 'fe80::2'"),
    ("localhost%eth0", "Hostname mismatch")])
def test_name_when_the_certificate_has_another_one_then_it_is_refused_whatever_stands_behind_it(
        certificates: Certificates, host: str, words: str) -> None:
    with tls_pair(certificates, server=certificates.link_local_server, host=host, wait=False) as pair:
        client_state, _ = how_it_ended(pair)
        assert words in str(client_state.error)


@pytest.mark.parametrize(("server", "host", "trust", "reasons"), [
    ("server", "localhost", "other_ca", ["unable to get local issuer certificate", "ssl.truststore"]),
    ("misnamed_server", "localhost", "ca", ["Hostname mismatch", "not valid for 'localhost'",
                                            "ssl.endpoint.identification.algorithm"]),
    ("misnamed_server", "127.0.0.1", "ca", ["IP address mismatch", "127.0.0.1"]),
    ("expired_server", "localhost", "ca", ["certificate has expired"]),
])
def test_handshake_when_the_certificate_is_not_right_then_host_and_reason_are_named(
        certificates: Certificates, server: str, host: str, trust: str, reasons: list[str]) -> None:
    settings = {"ssl.truststore.location": str(getattr(certificates, trust))}
    with tls_pair(certificates, settings, server=getattr(certificates, server), host=host, wait=False) as pair:
        client, broker = how_it_ended(pair)
        assert client.phase is broker.phase is ChannelPhase.AUTHENTICATION_FAILED
        assert isinstance(client.error, AuthenticationError)
        assert f"TLS handshake with {host}" in str(client.error)
        assert "certificate verify failed" in str(client.error)
        for reason in reasons:
            assert reason in str(client.error)
        assert isinstance(broker.error, AuthenticationError)  # the alert came through


def test_handshake_when_names_are_not_checked_then_another_name_will_do(certificates: Certificates) -> None:
    settings = {**trusting(certificates), "ssl.endpoint.identification.algorithm": ""}
    with tls_pair(certificates, settings, server=certificates.misnamed_server) as pair:
        assert pair.client.is_channel_ready(CLIENT)


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_mutual_tls_when_the_client_shows_none_then_both_sides_say_why(
        certificates: Certificates, version: str) -> None:
    settings = trusting(certificates, ssl_enabled_protocols=version)
    with tls_pair(certificates, settings, client_auth="required", wait=False) as pair:
        client, broker = how_it_ended(pair)
        assert client.phase is ChannelPhase.AUTHENTICATION_FAILED
        assert "requires a" in str(client.error)
        assert "ssl.keystore.location" in str(client.error)
        assert "shows no certificate" in str(broker.error)


HANDSHAKE_FAILURE, BAD_CERTIFICATE = 40, 42  # RFC 5246, 7.2


@pytest.mark.parametrize(("alert", "has_identity", "words"), [
    (BAD_CERTIFICATE, False, "the peer requires a certificate from us: set ssl.keystore.location"),
    (BAD_CERTIFICATE, True, "the peer refuses our certificate ("),
    (BAD_CERTIFICATE, None, "the peer refuses our certificate, or requires one and got none"),
    (HANDSHAKE_FAILURE, False, "or it requires a certificate from us"),
    (HANDSHAKE_FAILURE, True, "or our certificate is none that it takes"),
], ids=str)
def test_alert_when_it_may_mean_two_things_then_the_settings_decide_what_is_said(
        certificates: Certificates, alert: int, has_identity: bool | None, words: str) -> None:
    settings = trusting(certificates)
    if has_identity is None:
        settings["ssl.engine.factory.class"] = ssl.create_default_context(cafile=str(certificates.ca))
    elif has_identity:
        settings["ssl.keystore.location"] = str(certificates.client.keystore)
    client = make_selector(channel_builder=SslChannelBuilder(ContextFromFiles(settings)))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client.connect(CLIENT, listener.getsockname(), now_ms=0, server_hostname="localhost")
        far, _ = listener.accept()
    with far:
        poll_until(client, lambda: select.select([far], [], [], 0)[0])
        far.sendall(bytes((21, 3, 3, 0, 2, 2, alert)))
        poll_until(client, lambda: client.disconnected)
    assert words in str(client.disconnected[CLIENT].error)
    client.close_all()


def test_mutual_tls_when_the_refusal_comes_after_a_request_then_it_is_still_an_authentication_failure(
        certificates: Certificates) -> None:
    settings = trusting(certificates, ssl_keystore_location=str(certificates.other_client.keystore))
    with tls_pair(certificates, settings, client_auth="required", wait=False) as pair:
        while not pair.client.is_channel_ready(CLIENT):  # TLS 1.3: our half is done before the broker looks
            pair.client.poll(10, 0)
            if not pair.client.is_channel_ready(CLIENT):
                pair.broker.poll(10, 0)
        poll_until(pair.broker, lambda: pair.broker.disconnected)
        pair.request(b"question")
        poll_until(pair.client, lambda: pair.client.disconnected)
        state = pair.client.disconnected[CLIENT]
        assert state.phase is ChannelPhase.AUTHENTICATION_FAILED
        assert "does not trust the authority that signed our certificate" in str(state.error)


def test_handshake_when_no_version_is_common_then_the_error_says_so(certificates: Certificates) -> None:
    context = build_server_ssl_context(keystore_location=str(certificates.server.keystore))
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    client = client_selector(trusting(certificates, ssl_enabled_protocols="TLSv1.2"))
    broker = make_server_selector(channel_builder=SslChannelBuilder(context))
    with SelectorPair(client=client, broker=broker, server_hostname="localhost", wait=False) as pair:
        client_state, broker_state = how_it_ended(pair)
        for state in (client_state, broker_state):
            assert "no TLS version in common" in str(state.error)


def test_client_when_the_listener_is_plaintext_then_the_hang_up_is_explained(certificates: Certificates) -> None:
    client = client_selector(trusting(certificates))
    broker = make_server_selector(max_receive_size_bytes=1 << 20)
    with SelectorPair(client=client, broker=broker, server_hostname="localhost", wait=False) as pair:
        client_state, broker_state = how_it_ended(pair)
        assert client_state.phase is ChannelPhase.AUTHENTICATING
        assert isinstance(client_state.error, (DisconnectedError, ConnectionResetError))
        assert isinstance(broker_state.error, InvalidReceiveError)
        assert "seems to speak TLS" in str(broker_state.error)


def test_client_when_the_peer_hangs_up_then_the_hint_names_the_setting(certificates: Certificates) -> None:
    client = client_selector(trusting(certificates))
    with serving(lambda sock: sock.recv(10_000)) as address:
        client.connect(CLIENT, address, now_ms=0, server_hostname="localhost")
        poll_until(client, lambda: client.disconnected)
        error = client.disconnected[CLIENT].error
        assert isinstance(error, DisconnectedError)
        assert "security.protocol" in str(error)
        assert f"localhost (127.0.0.1:{address[1]})" in str(error)
        client.close_all()


@pytest.mark.parametrize(("greeting", "speaks"), [
    (b"HTTP/1.1 400 Bad Request\r\n\r\n", "seems to speak HTTP, not TLS"), (b"\0\0\0\x10", "does not speak TLS")])
def test_client_when_the_peer_answers_in_another_protocol_then_the_error_says_so(
        certificates: Certificates, greeting: bytes, speaks: str) -> None:
    client = client_selector(trusting(certificates))
    with serving(lambda sock: (sock.recv(10_000), sock.send(greeting))) as address:
        client.connect(CLIENT, address, now_ms=0, server_hostname="localhost")
        poll_until(client, lambda: client.disconnected)
        assert client.disconnected[CLIENT].phase is ChannelPhase.AUTHENTICATION_FAILED
        assert speaks in str(client.disconnected[CLIENT].error)
        client.close_all()


def test_broker_when_the_client_speaks_plaintext_then_it_is_told_apart(certificates: Certificates) -> None:
    builder = SslChannelBuilder(build_server_ssl_context(keystore_location=str(certificates.server.keystore)))
    broker = make_server_selector(channel_builder=builder)
    with SelectorPair(broker=broker, wait=False) as pair:
        poll_until(pair.client, lambda: pair.client.is_channel_ready(CLIENT))
        pair.request(b"question")
        poll_until(broker, lambda: broker.disconnected)
        state = broker.disconnected[BROKER]
        assert state.phase is ChannelPhase.AUTHENTICATION_FAILED
        assert "does not speak TLS" in str(state.error)


def fill(sock: socket.socket) -> None:
    """Write until the socket takes nothing more."""
    for size_bytes in (1 << 16, 1):
        with suppress(BlockingIOError):
            while True:
                sock.send(bytes(size_bytes))


@pytest.mark.parametrize("spoil", [fill, lambda sock: sock.shutdown(socket.SHUT_WR)], ids=["full", "broken pipe"])
def test_broker_when_it_cannot_tell_a_plaintext_client_so_then_the_reason_is_still_what_it_speaks(
        certificates: Certificates, spoil: Callable[[socket.socket], None]) -> None:
    builder = SslChannelBuilder(build_server_ssl_context(keystore_location=str(certificates.server.keystore)))
    broker = make_server_selector(channel_builder=builder)
    with SelectorPair(broker=broker, wait=False, receive_buffer_bytes=4096) as pair:
        poll_until(pair.client, lambda: pair.client.is_channel_ready(CLIENT))
        pair.client_channel.transport.sock.send(b"question")
        sock = pair.broker_channel.transport.sock
        assert select.select([sock], [], [], GIVE_UP_S)[0]
        spoil(sock)
        poll_until(broker, lambda: broker.disconnected)
        state = broker.disconnected[BROKER]
        assert state.phase is ChannelPhase.AUTHENTICATION_FAILED
        assert "does not speak TLS" in str(state.error)


def test_record_when_it_was_tampered_with_then_the_connection_ends(certificates: Certificates) -> None:
    with tls_pair(certificates) as pair:
        pair.request(b"question")
        pair.next_at_broker()
        pair.client_channel.transport.sock.send(b"\x17\x03\x03" + struct.pack(">H", 50) + bytes(50))
        poll_until(pair.broker, lambda: pair.broker.disconnected)
        state = pair.broker.disconnected[BROKER]
        assert state.phase is ChannelPhase.READY
        assert isinstance(state.error, ssl.SSLError)


def test_connect_when_the_context_checks_names_and_none_is_given_then_disconnected(certificates: Certificates) -> None:
    client = client_selector(trusting(certificates))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client.connect(CLIENT, listener.getsockname(), now_ms=0)
        client.poll(0, 0)
        state = client.disconnected[CLIENT]
        assert state.phase is ChannelPhase.NOT_CONNECTED
        assert state.error is not None
    client.close_all()


@pytest.mark.parametrize("seed", range(20))
def test_coalesce_when_chunks_have_any_sizes_then_full_records_in_order(seed: int) -> None:
    rng = random.Random(seed)
    sizes = [rng.choice([0, 1, 4, 60, 16_000, RECORD_BYTES - 1, RECORD_BYTES, RECORD_BYTES + 1, 50_000])
             for _ in range(12)]
    chunks: list[Buffer] = [rng.randbytes(size) for size in sizes]
    pieces = [bytes(piece) for piece in coalesce(chunks, 10**9)]
    assert b"".join(pieces) == b"".join(chunks)
    assert all(len(piece) == RECORD_BYTES for piece in pieces[:-1])
    assert all(pieces)


def test_coalesce_when_bounded_then_it_stops_there() -> None:
    chunks: list[Buffer] = [b"a" * 10, b"b" * 100_000, b"c"]
    pieces = [bytes(piece) for piece in coalesce(chunks, 40_000)]
    assert b"".join(pieces) == b"".join(chunks)[:40_000]


def test_coalesce_when_a_chunk_is_long_then_it_is_not_copied() -> None:
    chunk = bytearray(3 * RECORD_BYTES)
    pieces = list(coalesce([chunk], 10**9))
    assert all(isinstance(piece, memoryview) and piece.obj is chunk for piece in pieces)


def test_coalesce_when_there_is_nothing_then_nothing() -> None:
    assert list(coalesce([], 100)) == list(coalesce([b"", b""], 100)) == []


def test_name_when_it_has_parts_then_the_most_specific_comes_first() -> None:
    subject = ((("countryName", "DE"),), (("organizationName", "Acme, Inc."),), (("commonName", "client"),))
    assert distinguished_name(subject) == r"CN=client,O=Acme\, Inc.,C=DE"


def test_name_when_values_are_odd_then_escaped() -> None:
    subject = ((("commonName", " a"), ("userId", "#b")), (("emailAddress", "c "),))
    assert distinguished_name(subject) == "emailAddress=c\\ ,CN=\\ a+UID=\\#b"
