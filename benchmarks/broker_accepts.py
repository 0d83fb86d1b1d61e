"""How fast the embedded broker takes connections, and what it computes when nobody asks anything, beside Apache Kafka.

`python -m benchmarks.broker_accepts [--connections 2000] [--rounds 3] [--idle-s 10] [--keep]`

In each round a fresh broker of ours, a fresh Apache Kafka and ours again have their turn, each in a process of its own;
both queue 50 connections before accept. One client opens the connections in a row and keeps them all: `connect` is
until the last is open, `answered` until each has an answer to ApiVersions, asked of one after the other. `slow` counts
those that took longer than half a second, which is a SYN that the system dropped and sent again: on a busy machine the
client outruns any broker, and these seconds are nearly all of the time. Then nobody says anything: `idle` is the
processor time in `--idle-s` seconds with no connection at all, before, and with all of them open, after.
The second run of ours says how far apart two runs of the same are.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import NamedTuple

import psutil

from benchmarks.broker_limits import cpu_seconds
from benchmarks.tables import keep, machine
from pyproducer.broker import EmbeddedBroker
from pyproducer.broker.storage.descriptors import raise_descriptor_limit
from pyproducer.protocol.apis import ApiKeys
from tests.support.kafka_server import BENCHMARK_JVM_OPTIONS, KafkaServer
from tests.support.raw_client import RawClient

SLOW_S = 0.5
SETTLE_S = 3.0  # a JVM compiles for a while after its start
TIMEOUT_S = 120.0


class Run(NamedTuple):
    """What one turn showed."""

    connect_s: float
    answered_s: float
    slow_count: int
    idle_ms: float
    idle_connected_ms: float


Started = tuple[int, psutil.Process]  # its port


@contextmanager
def ours() -> Iterator[Started]:
    """Run an embedded broker in a process of its own."""
    before = set(psutil.Process().children())
    with EmbeddedBroker(separate_process=True) as broker:
        (process,) = set(psutil.Process().children()) - before
        yield broker.port, process


@contextmanager
def apache() -> Iterator[Started]:
    """Run an Apache Kafka."""
    with KafkaServer(jvm_options=BENCHMARK_JVM_OPTIONS) as server:
        yield server.port, psutil.Process(server.pid)


TURNS: tuple[tuple[str, Callable[[], AbstractContextManager[Started]]], ...] = (
    ("ours", ours), ("Apache Kafka", apache), ("ours again", ours))


def run_once(port: int, process: psutil.Process, connections: int, idle_s: float) -> Run:
    """Let a broker that nobody uses idle, connect, ask, and let it idle again."""
    time.sleep(SETTLE_S)
    idle_ms = computed_ms(process, idle_s)
    clients: list[RawClient] = []
    times = []
    begin = time.perf_counter()
    try:
        for _ in range(connections):
            at = time.perf_counter()
            clients.append(RawClient(("127.0.0.1", port), timeout_s=TIMEOUT_S))
            times.append(time.perf_counter() - at)
        connect_s = time.perf_counter() - begin
        for client in clients:
            client.request(ApiKeys.API_VERSIONS, 0, {})
        answered_s = time.perf_counter() - begin
        time.sleep(1)  # what the last answers set off
        return Run(connect_s, answered_s, sum(one > SLOW_S for one in times), idle_ms, computed_ms(process, idle_s))
    finally:
        for client in clients:
            client.close()


def computed_ms(process: psutil.Process, idle_s: float) -> float:
    """Return the processor time that a process takes while nobody asks it anything; the system counts in 10 ms."""
    before = cpu_seconds(process)
    time.sleep(idle_s)
    return (cpu_seconds(process) - before) * 1000


def table(runs: dict[str, list[Run]], connections: int, idle_s: float) -> str:
    """Return medians of each, with the largest behind them, and ours as a multiple of Kafka's within each round."""
    title = f"{connections:,} connections, {idle_s:g} s idle"
    heads = ("connect s", "answered s", "slow", "idle ms", "idle, connected ms")
    lines = [f"{title:34}" + "".join(f"{head:>20}" for head in heads)]
    for name, found in runs.items():
        cells = (f"{statistics.median(column):,.2f} ({max(column):,.2f})" for column in zip(*found, strict=True))
        lines.append(f"{name:34}" + "".join(f"{cell:>20}" for cell in cells))
    for name in ("ours", "ours again"):
        rounds = zip(runs[name], runs["Apache Kafka"], strict=True)
        ratios = [(one.connect_s / other.connect_s, one.answered_s / other.answered_s) for one, other in rounds]
        cells = (f"{statistics.median(column):.2f} ({max(column):.2f})" for column in zip(*ratios, strict=True))
        lines.append(f"{name + ' : Apache Kafka, by round':34}" + "".join(f"{cell:>20}" for cell in cells))
    return "\n".join([*lines, "", "median (largest) of the rounds"])


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the rounds and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--connections", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--idle-s", type=float, default=10)
    parser.add_argument("--keep", action="store_true", help="keep the table in benchmarks/results")
    options = parser.parse_args(arguments)
    raise_descriptor_limit()  # the client's side has as many
    runs: dict[str, list[Run]] = {name: [] for name, _ in TURNS}
    for _ in range(options.rounds):
        for name, start in TURNS:
            with start() as (port, process):
                runs[name].append(run_once(port, process, options.connections, options.idle_s))
            print(f"{name}: {runs[name][-1]}", flush=True)
    text = table(runs, options.connections, options.idle_s)
    print(text)
    if options.keep:
        keep("broker-accepts", "broker_accepts", f"{text}\n\n{machine()}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
