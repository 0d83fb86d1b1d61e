"""The proxy that the measurements trust: a long line, not a slow one."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from tests.support.delay_proxy import DelayProxy, DelayProxyProcess


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
        assert sorted(round_trips_ms)[10] < 16


def test_bytes_when_there_are_many_then_order_and_bandwidth_stay(echo_server: tuple[str, int]) -> None:
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
        started = time.monotonic()
        pusher.start()
        while data := client.recv(1 << 20):
            received += data
        pusher.join()
    assert received == block * count
    assert time.monotonic() - started < 5  # one delay per chunk would take 240 chunks of 40 ms, near 10 s


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
