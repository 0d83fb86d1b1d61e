"""Makes a new broker look like an old one: a proxy that answers ApiVersions itself and watches the versions used.

Thread:  one thread for accepting, two for each connection.
Source:  ours; the ranges of the releases are Apache Kafka's, Kafka 2.1 to 4.0. The broker behind it (4.1) still
         knows every version that those releases had.

No import of pytest. Its few bytes of protocol are written by hand, so that it shares no code with what it tests.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from types import TracebackType

PRODUCE, FETCH, METADATA, API_VERSIONS, INIT_PRODUCER_ID = 0, 1, 3, 18, 22
UNSUPPORTED_VERSION = 35
# The highest version of each API that a producer meets; the lowest is 0, as it was before 4.0. Fetch is there because
# librdkafka judges by it which record format a broker knows.
RELEASES: dict[str, dict[int, int]] = {
    "2.1": {PRODUCE: 7, FETCH: 10, METADATA: 7, API_VERSIONS: 2, INIT_PRODUCER_ID: 1},
    "2.3": {PRODUCE: 7, FETCH: 11, METADATA: 8, API_VERSIONS: 2, INIT_PRODUCER_ID: 1},
    "2.4": {PRODUCE: 8, FETCH: 11, METADATA: 9, API_VERSIONS: 3, INIT_PRODUCER_ID: 2},
    "2.8": {PRODUCE: 9, FETCH: 12, METADATA: 11, API_VERSIONS: 3, INIT_PRODUCER_ID: 4},
    "3.7": {PRODUCE: 10, FETCH: 16, METADATA: 12, API_VERSIONS: 3, INIT_PRODUCER_ID: 4},
    "3.9": {PRODUCE: 11, FETCH: 17, METADATA: 12, API_VERSIONS: 4, INIT_PRODUCER_ID: 5},
    "4.0": {PRODUCE: 12, FETCH: 17, METADATA: 13, API_VERSIONS: 4, INIT_PRODUCER_ID: 5},
}


class OldBroker:
    """Stands before a broker; a context manager that listens from its construction.

    Args:
        release: A key of RELEASES.
        target: Where the broker listens that advertises `port`.
        port: Where to listen: a port of loopback that the broker was told before it started.

    `versions_seen` has the versions that clients used, by API key; a version above the range closes the connection, as
    the old broker would have done.
    """

    def __init__(self, release: str, *, target: tuple[str, int], port: int) -> None:
        self.maximum = RELEASES[release]
        self._target = target
        self.versions_seen: dict[int, set[int]] = {}  # guarded by the GIL: only added to
        self._listener = socket.create_server(("127.0.0.1", port))
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._accepting = threading.Thread(target=self._accept, name="old-broker")

    def __enter__(self) -> OldBroker:
        self._accepting.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # ends accept()
        self._accepting.join()
        self._listener.close()
        for sock in self._sockets:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        for sock in self._sockets:
            sock.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            broker = socket.create_connection(self._target)
            self._sockets += [client, broker]
            for work in (self._pass_requests, self._pass_replies):
                thread = threading.Thread(target=work, args=(client, broker), name="old-broker-connection")
                self._threads.append(thread)
                thread.start()

    def _pass_requests(self, client: socket.socket, broker: socket.socket) -> None:
        with contextlib.suppress(OSError), client.makefile("rb") as requests:
            while len(prefix := requests.read(4)) == 4:
                request = requests.read(struct.unpack(">i", prefix)[0])
                api_key, version, correlation_id = struct.unpack_from(">hhi", request)
                self.versions_seen.setdefault(api_key, set()).add(version)
                if api_key == API_VERSIONS:
                    answer = struct.pack(">i", correlation_id) + self._api_versions(version)
                    client.sendall(struct.pack(">i", len(answer)) + answer)
                elif version > self.maximum.get(api_key, -1):
                    break
                else:
                    broker.sendall(prefix + request)
        for sock in (client, broker):
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def _pass_replies(self, client: socket.socket, broker: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := broker.recv(65536):
                client.sendall(data)
        with contextlib.suppress(OSError):
            client.shutdown(socket.SHUT_WR)

    def _api_versions(self, version: int) -> bytes:
        highest = self.maximum[API_VERSIONS]
        if version > highest:
            # Since 2.4 the refusal says which version would do; before that it was empty. Both have the layout of 0.
            if highest < 3:
                return struct.pack(">hi", UNSUPPORTED_VERSION, 0)
            return struct.pack(">hihhh", UNSUPPORTED_VERSION, 1, API_VERSIONS, 0, highest)
        rows = [struct.pack(">hhh", api_key, 0, maximum) for api_key, maximum in sorted(self.maximum.items())]
        if version < 3:
            throttle = struct.pack(">i", 0) if version >= 1 else b""
            return struct.pack(">hi", 0, len(rows)) + b"".join(rows) + throttle
        no_tags = b"\x00"
        return (struct.pack(">hB", 0, len(rows) + 1) + b"".join(row + no_tags for row in rows)
                + struct.pack(">i", 0) + no_tags)
