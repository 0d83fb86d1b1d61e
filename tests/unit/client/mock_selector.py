"""A selector without sockets: the test decides what happens, and `poll` tells it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from pyproducer.common.errors import DisconnectedError, IllegalStateError
from pyproducer.network.channel import ChannelPhase, ChannelState
from pyproducer.network.receive import NetworkReceive
from pyproducer.network.send import NetworkSend
from pyproducer.protocol.apis import ApiKeys
from pyproducer.protocol.buffer import ByteReader
from pyproducer.protocol.header import build_response, read_request_header
from tests.support.clock import ManualClock

if TYPE_CHECKING:
    from pyproducer.network.selector import Selector
else:
    Selector = object


class Connect(NamedTuple):
    """One call of `connect`."""

    connection_id: str
    address: tuple[Any, ...]
    family: int
    server_hostname: str | None
    now_ms: int


class Request(NamedTuple):
    """One request that was sent, decoded."""

    connection_id: str
    api_key: ApiKeys
    version: int
    correlation_id: int
    client_id: str | None
    body: Mapping[str, Any]


Answer = Callable[[Request], "Mapping[str, Any] | bytes | Exception | None"]


class MockSelector(Selector):
    """Selector, as far as the client uses it; for mypy it is one, so that it compares the two.

    `accepts(connection_id)` says whether a connect succeeds in the next poll (None: nothing happens). `answer(request)`
    gives the body of the response, raw bytes (header and body), an exception that ends the connection, or None for
    silence. A poll in which nothing happens moves the clock by its timeout, as sleeping does.
    """

    def __init__(self, clock: ManualClock, *, answer: Answer | None = None) -> None:
        self.completed_sends: list[NetworkSend] = []
        self.completed_receives: list[NetworkReceive] = []
        self.connected: list[str] = []
        self.disconnected: dict[str, ChannelState] = {}
        self.clock = clock
        self.answer: Answer = answer or (lambda request: None)
        self.accepts: Callable[[str], bool | Exception | None] = lambda connection_id: True
        self.handshake_done = True
        self.writes_at_once = True
        self.sleeps = False
        self.connects: list[Connect] = []
        self.requests: list[Request] = []
        self.sends: list[NetworkSend] = []
        self.timeouts: list[int] = []
        self.open: set[str] = set()
        self._shaken: set[str] = set()  # those of them that were ready once
        self.closed: list[str] = []
        self.is_closed = False
        self.certificates_end_s: dict[str, int] = {}  # of peers that show one
        self.lifetime_ms = 0                    # of each session
        self.reauthenticating: list[str] = []   # until the test takes them out
        self.has_bytes_to_read = False
        self._connecting: list[str] = []
        self._early_sends: list[NetworkSend] = []
        self._unwritten: list[NetworkSend] = []
        self._receives: list[NetworkReceive] = []
        self._ends: dict[str, ChannelState] = {}

    # -- what a test does --------------------------------------------------------------------------------------------

    def fileno(self) -> int:
        return -1

    def end(self, connection_id: str, phase: ChannelPhase = ChannelPhase.READY, error: Exception | None = None) -> None:
        """Let a connection end in the next poll."""
        self._ends[connection_id] = ChannelState(phase, error, "mock")

    def receive(self, connection_id: str, payload: bytes) -> None:
        """Let a frame arrive in the next poll."""
        self._receives.append(NetworkReceive(connection_id, payload=payload))

    def respond(self, request: Request, body: Mapping[str, Any]) -> None:
        """Let the response to a request arrive in the next poll."""
        self.receive(request.connection_id, encode(request, body))

    def finish_writes(self) -> None:
        """Let everything that `send` left unwritten be written in the next poll."""
        for send in self._unwritten:
            send.completed = True
            self._early_sends.append(send)
        self._unwritten = []

    def asked(self, api_key: ApiKeys) -> list[Request]:
        """The requests to one API."""
        return [request for request in self.requests if request.api_key is api_key]

    # -- Selector ----------------------------------------------------------------------------------------------------

    def connect(self, connection_id: str, address: tuple[Any, ...], *, family: int = 2,
                send_buffer_bytes: int = -1, receive_buffer_bytes: int = -1, now_ms: int,
                server_hostname: str | None = None) -> None:
        assert connection_id not in self.open, f"{connection_id} is connected already"
        self.connects.append(Connect(connection_id, address, family, server_hostname, now_ms))
        self.open.add(connection_id)
        self._connecting.append(connection_id)

    def send(self, send: NetworkSend) -> None:
        if not self.is_channel_ready(send.destination):
            raise IllegalStateError(f"{send.destination} is not ready")
        self.sends.append(send)
        request = decode(send)
        self.requests.append(request)
        if self.writes_at_once:
            send.completed = True
            self._early_sends.append(send)
        else:
            self._unwritten.append(send)
        answer = self.answer(request)
        if isinstance(answer, Exception):
            self.end(send.destination, error=answer)
        elif isinstance(answer, bytes):
            self.receive(send.destination, answer)
        elif answer is not None:
            self.respond(request, answer)

    def poll(self, timeout_ms: int, now_ms: int, *, tells_sends: bool = True) -> int:
        assert timeout_ms >= 0
        self.timeouts.append(timeout_ms)
        self.tells_sends = tells_sends
        self.completed_sends, self._early_sends = self._early_sends, []
        self.completed_receives = [receive for receive in self._receives if receive.source in self.open]
        self._receives = []
        self.connected = []
        self.disconnected = {}
        waiting, self._connecting = self._connecting, []
        for connection_id in waiting:
            accepted = self.accepts(connection_id)
            if accepted is True:
                self.connected.append(connection_id)
            elif isinstance(accepted, Exception):
                self.end(connection_id, ChannelPhase.NOT_CONNECTED, accepted)
            elif connection_id in self.open:
                self._connecting.append(connection_id)
        for connection_id, state in self._ends.items():
            if connection_id in self.open:
                self.open.discard(connection_id)
                self.disconnected[connection_id] = state
        self._ends = {}
        quiet = not ((tells_sends and self.completed_sends) or self.completed_receives or self.connected
                     or self.disconnected)
        if self.sleeps and quiet:
            self.clock.advance(timeout_ms)
        return timeout_ms if quiet else 0

    def close(self, connection_id: str) -> None:
        self.open.discard(connection_id)
        self.closed.append(connection_id)
        if connection_id in self._connecting:
            self._connecting.remove(connection_id)

    def close_all(self) -> None:
        self.is_closed = True
        for connection_id in sorted(self.open):
            self.close(connection_id)

    def abandon(self) -> None:
        self.is_closed = True

    def is_channel_ready(self, connection_id: str) -> bool:
        self._shaken &= self.open
        if self.handshake_done:  # else of those that come up from now on
            self._shaken |= self.open - set(self._connecting)
        return (connection_id in self._shaken
                and connection_id not in self.reauthenticating)

    def session_lifetime_ms(self, connection_id: str) -> int:
        return self.lifetime_ms

    def certificate_ends_at_s(self, connection_id: str) -> int:
        return self.certificates_end_s.get(connection_id, 0)

    def reauthenticate(self, connection_id: str) -> bool:
        if self.has_bytes_to_read:
            return False
        self.reauthenticating.append(connection_id)
        return True


def decode(send: NetworkSend) -> Request:
    """Read a frame as a broker does."""
    frame = b"".join(bytes(chunk) for chunk in send._chunks)
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    reader = ByteReader(frame[4:])
    header = read_request_header(reader)
    api_key = ApiKeys.for_id(header.api_key)
    body = api_key.request_schema(header.api_version).read(reader)
    return Request(send.destination, api_key, header.api_version, header.correlation_id, header.client_id, body)


def encode(request: Request, body: Mapping[str, Any]) -> bytes:
    """Build a response; one to ApiVersions with error 35 in the layout of version 0, as brokers do."""
    version = 0 if request.api_key is ApiKeys.API_VERSIONS and body["error_code"] == 35 else request.version
    return b"".join(bytes(chunk) for chunk in build_response(request.api_key, version, request.correlation_id, body))


HANG_UP = DisconnectedError("the peer hung up")
