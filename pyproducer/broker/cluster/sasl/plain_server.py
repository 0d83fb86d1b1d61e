"""The broker's half of PLAIN: the password itself, in one message.

    [authzid] NUL authcid NUL passwd

Road:    server authenticator -> [plain server] -> the listener's users
Thread:  the thread that polls the selector.
Source:  RFC 4616; Java PlainSaslServer, PlainServerCallbackHandler (4.1).
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Mapping

from pyproducer.common.errors import AuthenticationError

MECHANISM = "PLAIN"
_USER_PREFIX = "user_"


class PlainUsers:
    """The users of a listener, as PlainLoginModule has them: an option `user_NAME="password"` for each.

    Args:
        options: Of the login module.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = options

    def __call__(self, user: str, password: str) -> bool:
        """Whether this is the user's password."""
        expected = self._options.get(_USER_PREFIX + user)
        return expected is not None and hmac.compare_digest(expected.encode(), password.encode())

    def __repr__(self) -> str:
        names = [name[len(_USER_PREFIX):] for name in self._options if name.startswith(_USER_PREFIX)]
        return f"PlainUsers({', '.join(names)})"


class PlainSaslServer:
    """One authentication; see SaslServer.

    Args:
        authenticate: Says whether a user has a password.
    """

    mechanism = MECHANISM

    def __init__(self, authenticate: Callable[[str, str], bool]) -> None:
        self.complete: bool = False
        self.authorization_id: str = ""
        self.expires_at_ms: int | None = None
        self._authenticate = authenticate

    def evaluate_response(self, response: bytes) -> bytes:
        """Look at the one message.

        Raises:
            AuthenticationError: It is not three parts, or not the user's password, or it asks for another identity.
        """
        fault = self._fault(response)
        del response  # the frame that raises holds no password
        if fault is not None:
            raise AuthenticationError(fault)
        self.complete = True
        return b""

    def _fault(self, response: bytes) -> str | None:
        """Return what is wrong, or None and set who it is."""
        parts = response.split(b"\0")
        if len(parts) != 3:
            return f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(parts)}"
        try:
            authorization_id, user, password = (part.decode() for part in parts)
        except UnicodeDecodeError:
            return "Invalid SASL/PLAIN response: not in UTF-8"
        if not user:
            return "Authentication failed: username not specified"
        if not password:
            return "Authentication failed: password not specified"
        if not self._authenticate(user, password):
            return "Authentication failed: Invalid username or password"
        if authorization_id not in ("", user):
            return "Authentication failed: Client requested an authorization id that is different from username"
        self.authorization_id = user
        return None
