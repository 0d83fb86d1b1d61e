"""How long a caller waits for one record: sent, stored by all replicas, acknowledged; nothing else is on its way.

`python -m benchmarks.latency [--records 5000] [--rounds 5] [--keep]`

linger is 0; clients take turns on one real Apache Kafka broker. A second table is the same beside a thread that runs
Python without a pause: for pyproducer and confluent-kafka in the same rounds (Java and Go have no such thread).
"""

from __future__ import annotations

import argparse

from benchmarks.charts import draw_bars
from benchmarks.rounds import ALL_LATENCY_CLIENTS, present, real_broker, run_latency, take_turns
from benchmarks.tables import LATENCY_FIGURES, RESULTS, keep, machine, medians, report
from benchmarks.workload import Latency, Workload

BUSY_CLIENTS = ("pyproducer", "confluent-kafka")


def show(latency: Latency) -> str:
    """Return one run's figures for the progress lines."""
    return f"p50 {latency.p50_us:>8,.0f} us  p99 {latency.p99_us:>8,.0f} us  p99.9 {latency.p999_us:>8,.0f} us"


def main() -> None:
    """Measure and print both tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.latency")
    parser.add_argument("--records", type=int, default=5000, help="in each run")
    parser.add_argument("--busy-records", type=int, default=1000, help="in each run beside the busy thread")
    parser.add_argument("--value-size", type=int, default=Workload.value_size_bytes, help="bytes")
    parser.add_argument("--partitions", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--warm-up-s", type=float, default=Workload.warm_up_s, help="of the Java producer's own JVM")
    parser.add_argument("--clients", nargs="+", choices=ALL_LATENCY_CLIENTS, default=ALL_LATENCY_CLIENTS)
    parser.add_argument("--keep", action="store_true", help="also write tables and chart to benchmarks/results")
    arguments = parser.parse_args()
    idle = Workload(record_count=arguments.records, value_size_bytes=arguments.value_size, linger_ms=0,
                    warm_up_s=arguments.warm_up_s)
    busy = Workload(record_count=arguments.busy_records, value_size_bytes=arguments.value_size, linger_ms=0)
    where = f"{arguments.rounds} rounds; Apache Kafka on the same machine; {machine()}"
    texts, groups = [], {}
    with real_broker() as server:
        for label, names, workload, is_busy in (
                ("one caller", present(arguments.clients), idle, False),
                ("one caller beside a busy thread", [name for name in BUSY_CLIENTS if name in arguments.clients], busy,
                 True)):
            if not names:
                continue
            print(f"{label}: {workload.record_count:,} records", flush=True)
            rounds = take_turns(names, arguments.rounds, lambda name, workload=workload, is_busy=is_busy: run_latency(  # type: ignore[misc]  # defaults bind the loop's values
                name, server, arguments.partitions, workload, busy=is_busy), show=show)
            texts.append(report(f"{label}: {workload.record_count:,} sends of {workload.describe()}; {where}",
                                rounds, LATENCY_FIGURES))
            groups[label] = {figure[0]: medians(figure, rounds) for figure in LATENCY_FIGURES}
    text = "\n\n\n".join(texts)
    print("\n" + text)
    if arguments.keep:
        keep("latency", "latency", text)
        draw_bars(RESULTS / "latency.svg", "synchronous send, linger 0: us until acknowledged",
                  list(groups.items()), logarithmic=True)


if __name__ == "__main__":
    main()
