"""pyproducer beside other producers on one real Apache Kafka broker, in one run.

`python -m benchmarks.compare [--compression lz4] [--value-size 1024] [--delay-ms 10 --partitions 1] [--tls] [--keep]`

Clients take turns, round after round, each time in a new process and on a new topic; a figure is the median of the
rounds, a ratio the median of the ratios within each round. The first round warms the broker's JVM and is not counted.
Every client sends for five seconds before it is measured (--warm-up-s): a new topic's first records are dear to the
broker, and Java's code is compiled meanwhile. Its CPU is that of the measured part, as everybody's.

Where the compiled twin of pyproducer is installed, its Python text runs too, as `pyproducer-python`. Needs Java and
Maven; without Go, franz-go is left out. Broker and client share the machine, so compare columns, not machines.
"""

from __future__ import annotations

import argparse
import dataclasses
from contextlib import ExitStack

from benchmarks.charts import draw_bars
from benchmarks.clients import CLIENTS
from benchmarks.rounds import ALL_CLIENTS, certificate_files, present, real_broker, run_client, take_turns
from benchmarks.tables import RATE_FIGURES, RESULTS, keep, machine, medians, report
from benchmarks.workload import Measurement, Workload

BYTES_PER_RUN = 100_000_000
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def show(measurement: Measurement) -> str:
    """Return one run's figures for the progress lines."""
    return f"{measurement.rate:>12,.0f} records/s{measurement.cpu_us:>8.2f} us"


def main() -> None:
    """Run the comparison and print it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compare")
    parser.add_argument("--records", type=int, help="default: 100 MB of values; slow clients send fewer")
    parser.add_argument("--value-size", type=int, default=Workload.value_size_bytes, help="bytes")
    parser.add_argument("--compression", default="none", choices=CODECS)
    parser.add_argument("--header", action="store_true", help="one header of 21 bytes on each record")
    parser.add_argument("--no-keys", action="store_true", help="null keys: each client chooses partitions its own way")
    parser.add_argument("--out-of-the-box", action="store_true",
                        help="each client's own defaults; only acks=all and idempotence are forced")
    parser.add_argument("--partitions", type=int, default=3)
    parser.add_argument("--delay-ms", type=float, default=0, help="added to each round trip")
    parser.add_argument("--tls", action="store_true", help="over TLS; the clients in Python only, and not with a delay")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--warm-up-s", type=float, default=Workload.warm_up_s, help="of every client, unmeasured")
    parser.add_argument("--clients", nargs="+", choices=ALL_CLIENTS, default=ALL_CLIENTS)
    parser.add_argument("--keep", action="store_true", help="also write table and chart to benchmarks/results")
    arguments = parser.parse_args()
    workload = Workload(record_count=arguments.records or BYTES_PER_RUN // arguments.value_size,
                        value_size_bytes=arguments.value_size, keyed=not arguments.no_keys, has_header=arguments.header,
                        compression=arguments.compression, out_of_the_box=arguments.out_of_the_box,
                        warm_up_s=arguments.warm_up_s)
    if arguments.tls and arguments.delay_ms:
        parser.error("--tls does not go with --delay-ms")
    clients = present([name for name in arguments.clients if name in CLIENTS or not arguments.tls])
    with ExitStack() as stack:
        certificates = None
        if arguments.tls:
            certificates, trusted_file = stack.enter_context(certificate_files())
            workload = dataclasses.replace(workload, trusted_file=trusted_file)
        delay = f", {arguments.delay_ms:g} ms round trip" if arguments.delay_ms else ""
        title = (f"{workload.record_count:,} records of {workload.describe()}, {arguments.partitions} partition(s)"
                 f"{delay}, a callback each; {arguments.rounds} rounds; Apache Kafka on the same machine; {machine()}")
        print(title, flush=True)
        server = stack.enter_context(real_broker(arguments.delay_ms, certificates))
        rounds = take_turns(clients, arguments.rounds,
                            lambda name: run_client(name, server, arguments.partitions, workload), show=show)
    text = report(title, rounds)
    print("\n" + text)
    if arguments.keep:
        slug = f"-delay{arguments.delay_ms:g}ms" if arguments.delay_ms else ""
        name = f"compare-{workload.slug()}-{arguments.partitions}p{slug}"
        keep(name, "compare", text)
        panels = [(figure[0], {workload.slug(): medians(figure, rounds)}) for figure in RATE_FIGURES]
        draw_bars(RESULTS / f"{name}.svg", f"{workload.describe()}, {arguments.partitions} partition(s){delay}", panels)


if __name__ == "__main__":
    main()
