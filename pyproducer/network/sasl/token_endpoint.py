"""Asks the token endpoint of an OAuth issuer: one POST, one answer in JSON, or an error that says what to change.

    POST /token   grant_type=client_credentials&scope=...     ->  200 {"access_token": "eyJ..."}
                                                              ->  401 {"error": "invalid_client", ...}   refused
                                                              ->  503, no connection, no JSON            may pass

Road:    TokenRequest -> [TokenEndpoint] -> JWT
Thread:  the login's, which it blocks; `close` is any thread's.
Source:  Java HttpJwtRetriever, JwtResponseParser, JaasOptionsUtils (4.1); RFC 6749 4.4, 5.1, 5.2; KIP-768. Differs from
         Java: a redirection is refused, for the credentials would go with it; without timeouts in the settings 30 s
         hold, and the read timeout is for the whole answer; HTTP_PROXY and its kin are obeyed. Java's list of allowed
         URLs (a JVM property) has no counterpart: it protects servers that take their clients' settings, such as Kafka
         Connect, which this is not.
"""

from __future__ import annotations

import http.client
import io
import json
import re
import socket
import ssl
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

from pyproducer.common.clock import Clock, SystemClock
from pyproducer.common.errors import AuthenticationError, ConfigError, KafkaError
from pyproducer.common.printable import printable
from pyproducer.common.secrets import shown_text
from pyproducer.network.sasl.mechanism import unavailable
from pyproducer.network.ssl_context import build_client_ssl_context
from pyproducer.network.tls_failures import UNKNOWN_AUTHORITY, VERIFY_HINTS

URL_KEY = "sasl.oauthbearer.token.endpoint.url"
# Java waits for ever; then nobody is told why nothing is sent.
DEFAULT_TIMEOUT_S = 30.0
# A token is some KiB; brokers take first messages of 512 KiB at most.
MOST_BYTES = 1024 * 1024
_LONGEST_REASON = 300
# Host and port, without the user and password that a proxy's address may have.
_PROXY = re.compile(r"(?:[^@:]+|\[[^@\]]+\])(?::[0-9]+)?")
# Labels as resolvers take them, or an address of IPv6.
_HOST = re.compile(r"(?:[^.:]{1,63}\.)*[^.:]{1,63}\.?|[0-9a-f:.]+(?:%.+)?", re.IGNORECASE)
# As Java's UNRETRYABLE_HTTP_CODES, and what else says that the request itself is wrong; but for 407, a proxy's word,
# which tells nothing of the issuer. The others of 4xx and all of 5xx may pass.
_PASSING = frozenset({407, 408, 425, 429})
_REFUSED_5XX = frozenset({501, 505})


class TokenRequest(Protocol):
    """What is asked. Its repr hides what is secret."""

    def headers(self) -> dict[str, str]:
        """Return its own headers."""

    def body(self) -> str:
        """Return the body, as application/x-www-form-urlencoded.

        Raises:
            AuthenticationError: It cannot be made of the files that it needs. Not sent.
            TransportError: One of them is missing or empty; may pass. Not sent.
        """

    def secrets(self) -> tuple[str, ...]:
        """Return what must not be in a message, should the issuer repeat it."""


class Timeouts(NamedTuple):
    """How long to wait, in s.

    Attributes:
        connect_s: For the connection.
        read_s: For the whole answer: a server that sends a byte now and then never comes to an end. A proxy's answer
            to CONNECT has connect_s.
    """

    connect_s: float = DEFAULT_TIMEOUT_S
    read_s: float = DEFAULT_TIMEOUT_S


def checked_url(url: object) -> str:
    """Return the URL of a token endpoint.

    Raises:
        ConfigError: It is none of http, https or file, names no host, or holds a user. Nothing was started.
    """
    text = str(url).strip()
    try:
        parts = urllib.parse.urlsplit(text)
        parts.port  # noqa: B018 - it raises for a port that is no number
    except ValueError as cause:
        raise ConfigError(URL_KEY, text, f"it is no URL: {cause}") from None
    if parts.scheme.lower() not in ("http", "https", "file"):
        raise ConfigError(URL_KEY, text, "it must begin with https://, or with file:// for a file with a token")
    if parts.scheme.lower() == "file":
        if not parts.path or parts.netloc not in ("", "localhost"):
            raise ConfigError(URL_KEY, text, "a file is named with three slashes: file:///path/to/token")
        return text
    if not parts.hostname:
        raise ConfigError(URL_KEY, text, "it names no host")
    if not text.isascii() or not text.isprintable() or " " in text or not _HOST.fullmatch(parts.hostname):
        raise ConfigError(URL_KEY, text, "it has characters that no URL has, or no name of a host: write them as "
                                         "%-escapes, and a host by its ASCII name")
    if parts.username is not None or parts.password is not None:
        raise ConfigError(URL_KEY, text, "user and password have no place in it: see "
                                         "sasl.oauthbearer.client.credentials.client.id and .client.secret")
    return text


def shown_url(url: str) -> str:
    """Return a URL as messages have it, without a query: some issuers take a secret there."""
    return shown_text(re.split("[?#]", url, maxsplit=1)[0])


class TokenEndpoint:
    """Where tokens are asked for.

    Args:
        url: http or https; see checked_url.
        request: What is asked.
        ssl_settings: Java's ssl.* for this endpoint, which stand among the options of sasl.jaas.config.
        timeouts: How long to wait.
        clock: Tells the time.

    Raises:
        ConfigError: The ssl.* ones cannot be fulfilled. Nothing was started.
    """

    def __init__(self, url: str, request: TokenRequest, ssl_settings: Mapping[str, str] | None = None,
                 timeouts: Timeouts | None = None, clock: Clock | None = None) -> None:
        self.url = url
        self._request = request
        self._ssl_settings = dict(ssl_settings or {})
        self._timeouts = timeouts or Timeouts()
        self._clock = clock or SystemClock()
        self._is_closed = False
        self._socket: socket.socket | None = None  # of the request under way
        self._proxy = ""  # its host and port, where the last request went through one
        if self._ssl_settings:
            build_client_ssl_context(self._ssl_settings)  # now, so that what is wrong is said where it was written

    def __repr__(self) -> str:
        return f"<TokenEndpoint {shown_url(self.url)}>"

    def jwt(self) -> str:
        """Ask for a token and return its text, of `access_token` or `id_token`.

        Raises:
            AuthenticationError: The issuer refuses: secret, client, scope or address are wrong. Not sent.
            TransportError: It was not reached, or its answer makes no sense; may pass. Not sent.
        """
        try:
            answer = self._post()
        except urllib.error.HTTPError as error:
            with error:
                raise self._refusal(error.code, self._body_of(error)) from None
        except KafkaError:
            raise
        except (OSError, http.client.HTTPException, ValueError) as cause:  # the latter of a URL that cannot be sent
            raise self._unreachable(cause) from None
        return self._token_in(answer)

    def close(self) -> None:
        """Break off the request that is under way."""
        self._is_closed = True
        connection = self._socket
        if connection is not None:
            try:
                # The plain socket's: SSLSocket's own would take TLS away under the thread that reads.
                socket.socket.shutdown(connection, socket.SHUT_RDWR)
            except OSError:
                pass  # it was just closed by the thread that used it

    def _post(self) -> bytes:
        request = urllib.request.Request(self.url, data=self._request.body().encode(), method="POST", headers={
            "Accept": "application/json", "Cache-Control": "no-cache",
            "Content-Type": "application/x-www-form-urlencoded", **self._request.headers()})
        opener = urllib.request.build_opener(_NoRedirection(), *self._handlers())
        host = request.host
        try:
            with opener.open(request, timeout=self._timeouts.connect_s) as response:
                body = self._read(response)
        finally:
            self._proxy = request.host if request.host != host else ""
        self._socket = None
        return body

    def _handlers(self) -> tuple[urllib.request.BaseHandler, ...]:
        def on_connected(connection: socket.socket) -> None:
            connection.settimeout(self._timeouts.read_s)
            self._socket = connection
            if self._is_closed:
                self.close()

        plain = _PlainHandler(on_connected, self._clock)
        if not self.url.lower().startswith("https"):
            return (plain,)
        # Read anew for each token: its files may have been replaced.
        return plain, _TlsHandler(on_connected, self._clock, build_client_ssl_context(self._ssl_settings))

    def _read(self, response: Any) -> bytes:
        """Read a body, of a limited size."""
        pieces: list[bytes] = []
        size = 0
        while size <= MOST_BYTES:
            piece = response.read1(65536)
            if not piece:
                return b"".join(pieces)
            pieces.append(piece)
            size += len(piece)
        raise http.client.HTTPException(f"the answer has more than {MOST_BYTES} bytes")

    def _body_of(self, error: urllib.error.HTTPError) -> bytes:
        """Read why; nothing where it breaks off, for the status says enough."""
        try:
            return self._read(error)
        except (OSError, http.client.HTTPException):
            return b""

    def _token_in(self, answer: bytes) -> str:
        try:
            found = json.loads(answer)
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise unavailable(f"{self._where()} answered with something else than a JSON object "
                              f"({len(answer)} bytes): is that its address, and no proxy's page?")
        for name in ("access_token", "id_token"):
            token = found.get(name)
            if isinstance(token, str) and token.strip():
                return token.strip()
        names = ", ".join(sorted(str(name)[:40] for name in found)[:20])
        raise unavailable(f"{self._where()} answered without access_token and id_token; it has "
                          f"{self._clean(names) or 'nothing'}")

    def _where(self) -> str:
        """Return whom we asked, and by whom, without what may be secret in either."""
        proxy = f"the proxy {self._proxy}" if _PROXY.fullmatch(self._proxy) else "a proxy"
        return f"the token endpoint {shown_url(self.url)}" + (f" (asked through {proxy})" if self._proxy else "")

    def _refusal(self, status: int, body: bytes) -> KafkaError:
        reason = self._reason(body)
        said = f" and says: {reason}" if reason else ""
        if 300 <= status < 400:
            return AuthenticationError(f"{self._where()} answers with HTTP {status}, a redirection. It "
                                       f"is not followed, because the secret would go with it: set {URL_KEY} to the "
                                       "address that it leads to")
        if (status < 500 and status not in _PASSING) or status in _REFUSED_5XX:
            return AuthenticationError(f"{self._where()} refuses with HTTP {status}{said}. "
                                       f"{_ADVICE.get(status, _OTHER_ADVICE)}")
        return unavailable(f"{self._where()} fails with HTTP {status}{said}")

    def _reason(self, body: bytes) -> str:
        """Return RFC 6749's error and its description, without secrets; "" where there are none."""
        try:
            found = json.loads(body)
        except (ValueError, RecursionError):
            return ""
        if not isinstance(found, dict):
            return ""
        names = ("error", "error_description", "errorCode", "errorSummary", "message")  # also Okta's, and others'
        texts = [found[name] for name in names if isinstance(found.get(name), str) and found[name]]
        return self._clean(": ".join(texts))

    def _clean(self, text: str) -> str:
        for secret in self._request.secrets():
            if secret:
                text = text.replace(secret, "[hidden]")
        return printable(shown_text(text), _LONGEST_REASON)

    def _unreachable(self, cause: Exception) -> KafkaError:
        reason = cause.reason if isinstance(cause, urllib.error.URLError) else cause
        if isinstance(reason, ssl.SSLCertVerificationError):
            return AuthenticationError(f"{self._where()} did not prove who it is: "
                                       f"{reason.verify_message.rstrip('.')}{self._trust_hint(reason.verify_code)}")
        if isinstance(reason, TimeoutError):
            return unavailable(f"{self._where()} does not answer in time (sasl.login.connect.timeout.ms "
                               f"is {self._timeouts.connect_s * 1000:.0f}, sasl.login.read.timeout.ms is "
                               f"{self._timeouts.read_s * 1000:.0f})")
        kind = type(cause if isinstance(reason, str) else reason).__name__
        if isinstance(reason, (ValueError, http.client.InvalidURL)):
            # It may repeat a part of a proxy's address, with a secret, and nothing else has such an error here.
            why = "; see HTTP_PROXY and its kin" if urllib.request.getproxies() else ""
        else:
            why = f": {self._clean(str(reason))}"
        return unavailable(f"{self._where()} cannot be reached: {kind}{why}")

    def _trust_hint(self, code: int) -> str:
        has_truststore = any(name.startswith("ssl.truststore.") for name in self._ssl_settings)
        if code in UNKNOWN_AUTHORITY and not has_truststore:
            return (". Its authorities are the system's; others are given by ssl.truststore.location among the options "
                    "of sasl.jaas.config")
        hint = VERIFY_HINTS.get(code, "")
        options = "; among the options of sasl.jaas.config" if "ssl." in hint else ""
        return f" ({hint}{options})" if hint else ""


_OTHER_ADVICE = f"See the issuer's documentation, and {URL_KEY}"
_ADVICE = {
    400: "Scope, client or assertion are not what this client may ask for: see sasl.oauthbearer.scope",
    401: "Client id or secret are wrong: see sasl.oauthbearer.client.credentials.client.id and .client.secret, and "
         "sasl.oauthbearer.header.urlencode if the secret has special characters",
    403: "This client may not have such a token: ask who runs the issuer",
    404: f"It is not there: see {URL_KEY}",
    405: f"It takes no POST, so it is no token endpoint: see {URL_KEY}",
}


class _NoRedirection(urllib.request.HTTPRedirectHandler):
    """Has a redirection be an error."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        """Return nothing to ask instead."""


OnConnected = Callable[[socket.socket], None]


class _TimedReader(io.RawIOBase):
    """Reads from a socket; what the socket's timeout is now is the time for all that will be read."""

    def __init__(self, connection: socket.socket, clock: Clock) -> None:
        self._connection = connection
        self._file = connection.makefile("rb", buffering=0)  # which keeps the socket open
        self._clock = clock
        self._ends_ms = clock.now_ms() + (connection.gettimeout() or DEFAULT_TIMEOUT_S) * 1000

    def readable(self) -> bool:
        """Yes."""
        return True

    def readinto(self, buffer: Any) -> int | None:
        """Read what has come, or wait for it for as long as there is time."""
        left_ms = self._ends_ms - self._clock.now_ms()
        if left_ms <= 0:
            raise TimeoutError("the answer did not end in time")
        self._connection.settimeout(left_ms / 1000)
        return self._file.readinto(buffer)

    def close(self) -> None:
        """Let go of the socket."""
        self._file.close()
        super().close()


def _connection_of(kind: type[http.client.HTTPConnection], on_connected: OnConnected, clock: Clock) -> Any:
    """Return a class of connections that tells when it is connected, and whose answers have to end in time."""
    class Response(http.client.HTTPResponse):
        def __init__(self, sock: socket.socket, *args: Any, **kwargs: Any) -> None:
            super().__init__(sock, *args, **kwargs)
            self.fp.close()
            self.fp = io.BufferedReader(_TimedReader(sock, clock))

    class Connection(kind):  # type: ignore[misc, valid-type]
        _answer: Response | None = None

        def response_class(self, *args: Any, **kwargs: Any) -> Response:
            self._answer = Response(*args, **kwargs)
            return self._answer

        def connect(self) -> None:
            try:
                super().connect()
            except (OSError, http.client.HTTPException):
                if self._answer is not None:  # a proxy's to CONNECT; before Python 3.12 nobody closes it
                    self._answer.close()
                raise
            on_connected(self.sock)

    return Connection


class _PlainHandler(urllib.request.HTTPHandler):
    """http, and a word when it is connected: then the timeout changes, and who closes the login finds the socket."""

    def __init__(self, on_connected: OnConnected, clock: Clock) -> None:
        super().__init__()
        self._connection = _connection_of(http.client.HTTPConnection, on_connected, clock)

    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        """Send it."""
        return self.do_open(self._connection, req)


class _TlsHandler(urllib.request.HTTPSHandler):
    """The same of https."""

    def __init__(self, on_connected: OnConnected, clock: Clock, context: ssl.SSLContext) -> None:
        super().__init__(context=context)
        self._connection = _connection_of(http.client.HTTPSConnection, on_connected, clock)
        self._tls = context

    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        """Send it."""
        return self.do_open(self._connection, req, context=self._tls)
