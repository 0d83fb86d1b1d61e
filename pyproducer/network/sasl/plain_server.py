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
        self.complete = False
        self.authorization_id = ""
        self.expires_at_ms: int | None = None
        self._authenticate = authenticate

    def evaluate_response(self, response: bytes) -> bytes:
        """Look at the one message.

        Raises:
            AuthenticationError: It is not three parts, or not the user's password, or it asks for another identity.
        """
        parts = response.split(b"\0")
        if len(parts) != 3:
            raise AuthenticationError(f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(parts)}")
        try:
            authorization_id, user = (part.decode() for part in parts[:2])
            is_password = bool(parts[2]) and bool(user) and self._authenticate(user, parts[2].decode())
        except UnicodeDecodeError:
            # Not as the cause of the next line: it holds the bytes.
            is_utf_8 = False
        else:
            is_utf_8 = True
        if not is_utf_8:
            raise AuthenticationError("Invalid SASL/PLAIN response: not in UTF-8")
        if not user:
            raise AuthenticationError("Authentication failed: username not specified")
        if not parts[2]:
            raise AuthenticationError("Authentication failed: password not specified")
        del parts, response  # the frame that raises holds no password
        if not is_password:
            raise AuthenticationError("Authentication failed: Invalid username or password")
        if authorization_id not in ("", user):
            raise AuthenticationError(
                "Authentication failed: Client requested an authorization id that is different from username")
        self.authorization_id = user
        self.complete = True
        return b""
