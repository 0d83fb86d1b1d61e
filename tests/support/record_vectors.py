"""Record batches by Kafka's own code: the committed ones, and the program that makes and reads them.

Source:  ours. `python -m tests.support.record_vectors` writes tests/protocol/data/kafka_batches.json anew.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.support.kafka_jars import ask_java

SOURCE = Path(__file__).resolve().parent / "java" / "RecordVectors.java"
DATA = Path(__file__).resolve().parents[1] / "protocol" / "data"
KAFKA_BATCHES = DATA / "kafka_batches.json"
BASE_TIMESTAMP = 1_700_000_000_000

JavaRecord = tuple[int, int, "bytes | None", "bytes | None", "tuple[tuple[str, bytes | None], ...]", int]


def load(path: Path = KAFKA_BATCHES) -> list[dict[str, Any]]:
    """Return the committed vectors."""
    vectors: list[dict[str, Any]] = json.loads(path.read_text(encoding="ascii"))["vectors"]
    return vectors


def records_of(batch: dict[str, Any]) -> list[JavaRecord]:
    """Return what Kafka read, as tuples comparable with ours; the large vectors by their formula."""
    if "records" not in batch:
        return [(i, BASE_TIMESTAMP + i, b"key-%d" % i, b"record-%d-" % i * 150, (),
                 -1) for i in range(batch["record_count"])]
    return [(offset, timestamp, _bytes(key), _bytes(value),
             tuple((bytes.fromhex(name).decode(), _bytes(content)) for name, content in headers), sequence)
            for offset, timestamp, key, value, headers, sequence in batch["records"]]


def read_by_kafka(batches: Iterable[bytes]) -> list[Any]:
    """Let Kafka read bytes: per item a list of batches, or a dict with its error.

    Raises:
        MissingTool: No Java, or no Kafka.
    """
    return _asked("read", "".join(batch.hex() + "\n" for batch in batches))


def emit_by_kafka() -> list[dict[str, Any]]:
    """Let Kafka make the vectors.

    Raises:
        MissingTool: No Java, or no Kafka.
    """
    return _asked("emit")


def _asked(mode: str, stdin: str = "") -> list[Any]:
    return [json.loads(line) for line in ask_java(SOURCE, mode, stdin=stdin) if line.startswith(("[", "{"))]


def _bytes(value: str | None) -> bytes | None:
    return None if value is None else bytes.fromhex(value)


def write(path: Path, source: str, vectors: list[dict[str, Any]]) -> None:
    """Write a file of vectors, one vector a line."""
    lines = ",\n".join(json.dumps(vector) for vector in vectors)
    path.write_text(f'{{"source": {json.dumps(source)}, "vectors": [\n{lines}\n]}}\n', encoding="ascii")


if __name__ == "__main__":
    write(KAFKA_BATCHES, "kafka-clients 4.1.0 by tests/support/java/RecordVectors.java", emit_by_kafka())
