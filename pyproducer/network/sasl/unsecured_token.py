"""Tokens without a signature, which a client makes for itself. For development: who can connect is who he says.

    sasl.jaas.config=...OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="ada";

Road:    options of sasl.jaas.config -> [UnsecuredTokens] -> OAUTHBEARER's first message
Thread:  the login's.
Source:  Java OAuthBearerUnsecuredLoginCallbackHandler, OAuthBearerUnsecuredJws (4.1); KIP-255, KIP-342.
"""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Mapping
from typing import Any

from pyproducer.common.clock import Clock
from pyproducer.common.errors import AuthenticationError, ConfigError
from pyproducer.common.jaas import KEY
from pyproducer.network.sasl.oauth_token import OAuthToken, ensure_sendable

PREFIX = "unsecuredLogin"
_STRING, _NUMBER, _LIST = (f"{PREFIX}{kind}Claim_" for kind in ("String", "Number", "List"))
_EXTENSION = PREFIX + "Extension_"
_LIFE = PREFIX + "LifetimeSeconds"
_PRINCIPAL, _SCOPE = PREFIX + "PrincipalClaimName", PREFIX + "ScopeClaimName"
_RESERVED = ("iat", "exp")


class UnsecuredTokens:
    """Makes tokens that nobody signs.

    Args:
        options: Those of sasl.jaas.config.
        clock: Tells the time.

    Raises:
        ConfigError: An option is missing or makes no sense. Nothing was started.
    """

    def __init__(self, options: Mapping[str, str], clock: Clock) -> None:
        self._clock = clock
        self._claims: dict[str, Any] = {}
        for prefix, read in ((_STRING, str), (_NUMBER, _number), (_LIST, _list)):
            for option, value in options.items():
                name = option[len(prefix):]
                if not option.startswith(prefix) or not name:
                    continue
                if name in _RESERVED:
                    raise ConfigError(KEY, option, f"the claim {name!r} cannot be chosen; {_LIFE} is its life")
                self._claims[name] = read(value)
        self._life_seconds = _number(options.get(_LIFE, "3600"))
        self._principal_claim = options.get(_PRINCIPAL, "").strip() or "sub"
        self._scope_claim = options.get(_SCOPE, "").strip() or "scope"
        self._extensions = {option[len(_EXTENSION):]: value for option, value in options.items()
                            if option.startswith(_EXTENSION)}
        principal = self._claims.get(self._principal_claim)
        if not isinstance(principal, str) or not principal.strip():
            raise ConfigError(KEY, None, f"a token without a signature needs the option "
                                         f"{_STRING}{self._principal_claim}=\"name of the user\"")
        try:
            self.fetch()  # now, so that what is wrong is said where it was written
        except AuthenticationError as cause:
            raise ConfigError(KEY, None, str(cause)) from None

    def fetch(self) -> OAuthToken:
        """Return a new token."""
        now_ms = self._clock.timestamp_ms()
        ends_ms = now_ms + int(self._life_seconds * 1000)
        claims = {"exp": ends_ms / 1000, "iat": now_ms / 1000, **self._claims}
        text = ".".join((_encoded({"alg": "none"}), _encoded(claims), ""))
        scope = self._claims.get(self._scope_claim, ())
        return ensure_sendable(OAuthToken(
            text, ends_ms, self._claims[self._principal_claim].strip(),
            tuple(scope.split() if isinstance(scope, str) else map(str, scope) if isinstance(scope, list) else ()),
            self._extensions, now_ms))


def _encoded(part: Mapping[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(part, separators=(",", ":")).encode()).rstrip(b"=").decode()


def _number(text: str) -> float:
    try:
        number = float(text)
        if math.isfinite(number):  # JSON has no others
            return number
    except ValueError:
        pass
    raise ConfigError(KEY, text, f"{_LIFE} and {_NUMBER}... must be numbers")


def _list(text: str) -> list[str]:
    """Read a list whose first character is its separator: "|a|b", or ",a,b"."""
    if not text:
        return []
    return re.split(re.escape(text[0]), text[1:])
