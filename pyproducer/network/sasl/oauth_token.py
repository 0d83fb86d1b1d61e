"""An OAuth token, and what its text says of itself when it is a JWT.

    eyJhbGciOi...  .  eyJzdWIiOi...  .  signature        three parts in base64url; the middle one has the claims

The broker checks the signature. Here is what must be right to send a token at all, and to know when it ends.

Road:    issuer, file, callback of the application -> [OAuthToken] -> OAUTHBEARER's first message
Thread:  the login's; pure, and immutable values. What is raised here goes through RefreshingLogin, which takes the
         frames off, for their variables are secret.
Source:  Java ClientJwtValidator, ClaimValidationUtils, SerializedJwt, BasicOAuthBearerToken (4.1); RFC 7519 4.1, RFC
         6750 2.1, RFC 7628 3.1, KIP-342 for extensions.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

from pyproducer.common.errors import AuthenticationError

_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*")
_EXTENSION_NAME = re.compile(r"[A-Za-z]+")
_EXTENSION_VALUE = re.compile(r"[\x21-\x7e \t\r\n]+")
# The framing of OAUTHBEARER's first message has one extension of its own.
_RESERVED_EXTENSION = "auth"
# 31 December 9999: what is later is in another unit.
_LAST_MS = 253_402_300_799_000


@dataclass(frozen=True)
class OAuthToken:
    """A token, and when it ends. Neither its repr nor an error shows it, and it cannot be pickled.

    Attributes:
        value: What the broker is told.
        expires_at_ms: When it ends, in ms since 1970; None where that is not known: it is fetched anew all the same.
        principal: Whom it stands for, for messages; "" where it does not say.
        scope: What it allows, for messages.
        extensions: Further names and values for the broker (KIP-342); they may be secret, too.
        started_at_ms: When its life began, in ms since 1970; None for the time of the fetch.
    """

    value: str = field(repr=False)
    expires_at_ms: int | None = None
    principal: str = ""
    scope: tuple[str, ...] = ()
    extensions: Mapping[str, str] = field(default_factory=dict, repr=False)
    started_at_ms: int | None = None

    def __reduce__(self) -> NoReturn:
        raise TypeError("a token is secret and cannot be pickled")


def ensure_sendable(token: OAuthToken) -> OAuthToken:
    """Return a token if the first message of OAUTHBEARER can hold it.

    Raises:
        AuthenticationError: It has characters that no token may have, or an extension has. Not sent.
    """
    if not isinstance(token.value, str) or not token.value:
        raise AuthenticationError(f"the token must be a str that is not empty, and is {_kind(token.value)}")
    if not _TOKEN.fullmatch(token.value):
        raise AuthenticationError("the token has characters that none may have (RFC 6750 allows letters, digits and "
                                  "-._~+/, and = at its end): was a whole answer or a header given for it?")
    for name, value in token.extensions.items():
        if not isinstance(name, str) or not _EXTENSION_NAME.fullmatch(name) or name == _RESERVED_EXTENSION:
            raise AuthenticationError(f"{name!r} cannot be the name of a SASL extension: letters only, not 'auth'")
        if not isinstance(value, str) or not _EXTENSION_VALUE.fullmatch(value):
            raise AuthenticationError(f"the SASL extension {name!r} must be printable ASCII, and not empty")
    return token


def token_of_jwt(text: str, where: str, *, scope_claim: str = "scope", sub_claim: str = "sub",
                 extensions: Mapping[str, str] | None = None) -> OAuthToken:
    """Return a token whose text is a JWT, with what its claims say.

    Args:
        text: The JWT.
        where: Where it came from, for messages: "the token from https://...".
        scope_claim: The claim with its scope; sasl.oauthbearer.scope.claim.name.
        sub_claim: The claim with its subject; sasl.oauthbearer.sub.claim.name.
        extensions: For the broker.

    Raises:
        AuthenticationError: It is no JWT, or a claim is missing or makes no sense. Not sent.
    """
    claims = claims_of(text, where)
    expires_at_ms = _time_claim(claims, "exp", where)
    if expires_at_ms is None:
        raise AuthenticationError(f"{where} has no claim 'exp': it does not say when it ends")
    subject = claims.get(sub_claim)
    if not isinstance(subject, str) or not subject.strip():
        raise AuthenticationError(f"{where} must have a subject in its claim {sub_claim!r}, not {_kind(subject)}; its "
                                  f"claims are {_names(claims)}: sasl.oauthbearer.sub.claim.name names another")
    started_at_ms = _time_claim(claims, "iat", where)
    if started_at_ms is not None and started_at_ms >= expires_at_ms:
        raise AuthenticationError(f"{where} makes no sense: its claim 'iat' is not before 'exp'")
    return ensure_sendable(OAuthToken(text, expires_at_ms, subject.strip(), _scope(claims.get(scope_claim), where),
                                      extensions or {}, started_at_ms))


def claims_of(text: str, where: str) -> dict[str, Any]:
    """Return the claims of a JWT, unchecked.

    Raises:
        AuthenticationError: It is no JWT. Not sent.
    """
    parts = text.split(".")
    if len(parts) != 3:
        raise AuthenticationError(f"{where} is no JWT, with {len(parts)} parts between dots, and a JWT has 3; brokers "
                                  "take no other; ask the issuer for one (often a matter of scope or audience)")
    try:
        payload = base64.b64decode(parts[1] + "=" * (-len(parts[1]) % 4), altchars=b"-_", validate=True)
        claims = json.loads(payload)
    except (ValueError, RecursionError):
        claims = None
    if not isinstance(claims, dict):
        raise AuthenticationError(f"{where} is no JWT: its middle part is no JSON object in base64url")
    return claims


def part_of_jwt(text: str) -> dict[str, Any] | None:
    """Return the JSON object in a part of a JWT, read as leniently as Java's broker does; None where it holds none."""
    try:
        found = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def is_time(value: Any) -> bool:
    """Whether a claim says a time: seconds since 1970, which JSON's numbers need not be (1e999, NaN, 400 digits)."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value * 1000 <= _LAST_MS


def _time_claim(claims: Mapping[str, Any], name: str, where: str) -> int | None:
    value = claims.get(name)
    if value is None:
        return None
    if not is_time(value):
        raise AuthenticationError(f"{where} must have seconds since 1970 in its claim {name!r}, not {_kind(value)}")
    return int(value * 1000)


def _scope(value: object, where: str) -> tuple[str, ...]:
    if value is None:
        return ()
    if isinstance(value, str):
        return tuple(value.split())
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return tuple(item.strip() for item in value)
    raise AuthenticationError(f"{where} must have a text or a list of texts as its scope, not {_kind(value)}")


def _names(claims: Mapping[str, Any]) -> str:
    return ", ".join(sorted(name for name in claims if name.isprintable() and len(name) < 40)[:20]) or "none"


def _kind(value: object) -> str:
    """Say what a value is, and nothing that is in it."""
    if value is None:
        return "None"
    if isinstance(value, (bool, int, float)):
        return repr(value)[:40]
    return f"an empty {type(value).__name__}" if value in ("", [], {}) else f"a {type(value).__name__}"
