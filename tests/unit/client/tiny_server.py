"""A server on loopback that answers frames by a function; for the few tests that need real sockets."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from types import TracebackType

from pyproducer.protocol.apis import ApiKeys
from pyproducer.protocol.buffer import ByteReader
from pyproducer.protocol.header import read_request_header
from tests.support.patience import GIVE_UP_S
from tests.unit.client.mock_selector import Request, encode

# Raw bytes to write, None to say nothing, CLOSE to hang up.
CLOSE = b""


class TinyServer:
    """Accepts connections, one thread each; a context manager.

    `on_frame` gets each request, decoded, and returns a response body, raw bytes, CLOSE or None. With `first_bytes`, a
    connection is answered with those as soon as it says anything, and closed.
    """

    def __init__(self, on_frame: Callable[[Request], object] | None = None, *,
                 first_bytes: bytes | None = None) -> None:
        self._on_frame = on_frame
        self._first_bytes = first_bytes
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._threads: list[threading.Thread] = []
        self._sockets: list[socket.socket] = []
        self.accepted_count = 0
        self.port: int = self._listener.getsockname()[1]
        self._accepting = threading.Thread(target=self._accept, name="tiny-server")

    def __enter__(self) -> TinyServer:
        self._accepting.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        for sock in (self._listener, *self._sockets):
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
            sock.close()
        self._accepting.join(GIVE_UP_S)
        for thread in self._threads:
            thread.join(GIVE_UP_S)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                sock, _ = self._listener.accept()
                self._sockets.append(sock)
                self.accepted_count += 1
                thread = threading.Thread(target=self._serve, args=(sock,), name="tiny-server-connection")
                self._threads.append(thread)
                thread.start()

    def _serve(self, sock: socket.socket) -> None:
        with contextlib.suppress(OSError), sock:
            if self._first_bytes is not None:
                sock.recv(65536)
                sock.sendall(self._first_bytes)
                return
            for request in _frames(sock):
                assert self._on_frame is not None
                answer = self._on_frame(request)
                if answer == CLOSE:
                    return
                if answer is not None:
                    payload = answer if isinstance(answer, bytes) else encode(request, answer)  # type: ignore[arg-type]
                    sock.sendall(len(payload).to_bytes(4, "big") + payload)


def _frames(sock: socket.socket) -> Iterator[Request]:
    stream = sock.makefile("rb")
    with stream:
        while True:
            head = stream.read(4)
            if len(head) < 4:
                return
            reader = ByteReader(stream.read(int.from_bytes(head, "big")))
            header = read_request_header(reader)
            api_key = ApiKeys.for_id(header.api_key)
            yield Request("", api_key, header.api_version, header.correlation_id, header.client_id,
                          api_key.request_schema(header.api_version).read(reader))
