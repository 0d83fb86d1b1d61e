"""The bytes of a connection: how a socket is set up and connected without waiting, what a transport is, and plaintext.

Road:    KafkaChannel -> [transport] -> socket
Thread:  the thread that polls the selector, which alone closes a socket. Nothing here waits but `write_on`, 5 ms.
Source:  Java TransportLayer, PlaintextTransportLayer, Selector.configureSocketChannel, doConnect (4.1); seed 001.
"""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from pyproducer.hotpath import PromptSocket

_IN_PROGRESS = frozenset({0, errno.EINPROGRESS, errno.EWOULDBLOCK, errno.EINTR, errno.EALREADY})


def configure_socket(sock: socket.socket, *, send_buffer_bytes: int = -1, receive_buffer_bytes: int = -1) -> None:
    """Make a TCP socket non-blocking, without Nagle's delay and with keep-alive; -1 leaves a buffer as it is.

    Raises:
        OSError: The socket is broken. Not sent.
    """
    sock.setblocking(False)
    if sock.family in (socket.AF_INET, socket.AF_INET6):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if send_buffer_bytes >= 0:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer_bytes)
    if receive_buffer_bytes >= 0:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)


def start_connect(sock: socket.socket, address: tuple[Any, ...]) -> None:
    """Begin to connect; a socket that is connected at once turns writable like any other.

    Raises:
        OSError: It failed at once, or the port is none. Not sent.
    """
    try:
        code = sock.connect_ex(address)
    except OverflowError as error:  # a peer may name any port
        raise OSError(f"{address[1]} is not a port (0 to 65535)") from error
    if code not in _IN_PROGRESS:
        raise OSError(code, os.strerror(code))


Buffer = bytes | bytearray | memoryview

# How many pieces one sendmsg may gather: the kernel's limit (1024 on Linux), 16 is what POSIX promises.
IOV_MAX = int(os.sysconf("SC_IOV_MAX")) if "SC_IOV_MAX" in getattr(os, "sysconf_names", {}) else 16
END_OF_STREAM = -1


def socket_address_text(address: object) -> str:
    """Return `host:port` of a socket address, with brackets around an IPv6 host."""
    if not isinstance(address, tuple) or len(address) < 2:
        return str(address) or "an unnamed peer"
    host, port = address[0], address[1]
    return f"[{host}]:{port}" if ":" in str(host) else f"{host}:{port}"


def hang_up(sock: socket.socket) -> None:
    """Close a socket, accepted or listening, for every process that has it.

    A close alone ends nothing while a child that the program forked has a copy: the peer would see no end of its
    connection, and a listening socket would go on to take connections that nobody accepts.
    """
    try:
        sock.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass  # the peer has gone, or it is closed already; macOS shuts no listening socket down
    sock.close()


class TransportLayer(Protocol):
    """What a channel reads from and writes to: a socket, or TLS over one.

    Attributes:
        ready: The handshake, if there is one, is done.
        has_pending_reads: Bytes may be readable that the socket no longer announces: read before the next select.
        has_pending_writes: Bytes were accepted but are not with the kernel yet: call `flush` when writable.
        wants_write: The handshake waits to write.
    """

    sock: socket.socket
    ready: bool
    has_pending_reads: bool

    @property
    def has_pending_writes(self) -> bool:
        """See the class."""

    @property
    def wants_write(self) -> bool:
        """See the class."""

    @property
    def principal_name(self) -> str | None:
        """Return the peer's certificate's subject, or None where it showed none."""

    def handshake(self) -> None:
        """Go on with the handshake as far as the socket allows; sets `ready` at its end.

        Raises:
            AuthenticationError: The handshake failed. Not sent.
            DisconnectedError: The peer hung up. Not sent.
        """

    def read_into(self, view: memoryview) -> int:
        """Read what is there: a count, 0 when nothing is there now, END_OF_STREAM at the end."""

    def write_chunks(self, chunks: Sequence[Buffer]) -> int:
        """Write as much as the socket takes and return how many bytes were accepted; 0 when it is full."""

    def write_on(self, chunks: Sequence[Buffer]) -> int:
        """Do as write_chunks, but go on for some ms while the peer reads, where that saves turns of the interpreter.

        For who has no other connection to write to.
        """

    def flush(self) -> None:
        """Write what was accepted earlier."""

    def close(self) -> None:
        """Close the socket; harmless when closed."""


class PlaintextTransportLayer:
    """A bare TCP socket, gathering its writes.

    Args:
        sock: Non-blocking; may still be connecting.
        server_side: It was accepted, and ends for all processes that have it.
    """

    __slots__ = ("_recv_into", "_sendmsg", "_sendmsg_on", "_server_side", "has_pending_reads", "has_pending_writes",
                 "principal_name", "ready", "sock", "wants_write")

    def __init__(self, sock: socket.socket, *, server_side: bool = False) -> None:
        self.sock: socket.socket = sock
        self._server_side = server_side
        self.ready: bool = True
        self.has_pending_reads: bool = False
        self.has_pending_writes: bool = False
        self.wants_write: bool = False
        self.principal_name: str | None = None
        # Small reads and writes do not let another thread have the interpreter, where that was compiled.
        calls = sock if PromptSocket is None or not hasattr(sock, "sendmsg") else PromptSocket(sock)
        self._recv_into: Callable[[memoryview], int] = calls.recv_into
        self._sendmsg: Callable[[Sequence[Buffer]], int] | None = getattr(calls, "sendmsg", None)  # Windows has none
        self._sendmsg_on: Callable[[Sequence[Buffer]], int] | None = getattr(calls, "sendmsg_on", self._sendmsg)

    def handshake(self) -> None:
        """Do nothing: there is no handshake."""

    def read_into(self, view: memoryview) -> int:
        """Read once; see TransportLayer."""
        try:
            return self._recv_into(view) or END_OF_STREAM
        except BlockingIOError:
            return 0

    def write_chunks(self, chunks: Sequence[Buffer]) -> int:
        """Write once, gathering up to IOV_MAX pieces; see TransportLayer."""
        return self._write(self._sendmsg, chunks)

    def write_on(self, chunks: Sequence[Buffer]) -> int:
        """Write as long as the peer reads; see TransportLayer."""
        return self._write(self._sendmsg_on, chunks)

    def _write(self, sendmsg: Callable[[Sequence[Buffer]], int] | None, chunks: Sequence[Buffer]) -> int:
        if len(chunks) > IOV_MAX:
            chunks = chunks[:IOV_MAX]
        try:
            return self.sock.send(b"".join(chunks)) if sendmsg is None else sendmsg(chunks)
        except BlockingIOError:
            return 0

    def flush(self) -> None:
        """Do nothing: what is accepted is with the kernel."""

    def close(self) -> None:
        """Close the socket."""
        if self._server_side:
            hang_up(self.sock)
        else:
            self.sock.close()
