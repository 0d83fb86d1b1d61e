"""What a row of send_batch costs beside a record of send(), and beside a raw socket that writes the same bytes.

`python -m benchmarks.send_batch [--record-count 500000] [--rounds 5] [--batch-size N] [--keep]`

Rows of 100 bytes with 8-byte keys, to three partitions of our broker in a process of its own. CPU is of the sending
process, all its threads, from the first row handed over to the last one acknowledged; "caller" is the part of it until
everything was handed over, in the calling thread. Ways are measured in turns, and the table holds medians. The raw
socket writes the bytes of the batches in pieces of the size of a request, to a process that reads and forgets them.
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import os
import platform
import socket
import statistics
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from benchmarks.stopwatch import Stopwatch
from benchmarks.tables import keep
from benchmarks.workload import Workload
from pyproducer import IMPL, KafkaProducer
from pyproducer.broker import EmbeddedBroker

TOPIC = "rows"
PARTITION_COUNT = 3
PIECE_BYTES = 3 * 64 * 1024
RECORD_OVERHEAD_BYTES = 8  # lengths, deltas and attributes of a record of this size in a full batch


class Round(NamedTuple):
    """One way, once: microseconds of CPU for each record, those of the calling thread, and seconds in all."""

    cpu_us: float
    caller_us: float
    seconds: float


def measure(way: Callable[[], float], count: int) -> Round:
    """Run a way, which returns the CPU seconds that its calling thread had used when all was handed over."""
    stopwatch = Stopwatch()
    started = time.thread_time()
    stopwatch.start()
    handed_over = way()
    stopwatch.stop()
    return Round(stopwatch.cpu_seconds / count * 1e6, (handed_over - started) / count * 1e6, stopwatch.seconds)


def ways(producer: KafkaProducer, keys: list[bytes], values: list[bytes]) -> dict[str, Callable[[], float]]:
    """Return what is compared, by name."""
    import pyarrow

    def send() -> float:
        one = producer.send
        for key, value in zip(keys, values, strict=True):
            one(TOPIC, value, key=key)
        handed_over = time.thread_time()
        producer.flush()
        return handed_over

    def columns(key_column: Any, value_column: Any) -> Callable[[], float]:
        def run() -> float:
            future = producer.send_batch(TOPIC, value_column, keys=key_column)
            handed_over = time.thread_time()
            future.result().raise_on_error()
            return handed_over
        return run

    arrow_keys, arrow_values = pyarrow.array(keys), pyarrow.array(values)
    return {"send()": send, "send_batch, lists": columns(keys, values),
            "send_batch, Arrow": columns(arrow_keys, arrow_values),
            "send_batch, dictionary keys": columns(arrow_keys.dictionary_encode(), arrow_values)}


def _drain(listener: socket.socket) -> None:
    connection, _ = listener.accept()
    room = bytearray(1 << 20)
    while connection.recv_into(room):
        pass
    connection.sendall(b"done")
    connection.close()


def raw_socket(size_bytes: int, piece_bytes: int) -> Callable[[], float]:
    """Return a way that writes so many bytes to a process that reads them."""
    piece = bytes(piece_bytes)

    def run() -> float:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            reader = multiprocessing.get_context("fork").Process(target=_drain, args=(listener,))
            reader.start()
            with socket.create_connection(listener.getsockname()) as connection:
                for _ in range(size_bytes // piece_bytes):
                    connection.sendall(piece)
                connection.sendall(piece[:size_bytes % piece_bytes])
                handed_over = time.thread_time()
                connection.shutdown(socket.SHUT_WR)
                connection.recv(4)
            reader.join()
        return handed_over
    return run


def table(rounds: dict[str, list[Round]], size_bytes: int) -> list[str]:
    """Return lines; MB are those on the wire, a record's overhead in the batch included."""
    base = statistics.median(one.cpu_us for one in rounds["send()"])
    lines = [f"{'way':<28}{'CPU us/record':>15}{'of send()':>11}{'caller us':>11}{'MB/CPU s':>10}{'MB/s':>8}"]
    for name, measured in rounds.items():
        cpu_us, caller_us, seconds = (statistics.median(column) for column in zip(*measured, strict=True))
        lines.append(f"{name:<28}{cpu_us:>15.3f}{cpu_us / base:>11.2f}{caller_us:>11.3f}"
                     f"{size_bytes / cpu_us:>10.0f}{rounds_mb(size_bytes, seconds):>8.0f}")
    return lines


def rounds_mb(size_bytes: int, seconds: float) -> float:
    """Return MB a second; `size_bytes` is of one record, `seconds` are for one of them as well."""
    return size_bytes / seconds / 1e6


def main() -> None:
    """Measure and print; --keep writes the table to benchmarks/results/ too."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--record-count", type=int, default=500_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batch-size", type=int, default=None, help="left out: each way's own default")
    parser.add_argument("--keep", action="store_true")
    arguments = parser.parse_args()
    workload = Workload(record_count=arguments.record_count)
    keys, values = (list(itertools.islice(itertools.cycle(column), workload.record_count))
                    for column in (workload.keys(), workload.values()))
    count, row_bytes = len(values), len(keys[0]) + len(values[0]) + RECORD_OVERHEAD_BYTES
    with EmbeddedBroker(topics={TOPIC: PARTITION_COUNT}, separate_process=True) as broker, KafkaProducer({
            "bootstrap.servers": broker.bootstrap_servers,
            **({} if arguments.batch_size is None else {"batch.size": arguments.batch_size})}) as producer:
        producer.send(TOPIC, b"the first record pays for metadata and connections").result(10)
        compared = ways(producer, keys, values)
        compared["raw socket, the same bytes"] = raw_socket(count * row_bytes, PIECE_BYTES)
        rounds: dict[str, list[Round]] = {name: [] for name in compared}
        for _ in range(arguments.rounds):
            for name, way in compared.items():
                one = measure(way, count)
                rounds[name].append(one._replace(seconds=one.seconds / count))
    batch_size = arguments.batch_size or "default"
    lines = [f"{count} rows of {len(values[0])} B with {len(keys[0])} B keys; batch.size {batch_size}; hotpath {IMPL}",
             f"Python {platform.python_version()}, {platform.machine()}, {os.cpu_count()} CPUs; medians of "
             f"{arguments.rounds} rounds in turns", "", *table(rounds, row_bytes)]
    print("\n".join(lines))
    if arguments.keep:
        keep(f"send_batch-{batch_size}-{IMPL}", "send_batch", "\n".join(lines))


if __name__ == "__main__":
    main()
