"""How the sockets of a selector are set up, and how a connect is begun without waiting for it.

Road:    Selector.connect/register -> [socket options]
Thread:  the thread that polls the selector.
Source:  Java Selector.configureSocketChannel, doConnect (4.1).
"""

from __future__ import annotations

import errno
import os
import socket
from typing import Any

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
