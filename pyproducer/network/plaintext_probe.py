"""Is a listener that hangs up on TLS a plaintext one? Asked with the one request that says nothing.

    TLS handshake: the peer hangs up without a byte
      -> the next connection to it sends ApiVersions v0, in plaintext, without a client id
           Kafka answers        -> AuthenticationError: a plaintext listener; the next connection asks again, so that
                                   each record is told, and one after the listener was changed is not
           anything else        -> DisconnectedError, as before; the connections after that speak TLS again, and the
                                   question is repeated when ten of them have ended so

A plaintext listener of Kafka takes a TLS hello for a frame of 369 MB and closes the connection, and so does a load
balancer whose brokers are being started: without the question the one could not be told from the other, and a wrong
port would be tried until delivery.timeout.ms.

Road:    SslTransportLayer (a silent end) -> Suspicion -> SslChannelBuilder -> [plaintext probe] as the authenticator
Thread:  the thread that polls the selector.
Source:  ours; Java tries again until the timeout. Nothing of the user's goes over such a connection: it is never ready.
"""

from __future__ import annotations

from collections.abc import Callable

from pyproducer.common.errors import AuthenticationError, DisconnectedError, ProtocolError
from pyproducer.network.receive import NetworkReceive
from pyproducer.network.send import NetworkSend
from pyproducer.network.tls_failures import hung_up
from pyproducer.network.transport import END_OF_STREAM, TransportLayer, socket_address_text
from pyproducer.protocol.apis import ApiKeys
from pyproducer.protocol.header import build_request, parse_response_correlation_id

_CORRELATION_ID = 0x6B61666B  # "kafk": no other protocol echoes it by chance
_LONGEST_ANSWER_BYTES = 1 << 20


# So many connections that end without a byte are left between two questions, where the answer was none.
_SILENT_ENDS = 10


class Suspicion:
    """Which peers hung up on TLS without a byte, by connection id, and are to be asked."""

    def __init__(self) -> None:
        self._left: dict[str, int] = {}  # so many more silent ends until it is asked

    def on_first_bytes(self, connection_id: str, has_spoken: bool) -> None:
        """A handshake got its first bytes, or ended without any."""
        if has_spoken:
            self._left.pop(connection_id, None)
        else:
            self._left[connection_id] = self._left.get(connection_id, 1) - 1

    def take(self, connection_id: str) -> bool:
        """Whether the next connection shall ask; when it does, and what comes of it, is told by `on_asked`."""
        return self._left.get(connection_id, 1) <= 0

    def on_asked(self, connection_id: str, is_plaintext: bool) -> None:
        """The peer is asked; or has answered, as a plaintext listener of Kafka's does."""
        self._left[connection_id] = 0 if is_plaintext else _SILENT_ENDS


class PlaintextProbe:
    """In an authenticator's place, on a plaintext transport: asks, and always ends the connection.

    Args:
        transport: Plaintext.
        server_hostname: The name that was to be reached, for messages.
        on_asked: Told, when it is asked, False; and True when it answers as a plaintext listener of Kafka's.
    """

    def __init__(self, transport: TransportLayer, *, server_hostname: str | None,
                 on_asked: Callable[[bool], object]) -> None:
        self.complete = False
        self._on_asked = on_asked
        self.wants_write: bool = True
        self._transport = transport
        self._server_hostname = server_hostname
        self._send = NetworkSend("", build_request(ApiKeys.API_VERSIONS, 0, _CORRELATION_ID, None, {}))
        self._receive = NetworkReceive("", _LONGEST_ANSWER_BYTES)

    def authenticate(self) -> None:
        """Ask, and judge the answer; see Authenticator.

        Raises:
            AuthenticationError: The peer speaks Kafka in plaintext. Not sent.
            DisconnectedError: It does not. Not sent.
        """
        try:
            if not self._send.completed:
                self._on_asked(False)  # first: it may never answer
                self._send.write_to(self._transport)
            self.wants_write = not self._send.completed
            while not self._receive.complete:
                count = self._receive.read_from(self._transport)
                if count == END_OF_STREAM:
                    raise self._inconclusive()
                if not count:
                    return
            is_kafka = parse_response_correlation_id(self._receive.payload) == _CORRELATION_ID
        except (OSError, ProtocolError):
            raise self._inconclusive() from None
        if not is_kafka:
            raise self._inconclusive()
        self._on_asked(True)
        raise AuthenticationError(
            f"TLS handshake with {self._peer} failed: its listener speaks Kafka without TLS. Use the port of one "
            "that has TLS, or, where the network may be trusted, set security.protocol to PLAINTEXT (SASL_PLAINTEXT)")

    @property
    def _peer(self) -> str:
        try:
            return socket_address_text(self._transport.sock.getpeername())
        except OSError:  # it has gone
            return self._server_hostname or "the peer"

    def _inconclusive(self) -> DisconnectedError:
        return hung_up(peer=self._peer, server_hostname=self._server_hostname, server_side=False)

    @property
    def principal_name(self) -> str:
        """Return that nobody was identified."""
        return "User:ANONYMOUS"

    def close(self) -> None:
        """Do nothing."""
