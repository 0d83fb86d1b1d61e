"""One connection: a transport, who is behind it, at most one send, the frames that arrive; and how it ended.

    NOT_CONNECTED -> AUTHENTICATING -> READY -> AUTHENTICATING, when the proof must be given anew (KIP-368)
          |                |             |
          |                v             +-> EXPIRED (idle), LOCAL_CLOSE (we wanted it)
          |      AUTHENTICATION_FAILED
          v
    (a connect that failed stays NOT_CONNECTED)

The authenticator is the seam between a transport that is ready and a channel that is: SASL is behind it.

Road:    NetworkClient / Processor -> Selector -> [channel] -> TransportLayer
Thread:  the thread that polls the selector owns every field.
Source:  Java KafkaChannel, ChannelState, Authenticator, PlaintextAuthenticator, SslPrincipalMapper's default rule
         (4.1); seed 001 (setSend, write, send). Differs from Java: the exception is kept whatever the phase, and
         FAILED_SEND is READY with an error.
"""

from __future__ import annotations

import errno
import os
import socket
from enum import Enum
from typing import NamedTuple, Protocol, runtime_checkable

from pyproducer.common.errors import AuthenticationError, IllegalStateError, InvalidReceiveError
from pyproducer.network.receive import SCRATCH_BYTES, FrameReader, NetworkReceive
from pyproducer.network.send import NetworkSend
from pyproducer.network.transport import TransportLayer, socket_address_text


class ChannelPhase(str, Enum):
    """The phase; equal to its lower-case name."""

    NOT_CONNECTED = "not_connected"
    AUTHENTICATING = "authenticating"
    AUTHENTICATION_FAILED = "authentication_failed"
    READY = "ready"
    EXPIRED = "expired"
    LOCAL_CLOSE = "local_close"


class ChannelState(NamedTuple):
    """The end of a connection.

    Attributes:
        phase: How far it had come.
        error: Why it ended: an OSError from the socket, a DisconnectedError where the peer hung up, an
            AuthenticationError, an InvalidReceiveError; None where nobody is to blame.
        remote_address: `host:port` of the peer.
    """

    phase: ChannelPhase
    error: Exception | None = None
    remote_address: str = ""


ANONYMOUS = "User:ANONYMOUS"


class Authenticator(Protocol):
    """Proves to the peer who we are, or asks it who it is, once the transport is ready.

    Attributes:
        complete: Nothing is left to do.
        wants_write: Waits to write, not to read.
    """

    complete: bool
    wants_write: bool

    def authenticate(self) -> None:
        """Go on as far as the socket allows; sets `complete` at the end.

        Reads with NetworkReceive.read_from, which takes no byte beyond a frame: what follows is the channel's.

        Raises:
            AuthenticationError: The peer refused us, or we refuse the peer. Not sent.
            OSError: The connection is broken. Not sent.
        """

    @property
    def principal_name(self) -> str:
        """Return who the peer is, as `type:name`."""

    def close(self) -> None:
        """Forget what was negotiated."""


@runtime_checkable
class RenewableAuthenticator(Authenticator, Protocol):
    """An authenticator whose proof the peer takes for a while only.

    Attributes:
        session_lifetime_ms: For how long, in ms, once complete; 0 for ever.
    """

    session_lifetime_ms: int

    def begin_again(self) -> None:
        """Begin to prove it anew, on a connection on which nothing is under way; `authenticate` goes on."""


class PlaintextAuthenticator:
    """No authentication: the peer is who its TLS certificate says, or anonymous."""

    def __init__(self, transport: TransportLayer) -> None:
        self._transport = transport
        self.complete = True
        self.wants_write = False

    def authenticate(self) -> None:
        """Do nothing."""

    @property
    def principal_name(self) -> str:
        """Return the subject of the peer's certificate, or User:ANONYMOUS."""
        subject = self._transport.principal_name
        return ANONYMOUS if subject is None else f"User:{subject}"

    def close(self) -> None:
        """Do nothing."""


class KafkaChannel:
    """A connection and its state.

    Args:
        connection_id: Its name; frames carry it as source and destination.
        transport: The socket, or TLS over it.
        authenticator: Runs once the transport is ready.

    Attributes:
        phase: How far the connection has come.
        ready: Connected, handshake done, authenticated: `read` and `write` are allowed.
        remote_address: `host:port` of the peer.
        is_muted: Nothing may be read. Written by a broker's selector only; see broker/network/channel_mute.py.
        last_active_ms: When it last did something, for the selector's idle check.
        registered_events: What the selector watches it for; 0 when it is not registered.
        reader: What reads frames; None before `set_reader`.
        bytes_written: All bytes that the transport accepted, sizes included.
    """

    __slots__ = ("_authenticator", "_send", "bytes_written", "id", "is_muted", "last_active_ms", "phase", "reader",
                 "ready", "registered_events", "remote_address", "transport")

    def __init__(self, connection_id: str, transport: TransportLayer, authenticator: Authenticator) -> None:
        self.id: str = connection_id
        self.transport: TransportLayer = transport
        self.phase: ChannelPhase = ChannelPhase.NOT_CONNECTED
        self.ready: bool = False
        self.remote_address: str = ""
        self.is_muted: bool = False
        self.last_active_ms: int = 0
        self.registered_events: int = 0
        self.bytes_written: int = 0
        self._authenticator = authenticator
        self._send: NetworkSend | None = None
        self.reader: FrameReader | None = None

    # ---- coming up

    def set_reader(self, *, max_size_bytes: int | None, one_at_a_time: bool,
                   scratch: memoryview | None = None) -> None:
        """Set how frames are read; see FrameReader. A selector does this for its channels."""
        self.reader = FrameReader(
            self.id, peer=self.remote_address or self.id, max_size_bytes=max_size_bytes, one_at_a_time=one_at_a_time,
            scratch=memoryview(bytearray(SCRATCH_BYTES)) if scratch is None else scratch)

    @property
    def is_connected(self) -> bool:
        """Whether TCP is connected."""
        return self.phase is not ChannelPhase.NOT_CONNECTED

    def finish_connect(self) -> None:
        """Learn how the connect ended, once the socket is writable.

        Raises:
            OSError: It failed. Not sent.
        """
        sock = self.transport.sock
        code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            raise OSError(code, os.strerror(code))  # becomes the subclass of the code, ConnectionRefusedError for one
        # A connect to a local port of the ephemeral range where nobody listens can meet itself: TCP's simultaneous
        # open. A producer that tries a dead local broker again and again does hit this.
        if sock.getsockname() == sock.getpeername():
            raise ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))
        self.on_connected()

    def on_connected(self) -> None:
        """Take the socket as connected (an accepted one is from the start)."""
        self.phase = ChannelPhase.AUTHENTICATING
        if not self.remote_address:
            self.remote_address = socket_address_text(self.transport.sock.getpeername())

    def prepare(self) -> bool:
        """Go on with handshake and authentication; return whether the channel is ready now.

        Raises:
            AuthenticationError: TLS or the authentication failed. Not sent.
            DisconnectedError: The peer hung up. Not sent.
            OSError: The connection is broken. Not sent.
        """
        transport = self.transport
        if not transport.ready:
            transport.handshake()
        authenticator = self._authenticator
        if transport.ready and not authenticator.complete:
            authenticator.authenticate()
        if transport.ready and authenticator.complete:
            self.ready = True
            self.phase = ChannelPhase.READY
        return self.ready

    @property
    def authenticator(self) -> Authenticator:
        """What asks the peer who it is, or tells it who we are."""
        return self._authenticator

    @property
    def principal_name(self) -> str:
        """Return who the peer is, as `User:name`."""
        return self._authenticator.principal_name

    @property
    def session_lifetime_ms(self) -> int:
        """For how long the peer takes our proof of who we are, in ms; 0 for ever."""
        authenticator = self._authenticator
        return authenticator.session_lifetime_ms if isinstance(authenticator, RenewableAuthenticator) else 0

    def begin_reauthentication(self) -> None:
        """Be no longer ready, and prove anew who we are; `prepare` goes on.

        Raises:
            IllegalStateError: Something is under way, in or out, or there is nothing to prove. Not sent.
        """
        authenticator = self._authenticator
        if (not isinstance(authenticator, RenewableAuthenticator) or not self.ready or self.is_busy
                or self.has_buffered or self.transport.has_pending_writes):
            raise IllegalStateError(f"{self!r} cannot be authenticated anew now: something is under way")
        authenticator.begin_again()
        self.ready = False
        self.phase = ChannelPhase.AUTHENTICATING

    # ---- out

    @property
    def has_send(self) -> bool:
        """Whether a frame is on its way out."""
        return self._send is not None

    @property
    def wants_write(self) -> bool:
        """Whether something waits for the socket to be writable."""
        if self.ready:
            return self._send is not None or self.transport.has_pending_writes
        return (self.phase is ChannelPhase.NOT_CONNECTED or self.transport.wants_write
                or self._authenticator.wants_write)

    def set_send(self, send: NetworkSend) -> None:
        """Take a frame to write.

        Raises:
            IllegalStateError: Another one is not written yet. Not sent.
        """
        if self._send is not None:
            raise IllegalStateError("Attempt to begin a send operation with prior send operation still in progress, "
                                    f"connection id is {self.id}")
        self._send = send

    def write(self, *, is_alone: bool) -> NetworkSend | None:
        """Write on; return the frame when its last byte is with the kernel.

        Args:
            is_alone: Whether no other connection has anything to write.

        Raises:
            OSError: The connection is broken. Unknown.
        """
        send = self._send
        if send is None:
            self.transport.flush()  # what TLS itself had to say
            return None
        self.bytes_written += send.write_to(self.transport, is_alone=is_alone)
        if not send.completed:
            return None
        self._send = None
        return send

    def take_send(self) -> NetworkSend | None:
        """Give up the frame that is on its way out, because the connection is broken."""
        send, self._send = self._send, None
        return send

    # ---- in

    def read(self) -> list[NetworkReceive]:
        """Read what is there and return the frames that are complete; see FrameReader.read."""
        assert self.reader is not None, "set_reader comes first"
        return self.reader.read(self.transport)

    def read_last_words(self, error: Exception) -> tuple[list[NetworkReceive], Exception]:
        """Take what the peer wrote before it hung up: answers, or (TLS) why it refuses us; and the better reason."""
        try:
            receives = self.read()
        except AuthenticationError as refusal:
            self.phase = ChannelPhase.AUTHENTICATION_FAILED
            return [], refusal
        except OSError:
            return [], error
        return receives, self.ended if isinstance(self.ended, InvalidReceiveError) else error

    @property
    def ended(self) -> Exception | None:
        """Why nothing more will come in, or None while it may."""
        return None if self.reader is None else self.reader.ended

    @property
    def has_buffered(self) -> bool:
        """Whether there are bytes to read that the socket does not announce (read ahead, or inside TLS)."""
        return self.transport.has_pending_reads or (self.reader is not None and bool(self.reader.held))

    @property
    def is_busy(self) -> bool:
        """Whether a frame is on its way, in or out."""
        return self._send is not None or (self.reader is not None and self.reader.is_mid_frame)

    @property
    def bytes_read(self) -> int:
        """All bytes that came in, sizes included."""
        return 0 if self.reader is None else self.reader.bytes_read

    # ---- end

    def close(self) -> None:
        """Close the socket; harmless when closed."""
        self.ready = False
        self._authenticator.close()
        self.transport.close()

    def __repr__(self) -> str:
        return f"KafkaChannel({self.id!r}, {self.phase.value}{', muted' if self.is_muted else ''})"
