"""Addresses on loopback that are no Kafka: one that never answers, one that never accepts, one that speaks HTTP.

Each is a context manager that yields "host:port". No import of pytest.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pyproducer.protocol.apis import ApiKeys
from pyproducer.protocol.buffer import ByteReader
from pyproducer.protocol.header import build_response, read_request_header
from tests.support.ports import reserved_port

HTTP_ANSWER = b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\nBad Request"


@contextlib.contextmanager
def closed_port() -> Iterator[str]:
    """An address where nobody listens, and nobody will."""
    with reserved_port() as port:
        yield f"127.0.0.1:{port}"


@contextlib.contextmanager
def silent_server() -> Iterator[str]:
    """Accepts, reads, and never answers."""
    with _serving(lambda connection, data: None) as address:
        yield address


@contextlib.contextmanager
def http_server() -> Iterator[str]:
    """Answers whatever comes as a web server answers a bad request, and closes."""
    def answer(connection: socket.socket, data: bytes) -> None:
        connection.sendall(HTTP_ANSWER)
        connection.shutdown(socket.SHUT_WR)

    with _serving(answer) as address:
        yield address


@contextlib.contextmanager
def hanging_up_server() -> Iterator[str]:
    """Accepts, and closes as soon as it is spoken to."""
    with _serving(lambda connection, data: connection.shutdown(socket.SHUT_RDWR)) as address:
        yield address


@contextlib.contextmanager
def ssh_server() -> Iterator[str]:
    """Says what a shell's server says first, and goes on listening."""
    with _serving(lambda connection, data: connection.sendall(b"SSH-2.0-OpenSSH_9.2p1\r\n")) as address:
        yield address


@contextlib.contextmanager
def dripping_server() -> Iterator[str]:
    """Begins a long answer, and sends a byte of it every 50 ms, to one client."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=_drip, args=(listener,), name="dripping-server")
        thread.start()
        try:
            yield _address(listener)
        finally:
            listener.shutdown(socket.SHUT_RDWR)  # ends accept()
            thread.join()


def _drip(listener: socket.socket) -> None:
    with contextlib.suppress(OSError):  # the client, or the test, has gone
        connection, _ = listener.accept()
        with connection:
            connection.settimeout(0.05)
            connection.sendall(b"\0\1\0\0")
            while True:
                try:
                    if not connection.recv(65536):
                        return
                except TimeoutError:
                    connection.sendall(b"\0")


@contextlib.contextmanager
def lying_broker(answers: Mapping[ApiKeys, Mapping[str, Any]]) -> Iterator[str]:
    """Answers requests with the given bodies, ApiVersions with that it knows these APIs; hangs up at any other.

    A broker in the answers whose port is 0 is this one.
    """
    versions = {"error_code": 0, "throttle_time_ms": 0, "finalized_features_epoch": 0, "finalized_features": [],
                "api_keys": [{"api_key": api, "min_version": 0, "max_version": api.latest_version}
                             for api in (ApiKeys.API_VERSIONS, ApiKeys.PRODUCE, ApiKeys.INIT_PRODUCER_ID, *answers)]}

    def answer(connection: socket.socket, data: bytes) -> None:
        header = read_request_header(ByteReader(data[4:]))
        api = ApiKeys(header.api_key)
        body = dict(versions if api is ApiKeys.API_VERSIONS else answers[api])
        own = connection.getsockname()[1]
        body["brokers"] = [{**broker, "port": broker["port"] or own} for broker in body.get("brokers", ())]
        response = b"".join(build_response(api, header.api_version, header.correlation_id, body))
        connection.sendall(len(response).to_bytes(4, "big") + response)

    def answer_or_hang_up(connection: socket.socket, data: bytes) -> None:
        try:
            answer(connection, data)
        except KeyError:
            connection.shutdown(socket.SHUT_RDWR)

    with _serving(answer_or_hang_up) as address:
        yield address


@contextlib.contextmanager
def black_hole() -> Iterator[str]:
    """A full backlog: the kernel drops every further SYN, so that connecting hangs as it does behind a firewall."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(4):
            filler = stack.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(listener.getsockname())
        yield _address(listener)


@contextlib.contextmanager
def _serving(on_data: Callable[[socket.socket, bytes], None]) -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listener:
        wake_reader, wake_writer = socket.socketpair()
        thread = threading.Thread(target=_serve, args=(listener, wake_reader, on_data), name="bad-server")
        thread.start()
        try:
            yield _address(listener)
        finally:
            wake_writer.close()
            thread.join()
            wake_reader.close()


def _serve(listener: socket.socket, wake_reader: socket.socket,
           on_data: Callable[[socket.socket, bytes], None]) -> None:
    with selectors.DefaultSelector() as selector, contextlib.ExitStack() as connections:
        selector.register(listener, selectors.EVENT_READ)
        selector.register(wake_reader, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fileobj is wake_reader:
                    return
                if key.fileobj is listener:
                    connection, _ = listener.accept()
                    connections.enter_context(connection)
                    selector.register(connection, selectors.EVENT_READ)
                else:
                    _hear(selector, key.fileobj, on_data)  # type: ignore[arg-type]  # only sockets are registered


def _hear(selector: selectors.BaseSelector, connection: socket.socket,
          on_data: Callable[[socket.socket, bytes], None]) -> None:
    try:
        data = connection.recv(65536)
        if data:
            on_data(connection, data)
            return
    except OSError:
        pass  # the client gave up: the same as an end
    selector.unregister(connection)
    connection.close()


def _address(listener: socket.socket) -> str:
    host, port = listener.getsockname()
    return f"{host}:{port}"
