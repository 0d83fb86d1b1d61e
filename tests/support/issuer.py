"""An OAuth issuer on loopback: a token endpoint, and the keys by which brokers check its tokens.

    with Issuer() as issuer:
        issuer.token_url     POST, client_credentials and jwt-bearer; see `answer`
        issuer.jwks_url      GET, one key, RS256

Source:  ours; RFC 6749 4.4 and 5.2, RFC 7517 (JWKS), RFC 7515 (RS256).
"""

from __future__ import annotations

import base64
import functools
import json
import ssl
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any
from urllib.parse import parse_qs

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from tests.support.patience import GIVE_UP_S

AUDIENCE = "kafka"
KEY_ID = "the-issuer's"


@dataclass
class Asked:
    """One request to the token endpoint."""

    headers: dict[str, str]
    form: dict[str, str]

    @property
    def basic(self) -> str:
        """Id and secret as they were sent, `id:secret`; "" without any."""
        kind, _, value = self.headers.get("authorization", "").partition(" ")
        return base64.b64decode(value).decode() if kind == "Basic" else ""


@dataclass
class Answer:
    """What the token endpoint says; `before` runs first, on the thread of the request."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    before: Callable[[], object] = lambda: None


class Issuer:
    """A context manager; each request has a thread.

    Attributes:
        answer: Makes what the token endpoint says of what was asked; a token of `life_s` unless a test sets another.
        asked: All that was asked.
        life_s: How long tokens live.
        subject: Whom they are for.
    """

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self._key = _key()
        self.answer: Callable[[Asked], Answer] = lambda asked: self.token_answer()
        self.asked: list[Asked] = []
        self.life_s = 3600.0
        self.subject = "ada"
        self._server = _Server(self, tls)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01},
                                        name="issuer")
        base = f"{'http' if tls is None else 'https'}://localhost:{self._server.server_port}"
        self.token_url = f"{base}/token"
        self.jwks_url = f"{base}/jwks"

    def __enter__(self) -> Issuer:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def token(self, **claims: Any) -> str:
        """Return a signed token; claims stand beside its own or in their place, None takes one away."""
        now = time.time()
        own = {"iss": "issuer", "aud": AUDIENCE, "sub": self.subject, "scope": "produce", "iat": int(now),
               "exp": now + self.life_s}
        header = {"alg": "RS256", "typ": "JWT", "kid": KEY_ID}
        body = {name: value for name, value in (own | claims).items() if value is not None}
        signed = f"{_encoded(json.dumps(header).encode())}.{_encoded(json.dumps(body).encode())}"
        signature = self._key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256())
        return f"{signed}.{_encoded(signature)}"

    def token_answer(self, **claims: Any) -> Answer:
        """Return the answer with a new token."""
        return json_answer(200, {"access_token": self.token(**claims), "token_type": "Bearer", "expires_in": 3600})

    def jwks(self) -> dict[str, Any]:
        """Return the keys."""
        numbers = self._key.public_key().public_numbers()
        return {"keys": [{"kty": "RSA", "use": "sig", "alg": "RS256", "kid": KEY_ID, "n": _number(numbers.n),
                          "e": _number(numbers.e)}]}


@functools.cache
def _key() -> rsa.RSAPrivateKey:
    """Return the key of all issuers of this process: to make one takes up to a second."""
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def json_answer(status: int, body: object, **headers: str) -> Answer:
    """Return an answer in JSON."""
    return Answer(status, json.dumps(body).encode(), {"Content-Type": "application/json", **headers})


class _Server(ThreadingHTTPServer):
    daemon_threads = False
    block_on_close = True

    def __init__(self, issuer: Issuer, tls: ssl.SSLContext | None) -> None:
        self.issuer = issuer
        self.tls = tls
        super().__init__(("127.0.0.1", 0), _Handler)

    def finish_request(self, request: Any, client_address: Any) -> None:
        """Shake hands on the request's thread: a client that goes away in the middle stops nobody."""
        if self.tls is not None:
            try:
                request = self.tls.wrap_socket(request, server_side=True)
            except (OSError, ssl.SSLError):
                return
        try:
            super().finish_request(request, client_address)
        finally:
            request.close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: clients that hang up are part of the tests."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = GIVE_UP_S

    def do_GET(self) -> None:
        self._say(json_answer(200, self.server.issuer.jwks()) if self.path == "/jwks" else Answer(404))

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        form = {name: values[0] for name, values in parse_qs(body, keep_blank_values=True).items()}
        asked = Asked({name.lower(): value for name, value in self.headers.items()}, form)
        self.server.issuer.asked.append(asked)
        self._say(self.server.issuer.answer(asked))

    def _say(self, answer: Answer) -> None:
        answer.before()
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        self.wfile.write(answer.body)

    def log_message(self, format: str, *args: Any) -> None:
        """Keep quiet."""


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _number(value: int) -> str:
    return _encoded(value.to_bytes((value.bit_length() + 7) // 8, "big"))
