"""Which requests a broker takes before a client has logged in, and what it answers to each."""

from __future__ import annotations

import json
import struct
from typing import Any

import pytest

from pyproducer.broker.cluster.sasl.plain_server import PlainSaslServer, PlainUsers
from pyproducer.broker.cluster.sasl.sasl_server import SaslError, SaslServer
from pyproducer.broker.cluster.sasl.server_authenticator import SaslServerAuthenticator, SaslServerSettings
from pyproducer.common.error_codes import ErrorCode
from pyproducer.common.errors import AuthenticationError, DisconnectedError, InvalidRequestError
from pyproducer.protocol.apis import ApiKeys
from pyproducer.protocol.header import parse_response
from pyproducer.protocol.schema import Struct
from tests.support.clock import ManualClock
from tests.support.raw_client import framed, header_bytes, request_bytes
from tests.support.transports import ScriptedTransport

ALICE = b"\0alice\0secret"
BOB = b"\0bob\0b"
WRONG = b"\0alice\0wrong"
VERSIONS = request_bytes(ApiKeys.API_VERSIONS, 0, {})


class TwoSteps:
    """Asks once more, takes nothing but "yes", and ends when it is told."""

    mechanism = "TWO-STEPS"

    def __init__(self, expires_at_ms: int | None) -> None:
        self.complete = False
        self.authorization_id = "carol"
        self.expires_at_ms = expires_at_ms
        self._is_asked = False

    def evaluate_response(self, response: bytes) -> bytes:
        if not self._is_asked:
            self._is_asked = True
            return b"sure?"
        if response != b"yes":
            raise SaslError("there is no carol")
        self.complete = True
        return b""


class Peer:
    """A client's side: says frames, and reads what was answered."""

    def __init__(self, *, max_reauth_ms: int = 0, expires_at_ms: int | None = None,
                 max_receive_size_bytes: int = 1000) -> None:
        self.clock = ManualClock()
        users = PlainUsers({"user_alice": "secret", "user_bob": "b"})

        def new_server(mechanism: str) -> SaslServer:
            return PlainSaslServer(users) if mechanism == "PLAIN" else TwoSteps(expires_at_ms)

        self.transport = ScriptedTransport()
        self.authenticator = SaslServerAuthenticator(self.transport, SaslServerSettings(
            ("PLAIN", "TWO-STEPS"), new_server, self.answer_api_versions,
            self.answer_error,
            lambda api_key, version: api_key.broker_range[0] <= version <= api_key.broker_range[1], self.clock,
            max_receive_size_bytes, {"PLAIN": max_reauth_ms, "TWO-STEPS": max_reauth_ms}), peer="peer:1")

    def answer_api_versions(self, context: Any, reader: Any) -> dict[str, Any]:
        if context.is_unsupported_api_versions_request:
            return {"error_code": ErrorCode.UNSUPPORTED_VERSION, "api_keys": []}
        return {"error_code": 0, "throttle_time_ms": 0, "api_keys": []}

    def answer_error(self, context: Any, reader: Any, error_code: ErrorCode) -> dict[str, Any]:
        context.parse_request(reader)  # as KafkaApis does, to say the error of each thing that it names
        return {"error_code": error_code, "mechanisms": []}

    def say(self, payload: bytes) -> bytes:
        """Say one frame; return the one that answers it, without its size."""
        self.transport.pieces.append(framed(payload))
        self.transport.written.clear()
        self.authenticator.authenticate()
        data = bytes(self.transport.written)
        if not data:
            return b""
        assert struct.unpack(">i", data[:4])[0] == len(data) - 4
        return data[4:]

    def handshake(self, mechanism: str, version: int = 1) -> Struct:
        answer = self.say(request_bytes(ApiKeys.SASL_HANDSHAKE, version, {"mechanism": mechanism}))
        return parse_response(ApiKeys.SASL_HANDSHAKE, version, answer)[1]

    def authenticate(self, token: bytes, version: int = 2) -> Struct:
        answer = self.say(token_request(token, version))
        return parse_response(ApiKeys.SASL_AUTHENTICATE, version, answer)[1]

    def last_words(self, api_key: ApiKeys, version: int) -> Struct:
        return parse_response(api_key, version, b"".join(self.authenticator.last_words))[1]


def token_request(token: bytes, version: int = 2) -> bytes:
    return request_bytes(ApiKeys.SASL_AUTHENTICATE, version, {"auth_bytes": token})


@pytest.mark.parametrize("version", [0, 1, 2])
def test_client_when_it_proves_who_it_is_then_it_is_told_and_the_connection_is_its(version: int) -> None:
    peer = Peer()
    assert parse_response(ApiKeys.API_VERSIONS, 0, peer.say(VERSIONS))[1]["error_code"] == 0
    handshake = peer.handshake("PLAIN")
    assert (handshake["error_code"], handshake["mechanisms"]) == (0, ["PLAIN", "TWO-STEPS"])
    assert not peer.authenticator.complete
    assert peer.authenticator.principal_name == "User:ANONYMOUS"
    answer = peer.authenticate(ALICE, version)
    assert (answer["error_code"], answer["error_message"], bytes(answer["auth_bytes"])) == (0, "", b"")
    if version:
        assert answer["session_lifetime_ms"] == 0
    assert peer.authenticator.complete
    assert peer.authenticator.principal_name == "User:alice"
    assert peer.authenticator.mechanism == "PLAIN"
    assert peer.authenticator.session_expires_ms is None


def test_client_when_it_sends_bare_tokens_then_they_are_answered_bare() -> None:
    peer = Peer()
    peer.handshake("TWO-STEPS", 0)
    assert peer.say(b"hello") == b"sure?"
    peer.transport.written.clear()
    assert peer.say(b"yes") == b""
    assert bytes(peer.transport.written) == b"\0\0\0\0"
    assert peer.authenticator.principal_name == "User:carol"


def test_client_when_all_comes_byte_by_byte_then_it_is_the_same_and_nothing_behind_it_is_read() -> None:
    peer = Peer()
    said = b"".join(map(framed, (VERSIONS, request_bytes(ApiKeys.SASL_HANDSHAKE, 1, {"mechanism": "PLAIN"}),
                                 token_request(ALICE))))
    for byte in said:
        assert not peer.authenticator.complete
        peer.transport.pieces.append(bytes([byte]))
        peer.authenticator.authenticate()
    assert peer.authenticator.complete
    whole = Peer()
    whole.transport.pieces.append(said + framed(b"the first request"))
    whole.authenticator.authenticate()
    assert whole.authenticator.complete
    assert whole.transport.pieces == [framed(b"the first request")]
    assert whole.transport.written == peer.transport.written


def test_answer_when_the_socket_is_full_then_the_client_is_not_through_before_it_is_written() -> None:
    peer = Peer()
    peer.handshake("PLAIN")
    peer.transport.write_sizes = [3]
    peer.transport.pieces.append(framed(token_request(ALICE)))
    peer.authenticator.authenticate()
    assert peer.authenticator.wants_write
    assert not peer.authenticator.complete
    peer.authenticator.authenticate()
    assert peer.authenticator.complete
    assert not peer.authenticator.wants_write


def test_api_versions_when_of_an_unknown_version_then_it_may_be_asked_again() -> None:
    peer = Peer()
    answer = parse_response(ApiKeys.API_VERSIONS, 0, peer.say(header_bytes(18, 99) + b"\0"))[1]
    assert answer["error_code"] == ErrorCode.UNSUPPORTED_VERSION
    peer.say(VERSIONS)
    with pytest.raises(AuthenticationError, match="Unexpected Kafka request of type API_VERSIONS during SASL handsh"):
        peer.say(VERSIONS)


def test_handshake_when_the_mechanism_is_not_enabled_then_those_that_are_are_told_at_the_end() -> None:
    peer = Peer()
    with pytest.raises(AuthenticationError, match="Unsupported SASL mechanism GSSAPI; enabled are PLAIN, TWO-STEPS"):
        peer.say(request_bytes(ApiKeys.SASL_HANDSHAKE, 1, {"mechanism": "GSSAPI"}))
    assert not peer.transport.written, "it is told after the delay, by who closes the connection"
    answer = peer.last_words(ApiKeys.SASL_HANDSHAKE, 1)
    assert (answer["error_code"], answer["mechanisms"]) == (33, ["PLAIN", "TWO-STEPS"])


@pytest.mark.parametrize("version", [0, 1, 2])
def test_token_when_it_proves_nothing_then_why_is_told_at_the_end(version: int) -> None:
    peer = Peer()
    peer.handshake("PLAIN")
    with pytest.raises(AuthenticationError, match=r"^Authentication failed: Invalid username or password$"):
        peer.say(token_request(WRONG, version))
    assert not peer.transport.written
    answer = peer.last_words(ApiKeys.SASL_AUTHENTICATE, version)
    assert answer["error_code"] == 58
    assert answer["error_message"] == "Authentication failed: Invalid username or password"


def test_token_when_why_it_fails_is_nobodys_business_then_the_log_has_it_and_the_client_not() -> None:
    peer = Peer()
    peer.handshake("TWO-STEPS")
    assert bytes(peer.authenticate(b"hello")["auth_bytes"]) == b"sure?"
    with pytest.raises(AuthenticationError, match="there is no carol"):
        peer.say(token_request(b"no"))
    told = "Authentication failed during authentication due to invalid credentials with SASL mechanism TWO-STEPS"
    assert peer.last_words(ApiKeys.SASL_AUTHENTICATE, 2)["error_message"] == told


def test_bare_token_when_it_proves_nothing_then_nothing_is_said() -> None:
    peer = Peer()
    peer.handshake("PLAIN", 0)
    with pytest.raises(AuthenticationError):
        peer.say(WRONG)
    assert not peer.authenticator.last_words


@pytest.mark.parametrize(("api_key", "version", "body"), [
    (ApiKeys.METADATA, 1, {"topics": []}), (ApiKeys.SASL_AUTHENTICATE, 2, {"auth_bytes": ALICE})])
def test_request_when_it_comes_before_the_handshake_then_it_is_refused(
        api_key: ApiKeys, version: int, body: dict[str, Any]) -> None:
    peer = Peer()
    with pytest.raises(AuthenticationError, match=f"Unexpected Kafka request of type {api_key} during SASL handshake"):
        peer.say(request_bytes(api_key, version, body))
    assert not peer.authenticator.last_words


def test_request_when_it_comes_between_handshake_and_token_then_it_is_refused() -> None:
    peer = Peer()
    peer.handshake("PLAIN")
    with pytest.raises(AuthenticationError, match="type SASL_HANDSHAKE during SASL authentication"):
        peer.say(request_bytes(ApiKeys.SASL_HANDSHAKE, 1, {"mechanism": "PLAIN"}))
    assert peer.last_words(ApiKeys.SASL_HANDSHAKE, 1)["error_code"] == ErrorCode.ILLEGAL_SASL_STATE


@pytest.mark.parametrize("payload", [b"", b"\x16\x03", header_bytes(999, 0), header_bytes(17, 9), header_bytes(17, 1)])
def test_bytes_when_they_are_no_request_then_the_connection_ends(payload: bytes) -> None:
    with pytest.raises(InvalidRequestError):
        Peer().say(payload)


def test_request_when_it_names_many_things_before_the_login_then_they_are_not_read() -> None:
    """One frame of 500 KB, of a client that had not logged in, was two seconds of the network thread's CPU."""
    peer = Peer(max_receive_size_bytes=2**19)
    peer.handshake("PLAIN")
    names = request_bytes(ApiKeys.METADATA, 1, {"topics": [{"name": "t"}] * 100_000})
    with pytest.raises(InvalidRequestError, match="99000 more elements than one request may have"):
        peer.say(names)


def test_session_when_its_token_ends_beyond_all_times_then_it_has_an_end_all_the_same() -> None:
    peer = Peer(expires_at_ms=2**63 - 1)
    peer.handshake("TWO-STEPS")
    peer.authenticate(b"hello")
    assert peer.authenticate(b"yes")["session_lifetime_ms"] > 2**61
    assert peer.authenticator.complete


def test_frame_when_it_is_too_large_then_it_is_not_read() -> None:
    peer = Peer(max_receive_size_bytes=100)
    peer.transport.pieces.append(struct.pack(">i", 101))
    with pytest.raises(AuthenticationError, match=r"invalid receive size.*101"):
        peer.authenticator.authenticate()
    tls = Peer()
    tls.transport.pieces.append(b"\x16\x03\x01\x02\x00")
    with pytest.raises(AuthenticationError, match="seems to speak TLS"):
        tls.authenticator.authenticate()


def test_peer_when_it_hangs_up_then_it_is_a_lost_connection() -> None:
    peer = Peer()
    peer.transport.at_end = True
    with pytest.raises(DisconnectedError, match="peer:1 closed the connection during SASL authentication"):
        peer.authenticator.authenticate()


# ---- sessions

def logged_in(mechanism: str = "PLAIN", **arguments: Any) -> tuple[Peer, Struct]:
    peer = Peer(**arguments)
    peer.handshake(mechanism)
    if mechanism == "TWO-STEPS":
        peer.authenticate(b"hello")
    return peer, peer.authenticate(b"yes" if mechanism == "TWO-STEPS" else ALICE)


def renew(peer: Peer, token: bytes, mechanism: str = "PLAIN") -> Struct:
    assert peer.authenticator.maybe_begin_renewal(peer.clock.now_ms())
    frame = peer.authenticator.on_frame(request_bytes(ApiKeys.SASL_HANDSHAKE, 1, {"mechanism": mechanism}))
    assert frame is not None
    assert peer.authenticator.is_renewing
    answer = peer.authenticator.on_frame(token_request(token))
    assert answer is not None
    return parse_response(ApiKeys.SASL_AUTHENTICATE, 2, b"".join(answer.chunks))[1]


@pytest.mark.parametrize(("max_reauth_ms", "credentials_ms", "expected"), [
    (0, None, None), (5000, None, 5000), (0, 7000, 7000), (5000, 7000, 5000), (9000, 7000, 7000), (0, -1, 0)])
def test_session_when_it_begins_then_it_lasts_as_long_as_the_shorter_of_both(
        max_reauth_ms: int, credentials_ms: int | None, expected: int | None) -> None:
    begin_ms = ManualClock().timestamp_ms()
    peer, answer = logged_in("TWO-STEPS", max_reauth_ms=max_reauth_ms,
                             expires_at_ms=None if credentials_ms is None else begin_ms + credentials_ms)
    assert answer["session_lifetime_ms"] == (expected or 0)
    assert peer.authenticator.session_expires_ms == expected
    if expected:
        peer.clock.advance(expected - 1)
        assert not peer.authenticator.has_expired(peer.clock.now_ms())
        peer.clock.advance(1)
        assert peer.authenticator.has_expired(peer.clock.now_ms())


def test_session_when_it_is_renewed_then_it_begins_anew() -> None:
    peer, _ = logged_in(max_reauth_ms=5000)
    peer.clock.advance(6000)
    assert peer.authenticator.has_expired(6000)
    answer = renew(peer, ALICE)
    assert (answer["error_code"], answer["session_lifetime_ms"]) == (0, 5000)
    assert peer.authenticator.session_expires_ms == 11_000
    assert not peer.authenticator.is_renewing
    assert peer.authenticator.complete


def test_renewal_when_there_are_no_sessions_or_it_was_just_done_then_it_is_not_begun() -> None:
    peer, _ = logged_in()
    assert not peer.authenticator.maybe_begin_renewal(0)
    peer, _ = logged_in(max_reauth_ms=5000)
    renew(peer, ALICE)
    assert not peer.authenticator.maybe_begin_renewal(peer.clock.advance(999))
    assert peer.authenticator.maybe_begin_renewal(peer.clock.advance(1))


def test_renewal_when_it_is_somebody_else_then_it_is_refused() -> None:
    peer, _ = logged_in(max_reauth_ms=5000)
    with pytest.raises(AuthenticationError, match=r"from User\.alice: User\.bob"):
        renew(peer, BOB)
    assert peer.last_words(ApiKeys.SASL_AUTHENTICATE, 2)["error_code"] == 58


def test_renewal_when_it_fails_then_the_client_is_told_what_failed() -> None:
    peer, _ = logged_in("TWO-STEPS", max_reauth_ms=5000)
    renew(peer, b"hello", "TWO-STEPS")
    with pytest.raises(AuthenticationError):
        peer.authenticator.on_frame(token_request(b"no"))
    assert peer.last_words(ApiKeys.SASL_AUTHENTICATE, 2)["error_message"] == (
        "Authentication failed during re-authentication due to invalid credentials with SASL mechanism TWO-STEPS")


def test_renewal_when_the_mechanism_is_another_then_the_token_is_refused() -> None:
    peer, _ = logged_in(max_reauth_ms=5000)
    with pytest.raises(AuthenticationError, match="'TWO-STEPS' requested by client is not supported for re-auth"):
        renew(peer, b"hello", "TWO-STEPS")


def test_frame_of_a_renewal_when_it_is_too_large_then_it_is_refused() -> None:
    peer, _ = logged_in(max_reauth_ms=5000)
    assert peer.authenticator.maybe_begin_renewal(0)
    with pytest.raises(AuthenticationError, match="invalid receive size"):
        peer.authenticator.on_frame(bytes(1001))


def test_nothing_that_is_said_is_shown_by_what_is_raised() -> None:
    peer = Peer()
    peer.handshake("PLAIN")
    with pytest.raises(AuthenticationError) as raised:
        peer.say(token_request(b"\0alice\0hush-hush"))
    assert "hush" not in json.dumps([str(raised.value), repr(raised.value), str(raised.value.__cause__)])
