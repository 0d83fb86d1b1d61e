"""pyproducer beside the other Python clients on one real Apache Kafka broker, in one run.

`python -m benchmarks.compare [--compression lz4] [--value-size 1024] [--delay-ms 10 --partitions 1]`

Clients take turns, round after round, each time in a new process and on a new topic; a figure is the median of the
rounds, a ratio the median of the ratios within each round: the machine's mood changes between rounds, and a ratio
within one round does not see it. The first round warms the broker's JVM and is not counted.

Where the compiled twin of pyproducer is installed, its Python text runs too, as `pyproducer-python`.

Needs Java and Maven. Broker and client share the machine, so compare columns, not machines.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from benchmarks.clients import CLIENTS, ENVIRONMENT
from benchmarks.workload import Measurement, Workload
from pyproducer.hotpath import IMPL
from tests.support.delay_proxy import DelayProxy
from tests.support.kafka_server import BENCHMARK_JVM_OPTIONS, KafkaServer

RESULTS = Path(__file__).resolve().parent / "results"
RUN_TIMEOUT_S = 600
REFERENCES = ("confluent-kafka", "kafka-python")

Figure = Callable[[Measurement], float]
FIGURES: tuple[tuple[str, str, Figure], ...] = (
    ("records/s", "{:,.0f}", lambda measurement: measurement.rate),
    ("CPU us/record", "{:.2f}", lambda measurement: measurement.cpu_us),
    ("peak MiB", "{:.0f}", lambda measurement: measurement.peak_memory_mib),
)

Round = dict[str, Measurement]


@contextmanager
def real_broker(delay_ms: float) -> Iterator[KafkaServer]:
    """Start Apache Kafka; with a delay, its address is a proxy's, which adds that much to each round trip."""
    with ExitStack() as stack:
        settings: dict[str, object] = {}
        proxy = None
        if delay_ms:
            # In this process, which only waits while a client runs: nobody competes for its interpreter.
            proxy = stack.enter_context(DelayProxy(one_way_delay_ms=delay_ms / 2))
            settings["advertised.listeners"] = f"PLAINTEXT://127.0.0.1:{proxy.port}"
        server = KafkaServer(settings=settings, jvm_options=BENCHMARK_JVM_OPTIONS)
        if proxy is not None:
            proxy.target = ("127.0.0.1", server.port)
        yield stack.enter_context(server)


def run_client(name: str, server: KafkaServer, partitions: int, workload: Workload) -> Measurement:
    """Run one client once, on a topic of its own that is removed afterwards."""
    topic = server.create_topic(f"{name}-{uuid.uuid4().hex[:8]}", partitions)
    try:
        answer = subprocess.run(
            [sys.executable, "-m", "benchmarks.client_process", name, server.bootstrap_servers, topic,
             workload.to_json()],
            stdout=subprocess.PIPE, text=True, check=True, timeout=RUN_TIMEOUT_S, cwd=RESULTS.parents[1],
            env={**os.environ, **ENVIRONMENT.get(name, {})})
    finally:
        delete_topic(server, topic)
    return Measurement.from_json(answer.stdout.splitlines()[-1])


def delete_topic(server: KafkaServer, topic: str) -> None:
    """Remove a topic, so that rounds do not fill the disk."""
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": server.bootstrap_servers, "log_level": 0})
    admin.delete_topics([topic], request_timeout=30)[topic].result(timeout=40)


def report(title: str, rounds: Sequence[Round]) -> str:
    """Return the table: medians, then ratios to the reference clients (median, lowest and highest round)."""
    names = [name for name in CLIENTS if name in rounds[0]]
    heads = "".join(f"{name:>20}" for name, _, _ in FIGURES)
    lines = [title, "", f"{'medians':<28}{heads}"]
    for client in names:
        cells = [form.format(statistics.median(figure(one[client]) for one in rounds)) for _, form, figure in FIGURES]
        lines.append(f"{client:<28}" + "".join(f"{cell:>20}" for cell in cells))
    for reference in REFERENCES:
        if reference not in names:
            continue
        lines += ["", f"{'x ' + reference:<28}{heads}"]
        for client in names:
            cells = []
            for _, _, figure in FIGURES:
                ratios = [figure(one[client]) / figure(one[reference]) for one in rounds]
                cells.append(f"{statistics.median(ratios):.2f} ({min(ratios):.2f}-{max(ratios):.2f})")
            lines.append(f"{client:<28}" + "".join(f"{cell:>20}" for cell in cells))
    return "\n".join(lines)


def describe(workload: Workload, arguments: argparse.Namespace) -> str:
    """Return one line that says what was measured, and where."""
    delay = f", {arguments.delay_ms:g} ms round trip" if arguments.delay_ms else ""
    return (f"{workload.record_count:,} records of {workload.value_size_bytes} B, {workload.key_count:,} keys of 8 B, "
            f"compression {workload.compression}, acks=all, idempotent, linger {workload.linger_ms} ms, batches of "
            f"{workload.batch_size_bytes // 1024} KiB, {arguments.partitions} partition(s){delay}, a callback each; "
            f"{arguments.rounds} rounds; hotpath {IMPL}; Apache Kafka on the same machine; "
            f"Python {platform.python_version()}, {platform.machine()}, {os.cpu_count()} CPUs")


def main() -> None:
    """Run the comparison and print it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compare")
    parser.add_argument("--records", type=int, default=Workload.record_count)
    parser.add_argument("--value-size", type=int, default=Workload.value_size_bytes, help="bytes")
    parser.add_argument("--compression", default="none", choices=["none", "gzip", "snappy", "lz4", "zstd"])
    parser.add_argument("--partitions", type=int, default=3)
    parser.add_argument("--delay-ms", type=float, default=0, help="added to each round trip")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--clients", nargs="+", choices=list(CLIENTS),
                        help="all; the Python twin only beside a compiled one",
                        default=[name for name in CLIENTS if name != "pyproducer-python" or IMPL == "native"])
    parser.add_argument("--keep", action="store_true", help="also write the table to benchmarks/results")
    arguments = parser.parse_args()
    workload = Workload(record_count=arguments.records, value_size_bytes=arguments.value_size,
                        compression=arguments.compression)
    title = describe(workload, arguments)
    print(title, flush=True)
    rounds: list[Round] = []
    with real_broker(arguments.delay_ms) as server:
        for number in range(arguments.rounds + 1):
            one: Round = {}
            first = number % len(arguments.clients)  # nobody is always the one that finds the broker rested
            for name in arguments.clients[first:] + arguments.clients[:first]:
                one[name] = run_client(name, server, arguments.partitions, workload)
                label = f"round {number}" if number else "warm-up"
                print(f"  {label:<8} {name:<18}{one[name].rate:>12,.0f} records/s{one[name].cpu_us:>8.2f} us",
                      flush=True)
            if number:
                rounds.append(one)
    text = report(title, rounds)
    print("\n" + text)
    if arguments.keep:
        RESULTS.mkdir(exist_ok=True)
        delay = f"-delay{arguments.delay_ms:g}ms" if arguments.delay_ms else ""
        name = f"compare-{workload.value_size_bytes}B-{workload.compression}-{arguments.partitions}p{delay}.txt"
        (RESULTS / name).write_text(text + "\n", encoding="ascii")


if __name__ == "__main__":
    main()
