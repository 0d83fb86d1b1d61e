"""A frame of ten columns to a topic as JSON: frames.write beside json.dumps of each row into confluent-kafka.

`python -m benchmarks.frames [--rows 1000000] [--rounds 3] [--keep]`

On one real Apache Kafka broker, in turns. CPU is of the sending process, all its threads, from the frame to the last
acknowledgement; confluent-kafka has the settings that its users give it for rate (linger.ms 5, a queue large enough).
The rows of both are read back once and compared as json.loads has them.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable
from typing import Any

from benchmarks.rounds import fresh_topic, real_broker
from benchmarks.stopwatch import Stopwatch
from benchmarks.tables import keep, machine
from pyproducer import frames
from pyproducer.testing import read_topic
from tests.support.log_checker import stored_count

COMPARED_ROWS = 20_000
PARTITION_COUNT = 3
_ROWS_AT_ONCE = 10_000


def frame_of(count: int) -> Any:
    """Return an Arrow table of ten columns: numbers, text, a code, a time, nulls among them."""
    import pyarrow

    row = range(count)
    return pyarrow.table({
        "id": row, "customer": [f"customer-{n % 10_000}" for n in row], "price": [n % 9973 / 100 for n in row],
        "quantity": [n % 7 for n in row], "paid": [n % 2 == 0 for n in row],
        "city": pyarrow.array([f"city {n % 50}" for n in row]).dictionary_encode(),
        "note": [None if n % 3 else 'a "note" of some length' for n in row],
        "at": pyarrow.array([1_700_000_000_000 + n for n in row], pyarrow.timestamp("ms")),
        "weight": [n / 7 for n in row], "shop": [n * 31 % 100_003 for n in row]})


def by_frames(servers: str, topic: str, table: Any) -> None:
    """Columns to text to batches."""
    frames.write({"bootstrap.servers": servers}, table, topic, key="id")


def by_dumps(servers: str, topic: str, table: Any) -> None:
    """Row by row."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": servers, "linger.ms": 5, "queue.buffering.max.messages": 1_000_000,
                         "queue.buffering.max.kbytes": 1_000_000})
    for batch in table.to_batches(max_chunksize=_ROWS_AT_ONCE):
        for row in batch.to_pylist():
            row["at"] = row["at"].isoformat(timespec="milliseconds")
            while True:
                try:
                    producer.produce(topic, json.dumps(row), str(row["id"]))
                    break
                except BufferError:
                    producer.poll(0.1)
        producer.poll(0)
    producer.flush()


WAYS: dict[str, Callable[[str, str, Any], None]] = {"frames.write": by_frames, "json.dumps, confluent-kafka": by_dumps}


def main() -> None:
    """Compare, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.frames")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--keep", action="store_true", help="also write the table to benchmarks/results")
    arguments = parser.parse_args()
    table = frame_of(arguments.rows)
    cpu_us: dict[str, list[float]] = {name: [] for name in WAYS}
    rates: dict[str, list[float]] = {name: [] for name in WAYS}
    with real_broker() as server:
        ensure_equal(server, table.slice(0, COMPARED_ROWS))
        for _ in range(arguments.rounds):
            for name, way in WAYS.items():
                with fresh_topic(server, "frames", PARTITION_COUNT) as topic:
                    stopwatch = Stopwatch()
                    stopwatch.start()
                    way(server.bootstrap_servers, topic, table)
                    stopwatch.stop()
                    stored = stored_count(server.bootstrap_servers, topic, PARTITION_COUNT)
                if stored != arguments.rows:  # confluent-kafka has nobody here who would tell
                    raise RuntimeError(f"{name} stored {stored} of {arguments.rows} rows")
                cpu_us[name].append(stopwatch.cpu_seconds / arguments.rows * 1e6)
                rates[name].append(arguments.rows / stopwatch.seconds)
                print(f"{name:<30}{rates[name][-1]:>12,.0f} rows/s{cpu_us[name][-1]:>8.2f} us", flush=True)
    ours, others = (statistics.median(cpu_us[name]) for name in WAYS)
    text = "\n".join([
        f"{arguments.rows:,} rows of ten columns as JSON, medians of {arguments.rounds} rounds; {machine()}",
        *(f"{name:<30}{statistics.median(rates[name]):>12,.0f} rows/s{statistics.median(cpu_us[name]):>8.2f} us of CPU"
          for name in WAYS),
        f"rows for each CPU second: {others / ours:.1f}x"])
    print(text)
    if arguments.keep:
        keep("frames", "frames", text)


def ensure_equal(server: Any, table: Any) -> None:
    """Check that both ways store the same rows.

    Raises:
        AssertionError: They do not.
    """
    stored = []
    for way in WAYS.values():
        with fresh_topic(server, "equal", PARTITION_COUNT) as topic:
            way(server.bootstrap_servers, topic, table)
            stored.append(sorted((int(record.key or b""), json.loads(record.value or b""))
                                 for record in read_topic(server.bootstrap_servers, topic)))
    for ours, others in zip(*stored, strict=True):
        assert ours == others, (ours, others)


if __name__ == "__main__":
    main()
