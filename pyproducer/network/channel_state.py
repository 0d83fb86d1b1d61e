"""How far a connection had come when it ended, and why it did.

    NOT_CONNECTED -> AUTHENTICATING -> READY
          |                |             |
          |                v             +-> EXPIRED (idle), LOCAL_CLOSE (we wanted it)
          |      AUTHENTICATION_FAILED
          v
    (a connect that failed stays NOT_CONNECTED)

Road:    Selector.disconnected -> [state] -> NetworkClient
Thread:  values.
Source:  Java ChannelState (4.1). Differs from Java: the exception is kept whatever the phase, and FAILED_SEND is READY
         with an error.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


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
