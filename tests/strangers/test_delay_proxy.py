"""The proxy that the measurements trust: a long line, not a slow one."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from tests.support.delay_proxy import DelayProxy, DelayProxyProcess, _Way


@pytest.fixture
def echo_server() -> Iterator[tuple[str, int]]:
    """Sends back what it gets, one connection after the other."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            while True:
                connection, _ = listener.accept()
                with connection, contextlib.suppress(ConnectionError):
                    first = connection.recv(1 << 20)
                    if first == b"end":
                        return
                    connection.sendall(first)
                    while data := connection.recv(1 << 20):
                        connection.sendall(data)

        thread = threading.Thread(target=serve)
        thread.start()
        yield listener.getsockname()
        with socket.create_connection(listener.getsockname()) as last:
            last.sendall(b"end")
            thread.join()


def test_bytes_when_they_cross_then_each_way_takes_its_delay(echo_server: tuple[str, int]) -> None:
    with DelayProxy(echo_server, one_way_delay_ms=5) as proxy, \
            socket.create_connection(("127.0.0.1", proxy.port)) as client:
        round_trips_ms = []
        for _ in range(20):
            started = time.perf_counter()
            client.sendall(b"x")
            assert client.recv(10) == b"x"
            round_trips_ms.append((time.perf_counter() - started) * 1000)
        assert min(round_trips_ms) >= 10


@pytest.fixture
def way() -> Iterator[tuple[socket.socket, _Way, socket.socket]]:
    """One direction alone, moved by the test: a socket to write into, the way, a socket to read from."""
    near, source = socket.socketpair()
    sink, far = socket.socketpair()
    with near, source, sink, far:
        for sock in (source, sink, far):
            sock.setblocking(False)
        yield near, _Way(source, sink, is_reply=False), far


def test_chunk_when_its_time_comes_then_it_is_passed_on_and_not_before(
        way: tuple[socket.socket, _Way, socket.socket]) -> None:
    near, moved, far = way
    near.sendall(b"x")
    moved.read(7.005, swallow=False)
    moved.write(7.004)
    with pytest.raises(BlockingIOError):
        far.recv(10)
    moved.write(7.005)
    assert far.recv(10) == b"x"


def test_chunks_when_they_cross_then_their_delays_overlap(way: tuple[socket.socket, _Way, socket.socket]) -> None:
    """A proxy that slept for each chunk would be a slow line: the third would come after three delays."""
    near, moved, far = way
    for number, due in enumerate((7.005, 7.006, 7.007)):
        near.sendall(b"%d" % number)
        moved.read(due, swallow=False)
    moved.write(7.006)
    assert far.recv(10) == b"01"
    moved.write(7.007)
    assert far.recv(10) == b"2"
    near.shutdown(socket.SHUT_WR)
    moved.read(7.010, swallow=False)
    assert not moved.ended
    moved.write(7.010)
    assert far.recv(10) == b""
    assert moved.ended


def test_chunk_when_replies_are_swallowed_then_it_is_gone(way: tuple[socket.socket, _Way, socket.socket]) -> None:
    near, moved, far = way
    near.sendall(b"gone")
    moved.read(7.0, swallow=True)
    near.sendall(b"kept")
    moved.read(7.0, swallow=False)
    moved.write(7.0)
    assert far.recv(10) == b"kept"


def test_bytes_when_there_are_many_then_all_come_in_order(echo_server: tuple[str, int]) -> None:
    block = bytes(range(256)) * 4096  # 1 MiB
    count = 30
    received = bytearray()
    with DelayProxy(echo_server, one_way_delay_ms=20) as proxy, \
            socket.create_connection(("127.0.0.1", proxy.port)) as client:

        def push() -> None:
            for _ in range(count):
                client.sendall(block)
            client.shutdown(socket.SHUT_WR)

        pusher = threading.Thread(target=push)
        pusher.start()
        while data := client.recv(1 << 20):
            received += data
        pusher.join()
    assert received == block * count


def test_connections_when_cut_then_they_are_reset_and_new_ones_work(echo_server: tuple[str, int]) -> None:
    with DelayProxy(echo_server, one_way_delay_ms=1) as proxy:
        with socket.create_connection(("127.0.0.1", proxy.port)) as client:
            client.sendall(b"x")
            assert client.recv(1) == b"x"
            assert proxy.cut_connections() == 1
            with pytest.raises(ConnectionResetError):
                client.recv(1)
        proxy.swallow_replies = True
        with socket.create_connection(("127.0.0.1", proxy.port)) as client:
            client.settimeout(0.3)
            client.sendall(b"y")
            with pytest.raises(TimeoutError):
                client.recv(1)


def test_proxy_when_in_a_process_of_its_own_then_it_does_the_same(echo_server: tuple[str, int]) -> None:
    with DelayProxyProcess(echo_server, one_way_delay_ms=5) as proxy, \
            socket.create_connection(("127.0.0.1", proxy.port)) as client:
        started = time.perf_counter()
        client.sendall(b"x")
        assert client.recv(1) == b"x"
        assert time.perf_counter() - started >= 0.01
