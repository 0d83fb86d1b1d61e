"""Record batches as librdkafka writes them, taken from its own mock broker with a raw Fetch.

Source:  ours. `python -m tests.support.librdkafka_vectors` writes tests/protocol/data/librdkafka_batches.json anew.
"""

from __future__ import annotations

import socket
import struct
from pathlib import Path
from typing import Any

from tests.support.patience import GIVE_UP_S
from tests.support.record_vectors import BASE_TIMESTAMP, DATA, write

LIBRDKAFKA_BATCHES = DATA / "librdkafka_batches.json"
FETCH = 1
FETCH_VERSION = 4

Produced = tuple[int, "bytes | None", "bytes | None", "list[tuple[str, bytes | None]]"]


def produced_records(vector: str) -> list[Produced]:
    """What a vector holds: (timestamp, key, value, headers). The compressed ones need several blocks."""
    repeated_count = 3 if vector in ("none", "idempotent") else 90
    return [
        (BASE_TIMESTAMP, b"key", b"value", []),
        (BASE_TIMESTAMP + 5, None, b"no key", [("a", b"1"), ("a", None), ("empty", b"")]),
        (BASE_TIMESTAMP - 7, b"tombstone", None, []),
        (BASE_TIMESTAMP + 70_000, b"", b"", []),
        *((BASE_TIMESTAMP + i, b"k%d" % i, b"repeated " * 100, []) for i in range(repeated_count)),
    ]


def capture(vector: str) -> bytes:
    """Produce to librdkafka's mock broker and return what it stored: one or more batches."""
    from confluent_kafka import Producer

    producer = Producer({"test.mock.num.brokers": 1, "bootstrap.servers": "", "linger.ms": 300, "log_level": 2,
                         "compression.type": "none" if vector == "idempotent" else vector,
                         "enable.idempotence": vector == "idempotent"})
    for timestamp, key, value, headers in produced_records(vector):
        producer.produce("vectors", value, key, 0, timestamp=timestamp, headers=headers)
    left = producer.flush(GIVE_UP_S)
    if left:
        raise RuntimeError(f"{left} records were not taken by the mock broker")
    broker = next(iter(producer.list_topics(timeout=GIVE_UP_S).brokers.values()))
    return _fetch(broker.host, broker.port, "vectors")


def _fetch(host: str, port: int, topic: str) -> bytes:
    """Fetch v4 of partition 0 from offset 0, written out by hand: nothing of ours takes part."""
    name = topic.encode()
    header = struct.pack(">hhi", FETCH, FETCH_VERSION, 1) + struct.pack(">h", -1)
    body = (struct.pack(">iiiib", -1, 1000, 1, 1 << 20, 0) + struct.pack(">i", 1) + struct.pack(">h", len(name)) + name
            + struct.pack(">i", 1) + struct.pack(">iqi", 0, 0, 1 << 20))
    with socket.create_connection((host, port), GIVE_UP_S) as connection:
        connection.sendall(struct.pack(">i", len(header) + len(body)) + header + body)
        (size,) = struct.unpack(">i", _receive(connection, 4))
        answer = _receive(connection, size)
    position = 4 + 4 + 4 + 2 + len(name) + 4 + 4  # correlation, throttle, topics, name, partitions, index
    error_code, _high_watermark, _last_stable_offset, aborted = struct.unpack_from(">hqqi", answer, position)
    if error_code:
        raise RuntimeError(f"Fetch was answered with error {error_code}")
    position += struct.calcsize(">hqqi") + 16 * max(aborted, 0)
    (length,) = struct.unpack_from(">i", answer, position)
    return answer[position + 4:position + 4 + length]


def _receive(connection: socket.socket, size: int) -> bytes:
    received = bytearray()
    while len(received) < size:
        piece = connection.recv(size - len(received))
        if not piece:
            raise RuntimeError("the mock broker closed the connection")
        received += piece
    return bytes(received)


def regenerate(path: Path = LIBRDKAFKA_BATCHES) -> None:
    """Produce all vectors and write the file."""
    from confluent_kafka import libversion

    vectors: list[dict[str, Any]] = [{"name": name, "hex": capture(name).hex()}
                                     for name in ("none", "idempotent", "gzip", "snappy", "lz4", "zstd")]
    write(path, f"librdkafka {libversion()[0]} by tests/support/librdkafka_vectors.py", vectors)


if __name__ == "__main__":
    regenerate()
