"""How long a caller waits for one record: sent, stored by all replicas, acknowledged; nothing else is on its way.

`python -m benchmarks.latency [--tables one busy processes sleeper] [--records 5000] [--rounds 5] [--keep]`

linger is 0; clients take turns on one real Apache Kafka broker, in four tables, all of them or those of --tables:

    one        the caller alone
    busy       beside a thread that runs Python without a pause: for pyproducer and confluent-kafka in the same rounds
               (Java and Go have no such thread)
    processes  beside processes that compute without a pause, one for each processor: pyproducer, confluent-kafka, Java,
               whose JVM warms up beside them, too, and longer
    sleeper    a thread of the application sleeps 1 ms again and again while another is the caller: how late it wakes
               up, beside pyproducer and beside confluent-kafka; each round begins and ends with a process where nobody
               sends, `nothing` and `nothing again`, which say how far apart two runs of the same are
"""

from __future__ import annotations

import argparse
import dataclasses
import os
from collections.abc import Sequence
from contextlib import nullcontext
from typing import NamedTuple

from benchmarks.busy import busy_processes
from benchmarks.charts import draw_bars
from benchmarks.rounds import ALL_LATENCY_CLIENTS, present, real_broker, run_latency, run_sleeper, take_turns
from benchmarks.sleeper_process import NOTHING
from benchmarks.tables import LATENCY_FIGURES, LATENESS_FIGURES, RESULTS, SENDS, keep, machine, medians, report
from benchmarks.workload import Latency, Lateness, Workload
from tests.support.kafka_server import KafkaServer

WITH_A_SECOND_THREAD = ("pyproducer", "confluent-kafka")
CLIENTS_OF = {
    "one": ALL_LATENCY_CLIENTS,
    "busy": WITH_A_SECOND_THREAD,
    "processes": ("pyproducer", "confluent-kafka", "java"),
    "sleeper": WITH_A_SECOND_THREAD,
}
NOTHING_AGAIN = "nothing again"
WARM_UP_FACTOR = 3  # beside busy processes the JVM's compiler has about a third of the time that it has alone


class Table(NamedTuple):
    """One table of the report.

    Attributes:
        label: What it is about.
        text: The table.
        heights: Medians by figure and client, for the chart.
    """

    label: str
    text: str
    heights: dict[str, dict[str, float]]


def show(latency: Latency) -> str:
    """Return one run's figures for the progress lines."""
    return f"p50 {latency.p50_us:>8,.0f} us  p99 {latency.p99_us:>8,.0f} us  p99.9 {latency.p999_us:>8,.0f} us"


def show_late(lateness: Lateness) -> str:
    """Return one run's figures for the progress lines."""
    return (f"p50 {lateness.p50_us:>8,.0f} us  p90 {lateness.p90_us:>8,.0f} us  p99   {lateness.p99_us:>8,.0f} us late"
            f"{lateness.sends_per_s:>9,.0f} sends/s")


def waits(kind: str, names: Sequence[str], server: KafkaServer, options: argparse.Namespace) -> Table:
    """Measure how long callers wait: alone, beside a busy thread, or beside busy processes."""
    workload = Workload(record_count=options.records if kind == "one" else options.busy_records,
                        value_size_bytes=options.value_size, linger_ms=0, warm_up_s=options.warm_up_s)
    label = "one caller"
    if kind == "busy":
        label = "one caller beside a busy thread"
    if kind == "processes":
        label = f"one caller beside {options.busy_processes} busy processes"
        workload = dataclasses.replace(workload, warm_up_s=WARM_UP_FACTOR * options.warm_up_s)
    print(f"{label}: {workload.record_count:,} records", flush=True)
    with busy_processes(options.busy_processes) if kind == "processes" else nullcontext():
        rounds = take_turns(names, options.rounds, lambda name: run_latency(
            name, server, options.partitions, workload, busy=kind == "busy"), show=show)
    title = f"{label}: {workload.record_count:,} sends of {workload.describe()}; {where(options)}"
    return Table(label, report(title, rounds, LATENCY_FIGURES),
                 {figure[0]: medians(figure, rounds) for figure in LATENCY_FIGURES})


def late_wake_ups(names: Sequence[str], server: KafkaServer, options: argparse.Namespace) -> Table:
    """Measure how late a thread wakes up while another waits for records."""
    workload = Workload(value_size_bytes=options.value_size, linger_ms=0)
    label = "a thread that sleeps 1 ms beside one caller"
    print(f"{label}: {options.wake_ups:,} wake-ups", flush=True)
    rounds = take_turns(names, options.rounds, lambda name: run_sleeper(
        NOTHING if name == NOTHING_AGAIN else name, server, options.partitions, workload, options.wake_ups),
                        show=show_late, first=[NOTHING], last=[NOTHING_AGAIN])
    title = (f"{label}: us beyond 1 ms, {options.wake_ups:,} wake-ups; sends of {workload.describe()}; "
             f"{where(options)}")
    return Table(label, report(title, rounds, LATENESS_FIGURES, ("confluent-kafka", NOTHING), beside=[SENDS]),
                 {figure[0]: medians(figure, rounds) for figure in LATENESS_FIGURES})


def where(options: argparse.Namespace) -> str:
    """Return how often it was measured and on what, for a table's title."""
    return f"{options.rounds} rounds; Apache Kafka on the same machine; {machine()}"


def main() -> None:
    """Measure and print the tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.latency")
    parser.add_argument("--tables", nargs="+", choices=tuple(CLIENTS_OF), default=tuple(CLIENTS_OF),
                        help="default: all; some are kept in a file of their own, latency-NAMES.txt")
    parser.add_argument("--records", type=int, default=5000, help="in each run of a caller alone")
    parser.add_argument("--busy-records", type=int, default=1000,
                        help="in each run beside the busy thread or the busy processes")
    parser.add_argument("--busy-processes", type=int, default=os.cpu_count() or 1,
                        help="default: one for each processor, %(default)s")
    parser.add_argument("--wake-ups", type=int, default=3000, help="in each run beside a thread that sleeps")
    parser.add_argument("--value-size", type=int, default=Workload.value_size_bytes, help="bytes")
    parser.add_argument("--partitions", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--warm-up-s", type=float, default=Workload.warm_up_s,
                        help=f"of every client, unmeasured; {WARM_UP_FACTOR} times as long beside busy processes")
    parser.add_argument("--clients", nargs="+", choices=ALL_LATENCY_CLIENTS, default=ALL_LATENCY_CLIENTS)
    parser.add_argument("--keep", action="store_true", help="also write tables and chart to benchmarks/results")
    options = parser.parse_args()
    kinds = [kind for kind in CLIENTS_OF if kind in options.tables]
    tables = []
    with real_broker() as server:
        for kind in kinds:
            names = present([name for name in CLIENTS_OF[kind] if name in options.clients])
            if names:
                tables.append(late_wake_ups(names, server, options) if kind == "sleeper"
                              else waits(kind, names, server, options))
    text = "\n\n\n".join(table.text for table in tables)
    print("\n" + text)
    if options.keep:
        name = "-".join(["latency", *([] if len(kinds) == len(CLIENTS_OF) else kinds)])
        keep(name, "latency", text)
        draw_bars(RESULTS / f"{name}.svg", "synchronous send, linger 0: us until acknowledged, us late",
                  [(table.label, table.heights) for table in tables], logarithmic=True)


if __name__ == "__main__":
    main()
