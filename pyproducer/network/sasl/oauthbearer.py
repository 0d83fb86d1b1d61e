"""OAUTHBEARER: a token in one message, with extensions; and what the broker says when it does not take the token.

    client   n,,^A auth=Bearer TOKEN [^A name=value]... ^A ^A        (^A is the byte 1)
    broker   nothing, or JSON that says why not; the client answers ^A, and the refusal follows

A broker says only "invalid_token", whatever is wrong with it. The token's own times tell more: whether it has ended, or
whether it is valid by this machine's clock, so that clocks may differ.

Road:    a login with tokens -> [OAuthBearerSaslClient] -> client authenticator
Thread:  the one that polls the selector.
Source:  RFC 7628; KIP-255, KIP-342; Java OAuthBearerSaslClient, OAuthBearerClientInitialResponse (4.1).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyproducer.common.clock import Clock, SystemClock
from pyproducer.common.errors import AuthenticationError
from pyproducer.common.printable import printable
from pyproducer.network.sasl.oauth_token import OAuthToken, part_of_jwt

_SEPARATOR = "\x01"
# 31 December 9999: what is beyond it is no time, and need not even fit into a float.
_LAST_SECOND = 253_402_300_799


class OAuthBearerSaslClient:
    """The client's half of OAUTHBEARER.

    Args:
        token: What to show; one that `ensure_sendable` let pass.
        clock: The wall's clock, to compare the token's times with when the broker refuses it.
    """

    mechanism = "OAUTHBEARER"

    def __init__(self, token: OAuthToken, clock: Clock | None = None) -> None:
        self._token = token
        self._clock = clock or SystemClock()
        self._is_sent = False
        self._said = ""
        self.complete: bool = False

    def evaluate_challenge(self, challenge: bytes) -> bytes | None:
        """Return the token; then nothing, or the word that asks for the refusal itself. See SaslClient."""
        if not self._is_sent:
            self._is_sent = True
            extensions = "".join(f"{_SEPARATOR}{name}={value}" for name, value in self._token.extensions.items())
            return f"n,,{_SEPARATOR}auth=Bearer {self._token.value}{extensions}{_SEPARATOR}{_SEPARATOR}".encode()
        if self.complete or self._said:
            raise AuthenticationError("OAUTHBEARER: the broker says something where nothing is left to say")
        if challenge:
            self._said = printable(challenge.decode("utf-8", "replace"))
            return _SEPARATOR.encode()
        self.complete = True
        return None

    @property
    def refusal_hint(self) -> str:
        """What the broker said of the token, and what the token's own times say."""
        said = f"the broker says {self._said} of the token; " if self._said else ""
        parts = self._token.value.split(".")
        claims = (part_of_jwt(parts[1]) or {}) if len(parts) == 3 else {}
        return said + token_times(claims, self._clock.timestamp_ms())


def token_times(claims: Mapping[str, Any], timestamp_ms: int) -> str:
    """Say whether a token is valid now by its own times.

    Args:
        claims: Those of a JWT; none for a token that only its issuer can read.
        timestamp_ms: This machine's clock.
    """
    begin, end = (_seconds(claims, "nbf", "iat"), _seconds(claims, "exp"))
    now = timestamp_ms / 1000
    if end is not None and end <= now:
        return (f"the token has expired {now - end:.0f} s ago by this machine's clock: get a new one, or set the clock "
                "right")
    if begin is not None and begin > now:
        return (f"the token becomes valid only in {begin - now:.0f} s by this machine's clock: compare this machine's "
                "clock with the issuer's and the broker's")
    if end is not None:
        age = "" if begin is None else f", from {now - begin:.0f} s ago"
        return (f"by this machine's clock the token is valid{age} for another {end - now:.0f} s: compare the clock "
                "with the broker's (clock skew); else the broker does not take its issuer, audience, scope or "
                "key (sasl.oauthbearer.* and sasl.jaas.config)")
    return ("the token tells no times of its own: it may have expired, or the broker does not take its issuer, "
            "audience or scope (sasl.oauthbearer.* and sasl.jaas.config)")


def _seconds(claims: Mapping[str, Any], *names: str) -> float | None:
    for name in names:
        value = claims.get(name)
        if isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= _LAST_SECOND:
            return float(value)
    return None
