"""The client proves who it is, before anything else is said on a connection, and again while the connection lives.

    ApiVersions v0 -> SaslHandshake v1 -> SaslAuthenticate v0-v2, until both ends are done -> COMPLETE
                           ^                                                                     |
                           +---------------------- begin_again: re-authentication ---------------+

One frame goes out, then its answer is awaited; nothing is read beyond it, for that is the channel's. ApiVersions goes
in version 0, which every broker answers: one that does not know a version would take the request for a token.

Road:    KafkaChannel.prepare -> [client authenticator] -> TransportLayer
Thread:  the one that polls the selector; nothing here waits.
Source:  Java SaslClientAuthenticator (4.1); KIP-35, KIP-43, KIP-152, KIP-368. Differs from Java: brokers before 1.0,
         which take tokens without a header, are refused; re-authentication begins when nothing is in flight, so that
         no answer to another request comes between.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from pyproducer.common.error_codes import ErrorCode, error_for_code
from pyproducer.common.errors import (
    AuthenticationError,
    CorrelationIdMismatchError,
    DisconnectedError,
    InvalidReceiveError,
    TransportError,
)
from pyproducer.common.printable import LONGEST_NAME, printable
from pyproducer.network.receive import NetworkReceive
from pyproducer.network.sasl.mechanism import unavailable
from pyproducer.network.send import NetworkSend
from pyproducer.network.transport import END_OF_STREAM, TransportLayer
from pyproducer.protocol.apis import ApiKeys
from pyproducer.protocol.header import MAX_CORRELATION_ID, build_request, parse_response, parse_response_correlation_id

if TYPE_CHECKING:
    from pyproducer.network.sasl.mechanism import Login, SaslClient

# An answer here is some hundred bytes; a Kerberos token may have 64 KiB.
LONGEST_ANSWER_BYTES = 1024 * 1024
_HANDSHAKE_VERSION = 1  # with 0, tokens go without a header
_HIGHEST_AUTHENTICATE_VERSION = 2
# Java's, so that a log or a dump of packets tells these requests from the others.
_FIRST_CORRELATION_ID = MAX_CORRELATION_ID - 7


class SaslClientAuthenticator:
    """Authenticates one connection with a client's login.

    Args:
        transport: What to read from and write to.
        login: The credentials.
        host: The name of the broker, for mechanisms that need it.
        client_id: Sent in each request header.
        is_encrypted: Whether the transport speaks TLS, for messages.

    Attributes:
        complete: Nothing is left to do.
        wants_write: Waits to write, not to read.
        session_lifetime_ms: For how long the broker takes the proof, in ms, once complete; 0 for ever.
    """

    def __init__(self, transport: TransportLayer, login: Login, *, host: str, client_id: str,
                 is_encrypted: bool) -> None:
        self.complete: bool = False
        self.wants_write: bool = False
        self.session_lifetime_ms: int = 0
        self._transport = transport
        self._login = login
        self._host = host
        self._client_id = client_id
        self._is_encrypted = is_encrypted
        self._client: SaslClient | None = None
        self._authenticate_version = -1  # not known yet
        self._correlation_id = MAX_CORRELATION_ID
        self._api_key = ApiKeys.API_VERSIONS
        self._api_version = 0
        self._send: NetworkSend | None = None
        self._receive: NetworkReceive | None = None
        self._answers = 0
        self._is_again = False

    def begin_again(self) -> None:
        """Begin to prove it anew, on a connection on which nothing is under way; `authenticate` goes on."""
        self.complete = False
        self.session_lifetime_ms = 0
        self._client = None
        self._is_again = True

    def authenticate(self) -> None:
        """Go on as far as the socket allows; see Authenticator.

        Raises:
            AuthenticationError: The broker refuses us, or we it; the text says what to change. Not sent.
            DisconnectedError: The broker hung up. Not sent.
            TransportError: There are no credentials now, or the broker cannot decide now. Not sent.
            RemoteProtocolError: The peer sent nonsense. Not sent.
            OSError: The connection is broken. Not sent.
        """
        while not self.complete:
            if self._send is None and self._receive is None:
                self._begin()
            if self._send is not None and not self._write(self._send):
                return
            payload = self._read()
            if payload is None:
                return
            self._on_answer(payload)

    @property
    def principal_name(self) -> str:
        """Return who the broker is, by its certificate."""
        subject = self._transport.principal_name
        return "User:ANONYMOUS" if subject is None else f"User:{subject}"

    def close(self) -> None:
        """Forget the secrets."""
        self._client = None
        self._send = self._receive = None

    # ---- frames

    def _write(self, send: NetworkSend) -> bool:
        send.write_to(self._transport)
        self.wants_write = not send.completed
        if send.completed:
            self._send = None
        return bool(send.completed)

    def _read(self) -> bytes | memoryview | None:
        """Return the payload of the answer; None while it is not there."""
        receive = self._receive
        assert receive is not None, "an answer is awaited as soon as a request is made"
        try:
            while not receive.complete:
                count = receive.read_from(self._transport)
                if count == END_OF_STREAM:
                    raise self._hung_up()
                if not count:
                    return None
        except InvalidReceiveError as error:
            if "seems to speak TLS" not in str(error):
                raise
            raise AuthenticationError("the listener speaks TLS, and we do not: set security.protocol to SASL_SSL, or "
                                      f"take the port of a listener without it ({error})") from error
        self._receive = None
        self._answers += 1
        return receive.payload

    def _request(self, api_key: ApiKeys, version: int, body: Mapping[str, Any]) -> None:
        """Make the next request and the place for its answer."""
        self._correlation_id = (_FIRST_CORRELATION_ID if self._correlation_id == MAX_CORRELATION_ID
                                else self._correlation_id + 1)
        self._api_key, self._api_version = api_key, version
        self._send = NetworkSend("", build_request(api_key, version, self._correlation_id, self._client_id, body))
        self._receive = NetworkReceive("", LONGEST_ANSWER_BYTES)

    # ---- the conversation

    def _begin(self) -> None:
        login = self._login
        if not login.is_ready:
            why = login.error
            raise unavailable(f"there are no credentials for {login.mechanism} now"
                              + (f": {why}" if why is not None else "")) from why
        self._client = login.new_client(self._host)
        if self._authenticate_version < 0:
            self._request(ApiKeys.API_VERSIONS, 0, {})
        else:
            self._shake_hands()

    def _shake_hands(self) -> None:
        assert self._client is not None, "_begin makes it"
        self._request(ApiKeys.SASL_HANDSHAKE, _HANDSHAKE_VERSION, {"mechanism": self._client.mechanism})

    def _on_answer(self, payload: bytes | memoryview) -> None:
        correlation_id = parse_response_correlation_id(payload)
        if correlation_id != self._correlation_id:
            raise CorrelationIdMismatchError(
                f"Correlation id for response ({correlation_id}) does not match request ({self._correlation_id}), "
                f"request: {self._api_key.name} v{self._api_version}")
        _, body = parse_response(self._api_key, self._api_version, payload)
        _ANSWERS[self._api_key](self, body)

    def _on_api_versions(self, body: Mapping[str, Any]) -> None:
        if body["error_code"]:
            raise AuthenticationError(f"the broker answers ApiVersions v0 with {_code(body['error_code'])}")
        known = {row["api_key"]: (row["min_version"], row["max_version"]) for row in body["api_keys"]}
        handshake = known.get(ApiKeys.SASL_HANDSHAKE, (0, -1))
        authenticate = known.get(ApiKeys.SASL_AUTHENTICATE, (0, -1))
        version = min(authenticate[1], _HIGHEST_AUTHENTICATE_VERSION)
        if not handshake[0] <= _HANDSHAKE_VERSION <= handshake[1] or version < max(authenticate[0], 0):
            raise AuthenticationError(
                "the broker does not know SaslHandshake v1 and SaslAuthenticate v0 to v2: it is older than Kafka 1.0, "
                f"or has no SASL; set security.protocol to {self._without_sasl}")
        self._authenticate_version = version
        self._shake_hands()

    def _on_handshake(self, body: Mapping[str, Any]) -> None:
        assert self._client is not None, "_begin makes it"
        code, mechanism = body["error_code"], self._client.mechanism
        if code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
            offered = ", ".join(printable(name, LONGEST_NAME) for name in body["mechanisms"])
            raise AuthenticationError(f"the broker's listener does not take the mechanism {mechanism}; set "
                                      f"sasl.mechanism to one that it takes: {offered or 'it names none'}")
        if code == ErrorCode.ILLEGAL_SASL_STATE and not self._is_again:
            raise AuthenticationError("the broker's listener is one without SASL (ILLEGAL_SASL_STATE): set "
                                      f"security.protocol to {self._without_sasl}, or take the port of a listener "
                                      "with SASL")
        if code:
            raise self._refusal(code, None)
        token = self._client.evaluate_challenge(b"")
        self._authenticate(b"" if token is None else token)

    def _authenticate(self, token: bytes) -> None:
        self._request(ApiKeys.SASL_AUTHENTICATE, self._authenticate_version, {"auth_bytes": token})

    def _on_token(self, body: Mapping[str, Any]) -> None:
        client = self._client
        assert client is not None, "_begin makes it"
        if body["error_code"]:
            raise self._refusal(body["error_code"], body["error_message"])
        self.session_lifetime_ms = max(body.get("session_lifetime_ms", 0), 0)
        answer = None if client.complete else client.evaluate_challenge(bytes(body["auth_bytes"]))
        if answer is not None:
            self._authenticate(answer)
        elif client.complete:
            self.complete = True
            self._client = None
        else:
            raise AuthenticationError(f"{client.mechanism}: the broker is done before it proved who it is")

    # ---- why not

    def _refusal(self, code: int, sentence: str | None) -> TransportError:
        assert self._client is not None, "_begin makes it"
        said = f"{_code(code)}: {printable(sentence)}" if sentence else _code(code)
        if code == ErrorCode.ILLEGAL_SASL_STATE and self._is_again:
            # Kafka's answer to who comes anew within a second; a new connection is taken.
            return unavailable("the broker does not take the proof anew on this connection (ILLEGAL_SASL_STATE)")
        if code == ErrorCode.SASL_AUTHENTICATION_FAILED:
            hint = getattr(self._client, "refusal_hint", "")
            return AuthenticationError(f"the broker refuses us with {self._client.mechanism}: {said}"
                                       + (f" ({hint})" if hint else ""))
        if ErrorCode.of(code) is ErrorCode.UNKNOWN_SERVER_ERROR or error_for_code(code).retriable:
            if code == ErrorCode.UNKNOWN_SERVER_ERROR:
                said += ": the broker itself failed, and its log says why"
            return unavailable(f"the broker cannot authenticate us with {self._client.mechanism} now: {said}")
        return AuthenticationError(f"the broker ends the login with {self._client.mechanism}: {said}: "
                                   f"{self._meaning(code)}")

    def _meaning(self, code: int) -> str:
        """Say what a code means in a login that is not about the credentials, and what to change."""
        asked = f"{self._api_key.title} v{self._api_version}"
        if code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
            return "set sasl.mechanism to one that the listener has"
        if code == ErrorCode.ILLEGAL_SASL_STATE:
            return (f"{asked} came where it does not await it: what is between us may mix connections, or its listener "
                    f"has no SASL, and security.protocol should be {self._without_sasl}")
        if code == ErrorCode.UNSUPPORTED_VERSION:
            return (f"it does not take {asked}, which it offered itself: a proxy may answer for brokers of another "
                    "version")
        return ErrorCode.of(code).sentence

    def _hung_up(self) -> DisconnectedError:
        asked = f"{self._api_key.name} v{self._api_version}"
        if self._answers:
            hint = "it may refuse us without a word, or be about to end"
        elif self._is_encrypted:
            hint = "it may not be a Kafka broker"
        else:
            hint = ("its listener may expect TLS: then security.protocol must be SASL_SSL; or it is not a Kafka broker")
        gone = DisconnectedError(f"the broker closed the connection instead of an answer to {asked}: {hint}")
        gone.outcome = "not_sent"
        return gone

    @property
    def _without_sasl(self) -> str:
        return "SSL" if self._is_encrypted else "PLAINTEXT"


def _code(code: int) -> str:
    known = ErrorCode.known(code)
    return f"code {code}, which this version does not know" if known is None else f"{known.name} ({code})"


_ANSWERS: Mapping[ApiKeys, Callable[[SaslClientAuthenticator, Mapping[str, Any]], None]] = {
    ApiKeys.API_VERSIONS: SaslClientAuthenticator._on_api_versions,
    ApiKeys.SASL_HANDSHAKE: SaslClientAuthenticator._on_handshake,
    ApiKeys.SASL_AUTHENTICATE: SaslClientAuthenticator._on_token,
}
