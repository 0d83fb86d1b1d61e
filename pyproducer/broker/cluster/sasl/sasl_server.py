"""What a SASL mechanism is to the broker: its half of one authentication.

Road:    SaslAuthenticate -> server authenticator -> [SaslServer] -> who it is
Thread:  the thread that polls the selector; it never waits.
Source:  Java javax.security.sasl.SaslServer (17).
"""

from __future__ import annotations

from typing import Protocol


class SaslError(Exception):
    """Why an exchange failed, for the broker's log alone: the client must not learn whether there is such a user.

    Source: Java javax.security.sasl.SaslException, as SaslServerAuthenticator treats it.
    """


class SaslServer(Protocol):
    """The broker's half of one authentication.

    Attributes:
        mechanism: Its name, as SaslHandshake has it.
        complete: The client has proved who it is.
        authorization_id: Who it is, once complete.
        expires_at_ms: When what it proved itself with ends, in ms since 1970; None where it does not.
    """

    mechanism: str
    complete: bool
    authorization_id: str
    expires_at_ms: int | None

    def evaluate_response(self, response: bytes) -> bytes:
        """Return the next challenge for what the client said.

        Raises:
            AuthenticationError: It is not who it says, or does not speak the mechanism. Its text is for the client.
            SaslError: The same, with a text that is not.
        """
