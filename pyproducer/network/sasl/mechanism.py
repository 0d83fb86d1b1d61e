"""What a SASL mechanism is to the client's authenticator, and what a login is to the mechanisms of one client.

Road:    Login -> [SaslClient] -> client authenticator -> SaslAuthenticate
Thread:  a SaslClient belongs to the thread that polls its selector, and never waits; a Login is asked by that thread,
         and fetches what takes time (tokens, tickets) on a thread of its own.
Source:  Java javax.security.sasl.SaslClient, org.apache.kafka.common.security.auth.Login (4.1).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from pyproducer.common.errors import NOT_SENT, TransportError


def unavailable(text: str) -> TransportError:
    """Return the error for credentials that are not there yet, or not any more: it may pass, nothing was sent."""
    error = TransportError(text)
    error.outcome = NOT_SENT
    error.refresh_metadata = False
    return error


class SaslClient(Protocol):
    """The client's half of one authentication.

    It may have a `refusal_hint`, a str: what to change when the broker refuses, for the error's text.

    Attributes:
        mechanism: Its name, as SaslHandshake has it.
        complete: The peer has nothing more to prove to us, nor we to it.
    """

    mechanism: str
    complete: bool

    def evaluate_challenge(self, challenge: bytes) -> bytes | None:
        """Return what answers the broker's challenge, b"" for the first one; None where nothing is to be answered.

        Raises:
            AuthenticationError: The challenge is not the mechanism's, or the broker did not prove who it is. Not sent.
        """


class Login(Protocol):
    """The credentials of one client, shared by its connections.

    Attributes:
        mechanism: Which mechanism they are for.
    """

    mechanism: str

    @property
    def error(self) -> Exception | None:
        """Why there are none at this moment, or why they could not be renewed; None where all is well.

        An AuthenticationError says that we are refused where they are fetched: while there are none, what waits fails
        at once. With any other it goes on waiting. A new failure is a new exception; each is told once.
        """

    @property
    def is_ready(self) -> bool:
        """Whether there are credentials now; False while the first ones are fetched, or after they have ended."""

    def start(self, on_change: Callable[[], None]) -> bool:
        """Begin to fetch, where that takes time; `on_change` is called from another thread when anything changes.

        Returns:
            False where no thread can be had now: `error` says why, and who calls again later may have more luck.
        """

    def is_ready_for(self, host: str) -> bool:
        """Whether `new_client` can be called for this host now: there are credentials, and what else that takes.

        Where that takes time, as a ticket for the broker does, the call has it made, and `on_change` tells.
        """

    def new_client(self, host: str) -> SaslClient:
        """Return the client's half for one authentication with the broker of this host name.

        Raises:
            AuthenticationError: We are refused for this host where that is decided elsewhere. Not sent.
            TransportError: There are no credentials, or not any more (`is_ready_for` says so before). Not sent.
        """

    def close(self) -> None:
        """End the thread, if there is one, without waiting for an answer that is under way; forget the secrets."""
