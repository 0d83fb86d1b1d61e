"""Ports of loopback that are kept for a server that is told its port before it starts, or that comes back to it.

Source:  ours; Linux.

A port that "is free now" belongs to whoever binds it first: any connection of any process on the machine may be given
it before the server starts, or while the server is down between two starts. So the port is bound here and stays
bound, without listening: connects are refused, the system gives it to nobody, and a server whose socket has
SO_REUSEADDR too (as Java's, ours and most others have) may listen on it beside us.

No import of pytest: benchmarks use this module too.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator


class ReservedPorts:
    """Ports of 127.0.0.1, chosen by the system, that nobody else is given until close(). A context manager."""

    def __init__(self, count: int) -> None:
        self._sockets: list[socket.socket] = []
        try:
            for _ in range(count):
                sock = socket.socket()
                self._sockets.append(sock)
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                sock.bind(("127.0.0.1", 0))
        except BaseException:
            self.close()
            raise
        self.numbers = [int(sock.getsockname()[1]) for sock in self._sockets]

    def __enter__(self) -> ReservedPorts:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the ports back; again is no error."""
        for sock in self._sockets:
            sock.close()


@contextlib.contextmanager
def reserved_port() -> Iterator[int]:
    """One port; until a server listens on it, connects are refused."""
    with ReservedPorts(1) as ports:
        yield ports.numbers[0]
