"""The comparison over value sizes, codecs, keys, partitions, defaults and distances: one row for each.

`python -m benchmarks.matrix [--axes sizes codecs keys partitions defaults distances] [--clients ...] [--keep]`

One thing is changed at a time from 100-byte values, keyed, uncompressed, three partitions (codecs: 1 KiB values);
`--cross` takes every combination of sizes, codecs, keys and partitions instead, which takes hours. One broker serves
all rows without a delay, another those behind a delaying proxy.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.charts import draw_bars
from benchmarks.compare import CODECS, show
from benchmarks.rounds import ALL_CLIENTS, present, real_broker, run_client, take_turns
from benchmarks.tables import RATE_FIGURES, RESULTS, Figure, Round, keep, machine, medians, ratios
from benchmarks.workload import Workload

SIZES_BYTES = (100, 1024, 10 * 1024)
PARTITIONS = (1, 3, 50)
DELAYS_MS = (1, 10, 50)
AXES = ("sizes", "codecs", "keys", "partitions", "defaults", "distances")
BYTES_PER_RUN = 60_000_000  # of values of 100 bytes: a second or so of the fastest client
_LARGE_VALUE_BYTES = 1024
_LARGE_VALUES_SHARE = 4  # so much more of values from there on, which are as much faster by the byte


@dataclass(frozen=True)
class Row:
    """One workload of the matrix, and where it is sent."""

    name: str
    workload: Workload
    partitions: int = 3
    delay_ms: float = 0


def rows_of(axes: Sequence[str], bytes_per_run: int, warm_up_s: float) -> list[Row]:
    """Return the rows of these axes, none twice."""
    def sized(size_bytes: int, **changes: object) -> Workload:
        workload = Workload(record_count=_record_count(bytes_per_run, size_bytes), value_size_bytes=size_bytes,
                            warm_up_s=warm_up_s)
        return dataclasses.replace(workload, **changes)  # type: ignore[arg-type]  # the names are the fields'

    far = max(1, bytes_per_run // 3)
    rows = {
        "sizes": [Row(f"{size:,} B", sized(size)) for size in SIZES_BYTES],
        "codecs": [Row(f"1,024 B {codec}", sized(1024, compression=codec)) for codec in CODECS if codec != "none"],
        "keys": [Row("100 B no keys", sized(100, keyed=False))],
        "partitions": [Row(f"100 B {count} partition(s)", sized(100), count) for count in PARTITIONS if count != 3],
        "defaults": [Row("100 B own defaults", sized(100, out_of_the_box=True))],
        "distances": [Row(f"100 B 1 partition {delay} ms",
                          sized(100, record_count=max(1, far // 100 // (5 if delay >= 50 else 1))), 1, delay)
                      for delay in DELAYS_MS],
    }
    return [row for axis in AXES if axis in axes for row in rows[axis]]


def _record_count(bytes_per_run: int, size_bytes: int) -> int:
    share = _LARGE_VALUES_SHARE if size_bytes >= _LARGE_VALUE_BYTES else 1
    return max(1, share * bytes_per_run // size_bytes)


def every_combination(bytes_per_run: int, warm_up_s: float) -> list[Row]:
    """Return the whole cross product of sizes, codecs, keys and partitions."""
    return [Row(f"{size:,} B {codec} {'keys' if keyed else 'no keys'} {count}p",
                Workload(record_count=_record_count(bytes_per_run, size), value_size_bytes=size, compression=codec,
                         keyed=keyed, warm_up_s=warm_up_s), count)
            for size, codec, keyed, count in itertools.product(SIZES_BYTES, CODECS, (True, False), PARTITIONS)]


def table(figure: Figure, measured: Sequence[tuple[Row, Sequence[Round]]], clients: Sequence[str]) -> list[str]:
    """Return one figure's table: a line for each row, a column for each client, its ratio to pyproducer's below."""
    lines = [f"{figure[0]:<30}" + "".join(f"{client:>18}" for client in clients)]
    for row, rounds in measured:
        values = medians(figure, rounds)
        lines.append(f"{row.name:<30}" + "".join(f"{figure[1].format(values[client]):>18}" for client in clients))
        if "pyproducer" in clients:
            cells = [statistics.median(ratios(figure, rounds, "pyproducer", client)) for client in clients]
            lines.append(f"{'  pyproducer / it':<30}" + "".join(f"{cell:>17.2f}x" for cell in cells))
    return lines


def main() -> None:
    """Run the rows and print the tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.matrix")
    parser.add_argument("--axes", nargs="+", choices=AXES, default=AXES)
    parser.add_argument("--cross", action="store_true", help="every combination of sizes, codecs, keys and partitions")
    parser.add_argument("--bytes-per-run", type=int, default=BYTES_PER_RUN,
                        help="of values of 100 bytes; four times as much of larger ones; slow clients send less")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--warm-up-s", type=float, default=Workload.warm_up_s, help="of every client, unmeasured")
    parser.add_argument("--clients", nargs="+", choices=ALL_CLIENTS, default=ALL_CLIENTS)
    parser.add_argument("--keep", action="store_true", help="also write tables and charts to benchmarks/results")
    arguments = parser.parse_args()
    rows = (every_combination(arguments.bytes_per_run, arguments.warm_up_s) if arguments.cross
            else rows_of(arguments.axes, arguments.bytes_per_run, arguments.warm_up_s))
    clients = present(arguments.clients)
    measured: list[tuple[Row, Sequence[Round]]] = []
    for delay_ms, same_broker in itertools.groupby(rows, lambda row: row.delay_ms):
        with real_broker(delay_ms) as server:
            for row in same_broker:
                print(f"{row.name}: {row.workload.record_count:,} records", flush=True)
                rounds = take_turns(clients, arguments.rounds, lambda name, row=row: run_client(  # type: ignore[misc]  # a default binds the loop's value
                    name, server, row.partitions, row.workload), show=show)
                measured.append((row, rounds))
    title = (f"acks=all, idempotent, a callback each; linger 5 ms, batches of 64 KiB, 1,000 keys of 8 B and 3 "
             f"partitions unless a row says otherwise; medians of {arguments.rounds} rounds, ratios within a round; "
             f"Apache Kafka on the same machine; {machine()}")
    lines = [title]
    for figure in RATE_FIGURES:
        lines += ["", *table(figure, measured, clients)]
    print("\n" + "\n".join(lines))
    if arguments.keep:
        axes = "cross" if arguments.cross else "all" if len(arguments.axes) == len(AXES) else "-".join(arguments.axes)
        keep(f"matrix-{axes}", "matrix", "\n".join(lines))
        for figure, file in zip(RATE_FIGURES[:2], ("rate", "cpu"), strict=True):
            heights = {row.name: medians(figure, rounds) for row, rounds in measured}
            draw_bars(RESULTS / f"matrix-{axes}-{file}.svg", figure[0], [(figure[0], heights)],
                      logarithmic=True)


if __name__ == "__main__":
    main()
