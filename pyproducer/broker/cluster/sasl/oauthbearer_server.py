"""The broker's half of OAUTHBEARER: a token in one message, which somebody else has made and a validator looks at.

    n,[a=authzid],^Aauth=Bearer TOKEN^A[key=value^A]^A

A token that is refused is answered with JSON; the client then sends one ^A, and the authentication fails with that JSON
as its message.

Road:    server authenticator -> [oauthbearer server] -> token validator (this file, jwt_validator.py)
Thread:  the thread that polls the selector.
Source:  RFC 7628; Java OAuthBearerSaslServer, OAuthBearerClientInitialResponse, OAuthBearerUnsecuredJws,
         OAuthBearerValidationUtils, OAuthBearerUnsecuredValidatorCallbackHandler (4.1). Differs from Java: extensions
         are read and not looked at, where Java refuses those that no class of the user has validated.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol, TypeGuard

from pyproducer.broker.cluster.sasl.sasl_server import SaslError
from pyproducer.common.errors import AuthenticationError
from pyproducer.network.sasl.oauth_token import part_of_jwt

MECHANISM = "OAUTHBEARER"
_logger = logging.getLogger(__name__)
_AFTER_REFUSAL = b"\x01"
_LAST_SECOND = (2**63 - 1) // 1000  # a number of JSON may have four hundred digits, which no float has
_SASL_NAME = rb"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
_PAIR = rb"[A-Za-z]+=[\x21-\x7e \t\r\n]+\x01"
_INITIAL_RESPONSE = re.compile(rb"n,(?:a=(?P<authzid>" + _SASL_NAME + rb"))?,\x01(?P<pairs>(?:" + _PAIR + rb")*)\x01")
_AUTH = re.compile(r"(?P<scheme>\w+) +(?P<token>[-_~+/.a-zA-Z0-9]+=*)")


class ValidToken(NamedTuple):
    """Whose a token is, and until when.

    Attributes:
        principal_name: Who logs in.
        expires_at_ms: When it ends, in ms since 1970.
    """

    principal_name: str
    expires_at_ms: int


class TokenRefusedError(Exception):
    """A token is not valid.

    Attributes:
        status: What the client is told: invalid_token or insufficient_scope.
        scope: Which scope it would need.
    """

    def __init__(self, why: str, *, status: str = "invalid_token", scope: str | None = None) -> None:
        super().__init__(why)
        self.status = status
        self.scope = scope


class TokenValidator(Protocol):
    """Says whether a token is valid; never waits."""

    def validate(self, token: str) -> ValidToken:
        """Return whose it is.

        Raises:
            TokenRefusedError: It is not valid.
        """


class OAuthBearerSaslServer:
    """One authentication; see SaslServer."""

    mechanism = MECHANISM

    def __init__(self, validator: TokenValidator) -> None:
        self.complete: bool = False
        self.authorization_id: str = ""
        self.expires_at_ms: int | None = None
        self._validator = validator
        self._refusal = ""

    def evaluate_response(self, response: bytes) -> bytes:
        """Look at the token; return nothing, or the JSON that says why it is refused.

        Raises:
            AuthenticationError: The client has seen that its token is refused, or asks for another identity.
            SaslError: It is no such message.
        """
        if response == _AFTER_REFUSAL and self._refusal:
            raise AuthenticationError(self._refusal)
        authorization_id, token = _parse(response)
        del response
        try:
            valid = self._validator.validate(token)
        except TokenRefusedError as error:
            _logger.info("A token was refused: %s", error)
            answer = {"status": error.status, **({} if error.scope is None else {"scope": error.scope})}
            self._refusal = json.dumps(answer, separators=(",", ":"))
            return self._refusal.encode()
        if authorization_id not in ("", valid.principal_name):
            raise AuthenticationError(
                f"Authentication failed: Client requested an authorization id ({authorization_id}) that is different "
                f"from the token's principal name ({valid.principal_name})")
        self.authorization_id = valid.principal_name
        self.expires_at_ms = valid.expires_at_ms
        self.complete = True
        return b""


def _parse(response: bytes) -> tuple[str, str]:
    """Return authorization id and token of the first message.

    Raises:
        SaslError: It is none; the text holds nothing of it.
    """
    match = _INITIAL_RESPONSE.fullmatch(response)
    if match is None:
        raise SaslError("Invalid OAUTHBEARER client first message")
    pairs = dict(pair.split("=", 1) for pair in match["pairs"].decode("ascii").split("\x01") if pair)
    auth = pairs.get("auth")
    if auth is None:
        raise SaslError("Invalid OAUTHBEARER client first message: 'auth' not specified")
    found = _AUTH.fullmatch(auth)
    if found is None:
        raise SaslError("Invalid OAUTHBEARER client first message: invalid 'auth' format")
    if found["scheme"].lower() != "bearer":
        raise SaslError("Invalid scheme in OAUTHBEARER client first message")
    authorization_id = (match["authzid"] or b"").decode("ascii")
    return authorization_id.replace("=2C", ",").replace("=3D", "="), found["token"]


class UnsecuredTokenValidator:
    """Takes any token that says `alg: none` and has not ended: Java's default, for tests.

    Args:
        options: Of the login module: unsecuredValidatorPrincipalClaimName, ...ScopeClaimName, ...RequiredScope,
            ...AllowableClockSkewMs.
        timestamp_ms: The wall's clock.

    Raises:
        ValueError: The clock skew is no number, or negative.
    """

    def __init__(self, options: Mapping[str, str], timestamp_ms: Callable[[], int]) -> None:
        prefix = "unsecuredValidator"
        self._principal_claim = options.get(f"{prefix}PrincipalClaimName", "").strip() or "sub"
        self._scope_claim = options.get(f"{prefix}ScopeClaimName", "").strip() or "scope"
        self._required_scope = options.get(f"{prefix}RequiredScope", "").split()
        self._skew_ms = int(options.get(f"{prefix}AllowableClockSkewMs", "").strip() or 0)
        self._timestamp_ms = timestamp_ms
        if self._skew_ms < 0:
            raise ValueError(f"Allowable clock skew millis must not be negative: {self._skew_ms}")

    def validate(self, token: str) -> ValidToken:
        """Return whose the token is; see TokenValidator."""
        parts = token.split(".")
        if len(parts) != 3 or not parts[1]:
            raise TokenRefusedError("Unsecured JWS compact serializations must have 3 dot-separated Base64URL-encoded "
                                    "values")
        if _json_part(parts[0]).get("alg") != "none":
            raise TokenRefusedError("Unsecured JWS must have 'none' for an algorithm")
        if parts[2]:
            raise TokenRefusedError("Unsecured JWS must not contain a digital signature")
        claims = _json_part(parts[1])
        principal = claims.get(self._principal_claim)
        if not isinstance(principal, str) or not principal:
            raise TokenRefusedError(f"Required claim missing: {self._principal_claim}")
        expires_ms = self._checked_times(claims)
        self._check_scope(claims.get(self._scope_claim))
        return ValidToken(principal, expires_ms)

    def _checked_times(self, claims: Mapping[str, Any]) -> int:
        now_ms = self._timestamp_ms()
        expires_s, issued_s = claims.get("exp"), claims.get("iat")
        if not is_seconds(expires_s):
            raise TokenRefusedError("No expiration time in JWT")
        expires_ms = int(expires_s * 1000)
        if now_ms - self._skew_ms >= expires_ms:
            raise TokenRefusedError(f"The indicated time ({now_ms} ms) minus allowable clock skew ({self._skew_ms} ms) "
                                    f"was on or after the Expiration Time value ({expires_s} seconds)")
        if issued_s is not None:
            if not is_seconds(issued_s):
                raise TokenRefusedError("The iat claim had the incorrect type")
            if issued_s * 1000 > now_ms + self._skew_ms:
                raise TokenRefusedError(f"The Issued At value ({issued_s} seconds) was after the indicated time "
                                        f"({now_ms} ms) plus allowable clock skew ({self._skew_ms} ms)")
            if expires_s <= issued_s:
                raise TokenRefusedError(f"The Expiration Time time ({expires_s} seconds) was not after the Issued At "
                                        f"time ({issued_s} seconds)")
        return expires_ms

    def _check_scope(self, scope: object) -> None:
        if isinstance(scope, str):
            scope = scope.split()
        if scope is not None and not isinstance(scope, list):
            raise TokenRefusedError(f"The {self._scope_claim} claim had the incorrect type")
        missing = [name for name in self._required_scope if name not in (scope or ())]
        if missing:
            raise TokenRefusedError(f"The provided scope was missing a required scope ({missing[0]})",
                                    status="insufficient_scope", scope=" ".join(self._required_scope))


def is_seconds(value: object) -> TypeGuard[float]:
    """Whether a claim is a time: a number, and no switch, nor one whose milliseconds are more than 64 bits hold."""
    return (isinstance(value, (int, float)) and not isinstance(value, bool) and value == value
            and -_LAST_SECOND <= value <= _LAST_SECOND)


def _json_part(text: str) -> Mapping[str, Any]:
    found = part_of_jwt(text)
    if found is None:
        raise TokenRefusedError("malformed Base64 URL encoded value, or malformed JSON")
    return found
