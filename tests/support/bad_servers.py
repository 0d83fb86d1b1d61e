"""Addresses on loopback that are no Kafka: one that never answers, one that never accepts, one that speaks HTTP.

Each is a context manager that yields "host:port". No import of pytest.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading
from collections.abc import Callable, Iterator

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
