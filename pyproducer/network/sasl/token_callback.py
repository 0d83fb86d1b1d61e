"""Tokens that the application fetches by itself: a function, or an object, of one of several shapes.

    def token(): return "eyJ..."                       a JWT says when it ends; any other text is asked for every 4 min
    def token(): return "eyJ...", 1_700_003_600        with the second in which it ends, since 1970
    def token(config): return "eyJ...", 1_700_003_600.0, "ada", {"traceId": "1"}    as oauth_cb of confluent-kafka
    async def token(): return "eyJ..."                 awaited by a loop of its own on the login's thread
    class Tokens: def token(self): ...                 as AbstractTokenProvider of kafka-python and aiokafka
                  def extensions(self): ...            if it has this, too
    class Tokens: def retrieve(self): ...              as Java's JwtRetriever

Road:    the application -> [CallbackTokens] -> OAUTHBEARER's first message
Thread:  the login's; the application's function may block, but for as long as it does there is no newer token.
Source:  ours; oauth_cb of confluent-kafka 2.16, AbstractTokenProvider of kafka-python 3.0 and aiokafka 0.14, Java
         JwtRetriever (4.1).
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from pyproducer.common.class_names import configure_instance, import_object, make_instance
from pyproducer.common.errors import AuthenticationError, ConfigError
from pyproducer.network.sasl.oauth_token import OAuthToken, claims_of, ensure_sendable, is_time

# Java's names of what an object is asked for a token, and Python's.
_METHODS = ("token", "retrieve")
# Seconds since 1970 are above the one until the year 5138, milliseconds since 1973. What is below the other is a span.
_LEAST_MS = 100_000_000_000
_LEAST_S = 1_000_000_000


class CallbackTokens:
    """Asks the application for tokens.

    Args:
        key: The setting that names it, for messages.
        value: A function, an object, a class of such objects, or the name of one.
        props: The producer's properties, for an object with `configure`.

    Raises:
        ConfigError: It has none of the shapes, or cannot be made. Nothing was started.
    """

    def __init__(self, key: str, value: object, props: Mapping[str, object]) -> None:
        found = import_object(key, value) if isinstance(value, str) else value
        self._object: Any = make_instance(key, found)
        ask = next((method for name in _METHODS if callable(method := getattr(self._object, name, None))),
                   self._object)
        if not callable(ask):
            raise ConfigError(key, value, "give a function that returns a token, or an object with token()")
        self.name: str = _name_of(found)
        self._ask = _without_arguments(key, value, ask)
        configure_instance(key, value, self._object, props)

    def __repr__(self) -> str:
        return f"<CallbackTokens {self.name}>"

    def fetch(self) -> OAuthToken:
        """Ask the application.

        Raises:
            AuthenticationError: What it returned is no token. Not sent.
            Exception: The application's own.
        """
        given = _awaited(self._ask())
        extensions = getattr(self._object, "extensions", None)
        return self._token(given, _awaited(extensions()) if callable(extensions) else None)

    def _token(self, given: Any, extensions: Any) -> OAuthToken:
        if isinstance(given, OAuthToken):
            # A copy: the application may change its own after the look at it.
            return ensure_sendable(replace(given, extensions=dict(given.extensions)))
        fields: tuple[Any, ...] = given if isinstance(given, tuple) else (given,)
        if not 1 <= len(fields) <= 4 or not isinstance(fields[0], str):
            what = f"a tuple of {len(fields)}" if isinstance(given, tuple) else f"a {type(given).__name__}"
            raise AuthenticationError(f"{self.name} returned {what}: it must return a token as str, or a tuple of "
                                      "token, second since 1970 in which it ends, principal and extensions")
        value, ends, principal, more = fields + (None,) * (4 - len(fields))
        if value.lower().startswith("bearer "):
            raise AuthenticationError(f"{self.name} returned a header: the token alone is wanted, without 'Bearer'")
        extensions = more or extensions or {}
        if not isinstance(extensions, Mapping):
            raise AuthenticationError(f"{self.name}: extensions must be a dict, not a {type(extensions).__name__}")
        claims = self._claims(value)
        times = {name: int(claims[name] * 1000) for name in ("exp", "iat") if is_time(claims.get(name))}
        started_at_ms = times.get("iat")
        expires_at_ms = times.get("exp") if ends is None else self._expiry_ms(ends)
        if started_at_ms is not None and (expires_at_ms is None or started_at_ms >= expires_at_ms):
            started_at_ms = None
        return ensure_sendable(OAuthToken(value, expires_at_ms, str(principal or claims.get("sub") or ""), (),
                                          {str(name): str(text) for name, text in extensions.items()}, started_at_ms))

    def _claims(self, value: str) -> dict[str, Any]:
        """Return what a JWT says; nothing of another token, which only the broker understands."""
        try:
            return claims_of(value, self.name)
        except AuthenticationError:
            return {}

    def _expiry_ms(self, ends: object) -> int:
        if isinstance(ends, bool) or not isinstance(ends, (int, float)) or not _LEAST_S <= ends < 1e15:
            shown = ends if isinstance(ends, (int, float)) else type(ends).__name__
            raise AuthenticationError(f"{self.name} returned {shown!r} for when the token ends: it must be seconds "
                                      "since 1970, as time.time() + 900")
        return int(ends if ends >= _LEAST_MS else ends * 1000)  # the signer of MSK tells milliseconds


def _without_arguments(key: str, value: object, ask: Callable[..., Any]) -> Callable[[], Any]:
    """Return a callable without arguments of one that may want one, the configuration of confluent-kafka's oauth_cb."""
    try:
        signature = inspect.signature(ask)
    except (TypeError, ValueError):  # of C, which does not tell
        return ask
    for arguments in ((), ("",)):
        try:
            signature.bind(*arguments)
        except TypeError:
            continue
        return partial(ask, *arguments)
    raise ConfigError(key, value, "it wants more than one argument: it is called with none, or with an empty text")


def _awaited(given: Any) -> Any:
    """Return what a coroutine comes to; anything else as it is."""
    if not inspect.isawaitable(given):
        return given

    async def wait(awaitable: Awaitable[Any]) -> Any:
        return await awaitable

    return asyncio.run(wait(given))


def _name_of(found: object) -> str:
    named: Any = found if hasattr(found, "__qualname__") else type(found)
    module = getattr(named, "__module__", None)
    return f"{module}.{named.__qualname__}" if module else str(named.__qualname__)
