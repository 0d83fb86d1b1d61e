from __future__ import annotations

import socket
from typing import cast

from pyproducer.network.transport import END_OF_STREAM, PlaintextTransportLayer, configure_socket


class SocketWithoutSendmsg:
    """What Windows has."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self.recv_into = sock.recv_into
        self.send = sock.send
        self.close = sock.close


def test_buffers_when_set_then_each_is_of_its_own_direction() -> None:
    with socket.socket() as sock:
        configure_socket(sock, send_buffer_bytes=9_000, receive_buffer_bytes=31_000)
        told = [sock.getsockopt(socket.SOL_SOCKET, which) for which in (socket.SO_SNDBUF, socket.SO_RCVBUF)]
        assert told in ([9_000, 31_000], [18_000, 62_000])  # Linux doubles them


def test_write_when_the_system_cannot_gather_then_the_bytes_are_the_same() -> None:
    near, far = socket.socketpair()
    with near, far:
        near.setblocking(False)
        transport = PlaintextTransportLayer(cast(socket.socket, SocketWithoutSendmsg(near)))
        assert transport.write_chunks([b"ab", memoryview(b"c")]) == 3
        assert far.recv(10) == b"abc"
        while transport.write_chunks([bytes(1 << 20)]):
            pass  # until the socket is full, which is not an error


def test_read_when_nothing_is_there_then_zero_and_at_the_end_minus_one() -> None:
    near, far = socket.socketpair()
    with near:
        near.setblocking(False)
        transport = PlaintextTransportLayer(near)
        view = memoryview(bytearray(10))
        assert transport.read_into(view) == 0
        far.send(b"abc")
        assert transport.read_into(view) == 3
        far.close()
        assert transport.read_into(view) == END_OF_STREAM
        transport.handshake()
        transport.flush()
        assert transport.ready
        assert not transport.has_pending_writes
