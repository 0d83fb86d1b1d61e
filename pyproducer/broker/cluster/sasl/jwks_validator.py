"""Tokens that an identity provider has signed, checked with the keys that it publishes (JWKS).

    file: or http(s): -> thread, every refresh_ms and when a token names an unknown key -> keys -> validate(token)

Road:    oauthbearer server -> [jwks validator] -> PyJWT
Thread:  `validate` runs on the thread that polls the selector and never waits; the keys are fetched by a thread here,
         the first time by who calls `start`.
Source:  Java BrokerJwtValidator, RefreshingHttpsJwks, JwksFileVerificationKeyResolver (4.1); jose4j's JwtConsumer,
         AudValidator, SelectorSupport. Differs from Java: a provider that is away when the broker starts is asked again
         later, and all tokens are refused meanwhile; it is asked for unknown keys once a minute, whatever their names,
         where Java does so for each name.
"""

from __future__ import annotations

import json
import logging
import threading
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from pyproducer.broker.cluster.sasl.oauthbearer_server import TokenRefusedError, ValidToken, is_seconds
from pyproducer.common.clock import Clock, SystemClock
from pyproducer.common.errors import ConfigError

_logger = logging.getLogger(__name__)
URL_KEY = "sasl.oauthbearer.jwks.endpoint.url"
_SCHEMES = ("file", "http", "https")
_TIMEOUT_S = 10.0
# RefreshingHttpsJwks.MISSING_KEY_ID_CACHE_IN_MS. Anybody can send tokens with names of keys, before any login.
UNKNOWN_KEY_INTERVAL_MS = 60_000
_BLANKS = "".join(map(chr, range(33)))  # what Java's trim() takes away
# Sets of keys have a few; a peer that sends without end is not believed.
_MOST_BYTES = 1 << 20
# By kind of key, so that a public key is never taken for the secret of an HMAC.
_ALGORITHMS: Mapping[str, Sequence[str]] = {
    "RSA": ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    "EC": ("ES256", "ES384", "ES512"),
    "OKP": ("EdDSA",),
}


@dataclass(frozen=True)
class JwksSettings:
    """Where the keys are, and what a token must say.

    Attributes:
        url: Of the keys.
        refresh_ms: How often they are fetched.
        retry_backoff_ms: First wait after a fetch that failed, and the least between two.
        retry_backoff_max_ms: Longest such wait.
        expected_audience: A token must be for one of them; where it is empty a token must be for nobody in particular.
        expected_issuer: A token must be from it; None for any.
        clock_skew_s: How far apart the clocks may be.
        sub_claim_name: The claim that says who it is.
    """

    url: str
    refresh_ms: int = 3_600_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 10_000
    expected_audience: tuple[str, ...] = ()
    expected_issuer: str | None = None
    clock_skew_s: int = 30
    sub_claim_name: str = "sub"


def fetch_text(url: str) -> str:
    """Return what is at an address.

    Raises:
        OSError: It cannot be read; urllib's errors are such.
        ValueError: It is no text, or too long.
    """
    with urllib.request.urlopen(url, timeout=_TIMEOUT_S) as answer:
        data: bytes = answer.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise ValueError(f"more than {_MOST_BYTES} bytes")
    return data.decode()


class JwksTokenValidator:
    """See TokenValidator.

    Args:
        settings: Where the keys are, and what a token must say.
        fetch: Returns the text at an address.
        clock: The clocks; None for the system's.

    Raises:
        ConfigError: The address cannot be one, or PyJWT is not installed.
    """

    def __init__(self, settings: JwksSettings, fetch: Callable[[str], str] = fetch_text, *,
                 clock: Clock | None = None) -> None:
        if urlsplit(settings.url).scheme not in _SCHEMES:
            raise ConfigError(URL_KEY, settings.url, f"must begin with one of {', '.join(_SCHEMES)}")
        try:
            import jwt
        except ImportError as error:
            raise ConfigError(URL_KEY, settings.url, "needs the packages PyJWT and cryptography: pip install "
                              "'PyJWT[crypto]'") from error
        self._jwt = jwt
        self._settings = settings
        self._fetch = fetch
        self._keys: Mapping[str | None, Any] = {}  # replaced, never changed: read without a lock
        self._clock = clock or SystemClock()
        self._asked_ms: int | None = None  # when a token last had the keys fetched; of the thread that validates
        self._wanted = threading.Event()
        self._stop_requested = False
        self._thread = threading.Thread(target=self._run, name="kafka-jwks-refresh", daemon=True)

    def start(self) -> None:
        """Fetch the keys, and go on doing so on a thread."""
        self._refresh()
        self._thread.start()

    def close(self) -> None:
        """End the thread; a fetch that is under way is waited for a second at most."""
        self._stop_requested = True
        self._wanted.set()
        if self._thread.is_alive():
            self._thread.join(1)

    # ---- tokens

    def validate(self, token: str) -> ValidToken:
        """Return whose the token is; see TokenValidator."""
        settings = self._settings
        key = self._key_of(token)
        algorithms = _ALGORITHMS.get(key.key_type)
        if algorithms is None:
            raise TokenRefusedError(f"A key of type {key.key_type} signs nothing here")
        claims = None
        why = ""
        try:
            claims = self._jwt.decode(
                token, key.key, algorithms=list(algorithms),
                audience=list(settings.expected_audience) or None, issuer=settings.expected_issuer,
                options={"require": ["exp", "iat"], "verify_iat": False, "verify_exp": False, "verify_nbf": False})
        except self._jwt.PyJWTError as error:
            why = f"Could not validate the access token: {error}"
        except (ValueError, TypeError, OverflowError, RecursionError) as error:  # claims that nobody has thought of
            why = f"Could not validate the access token: {type(error).__name__}"
        if claims is None:
            raise TokenRefusedError(why)
        principal = claims.get(settings.sub_claim_name)
        if not isinstance(principal, str) or not (principal := principal.strip(_BLANKS)):
            raise TokenRefusedError(
                f"Could not extract the '{settings.sub_claim_name}' claim from the access token")
        if claims.get("aud") is not None and not settings.expected_audience:  # one that is empty is one, too
            raise TokenRefusedError("The access token is for an audience, and none is expected: "
                                    "sasl.oauthbearer.expected.audience")
        self._check_times(claims)
        return ValidToken(principal, int(claims["exp"] * 1000))

    def _check_times(self, claims: Mapping[str, Any]) -> None:
        """Compare the times of a token with the broker's clock, which is not always the system's."""
        for name in ("exp", "iat", "nbf"):
            if (name != "nbf" or name in claims) and not is_seconds(claims[name]):
                raise TokenRefusedError(f"Could not extract the '{name}' claim from the access token")
        now_s, skew_s = self._clock.timestamp_ms() / 1000, self._settings.clock_skew_s
        if claims["exp"] <= now_s - skew_s:
            raise TokenRefusedError("The access token has ended")
        if "nbf" in claims and claims["nbf"] > now_s + skew_s:
            raise TokenRefusedError("The access token is not valid yet")

    def _key_of(self, token: str) -> Any:
        try:
            key_id = self._jwt.get_unverified_header(token).get("kid")
        except (self._jwt.PyJWTError, RecursionError):  # a header of a thousand lists; PyJWT tells so in newer releases
            key_id = None
            is_jwt = False
        else:
            is_jwt = True
        if not is_jwt:
            raise TokenRefusedError("It is no JWT")
        keys = self._keys
        if key_id is None and len(keys) == 1:
            return next(iter(keys.values()))
        key = keys.get(key_id)
        if key is None:
            self._maybe_ask()  # the provider may have made a new one: known when the client tries again
            raise TokenRefusedError(f"Nothing is known of the key {key_id!r}; there are {len(keys)} others")
        return key

    # ---- keys

    def _maybe_ask(self) -> None:
        """Have the keys fetched, unless that was done for another token within the last minute."""
        now_ms = self._clock.now_ms()
        if self._asked_ms is None or now_ms - self._asked_ms >= UNKNOWN_KEY_INTERVAL_MS:
            self._asked_ms = now_ms
            self._wanted.set()

    def _run(self) -> None:
        settings = self._settings
        failures = 0 if self._keys else 1
        while True:
            if failures:
                wait_ms = min(settings.retry_backoff_ms << min(failures - 1, 30), settings.retry_backoff_max_ms)
            else:
                wait_ms = settings.refresh_ms
            self._wanted.wait(min(wait_ms / 1000, threading.TIMEOUT_MAX))
            if self._stop_requested:
                return
            self._wanted.clear()
            failures = 0 if self._refresh() else failures + 1

    def _refresh(self) -> bool:
        """Fetch the keys; return whether there are any. Those of before stay where there are not."""
        url = self._settings.url
        try:
            found = self._jwt.PyJWKSet.from_dict(json.loads(self._fetch(url)))
        except (OSError, ValueError, RecursionError, AttributeError, self._jwt.PyJWTError) as error:
            _logger.warning("The keys at %s cannot be fetched: %s", url, error)
            return False
        # A key that says what it is for verifies nothing else.
        self._keys = {key.key_id: key for key in found.keys if key.public_key_use in (None, "sig")}
        return True
