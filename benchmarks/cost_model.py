"""What a record, a batch, a request and a KiB cost in CPU: one linear model over many workloads, and how well it fits.

`python -m benchmarks.cost_model [--rounds 3] [--keep]`

Each cell sends values of one size to some partitions with one batch.size, uncompressed, a callback each, on one real
broker; its process notes its CPU time (all threads) and how many records, batches, requests and bytes that was. The
costs are those with which the sum of all four comes closest to what the cells took, relative errors squared. docs/
performance.md explains what they are made of.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from typing import Any, NamedTuple

import numpy as np

from benchmarks.rounds import fresh_topic, last_line, real_broker
from benchmarks.stopwatch import Stopwatch
from benchmarks.tables import keep, machine
from benchmarks.workload import Workload
from tests.support.kafka_server import KafkaServer

BYTES_PER_RUN = 60_000_000
MOST_BATCHES = 40_000
COSTS = ("record", "batch", "request", "KiB")


class Cell(NamedTuple):
    """One workload."""

    value_size_bytes: int
    batch_size_bytes: int
    partitions: int

    @property
    def record_count(self) -> int:
        """So many that a run takes a second or so."""
        per_batch = max(1, self.batch_size_bytes // (self.value_size_bytes + 20))
        return min(BYTES_PER_RUN // self.value_size_bytes, MOST_BATCHES * per_batch)

    def __str__(self) -> str:
        return f"{self.value_size_bytes:,} B, batch.size {self.batch_size_bytes:,}, {self.partitions} partition(s)"


CELLS = (Cell(10, 65_536, 3), Cell(100, 65_536, 1), Cell(100, 65_536, 3), Cell(100, 65_536, 50), Cell(100, 16_384, 3),
         Cell(100, 16_384, 50), Cell(100, 4_096, 3), Cell(100, 4_096, 50), Cell(100, 1_024, 3), Cell(1_024, 65_536, 3),
         Cell(1_024, 16_384, 3), Cell(1_024, 16_384, 50), Cell(10_240, 65_536, 3), Cell(10_240, 262_144, 3))


class Run(NamedTuple):
    """What a cell took, and how much it was."""

    cpu_us: float
    records: int
    batches: int
    requests: int
    kib: float


def run_here(bootstrap_servers: str, topic: str, cell: Cell) -> Run:
    """Send a cell's records from this process."""
    from pyproducer import KafkaProducer

    workload = Workload(record_count=cell.record_count, value_size_bytes=cell.value_size_bytes, warm_up_s=1)
    stored = 0

    def on_completion(_metadata: object, exception: BaseException | None) -> None:
        nonlocal stored
        stored += exception is None

    with KafkaProducer({"bootstrap.servers": bootstrap_servers, "acks": "all", "linger.ms": workload.linger_ms,
                        "batch.size": cell.batch_size_bytes}) as producer:
        def send_all(records: Any) -> None:
            for key, value in records:
                producer.send(topic, value, key=key, on_completion=on_completion)
            producer.flush()

        for some in workload.rehearsals():
            send_all(some)
        counted = producer._runtime.registry.producer
        before = counted.batch_total, counted.request_total, counted.batch_bytes_total
        stored = 0
        records, stopwatch = workload.records(), Stopwatch()
        stopwatch.start()
        send_all(records)
        stopwatch.stop()
        batches, requests, size_bytes = (now - then for now, then in zip(
            (counted.batch_total, counted.request_total, counted.batch_bytes_total), before, strict=True))
    if stored != workload.record_count:
        raise RuntimeError(f"{stored} of {workload.record_count} records were stored")
    return Run(stopwatch.cpu_seconds * 1e6, workload.record_count, batches, requests, size_bytes / 1024)


def fit(runs: list[Run]) -> np.ndarray[Any, Any]:
    """Return what each of COSTS is, in microseconds: least squares of the relative errors."""
    amounts = np.array([run[1:] for run in runs], dtype=float)
    spent = np.array([run.cpu_us for run in runs])
    found: np.ndarray[Any, Any] = np.linalg.lstsq(amounts / spent[:, None], np.ones(len(runs)), rcond=None)[0]
    return found


def _in_child(server: KafkaServer, cell: Cell) -> Run:
    with fresh_topic(server, "cost-model", cell.partitions) as topic:
        return Run(*json.loads(last_line([sys.executable, "-m", "benchmarks.cost_model", "--once",
                                          server.bootstrap_servers, topic, json.dumps(cell)], {})))


def main() -> None:
    """Measure, fit and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cost_model")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--once", nargs=3, metavar=("SERVERS", "TOPIC", "CELL"), help="measure one in this process")
    parser.add_argument("--keep", action="store_true", help="also write the table to benchmarks/results")
    arguments = parser.parse_args()
    if arguments.once:
        servers, topic, cell = arguments.once
        print(json.dumps(run_here(servers, topic, Cell(*json.loads(cell)))))
        return
    with real_broker() as server:
        rounds: list[list[Run]] = []
        for number in range(arguments.rounds + 1):
            runs = []
            for cell in CELLS:
                runs.append(_in_child(server, cell))
                print(f"  {f'round {number}' if number else 'warm-up':<8} {cell!s:<46}"
                      f"{runs[-1].cpu_us / runs[-1].records:>8.2f} us", flush=True)
            if number:
                rounds.append(runs)
    costs = fit([run for runs in rounds for run in runs])
    lines = [f"CPU of the producer's process, all threads; {arguments.rounds} rounds; {machine()}", "",
             *(f"a {name:<8}{cost:>8.2f} us" for name, cost in zip(COSTS, costs, strict=True)), "",
             f"{'CPU us/record':<46}{'measured':>10}{'model':>8}{'records/batch':>15}{'batches/request':>17}"]
    for cell, of_cell in zip(CELLS, zip(*rounds, strict=True), strict=True):
        model = statistics.median(float(np.dot(costs, run[1:])) / run.records for run in of_cell)
        measured = statistics.median(run.cpu_us / run.records for run in of_cell)
        lines.append(f"{cell!s:<46}{measured:>10.2f}{model:>8.2f}"
                     f"{statistics.median(run.records / run.batches for run in of_cell):>15.1f}"
                     f"{statistics.median(run.batches / run.requests for run in of_cell):>17.1f}")
    text = "\n".join(lines)
    print("\n" + text)
    if arguments.keep:
        keep("cost-model", "cost_model", text)


if __name__ == "__main__":
    main()
