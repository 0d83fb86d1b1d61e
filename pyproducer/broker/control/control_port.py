"""The control port: faults, clock, nodes and requests of a running cluster over HTTP and JSON.

    POST /stop_node {"node_id": 2}       what changes something; the arguments are an object
    GET /leader_of?topic=t&partition=0   what only looks may be asked so, too

The answer is {"result": ...}, or {"error": its kind, "message": what was wrong} with a status of 400 and above.

Whoever reaches the port rules the cluster. So it is on this machine alone unless a token is asked for, and no page in a
browser can use it: an Origin is refused, and so is a name in Host that is not this machine's, which a page may have
rebound.

Road:    any language -> [control port] -> ControlCalls
Thread:  one for each connection.
Source:  ours.
"""

from __future__ import annotations

import hmac
import ipaddress
import json
import logging
import socket
import socketserver
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from pyproducer.broker.control.control_calls import MOST_DIGITS, ControlCalls, NoSuchCallError
from pyproducer.common.cluster import address_text
from pyproducer.common.errors import ConfigError, IllegalStateError, KafkaError, KafkaTimeoutError
from pyproducer.common.loopback import is_loopback

_logger = logging.getLogger(__name__)
_MOST_BYTES = 1 << 20
_MOST_DISCARDED_BYTES = 64 << 20
_IDLE_S = 60


class ControlPort:
    """Listens until it is stopped.

    Args:
        calls: What may be asked.
        host: Address to listen on.
        port: Port; 0 is any free one.
        token: What "Authorization: Bearer ..." must have; None where nothing is asked for.

    Raises:
        ConfigError: The address is in use or not of this machine, or others reach it and there is no token.
    """

    def __init__(self, calls: ControlCalls, host: str, port: int, token: str | None = None) -> None:
        if token is None and not is_loopback(host):
            raise ConfigError("control host", host, "others reach this address, and who reaches the port rules the "
                              "cluster: it needs a token (PYPRODUCER_CONTROL_TOKEN)")
        try:
            self._server = _Server((host, port), calls, token)
        except OSError as error:
            raise ConfigError("control port", address_text(host, port), f"cannot be listened on: {error}") from error
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True,
                                        name="broker-control-port")
        self._thread.start()

    @property
    def port(self) -> int:
        """The port that it has."""
        return int(self._server.server_address[1])

    def stop(self) -> None:
        """Take no more, and close the port; again is no error."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], calls: ControlCalls, token: str | None) -> None:
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self.calls = calls
        self.token = token
        super().__init__(address, _Handler)

    def server_bind(self) -> None:
        # Not HTTPServer's: it asks the resolver for the name of the address, which may take long.
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = "", self.server_address[1]

    def handle_error(self, request: Any, client_address: Any) -> None:
        _logger.info("A client of the control port went away: %s", client_address, exc_info=True)


class _RefusedError(Exception):
    """A request that is not run: its status and what to say."""

    def __init__(self, status: HTTPStatus, message: str) -> None:
        super().__init__(message)
        self.status = status


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = _IDLE_S
    server: _Server

    def do_GET(self) -> None:
        """Answer what only looks."""
        self.close_connection = self.close_connection or "Content-Length" in self.headers or (
            "Transfer-Encoding" in self.headers)  # a body that nobody reads would be taken for the next request
        url = urlsplit(self.path)
        self._serve(lambda: self._look(url.path.strip("/"), url.query))

    def do_POST(self) -> None:
        """Answer any call."""
        self._serve(lambda: self.server.calls.find(urlsplit(self.path).path.strip("/")).run(self._body()))

    def do_DELETE(self) -> None:
        """Say how it is meant."""
        self._serve(lambda: self._refuse(HTTPStatus.METHOD_NOT_ALLOWED, "it is GET or POST: POST /faults/clear ends "
                                         "all faults, POST /faults/1/remove one"))

    def do_PUT(self) -> None:
        """Say how it is meant."""
        self.do_DELETE()

    def _serve(self, run: Any) -> None:
        status, answer = HTTPStatus.OK, None
        try:
            self._check()
            answer = {"result": run()}
        except _RefusedError as error:
            status, answer = error.status, {"error": error.status.phrase, "message": str(error)}
        except NoSuchCallError as error:
            status, answer = HTTPStatus.NOT_FOUND, {"error": "NoSuchCall", "message": str(error)}
        except KafkaError as error:
            status = (HTTPStatus.BAD_REQUEST if isinstance(error, ConfigError) else
                      HTTPStatus.CONFLICT if isinstance(error, IllegalStateError) else
                      HTTPStatus.GATEWAY_TIMEOUT if isinstance(error, KafkaTimeoutError) else
                      HTTPStatus.INTERNAL_SERVER_ERROR)
            answer = {"error": type(error).__name__, "message": str(error)}
        except (ConnectionError, TimeoutError):
            raise
        except Exception as error:
            _logger.exception("The control port cannot answer %s %s", self.command, self.path)
            status, answer = HTTPStatus.INTERNAL_SERVER_ERROR, {"error": type(error).__name__, "message": str(error)}
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        if status >= HTTPStatus.BAD_REQUEST:
            self.send_header("Connection", "close")  # the rest of what was sent may be anything
            self.close_connection = True
        self.end_headers()
        self.wfile.write(body)

    def _check(self) -> None:
        """Refuse whoever may not ask, before anything is looked at."""
        if self.headers.get("Origin") is not None:
            self._refuse(HTTPStatus.FORBIDDEN, "a page in a browser may not use the control port")
        if self.server.token is not None:
            given = self.headers.get("Authorization", "")
            if not hmac.compare_digest(given.encode("utf-8", "replace"), f"Bearer {self.server.token}".encode()):
                self._refuse(HTTPStatus.UNAUTHORIZED, "it asks for the header Authorization: Bearer TOKEN, with the "
                             "token that the broker was given")
        elif not _is_own_name(self.headers.get("Host", "")):
            self._refuse(HTTPStatus.FORBIDDEN, f"the Host {self.headers.get('Host', '')[:100]!r} is not this machine: "
                         "ask by localhost or an address")

    def _look(self, path: str, query: str) -> Any:
        call = self.server.calls.find(path)
        if not call.only_looks:
            self._refuse(HTTPStatus.METHOD_NOT_ALLOWED, f"/{path} changes something: use POST")
        return call.run({name: _value(text) for name, text in parse_qsl(query, True)})

    def _body(self) -> dict[str, Any]:
        length = self.headers.get("Content-Length", "0")
        if not (length.isascii() and length.isdigit() and len(length) <= MOST_DIGITS):
            self._refuse(HTTPStatus.BAD_REQUEST, f"Content-Length {length[:100]!r} is no number of bytes")
        if self.headers.get("Transfer-Encoding") is not None:
            self._refuse(HTTPStatus.LENGTH_REQUIRED, "the body comes with a Content-Length, in one piece")
        if int(length) > _MOST_BYTES:
            left = min(int(length), _MOST_DISCARDED_BYTES)  # who is still sending does not hear an answer
            while left > 0 and (piece := self.rfile.read(min(left, _MOST_BYTES))):
                left -= len(piece)
            self._refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                         f"the body has {length} bytes, and may have {_MOST_BYTES}")
        text = self.rfile.read(int(length))
        if not text.strip():
            return {}
        try:
            found = json.loads(text)
        except (ValueError, RecursionError) as error:
            self._refuse(HTTPStatus.BAD_REQUEST, f"the body is no JSON: {error}")
        if found is None:  # what some languages make of no arguments
            return {}
        if not isinstance(found, dict):
            self._refuse(HTTPStatus.BAD_REQUEST, 'the body must be an object with arguments: {"node_id": 2}')
        arguments: dict[str, Any] = found
        return arguments

    def _refuse(self, status: HTTPStatus, message: str) -> Any:
        raise _RefusedError(status, message)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Tell who asked what to those who look: at DEBUG."""
        _logger.debug("%s: %s", self.address_string(), format % arguments)


def _value(text: str) -> Any:
    """Return what stands in a query: a number, true, false or null as JSON has it, and else a text."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _is_own_name(host: str) -> bool:
    """Return whether a Host header has no name that somebody else's resolver could have answered."""
    try:
        name = urlsplit(f"//{host}").hostname or ""
        if name != "localhost":
            ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
