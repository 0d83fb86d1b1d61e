"""The client's half of the conversation, frame by frame, with a broker that is a script."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from pyproducer.broker.cluster.sasl.scram_credential import is_client_proof
from pyproducer.common.errors import (
    AuthenticationError,
    CorrelationIdMismatchError,
    DisconnectedError,
    KafkaError,
    RemoteProtocolError,
    TransportError,
)
from pyproducer.network.sasl.client_authenticator import SaslClientAuthenticator
from pyproducer.network.sasl.login import StaticLogin
from pyproducer.network.sasl.oauth_token import OAuthToken
from pyproducer.network.sasl.oauthbearer import OAuthBearerSaslClient
from pyproducer.network.sasl.password import PasswordCredentials
from pyproducer.network.sasl.plain import PlainSaslClient
from pyproducer.network.sasl.scram import ScramSaslClient
from pyproducer.network.sasl.scram_formatter import FORMATTERS, auth_message
from pyproducer.network.sasl.scram_messages import (
    ClientFinalMessage,
    ClientFirstMessage,
    ServerFinalMessage,
    ServerFirstMessage,
)
from pyproducer.protocol.apis import ApiKeys
from pyproducer.protocol.buffer import ByteReader
from pyproducer.protocol.header import build_response, read_request_header

PASSWORD = "pencil, with = and \N{LATIN SMALL LETTER A WITH DIAERESIS}"
CREDENTIALS = {"username": "us,er=", "password": PASSWORD}


def framed(payload: bytes) -> bytes:
    return len(payload).to_bytes(4, "big") + payload


class Broker:
    """A transport behind which a broker answers: what each API says is the test's to change."""

    def __init__(self, *, piece_bytes: int = 1 << 20, accept_bytes: int = 1 << 20, authenticate_version: int = 2,
                 lifetime_ms: int = 0) -> None:
        self.ready = True
        self.has_pending_reads = self.has_pending_writes = self.wants_write = False
        self.principal_name: str | None = None
        self.sock: Any = None
        self.piece_bytes, self.accept_bytes = piece_bytes, accept_bytes
        self.is_full = False
        self.requests: list[tuple[ApiKeys, int, dict[str, Any]]] = []
        self.incoming = bytearray()
        self.outgoing = bytearray()
        self.has_ended = False
        self.correlation_offset = 0
        self.versions = {17: (0, 1), 36: (0, authenticate_version)}
        self.lifetime_ms = lifetime_ms
        self.answers: dict[ApiKeys, Callable[[dict[str, Any]], dict[str, Any] | bytes]] = {
            ApiKeys.API_VERSIONS: lambda _: {"error_code": 0, "api_keys": [
                {"api_key": key, "min_version": low, "max_version": high}
                for key, (low, high) in self.versions.items()]},
            ApiKeys.SASL_HANDSHAKE: lambda _: {"error_code": 0, "mechanisms": ["PLAIN"]},
            ApiKeys.SASL_AUTHENTICATE: lambda _: self.token(b""),
        }

    def token(self, auth_bytes: bytes) -> dict[str, Any]:
        return {"error_code": 0, "error_message": None, "auth_bytes": auth_bytes,
                "session_lifetime_ms": self.lifetime_ms}

    def refuse(self, code: int, sentence: str | None) -> None:
        self.answers[ApiKeys.SASL_AUTHENTICATE] = lambda _: {
            "error_code": code, "error_message": sentence, "auth_bytes": b"", "session_lifetime_ms": 0}

    # TransportLayer

    def handshake(self) -> None:
        raise AssertionError("it is ready")

    def write_on(self, chunks: Any) -> int:
        return self.write_chunks(chunks)

    def write_chunks(self, chunks: Any) -> int:
        if self.is_full:  # each time after it took something
            self.is_full = False
            return 0
        data = b"".join(chunks)[:self.accept_bytes]
        self.is_full = self.accept_bytes < 1 << 20
        self.incoming += data
        while len(self.incoming) >= 4 and len(self.incoming) >= 4 + int.from_bytes(self.incoming[:4], "big"):
            end = 4 + int.from_bytes(self.incoming[:4], "big")
            self.on_frame(bytes(self.incoming[4:end]))
            del self.incoming[:end]
        return len(data)

    def on_frame(self, frame: bytes) -> None:
        header = read_request_header(ByteReader(frame))
        api = ApiKeys(header.api_key)
        reader = ByteReader(frame)
        read_request_header(reader)
        body = dict(api.request_schema(header.api_version).read(reader))
        self.requests.append((api, header.api_version, body))
        answer = self.answers[api](body)
        if isinstance(answer, bytes):
            self.outgoing += answer
        else:
            self.outgoing += framed(b"".join(build_response(
                api, header.api_version, header.correlation_id + self.correlation_offset, answer)))

    def read_into(self, view: memoryview) -> int:
        if not self.outgoing:
            return -1 if self.has_ended else 0
        piece = bytes(self.outgoing[:min(len(view), self.piece_bytes)])
        del self.outgoing[:len(piece)]
        view[:len(piece)] = piece
        return len(piece)

    def flush(self) -> None:
        """Nothing waits."""

    def close(self) -> None:
        """Nothing is open."""


def plain_login() -> StaticLogin:
    return StaticLogin("PLAIN", PasswordCredentials(CREDENTIALS), PlainSaslClient)


def authenticator_of(broker: Broker, login: Any = None, *, is_encrypted: bool = False) -> SaslClientAuthenticator:
    return SaslClientAuthenticator(broker, login or plain_login(), host="broker", client_id="me",
                                   is_encrypted=is_encrypted)


def drive(authenticator: SaslClientAuthenticator, turns: int = 5000) -> None:
    for _ in range(turns):
        if authenticator.complete:
            return
        authenticator.authenticate()
    raise AssertionError("it does not come to its end")


def refusal_of(broker: Broker, login: Any = None, *, is_encrypted: bool = False) -> KafkaError:
    with pytest.raises(KafkaError) as caught:
        drive(authenticator_of(broker, login, is_encrypted=is_encrypted))
    return caught.value


@pytest.mark.parametrize("authenticate_version", [0, 1, 2, 9])
def test_conversation_when_all_is_well_then_versions_handshake_token(authenticate_version: int) -> None:
    broker = Broker(authenticate_version=authenticate_version)
    drive(authenticator_of(broker))
    assert broker.requests == [
        (ApiKeys.API_VERSIONS, 0, {}), (ApiKeys.SASL_HANDSHAKE, 1, {"mechanism": "PLAIN"}),
        (ApiKeys.SASL_AUTHENTICATE, min(authenticate_version, 2),
         {"auth_bytes": f"\0us,er=\0{PASSWORD}".encode()})]


@pytest.mark.parametrize("piece_bytes", [1, 2, 3, 5, 7, 100])
@pytest.mark.parametrize("accept_bytes", [1, 3, 1 << 20])
def test_conversation_when_bytes_come_and_go_in_pieces_then_it_is_the_same(
        piece_bytes: int, accept_bytes: int) -> None:
    broker = Broker(piece_bytes=piece_bytes, accept_bytes=accept_bytes)
    authenticator = authenticator_of(broker)
    authenticator.authenticate()
    assert authenticator.wants_write == (accept_bytes < 1 << 20)
    drive(authenticator)
    assert [request[0] for request in broker.requests] == [
        ApiKeys.API_VERSIONS, ApiKeys.SASL_HANDSHAKE, ApiKeys.SASL_AUTHENTICATE]


def test_bytes_when_they_follow_the_last_answer_then_they_are_left_for_the_channel() -> None:
    broker = Broker()
    broker.answers[ApiKeys.SASL_AUTHENTICATE] = lambda _: framed(
        b"".join(build_response(ApiKeys.SASL_AUTHENTICATE, 2, 2**31 - 6, broker.token(b"")))) + b"next"
    drive(authenticator_of(broker))
    assert broker.outgoing == b"next"


def test_session_when_the_broker_limits_it_then_its_life_is_told_and_it_begins_again_with_the_handshake() -> None:
    broker = Broker(lifetime_ms=5000)
    authenticator = authenticator_of(broker)
    drive(authenticator)
    assert authenticator.session_lifetime_ms == 5000
    broker.requests.clear()
    broker.lifetime_ms = 7000
    authenticator.begin_again()
    assert not authenticator.complete
    drive(authenticator)
    assert authenticator.session_lifetime_ms == 7000
    assert [request[0] for request in broker.requests] == [ApiKeys.SASL_HANDSHAKE, ApiKeys.SASL_AUTHENTICATE]


@pytest.mark.parametrize(("code", "words"), [
    (33, r"set sasl.mechanism to one that it takes: SCRAM-SHA-256, ODD\\n"),
    (34, r"one without SASL \(ILLEGAL_SASL_STATE\): set security.protocol to PLAINTEXT"),
    (42, r"INVALID_REQUEST \(42\)"),
])
def test_handshake_when_it_is_refused_then_the_error_says_what_to_set(code: int, words: str) -> None:
    broker = Broker()
    broker.answers[ApiKeys.SASL_HANDSHAKE] = lambda _: {
        "error_code": code, "mechanisms": ["SCRAM-SHA-256", "ODD\n"] if code == 33 else []}
    error = refusal_of(broker)
    assert isinstance(error, AuthenticationError)
    assert re.search(words, str(error)), error


def test_session_when_the_broker_does_not_take_it_anew_now_then_a_new_connection_may_do() -> None:
    """Kafka answers ILLEGAL_SASL_STATE to who renews a session twice within a second."""
    broker = Broker(lifetime_ms=1_000)
    authenticator = authenticator_of(broker)
    drive(authenticator)
    broker.answers[ApiKeys.SASL_HANDSHAKE] = lambda _: {"error_code": 34, "mechanisms": []}
    authenticator.begin_again()
    with pytest.raises(TransportError, match="does not take the proof anew"):
        drive(authenticator)


def test_session_when_the_broker_does_not_take_the_token_of_it_anew_then_a_new_connection_may_do() -> None:
    broker = Broker(lifetime_ms=1_000)
    authenticator = authenticator_of(broker)
    drive(authenticator)
    broker.refuse(34, None)
    authenticator.begin_again()
    with pytest.raises(TransportError, match="does not take the proof anew"):
        drive(authenticator)


def test_handshake_when_there_is_no_sasl_behind_tls_then_ssl_is_advised() -> None:
    broker = Broker()
    broker.answers[ApiKeys.SASL_HANDSHAKE] = lambda _: {"error_code": 34, "mechanisms": []}
    assert "set security.protocol to SSL" in str(refusal_of(broker, is_encrypted=True))


def test_token_when_it_is_refused_then_the_brokers_sentence_is_kept_and_no_secret_told() -> None:
    broker = Broker()
    broker.refuse(58, "Authentication failed: Invalid username or password\x1b[31m")
    error = refusal_of(broker)
    assert isinstance(error, AuthenticationError)
    assert not error.retriable
    assert error.outcome == "not_sent"
    assert str(error) == (
        "the broker refuses us with PLAIN: SASL_AUTHENTICATION_FAILED (58): Authentication failed: Invalid username or "
        "password\\x1b[31m (check username and password in sasl.jaas.config)")
    assert "pencil" not in repr(error)


@pytest.mark.parametrize(("code", "words"), [
    (7, "REQUEST_TIMED_OUT (7)"),
    (-1, "UNKNOWN_SERVER_ERROR (-1): the broker itself failed, and its log says why"),
    (9999, "code 9999, which this version does not know"),
])
def test_token_when_the_broker_cannot_decide_now_then_it_is_no_refusal(code: int, words: str) -> None:
    """A broker that failed, or that is newer than we are, had us look for a wrong password, and failed what waited."""
    broker = Broker()
    broker.refuse(code, None)
    error = refusal_of(broker)
    assert type(error) is TransportError
    assert (error.retriable, error.outcome) == (True, "not_sent")
    assert words in str(error)
    assert "password" not in str(error)


@pytest.mark.parametrize(("code", "words"), [
    (33, "UNSUPPORTED_SASL_MECHANISM (33): set sasl.mechanism to one that the listener has"),
    (34, "ILLEGAL_SASL_STATE (34): SaslAuthenticate v2 came where it does not await it"),
    (35, "UNSUPPORTED_VERSION (35): it does not take SaslAuthenticate v2, which it offered itself"),
    (31, "CLUSTER_AUTHORIZATION_FAILED (31): "),
])
def test_token_when_the_code_is_not_of_the_credentials_then_the_error_says_what_it_means(code: int, words: str) -> None:
    """Whatever the code was, the error said to check username and password."""
    broker = Broker()
    broker.refuse(code, None)
    error = refusal_of(broker)
    assert isinstance(error, AuthenticationError)
    assert not error.retriable
    assert words in str(error)
    assert "password" not in str(error)
    broker.refuse(code, "The broker's own sentence")
    assert "The broker's own sentence" in str(refusal_of(broker))


@pytest.mark.parametrize("versions", [{}, {17: (0, 0), 36: (0, 2)}, {17: (0, 1)}, {17: (0, 1), 36: (3, 4)}])
def test_versions_when_none_is_in_common_then_refused(versions: dict[int, tuple[int, int]]) -> None:
    broker = Broker()
    broker.versions = versions
    error = refusal_of(broker)
    assert isinstance(error, AuthenticationError)
    assert "SaslHandshake v1 and SaslAuthenticate" in str(error)


def test_versions_when_the_broker_refuses_the_question_then_refused() -> None:
    broker = Broker()
    broker.answers[ApiKeys.API_VERSIONS] = lambda _: {"error_code": 35, "api_keys": []}
    assert "UNSUPPORTED_VERSION (35)" in str(refusal_of(broker))


@pytest.mark.parametrize(("api", "words"), [
    (ApiKeys.API_VERSIONS, "may expect TLS: then security.protocol must be SASL_SSL"),
    (ApiKeys.SASL_HANDSHAKE, "instead of an answer to SASL_HANDSHAKE v1"),
    (ApiKeys.SASL_AUTHENTICATE, "instead of an answer to SASL_AUTHENTICATE v2: it may refuse us without a word")])
def test_broker_when_it_hangs_up_then_the_step_is_told_and_it_is_tried_again(api: ApiKeys, words: str) -> None:
    broker = Broker()

    def hang_up(_body: dict[str, Any]) -> bytes:
        broker.has_ended = True
        return b"\0\0"  # the beginning of a frame

    broker.answers[api] = hang_up
    error = refusal_of(broker)
    assert isinstance(error, DisconnectedError)
    assert words in str(error)
    assert error.outcome == "not_sent"


def test_peer_when_it_speaks_tls_then_refused_at_once() -> None:
    broker = Broker()
    broker.answers[ApiKeys.API_VERSIONS] = lambda _: b"\x15\x03\x03\x00\x02\x02\x0a"  # an alert
    error = refusal_of(broker)
    assert isinstance(error, AuthenticationError)
    assert "set security.protocol to SASL_SSL" in str(error)


@pytest.mark.parametrize("answer", [b"\xff\xff\xff\xff", b"\0\0\0\0", b"HTTP/1.1 400", b"\x7f\xff\xff\xff",
                                    b"\0\0\0\x02\0\0", b"\0\0\0\x05\x7f\xff\xff\xf8\0"])
def test_peer_when_its_bytes_make_no_sense_then_the_connection_ends(answer: bytes) -> None:
    broker = Broker()
    broker.answers[ApiKeys.API_VERSIONS] = lambda _: answer
    error = refusal_of(broker)
    assert isinstance(error, RemoteProtocolError)
    assert error.__cause__ is not error


def test_answer_when_it_is_to_another_request_then_the_connection_ends() -> None:
    broker = Broker()
    broker.correlation_offset = 1 - 8
    assert isinstance(refusal_of(broker), CorrelationIdMismatchError)


class NoCredentials:
    """A login whose token endpoint is away."""

    mechanism = "OAUTHBEARER"
    error = OSError("the token endpoint does not answer")
    is_ready = False

    def new_client(self, host: str) -> Any:
        raise AssertionError("there are none")


def test_credentials_when_there_are_none_then_it_is_no_refusal_and_why_is_told() -> None:
    broker = Broker()
    error = refusal_of(broker, NoCredentials())
    assert type(error) is TransportError
    assert "no credentials for OAUTHBEARER now: the token endpoint does not answer" in str(error)
    assert error.__cause__ is NoCredentials.error
    assert broker.requests == []


# ---- SCRAM


class ScramBroker(Broker):
    """Knows a password."""

    def __init__(self, mechanism: str, password: str = PASSWORD, *, iterations: int = 4096) -> None:
        super().__init__()
        self.formatter = FORMATTERS[mechanism]
        self.salted = self.formatter.salted_password(password, b"salt", iterations)
        self.iterations = iterations
        self.first: ClientFirstMessage | None = None
        self.server_first: ServerFirstMessage | None = None
        self.answers[ApiKeys.SASL_AUTHENTICATE] = self.on_token
        self.lies = False

    def on_token(self, body: dict[str, Any]) -> dict[str, Any]:
        data = bytes(body["auth_bytes"])
        if self.first is None:
            self.first = ClientFirstMessage.parse(data)
            self.server_first = ServerFirstMessage(self.first.nonce + "more", b"salt", self.iterations)
            return self.token(self.server_first.to_bytes())
        final = ClientFinalMessage.parse(data)
        signed = auth_message(self.first.bare, str(self.server_first), final.without_proof)
        stored_key = self.formatter.stored_key(self.formatter.client_key(self.salted))
        self.first = None
        if not is_client_proof(self.formatter, final.proof, stored_key, signed):
            return self.token(ServerFinalMessage(error="invalid-proof").to_bytes())
        signature = self.formatter.server_signature(self.formatter.server_key(self.salted), signed)
        self.lifetime_ms = 1234
        return self.token(ServerFinalMessage(b"x" * len(signature) if self.lies else signature).to_bytes())


def scram_login(mechanism: str, **options: str) -> StaticLogin:
    return StaticLogin(mechanism, PasswordCredentials({**CREDENTIALS, **options}),
                       lambda credentials: ScramSaslClient(mechanism, credentials))


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_scram_when_the_password_is_right_then_in_and_again(mechanism: str) -> None:
    broker = ScramBroker(mechanism)
    authenticator = authenticator_of(broker, scram_login(mechanism))
    drive(authenticator)
    authenticator.begin_again()
    drive(authenticator)
    assert authenticator.session_lifetime_ms == 1234
    assert [request[0] for request in broker.requests].count(ApiKeys.SASL_AUTHENTICATE) == 4
    assert PASSWORD.encode() not in b"".join(request[2].get("auth_bytes", b"") for request in broker.requests)


def test_scram_when_the_password_is_of_a_delegation_token_then_it_says_so() -> None:
    broker = ScramBroker("SCRAM-SHA-256")
    drive(authenticator_of(broker, scram_login("SCRAM-SHA-256", tokenauth="true")))
    assert bytes(broker.requests[2][2]["auth_bytes"]).endswith(b",tokenauth=true")


def test_scram_when_connections_follow_each_other_then_the_rounds_are_counted_once(
        monkeypatch: pytest.MonkeyPatch) -> None:
    broker, login = ScramBroker("SCRAM-SHA-256"), scram_login("SCRAM-SHA-256")
    counted = []
    right = type(broker.formatter).hi
    monkeypatch.setattr(type(broker.formatter), "hi", lambda *arguments: counted.append(1) or right(*arguments))
    for _ in range(3):
        drive(authenticator_of(broker, login))
    assert len(counted) == 1


@pytest.mark.parametrize(("changes", "words"), [
    ({"password": "other"}, "the broker refuses: invalid-proof; check username and password"),
    ({"iterations": 4095}, "4095 iterations, and it must be from 4096 to 1000000"),
    ({"iterations": 1_000_001}, "1000001 iterations"),
])
def test_scram_when_something_is_wrong_then_refused(changes: dict[str, Any], words: str,
                                                    monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hashlib.pbkdf2_hmac", lambda _hash, password, *_: b"key of " + password)
    error = refusal_of(ScramBroker("SCRAM-SHA-256", **changes), scram_login("SCRAM-SHA-256"))
    assert isinstance(error, AuthenticationError)
    assert words in str(error)


def test_scram_when_the_broker_does_not_know_the_password_then_we_refuse_it() -> None:
    broker = ScramBroker("SCRAM-SHA-256")
    broker.lies = True
    assert "did not prove that it knows the password" in str(refusal_of(broker, scram_login("SCRAM-SHA-256")))


def test_scram_when_the_nonce_is_not_ours_then_refused() -> None:
    broker = ScramBroker("SCRAM-SHA-256")
    broker.answers[ApiKeys.SASL_AUTHENTICATE] = lambda _: broker.token(b"r=other,s=c2FsdA==,i=4096")
    assert "does not continue ours" in str(refusal_of(broker, scram_login("SCRAM-SHA-256")))


@pytest.mark.parametrize("theirs", [
    lambda ours: ours, lambda ours: ours[:-1], lambda ours: ours[:-1] + "~more", lambda ours: "more" + ours,
    lambda ours: ours.swapcase() + "more"],
    ids=["repeated", "cut", "changed", "behind another", "in another case"])
@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_scram_when_the_broker_adds_no_nonce_of_its_own_to_ours_then_refused_and_no_proof_is_sent(
        mechanism: str, theirs: Callable[[str], str]) -> None:
    """Who listens in on a login could repeat it: without a nonce of the broker's our proof is the same each time.

    RFC 5802 5.1 has both add one; a broker that repeats ours is refused before the proof, which would tell it enough to
    try passwords by. Nothing that a user sees changes but that the login to such a broker fails, with this reason.
    """
    broker, ours = ScramBroker(mechanism), []

    def answer(body: dict[str, Any]) -> dict[str, Any]:
        ours.append(ClientFirstMessage.parse(bytes(body["auth_bytes"])).nonce)
        return broker.token(ServerFirstMessage(theirs(ours[-1]), b"salt", 4096).to_bytes())

    broker.answers[ApiKeys.SASL_AUTHENTICATE] = answer
    error = refusal_of(broker, scram_login(mechanism))
    assert isinstance(error, AuthenticationError)
    assert f"{mechanism}: the broker's nonce does not continue ours" in str(error)
    assert [api for api, *_ in broker.requests].count(ApiKeys.SASL_AUTHENTICATE) == 1


def test_scram_when_the_broker_is_done_early_then_refused() -> None:
    broker = ScramBroker("SCRAM-SHA-256")
    broker.answers[ApiKeys.SASL_AUTHENTICATE] = lambda _: broker.token(b"")
    assert isinstance(refusal_of(broker, scram_login("SCRAM-SHA-256")), AuthenticationError)


# ---- OAUTHBEARER


class TokenLogin:
    """A token that is there."""

    mechanism = "OAUTHBEARER"
    error = None
    is_ready = True

    def new_client(self, host: str) -> OAuthBearerSaslClient:
        return OAuthBearerSaslClient(OAuthToken("abc.def.ghi", extensions={"logicalCluster": "lkc-1", "poolId": "p 2"}))


def test_token_when_it_is_taken_then_one_message_with_its_extensions() -> None:
    broker = Broker()
    drive(authenticator_of(broker, TokenLogin()))
    assert bytes(broker.requests[2][2]["auth_bytes"]) == (
        b"n,,\x01auth=Bearer abc.def.ghi\x01logicalCluster=lkc-1\x01poolId=p 2\x01\x01")


def test_token_when_it_is_not_taken_then_the_refusal_is_asked_for() -> None:
    broker = Broker()
    answers: list[dict[str, Any]] = [
        {"error_code": 0, "error_message": None, "auth_bytes": b'{"status":"invalid_token"}'},
        {"error_code": 58, "error_message": '{"status":"invalid_token"}', "auth_bytes": b""}]
    broker.answers[ApiKeys.SASL_AUTHENTICATE] = lambda _: {**answers.pop(0), "session_lifetime_ms": 0}
    error = refusal_of(broker, TokenLogin())
    assert isinstance(error, AuthenticationError)
    assert 'the broker says {"status":"invalid_token"} of the token' in str(error)
    assert "abc.def.ghi" not in str(error)
    assert bytes(broker.requests[3][2]["auth_bytes"]) == b"\x01"
