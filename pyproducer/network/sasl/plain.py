"""PLAIN: user name and password in one message; only TLS hides them.

    [authorization id] NUL user name NUL password, UTF-8

Road:    StaticLogin -> [PlainSaslClient] -> client authenticator
Thread:  the one that polls the selector.
Source:  RFC 4616; Java's com.sun.security.sasl.PlainClient, PlainSaslServer (4.1).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyproducer.network.sasl.password import PasswordCredentials


class PlainSaslClient:
    """The client's half of PLAIN: one message, and the broker says yes or no.

    Args:
        credentials: User name and password.
    """

    mechanism = "PLAIN"

    def __init__(self, credentials: PasswordCredentials) -> None:
        self._credentials = credentials
        self.complete: bool = False

    def evaluate_challenge(self, challenge: bytes) -> bytes | None:
        """Return the message; nothing is left to prove after it. See SaslClient."""
        self.complete = True
        return self._credentials.plain_message()

    @property
    def refusal_hint(self) -> str:
        """What to change when the broker refuses."""
        return self._credentials.refusal_hint
