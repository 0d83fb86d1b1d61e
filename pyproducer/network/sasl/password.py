"""User name and password of one client, kept where nothing shows them.

Road:    login -> [PasswordCredentials] -> plain, scram
Thread:  the one that polls the selector; its maker before.
Source:  ours. RFC 5802 5.1 advises to keep what is derived from the password, so that a connection costs no Hi of
         thousands of rounds: Java derives it anew for each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from pyproducer.common.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyproducer.network.sasl.scram_formatter import ScramFormatter


def _can_be_sent(text: str) -> bool:
    # Asked first, for the error of encode() holds the whole text.
    return not any(char == "\0" or "\ud800" <= char <= "\udfff" for char in text)


class PasswordCredentials:
    """User name and password. Neither its `repr` nor a pickle holds them.

    Args:
        options: Those of the login module: `username` and `password`; `tokenauth` says that they are of a delegation
            token.

    Attributes:
        is_token: They are the id and the HMAC of a delegation token.

    Raises:
        ConfigError: One of the two is missing, or cannot be sent.
    """

    __slots__ = ("_derived", "_password", "_user_name", "is_token")

    def __init__(self, options: Mapping[str, str]) -> None:
        for name in ("username", "password"):
            if not options.get(name):
                raise ConfigError("sasl.jaas.config", options, f"the login module has no option {name}, or an empty "
                                                               f"one: write {name}=\"...\"")
            if not _can_be_sent(options[name]):
                raise ConfigError("sasl.jaas.config", options, f"the option {name} has a character that cannot be sent:"
                                                               " a NUL, or half of a pair of UTF-16")
        self._user_name = options["username"]
        self._password = options["password"]
        self.is_token: bool = options.get("tokenauth", "").lower() == "true"
        self._derived: tuple[str, bytes, int, bytes] | None = None

    @property
    def user_name(self) -> str:
        """Who logs in."""
        return self._user_name

    def plain_message(self) -> bytes:
        """Return the message of PLAIN."""
        return f"\0{self._user_name}\0{self._password}".encode()

    def salted_password(self, formatter: ScramFormatter, salt: bytes, iterations: int) -> bytes:
        """Return SaltedPassword of SCRAM, from memory where it is that of the last time: all brokers salt alike."""
        kept, mechanism = self._derived, formatter.mechanism.value
        if kept is not None and kept[:3] == (mechanism, salt, iterations):
            return kept[3]
        self._derived = (mechanism, salt, iterations, formatter.salted_password(self._password, salt, iterations))
        return self._derived[3]

    def forget(self) -> None:
        """Forget all of it."""
        self._user_name = self._password = ""
        self._derived = None

    @property
    def refusal_hint(self) -> str:
        """What to change when the broker refuses."""
        return "check username and password in sasl.jaas.config"

    def __repr__(self) -> str:
        return "PasswordCredentials([hidden])"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a password is secret and cannot be pickled")
