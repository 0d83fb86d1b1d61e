"""The broker's half of SASL on one connection: which requests may come when, and what is answered to each.

    ApiVersions? -> SaslHandshake(mechanism) -> SaslAuthenticate ... -> complete     (handshake v0: bare tokens, framed)
    later, before the session ends: SaslHandshake(same mechanism) -> SaslAuthenticate ... -> complete (KIP-368)

Who fails is told why, and only after a delay, which is the selector's: guessing passwords must not be quick. What is
told does not say whether there is such a user.

Road:    KafkaChannel.prepare, Processor -> [server authenticator] -> SaslServer
Thread:  the thread that polls the selector; it never waits.
Source:  Java SaslServerAuthenticator with its SaslState and ReauthInfo (4.1). Differs from Java: a re-authentication is
         fed with the frames that the channel read, so that its bare tokens (handshake v0) cannot be empty.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from typing import Any

from pyproducer.broker.cluster.sasl.login_script import Exchange, LoginReply, LoginScript, Wait
from pyproducer.broker.cluster.sasl.sasl_server import SaslError, SaslServer
from pyproducer.broker.request.request_context import RequestContext
from pyproducer.common.clock import Clock
from pyproducer.common.error_codes import ErrorCode
from pyproducer.common.errors import (
    AuthenticationError,
    DisconnectedError,
    IllegalStateError,
    InvalidReceiveError,
    InvalidRequestError,
)
from pyproducer.common.printable import LONGEST_NAME, printable
from pyproducer.network.channel import ANONYMOUS
from pyproducer.network.receive import NetworkReceive
from pyproducer.network.send import NetworkSend
from pyproducer.network.transport import END_OF_STREAM, TransportLayer
from pyproducer.protocol.apis import ApiKeys
from pyproducer.protocol.buffer import Buffer, ByteReader
from pyproducer.protocol.header import read_request_header

_logger = logging.getLogger(__name__)
# KafkaChannel.MIN_REAUTH_INTERVAL_ONE_SECOND_NANOS: one that comes sooner is answered as where there are no sessions.
MIN_REAUTH_INTERVAL_MS = 1000
_LONGEST_MS = 2**62  # what the answer has a place for, and the clock's own time can be added to
# No request that may come before the login has any elements; one that has is answered with an error for each.
_MOST_ELEMENTS = 1000
_OF_LOGINS = (ApiKeys.API_VERSIONS, ApiKeys.SASL_HANDSHAKE, ApiKeys.SASL_AUTHENTICATE)


class SaslState(Enum):
    """What may come next."""

    HANDSHAKE_OR_VERSIONS_REQUEST = "HANDSHAKE_OR_VERSIONS_REQUEST"
    HANDSHAKE_REQUEST = "HANDSHAKE_REQUEST"
    AUTHENTICATE = "AUTHENTICATE"
    COMPLETE = "COMPLETE"
    REAUTH_BAD_MECHANISM = "REAUTH_BAD_MECHANISM"
    FAILED = "FAILED"


class _Event(Enum):
    VERSIONS_TOLD = 0
    MECHANISM_CHOSEN = 1
    MECHANISM_CHANGED = 2
    PROVED = 3
    SESSION_RENEWAL = 4


_TRANSITIONS: Mapping[tuple[SaslState, _Event], SaslState] = {
    (SaslState.HANDSHAKE_OR_VERSIONS_REQUEST, _Event.VERSIONS_TOLD): SaslState.HANDSHAKE_REQUEST,
    (SaslState.HANDSHAKE_OR_VERSIONS_REQUEST, _Event.MECHANISM_CHOSEN): SaslState.AUTHENTICATE,
    (SaslState.HANDSHAKE_REQUEST, _Event.MECHANISM_CHOSEN): SaslState.AUTHENTICATE,
    (SaslState.HANDSHAKE_REQUEST, _Event.MECHANISM_CHANGED): SaslState.REAUTH_BAD_MECHANISM,
    (SaslState.AUTHENTICATE, _Event.PROVED): SaslState.COMPLETE,
    (SaslState.COMPLETE, _Event.SESSION_RENEWAL): SaslState.HANDSHAKE_REQUEST,
}


@dataclass(frozen=True)
class SaslServerSettings:
    """What all connections of one listener have in common.

    Attributes:
        enabled_mechanisms: Their names, as SaslHandshake tells them.
        new_server: Makes the broker's half of one of them.
        answer_api_versions: Returns the body that answers an ApiVersions request.
        answer_error: Returns the body that answers a request of any API with an error.
        is_supported: Whether this broker answers an API in a version.
        clock: The clocks.
        max_receive_size_bytes: Largest frame before the authentication has succeeded.
        max_reauth_ms: How long a session lasts at most, by mechanism; 0 or nothing for no limit.
        script: What a test puts between; None for nothing.
    """

    enabled_mechanisms: tuple[str, ...]
    new_server: Callable[[str], SaslServer]
    answer_api_versions: Callable[[RequestContext, ByteReader], Mapping[str, Any]]
    answer_error: Callable[[RequestContext, ByteReader, ErrorCode], Mapping[str, Any]]
    is_supported: Callable[[ApiKeys, int], bool]
    clock: Clock
    max_receive_size_bytes: int
    max_reauth_ms: Mapping[str, int]
    script: LoginScript | None = None


class SaslServerAuthenticator:
    """One connection's authentication, and those that renew it.

    Args:
        transport: Read and written until the first authentication is complete.
        settings: The listener's.
        connection_id: For what is logged.
        peer: `host:port`, for messages.

    Attributes:
        complete: The peer has proved who it is.
        wants_write: An answer is not written yet.
        is_waiting: A test keeps it from going on: nothing is to be read.
        on_awake: Called, on any thread, when it may go on: `authenticate` or `go_on` is to be called then.
        session_expires_ms: Until when the connection may be used, monotonic; None where that has no end.
        last_words: What tells the peer why it was refused; empty where it is told nothing.
    """

    def __init__(self, transport: TransportLayer, settings: SaslServerSettings, *, connection_id: str = "",
                 peer: str = "") -> None:
        self.complete: bool = False
        self.wants_write: bool = False
        self.is_waiting: bool = False
        self.on_awake: Callable[[], None] = _nobody
        self.session_expires_ms: int | None = None
        self.last_words: Sequence[Buffer] = ()
        self._transport = transport
        self._settings = settings
        self._connection_id = connection_id
        self._peer = peer
        self._state = SaslState.HANDSHAKE_OR_VERSIONS_REQUEST
        self._mechanism: str | None = None
        self._other_mechanism = ""
        self._server: SaslServer | None = None
        self._has_headers = False  # SaslHandshake v1: tokens come in SaslAuthenticate
        self._receive: NetworkReceive | None = None
        self._send: NetworkSend | None = None
        self._principal_name: str | None = None
        self._last_renewal_ms: int | None = None
        self._exchange: Exchange | None = None
        self._is_awake = False
        self._is_torn = False  # the answer that is being written is the last

    # ---- the first authentication: its own bytes

    def authenticate(self) -> None:
        """Go on as far as the socket allows.

        Raises:
            AuthenticationError: The peer is refused; `last_words` is what to tell it. Not sent.
            DisconnectedError: The peer hung up. Not sent.
            InvalidRequestError: What it sent is no request. Not sent.
            OSError: The connection is broken. Not sent.
        """
        while self._flush():
            if self._is_torn:
                raise DisconnectedError(f"{self._peer} was sent a part of an answer, as a fault says")
            if self._exchange is not None:
                if not self._is_awake:
                    return
                reply = self.go_on()
            elif self._state is SaslState.COMPLETE:
                self.complete = True
                return
            else:
                payload = self._read_frame()
                if payload is None:
                    return
                reply = self.on_frame(payload)
            if reply is not None:
                self._is_torn = reply.is_torn
                self._send = (NetworkSend.raw(self._connection_id, reply.chunks[0]) if reply.is_torn
                              else NetworkSend(self._connection_id, reply.chunks))

    def _flush(self) -> bool:
        send = self._send
        if send is not None:
            send.write_to(self._transport)
            if send.completed:
                self._send = None
        self.wants_write = self._send is not None
        return not self.wants_write

    def _read_frame(self) -> bytes | None:
        """Return the next frame, or None while it has not arrived."""
        receive = self._receive
        if receive is None:
            receive = self._receive = NetworkReceive(self._connection_id, self._settings.max_receive_size_bytes,
                                                     allow_empty=True, peer=self._peer)
        while not receive.complete:
            try:
                count = receive.read_from(self._transport)
            except InvalidReceiveError as error:
                raise AuthenticationError(
                    f"Failing SASL authentication due to invalid receive size: {error}") from error
            if count == END_OF_STREAM:
                raise DisconnectedError(f"{self._peer} closed the connection during SASL authentication")
            if count == 0 and not receive.complete:
                return None
        self._receive = None
        return bytes(receive.payload)

    # ---- renewals: the frames that the channel reads

    @property
    def is_renewing(self) -> bool:
        """Whether the next frame belongs to a re-authentication that has begun."""
        return self.complete and self._state is not SaslState.COMPLETE

    @property
    def now_ms(self) -> int:
        """The time by the clock that sessions are measured with."""
        return self._settings.clock.now_ms()

    def has_expired(self, now_ms: int) -> bool:
        """Whether the session has ended, and with it the connection's use for anything but a re-authentication."""
        return self.session_expires_ms is not None and now_ms >= self.session_expires_ms

    def maybe_begin_renewal(self, now_ms: int) -> bool:
        """Begin a re-authentication, with the SaslHandshake that has arrived, if there are sessions and it is time."""
        if self.session_expires_ms is None or self._state is not SaslState.COMPLETE:
            return False
        last_ms = self._last_renewal_ms
        if last_ms is not None and now_ms - last_ms < MIN_REAUTH_INTERVAL_MS:
            return False
        self._last_renewal_ms = now_ms
        self._has_headers = False
        self._move(_Event.SESSION_RENEWAL)
        return True

    # ---- the exchange

    def on_frame(self, payload: bytes) -> LoginReply | None:
        """Take one frame of the exchange, without its size; return what answers it, or None for no answer now.

        Raises:
            AuthenticationError: The peer is refused; `last_words` is what to tell it. Not sent.
            DisconnectedError: A test ends the connection. Not sent.
            InvalidRequestError: It is no request. Not sent.
        """
        script = self._settings.script
        if script is not None and script.is_active and not self._is_bare_token_next:
            with self._failing():
                context = self._context(ByteReader(payload, _MOST_ELEMENTS))
                if context.api_key in _OF_LOGINS and not context.is_unsupported_api_versions_request:
                    self._exchange = script.begin(context, payload, lambda: self._take(payload))
            if self._exchange is not None:
                return self.go_on()
        reply = self._take(payload)
        return None if reply is None else LoginReply(reply)

    def go_on(self) -> LoginReply | None:
        """Go on with a frame that had to wait; return what answers it, or None for no answer now.

        Raises:
            AuthenticationError: As `on_frame`.
            DisconnectedError: As `on_frame`.
            InvalidRequestError: As `on_frame`.
        """
        exchange = self._exchange
        assert exchange is not None, "something is waited for"
        self.is_waiting = self._is_awake = False
        reply: LoginReply | None = None
        with self._failing():
            try:
                wait = next(exchange)
            except StopIteration as end:
                reply = end.value
                self._exchange = exchange = None
                if reply is None or reply.pause is None:
                    return reply
                self._exchange = _pausing(reply.pause)
                wait = next(self._exchange)
            except AuthenticationError as refused:
                self.last_words = getattr(refused, "last_words", None) or self.last_words
                raise
        self.is_waiting = True
        wait(self._wake)
        return reply

    def _wake(self) -> None:
        self._is_awake = True
        self.on_awake()

    @contextmanager
    def _failing(self) -> Iterator[None]:
        """Whatever is raised ends the exchange."""
        is_done = False
        try:
            yield
            is_done = True
        finally:
            if not is_done:
                self._state = SaslState.FAILED

    def _take(self, payload: bytes) -> Sequence[Buffer] | None:
        with self._failing():
            return self._reply_to(payload)

    @property
    def _is_bare_token_next(self) -> bool:
        return self._state is SaslState.AUTHENTICATE and not self._has_headers

    def _reply_to(self, payload: bytes) -> Sequence[Buffer] | None:
        if len(payload) > self._settings.max_receive_size_bytes:
            raise AuthenticationError(
                f"Failing SASL authentication due to invalid receive size: {len(payload)} bytes")
        if self._state is SaslState.AUTHENTICATE:
            return self._on_request_with_token(payload) if self._has_headers else self._on_bare_token(payload)
        if self._state is SaslState.REAUTH_BAD_MECHANISM:
            raise AuthenticationError(
                f"SASL mechanism '{self._other_mechanism}' requested by client is not supported for "
                f"re-authentication of mechanism '{self._mechanism}'")
        return self._on_first_requests(payload)

    def _move(self, event: _Event) -> None:
        following = _TRANSITIONS.get((self._state, event))
        if following is None:
            raise IllegalStateError(f"{event.name} makes no sense in state {self._state.name}")
        self._state = following

    def _context(self, reader: ByteReader) -> RequestContext:
        header = read_request_header(reader)
        is_supported = self._settings.is_supported
        context = RequestContext(header, connection_id=self._connection_id, client_address=self._peer,
                                 refuses_api_versions=header.api_key == ApiKeys.API_VERSIONS and not is_supported(
                                     ApiKeys.API_VERSIONS, header.api_version))
        if not context.is_unsupported_api_versions_request and not is_supported(context.api_key, header.api_version):
            raise InvalidRequestError(f"Version {header.api_version} is not supported for apiKey {context.api_key}")
        return context

    def _on_first_requests(self, payload: bytes) -> Sequence[Buffer]:
        reader = ByteReader(payload, _MOST_ELEMENTS)
        context = self._context(reader)
        if context.api_key is ApiKeys.SASL_HANDSHAKE:
            return self._on_handshake(context, reader)
        if context.api_key is not ApiKeys.API_VERSIONS or self._state is not SaslState.HANDSHAKE_OR_VERSIONS_REQUEST:
            raise AuthenticationError(f"Unexpected Kafka request of type {context.api_key} during SASL handshake.")
        body = self._settings.answer_api_versions(context, reader)
        if body["error_code"] == ErrorCode.NONE:
            self._move(_Event.VERSIONS_TOLD)
        return context.build_response(dict(body))

    def _on_handshake(self, context: RequestContext, reader: ByteReader) -> Sequence[Buffer]:
        mechanism = context.parse_request(reader).request.data["mechanism"]
        self._has_headers = context.header.api_version >= 1
        enabled = self._settings.enabled_mechanisms
        if mechanism not in enabled:
            if not self.complete:  # nor does Java answer where a session was to be renewed
                self.last_words = context.build_response(
                    {"error_code": ErrorCode.UNSUPPORTED_SASL_MECHANISM, "mechanisms": list(enabled)})
            raise AuthenticationError(f"Unsupported SASL mechanism {printable(mechanism, LONGEST_NAME)}; enabled are "
                                      f"{', '.join(enabled)}")
        if self.complete and mechanism != self._mechanism:
            self._move(_Event.MECHANISM_CHANGED)  # refused when the token comes, as Java does
            self._other_mechanism = mechanism
        else:
            self._move(_Event.MECHANISM_CHOSEN)
            self._mechanism = mechanism
            self._server = self._settings.new_server(mechanism)
        return context.build_response({"error_code": ErrorCode.NONE, "mechanisms": list(enabled)})

    def _on_bare_token(self, token: bytes) -> Sequence[Buffer] | None:
        try:
            challenge, _ = self._evaluate(token)
        except SaslError as error:
            raise AuthenticationError(f"{self._refusal()}: {error}") from error
        return (challenge,)

    def _on_request_with_token(self, payload: bytes) -> Sequence[Buffer]:
        reader = ByteReader(payload, _MOST_ELEMENTS)
        context = self._context(reader)
        if context.api_key is not ApiKeys.SASL_AUTHENTICATE:
            self.last_words = context.build_response(
                dict(self._settings.answer_error(context, reader, ErrorCode.ILLEGAL_SASL_STATE)))
            raise AuthenticationError(f"Unexpected Kafka request of type {context.api_key} during SASL authentication.")
        token = bytes(context.parse_request(reader).request.data["auth_bytes"])
        try:
            challenge, lifetime_ms = self._evaluate(token)
        except AuthenticationError as error:
            self.last_words = _failure(context, str(error))
            raise
        except SaslError as error:
            # Not the reason: it may be that there is no such user.
            self.last_words = _failure(context, self._refusal())
            raise AuthenticationError(f"{self._refusal()}: {error}") from error
        return context.build_response({"error_code": ErrorCode.NONE, "error_message": "", "auth_bytes": challenge,
                                       "session_lifetime_ms": lifetime_ms})

    def _refusal(self) -> str:
        which = "re-authentication" if self.complete else "authentication"
        return f"Authentication failed during {which} due to invalid credentials with SASL mechanism {self._mechanism}"

    def _evaluate(self, token: bytes) -> tuple[bytes, int]:
        """Return the challenge that follows a token, and once all is proved how long the session lasts, in ms."""
        server = self._server
        assert server is not None, "the handshake made it"
        challenge = server.evaluate_response(token)
        if not server.complete:
            return challenge, 0
        name = f"User:{server.authorization_id}"
        if self.complete and name != self._principal_name:
            before, after = (text.replace(":", ".", 1) for text in (self.principal_name, name))
            raise AuthenticationError(f"Cannot change principals during re-authentication from {before}: {after}")
        self._principal_name = name
        self._server = None
        self._move(_Event.PROVED)
        return challenge, self._begin_session(server.expires_at_ms)

    def _begin_session(self, expires_at_ms: int | None) -> int:
        clock = self._settings.clock
        ends = [] if expires_at_ms is None else [expires_at_ms - clock.timestamp_ms()]
        max_reauth_ms = self._settings.max_reauth_ms.get(self._mechanism or "", 0)
        if max_reauth_ms > 0:
            ends.append(max_reauth_ms)
        lifetime_ms = max(0, min((*ends, _LONGEST_MS))) if ends else 0
        self.session_expires_ms = clock.now_ms() + lifetime_ms if ends else None
        _logger.debug("%s is %s by %s; its session lasts %s", self._connection_id, self._principal_name,
                      self._mechanism, f"{lifetime_ms} ms" if ends else "without end")
        return lifetime_ms

    # ---- who

    @property
    def principal_name(self) -> str:
        """Return who the peer is, as `User:name`; anonymous before it has proved it."""
        return self._principal_name or ANONYMOUS

    @property
    def mechanism(self) -> str | None:
        """How it has proved that."""
        return self._mechanism

    def close(self) -> None:
        """Forget what was negotiated."""
        self._server = None
        self._receive = None
        self._send = None
        self._exchange = None
        self.on_awake = _nobody


def _nobody() -> None:
    """Wake nobody: the connection is not a selector's yet, or not any more."""


def _pausing(wait: Wait) -> Exchange:
    yield wait
    return None


def _failure(context: RequestContext, message: str) -> Sequence[Buffer]:
    return context.build_response({"error_code": ErrorCode.SASL_AUTHENTICATION_FAILED, "error_message": message,
                                   "auth_bytes": b"", "session_lifetime_ms": 0})
