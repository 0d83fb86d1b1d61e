"""Who the peer is: the seam between a transport that is ready and a channel that is.

Road:    KafkaChannel.prepare -> [authenticator]
Thread:  the thread that polls the selector.
Source:  Java Authenticator, PlaintextAuthenticator, SslPrincipalMapper's default rule (4.1).
"""

from __future__ import annotations

from typing import Protocol

from pyproducer.network.transport import TransportLayer

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
