"""What a record costs in the batch writer and in the batch reader, without a network.

`python -m benchmarks.batch_writer [--value-size 100] [--rounds 5]`

A batch of 64 KiB is filled, compressed and given its header, then checked and read again; per codec, the best round:
noise only adds time. The filling is the same for each codec, so it is one line of its own.
"""

from __future__ import annotations

import argparse
import os
import platform
import time
from collections.abc import Callable

from benchmarks.tables import keep
from benchmarks.workload import Workload
from pyproducer import hotpath
from pyproducer.hotpath import OpenBatch
from pyproducer.record.batch_reader import read_batches
from pyproducer.record.batch_writer import close_records, write_header
from pyproducer.record.compression import Compressor, compressor_for

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
TIMESTAMP_MS = 1_700_000_000_000
BATCHES_PER_ROUND = 20


def fill(workload: Workload, records: list[tuple[bytes | None, bytes]]) -> OpenBatch:
    """Append records until the batch is full."""
    batch = OpenBatch(None, 2**31 - 1)
    for key, value in records:
        batch.append(TIMESTAMP_MS, key, value, ())
        if batch.size_bytes >= workload.batch_size_bytes:
            break
    return batch


def close(batch: OpenBatch, compressor: Compressor) -> bytearray:
    """Compress the records and write the header."""
    closed = close_records(batch.buffer, compressor)
    write_header(closed, codec_id=compressor.codec_id, record_count=batch.record_count,
                 base_timestamp=batch.base_timestamp, max_timestamp=batch.max_timestamp)
    return closed


def read(data: bytearray) -> int:
    """Check and read every record; return how many there were."""
    count = 0
    for batch in read_batches(data):
        batch.ensure_valid()
        for _ in batch:
            count += 1
    return count


def best_ns(step: Callable[[], object], rounds: int) -> float:
    """Return the fewest nanoseconds that one call took, over rounds of several calls."""
    best = float("inf")
    for _ in range(rounds):
        started = time.perf_counter_ns()
        for _ in range(BATCHES_PER_ROUND):
            step()
        best = min(best, (time.perf_counter_ns() - started) / BATCHES_PER_ROUND)
    return best


def measure(workload: Workload, rounds: int) -> str:
    """Return the table."""
    records = list(workload.records())
    filled = fill(workload, records)
    count, size_bytes = filled.record_count, filled.size_bytes
    lines = [f"batches of {size_bytes:,} bytes, {count} records of {workload.value_size_bytes} B with 8 B keys; "
             f"hotpath {hotpath.IMPL}; Python {platform.python_version()}, {platform.machine()}, {os.cpu_count()} CPUs",
             "",
             f"append                 {best_ns(lambda: fill(workload, records), rounds) / count:>8.0f} ns/record",
             "",
             f"{'codec':<8}{'close ns/record':>17}{'close MB/s':>12}{'read ns/record':>16}{'size':>8}"]
    for codec in CODECS:
        compressor = compressor_for(codec)
        closed = close(filled, compressor)
        if read(closed) != count:
            raise RuntimeError(f"{codec}: {read(closed)} records read, {count} written")
        write_ns = best_ns(lambda compressor=compressor: close(filled, compressor), rounds)  # type: ignore[misc]  # a default binds the loop's value
        read_ns = best_ns(lambda closed=closed: read(closed), rounds)  # type: ignore[misc]  # the same
        lines.append(f"{codec:<8}{write_ns / count:>17.0f}{size_bytes / write_ns * 1e3:>12,.0f}{read_ns / count:>16.0f}"
                     f"{len(closed) / size_bytes:>8.0%}")
    return "\n".join(lines)


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.batch_writer")
    parser.add_argument("--value-size", type=int, default=Workload.value_size_bytes, help="bytes")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--keep", action="store_true", help="also write the table to benchmarks/results")
    arguments = parser.parse_args()
    text = measure(Workload(value_size_bytes=arguments.value_size), arguments.rounds)
    print(text)
    if arguments.keep:
        keep(f"batch_writer-{arguments.value_size}B", "batch_writer", text)


if __name__ == "__main__":
    main()
