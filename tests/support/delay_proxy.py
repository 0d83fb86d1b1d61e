"""A TCP proxy on loopback that delays every byte by a fixed time in each direction, and cuts connections on demand.

Thread:  one thread owns every socket; callers reach it through a queue of commands and a wake-up socket.
Source:  ours.

The delay is a deadline on each chunk, kept in a queue, so order and bandwidth stay what they are: chunks overlap on
their way as they do on a long cable. A proxy that sleeps once per chunk would be a slow line instead of a long one.
No import of pytest: benchmarks use this module too, as a process of its own so that it does not share their GIL:
`python -m tests.support.delay_proxy --target 127.0.0.1:9092 --one-way-delay-ms 5` prints its port and runs until its
standard input ends; `DelayProxyProcess` does that for a caller.
"""

from __future__ import annotations

import argparse
import collections
import selectors
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from tests.support.patience import GIVE_UP_S

CHUNK_BYTES = 256 * 1024
# Bytes on their way in one direction. 32 MiB per 5 ms is 6 GB/s, more than loopback: never what limits the rate.
MAX_ON_THE_WAY_BYTES = 32 * 1024 * 1024
RESET_AT_CLOSE = struct.pack("ii", 1, 0)  # SO_LINGER of 0 s: close() sends RST, as a crashed peer does
END = b""  # in a queue: the sender has ended its direction


class _Way:
    """One direction of one connection: read from the source, hold, write to the sink. Owned by the proxy's thread."""

    def __init__(self, source: socket.socket, sink: socket.socket, *, is_reply: bool) -> None:
        self.source = source
        self.sink = sink
        self.is_reply = is_reply
        self.chunks: collections.deque[tuple[float, memoryview | bytes]] = collections.deque()
        self.on_the_way_bytes = 0
        self.source_ended = False
        self.sink_blocked = False

    @property
    def ended(self) -> bool:
        return self.source_ended and not self.chunks

    def wants_read(self) -> bool:
        return not self.source_ended and self.on_the_way_bytes < MAX_ON_THE_WAY_BYTES

    def read(self, due: float, *, swallow: bool) -> None:
        """Take what has arrived. Raises OSError when the connection broke."""
        try:
            data = self.source.recv(CHUNK_BYTES)
        except BlockingIOError:
            return
        if not data:
            self.source_ended = True
            self.chunks.append((due, END))
        elif not swallow:
            self.chunks.append((due, memoryview(data)))
            self.on_the_way_bytes += len(data)

    def write(self, now: float) -> None:
        """Pass on what is due. Raises OSError when the connection broke."""
        self.sink_blocked = False
        while self.chunks and self.chunks[0][0] <= now:
            due, data = self.chunks[0]
            if len(data) == 0:
                self.chunks.popleft()
                self.sink.shutdown(socket.SHUT_WR)
                continue
            try:
                sent = self.sink.send(data)
            except BlockingIOError:
                self.sink_blocked = True
                return
            self.on_the_way_bytes -= sent
            if sent == len(data):
                self.chunks.popleft()
            else:
                self.chunks[0] = (due, memoryview(data)[sent:])


class _Connection:
    """Both directions between one client and the target."""

    def __init__(self, client: socket.socket, target: socket.socket) -> None:
        self.client = client
        self.target = target
        self.ways = (_Way(client, target, is_reply=False), _Way(target, client, is_reply=True))

    def close(self, *, reset: bool) -> None:
        for sock in (self.client, self.target):
            if reset:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_AT_CLOSE)
            sock.close()


class DelayProxy:
    """Listens on loopback from its construction; a context manager that runs the thread.

    Args:
        target: Where connections lead; may be set later through `target`.
        one_way_delay_ms: How much later each byte arrives, in each direction; a round trip costs twice that.

    `swallow_replies = True` throws away what the target answers: followed by cut_connections() it leaves a client that
    does not know what was done.
    """

    def __init__(self, target: tuple[str, int] | None = None, *, one_way_delay_ms: float = 5.0) -> None:
        self.target = target
        self.one_way_delay_ms = one_way_delay_ms
        self.swallow_replies = False
        self.accepted_count = 0
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self._listener.setblocking(False)
        self._wake_reader, self._wake_writer = socket.socketpair()
        self._wake_reader.setblocking(False)
        self._commands: collections.deque[Callable[[], None]] = collections.deque()
        self._connections: set[_Connection] = set()  # the proxy's thread only
        self._stopping = False
        # select() has microseconds where epoll has milliseconds, and a delay of 5 ms must not become 6.
        self._selector = selectors.SelectSelector()
        self._thread = threading.Thread(target=self._run, name="delay-proxy")

    @property
    def port(self) -> int:
        """The port of loopback that it listens on."""
        return int(self._listener.getsockname()[1])

    def __enter__(self) -> DelayProxy:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close every connection and end the thread."""
        if self._thread.is_alive():
            self._call(self._stop)
            self._thread.join()
        self._listener.close()
        self._wake_reader.close()
        self._wake_writer.close()
        self._selector.close()

    def cut_connections(self) -> int:
        """Reset every connection now, whatever is on its way; returns how many there were. New ones are accepted."""
        done = threading.Event()
        cut: list[int] = []

        def cut_all() -> None:
            cut.append(len(self._connections))
            for connection in list(self._connections):
                self._drop(connection, reset=True)
            done.set()

        self._call(cut_all)
        if not done.wait(GIVE_UP_S):
            raise TimeoutError(f"the proxy's thread did not answer within {GIVE_UP_S:g} s")
        return cut[0]

    def _call(self, command: Callable[[], None]) -> None:
        self._commands.append(command)
        self._wake_writer.send(b"w")

    def _stop(self) -> None:
        self._stopping = True

    def _run(self) -> None:
        try:
            while not self._stopping:
                self._step()
        finally:
            for connection in list(self._connections):
                self._drop(connection, reset=True)

    def _step(self) -> None:
        self._register()
        ready = {key.fileobj for key, _ in self._selector.select(self._next_wait_s())}
        if self._wake_reader in ready:
            self._wake_reader.recv(4096)
        while self._commands:
            self._commands.popleft()()
        if self._listener in ready:
            self._accept()
        now = time.monotonic()
        for connection in list(self._connections):
            self._move(connection, ready, now)

    def _move(self, connection: _Connection, ready: set[object], now: float) -> None:
        due = now + self.one_way_delay_ms / 1000
        try:
            for way in connection.ways:
                if way.source in ready and way.wants_read():
                    way.read(due, swallow=way.is_reply and self.swallow_replies)
                way.write(now)
        except OSError:
            self._drop(connection, reset=True)
            return
        if all(way.ended for way in connection.ways):
            self._drop(connection, reset=False)

    def _register(self) -> None:
        """Tell the selector what each socket waits for now."""
        wanted: dict[socket.socket, int] = {self._listener: selectors.EVENT_READ,
                                            self._wake_reader: selectors.EVENT_READ}
        for connection in self._connections:
            for way in connection.ways:
                if way.wants_read():
                    wanted[way.source] = wanted.get(way.source, 0) | selectors.EVENT_READ
                if way.sink_blocked:
                    wanted[way.sink] = wanted.get(way.sink, 0) | selectors.EVENT_WRITE
        for key in list(self._selector.get_map().values()):
            if key.fileobj not in wanted:
                self._selector.unregister(key.fileobj)
        for sock, events in wanted.items():
            known = self._selector.get_map().get(sock)
            if known is None:
                self._selector.register(sock, events)
            elif known.events != events:
                self._selector.modify(sock, events)

    def _next_wait_s(self) -> float | None:
        dues = [way.chunks[0][0] for connection in self._connections for way in connection.ways
                if way.chunks and not way.sink_blocked]
        return max(0.0, min(dues) - time.monotonic()) if dues else None

    def _accept(self) -> None:
        try:
            client, _ = self._listener.accept()
        except BlockingIOError:
            return
        self.accepted_count += 1
        try:
            if self.target is None:
                raise ConnectionRefusedError("the proxy has no target yet")
            target = socket.create_connection(self.target, timeout=GIVE_UP_S)
        except OSError:
            client.close()
            return
        for sock in (client, target):
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._connections.add(_Connection(client, target))

    def _drop(self, connection: _Connection, *, reset: bool) -> None:
        self._connections.discard(connection)
        for sock in (connection.client, connection.target):
            if sock in self._selector.get_map():
                self._selector.unregister(sock)
        connection.close(reset=reset)


class DelayProxyProcess:
    """A DelayProxy in a process of its own; a context manager with `.port`."""

    def __init__(self, target: tuple[str, int], *, one_way_delay_ms: float = 5.0) -> None:
        command = [sys.executable, "-m", "tests.support.delay_proxy", "--target", f"{target[0]}:{target[1]}",
                   "--one-way-delay-ms", str(one_way_delay_ms)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                         cwd=Path(__file__).resolve().parents[2])
        assert self._process.stdout is not None
        first_line = self._process.stdout.readline()
        if not first_line:
            self.close()
            raise RuntimeError("the delay proxy did not start")
        self.port = int(first_line)

    def __enter__(self) -> DelayProxyProcess:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """End the process."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        self._process.wait(GIVE_UP_S)


def main() -> None:
    """Run a proxy until standard input ends."""
    parser = argparse.ArgumentParser(description="delay every byte of a TCP connection by a fixed time")
    parser.add_argument("--target", required=True, help="host:port")
    parser.add_argument("--one-way-delay-ms", type=float, default=5.0)
    arguments = parser.parse_args()
    host, port = arguments.target.rsplit(":", 1)
    with DelayProxy((host, int(port)), one_way_delay_ms=arguments.one_way_delay_ms) as proxy:
        print(proxy.port, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
