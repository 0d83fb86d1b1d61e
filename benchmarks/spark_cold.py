"""What the first write of a Spark session takes, by each road: every turn is a session of its own.

`python -m benchmarks.spark_cold [--rows 100000] [--rounds 5] [--routes nothing,pyproducer,...] [--kafka] [--keep]`

Routes: a data source in Python that drops its rows (`nothing`, found as ours is), format("pyproducer"),
KafkaSink.write, rows by foreachPartition, and Spark's own sink (`kafka`). The rows lie in memory, in four tasks on two
cores. A session's start and the driver's imports are not in it; what the write itself starts and imports is. CPU is of
the session's processes: Spark's JVM, the driver, the daemons and workers of PySpark; the broker's is not. A second
table says which process took it: a daemon is one of PySpark's, from which workers fork, and never loads anything of
ours.

The broker is ours in a process of its own; `--kafka` takes Apache Kafka. Byte code is cached as an ordinary user's is,
whatever the environment says: a round that does not count fills it.

Needs: Java, and Maven for the jars of Spark's connector; psutil. Source:  ours.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import psutil

from benchmarks.rounds import ROOT, real_broker
from benchmarks.spark import PARTITION_COUNT, ROUTES, by_format, cached_rows, session
from benchmarks.tables import keep, machine

if TYPE_CHECKING:
    from pyproducer.broker import EmbeddedBroker
    from tests.support.kafka_server import KafkaServer

RUN_TIMEOUT_S = 300
REGISTRATION = Path(__file__).resolve().parent / "registration"
BASE = "nothing"
COLD_ROUTES = {BASE: by_format(BASE), **ROUTES}
DRIVER, JVM = "driver", "Spark's JVM"


class Write(NamedTuple):
    """One first write: seconds, and CPU seconds by process."""

    seconds: float
    cpu_seconds: dict[str, float]


def cpu_by_process() -> Counter[str]:
    """Return the CPU seconds so far of this session's processes, by what each is for.

    Spark's workers live on after their task, so nothing is lost with who ended.
    """
    found: Counter[str] = Counter()
    me = psutil.Process()
    for process in [me, *me.children(recursive=True)]:
        try:
            times = process.cpu_times()
            found[_role(process, me)] += times.user + times.system
        except psutil.NoSuchProcess:
            continue
    return found


def _role(process: psutil.Process, me: psutil.Process) -> str:
    if process == me:
        return DRIVER
    if process.name() == "java":
        return JVM
    module = process.cmdline()[-1].rpartition(".")[2]
    parent = process.parent()
    return f"{module}, daemon" if parent is not None and parent.name() == "java" else module


def write_once(route: str, servers: str, topic: str, row_count: int) -> Write:
    """Write in a session that wrote nothing before."""
    spark = session(REGISTRATION)
    try:
        rows = cached_rows(spark, row_count)
        before, began = cpu_by_process(), time.perf_counter()
        COLD_ROUTES[route](rows, servers, topic)
        seconds = time.perf_counter() - began
        spent = cpu_by_process()
        spent.subtract(before)
        if route != BASE:
            stored = (spark.read.format("kafka").option("kafka.bootstrap.servers", servers)
                      .option("subscribe", topic).load().count())
            if stored != row_count:
                sys.exit(f"{route} stored {stored} of {row_count} rows")
        return Write(seconds, dict(spent))
    finally:
        spark.stop()


def in_a_session(route: str, servers: str, topic: str, row_count: int) -> Write:
    """Write once in a new process."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    answer = subprocess.run([sys.executable, "-m", "benchmarks.spark_cold", "--one", route, servers, topic,
                             "--rows", str(row_count)],
                            stdout=subprocess.PIPE, text=True, check=True, timeout=RUN_TIMEOUT_S, cwd=ROOT,
                            env=environment)
    return Write(*json.loads(answer.stdout.splitlines()[-1]))


@contextmanager
def broker(is_kafka: bool) -> Iterator[KafkaServer | EmbeddedBroker]:
    """Start the broker."""
    if is_kafka:
        with real_broker() as server:
            yield server
        return
    from pyproducer.broker import EmbeddedBroker

    with EmbeddedBroker(separate_process=True) as embedded:
        yield embedded


def table(turns: Mapping[str, Sequence[Write]]) -> list[str]:
    """Return lines: medians, the fastest, and what each takes beyond the first route, within each round."""
    base = next(iter(turns))
    lines = [f"{'route':<18}{'CPU s':>8}{'least':>8}{f'beyond {base}':>26}{'wall s':>10}{'least':>8}"
             f"{f'beyond {base}':>26}"]
    for name, mine in turns.items():
        line = f"{name:<18}"
        for values, others, width in (
                ([sum(turn.cpu_seconds.values()) for turn in mine],
                 [sum(turn.cpu_seconds.values()) for turn in turns[base]], 8),
                ([turn.seconds for turn in mine], [turn.seconds for turn in turns[base]], 10)):
            beyond = [value - other for value, other in zip(values, others, strict=True)]
            spread = f"{statistics.median(beyond):+.2f} ({min(beyond):+.2f} to {max(beyond):+.2f})"
            line += f"{statistics.median(values):>{width}.2f}{min(values):>8.2f}{spread:>26}"
        lines.append(line)
    return lines


def process_table(turns: Mapping[str, Sequence[Write]]) -> list[str]:
    """Return lines: CPU seconds of each process, medians; several workers of one kind are one."""
    names = sorted({name for mine in turns.values() for turn in mine for name in turn.cpu_seconds})
    lines = ["CPU s".ljust(38) + "".join(f"{route:>18}" for route in turns)]
    for name in names:
        medians = [statistics.median(turn.cpu_seconds.get(name, 0) for turn in mine) for mine in turns.values()]
        lines.append(f"{name:<38}" + "".join(f"{median:>18.2f}" for median in medians))
    return lines


def main() -> None:
    """Measure and print; --keep writes the tables to benchmarks/results/ too."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--routes", default="nothing,pyproducer,write,foreachPartition,kafka",
                        help=f"of {', '.join(COLD_ROUTES)}; the others are compared with the first")
    parser.add_argument("--kafka", action="store_true", help="on Apache Kafka")
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--one", nargs=3, metavar=("ROUTE", "SERVERS", "TOPIC"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        route, servers, topic = arguments.one
        print(json.dumps(write_once(route, servers, topic, arguments.rows)))
        return
    turns: dict[str, list[Write]] = {name: [] for name in arguments.routes.split(",")}
    with broker(arguments.kafka) as server:
        for number in range(arguments.rounds + 1):
            for name, mine in turns.items():
                topic = f"first-{uuid.uuid4().hex[:8]}"
                server.create_topic(topic, PARTITION_COUNT)
                one = in_a_session(name, server.bootstrap_servers, topic, arguments.rows)
                print(f"round {number}, {name}: {sum(one.cpu_seconds.values()):.2f} s CPU, {one.seconds:.2f} s",
                      flush=True)
                if number:
                    mine.append(one)
    lines = [f"the first {arguments.rows} rows of a session; {machine()}; medians of {arguments.rounds} rounds in "
             "turns after one that does not count", "", *table(turns), "", *process_table(turns)]
    print("\n".join(lines))
    if arguments.keep:
        keep("spark-cold", "spark_cold", "\n".join(lines))


if __name__ == "__main__":
    main()
