"""Transactions of several sizes beside other producers' on one real Apache Kafka broker; ids bound one after another.

`python -m benchmarks.transactions [--per 100 1000 100000] [--ids 200] [--keep]`

Clients take turns as in `benchmarks.compare`. A commit is timed from its call to its return: what is left of the
records is sent within it. `pyproducer-flush` is the same load without transactions, with flush() in the place of the
commit.
Then one producer binds so many transactional ids one after the other, and commits one record with each.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import time
from pathlib import Path

from benchmarks.rounds import fresh_topic, present, real_broker, run_transactions, take_turns
from benchmarks.tables import RATE_FIGURES, Figure, keep, machine, report
from benchmarks.transaction_clients import TRANSACTION_CLIENTS
from benchmarks.workload import TransactionRun, Workload
from pyproducer import KafkaProducer
from tests.support.kafka_server import KafkaServer

CLIENTS = (*TRANSACTION_CLIENTS, "java")
COMMITS: tuple[Figure, ...] = (
    ("commit p50 us", "{:,.0f}", lambda run: run.commit_p50_us),
    ("commit p99 us", "{:,.0f}", lambda run: run.commit_p99_us),
)
RECORDS = {100: 100_000, 1000: 300_000}
MOST_RECORDS = 1_000_000
_MOST_FAILURES = 5


def show(run: TransactionRun) -> str:
    """Return one run's figures for the progress lines."""
    return f"{run.rate:>12,.0f} records/s{run.cpu_us:>8.2f} us  commit {run.commit_p50_us / 1000:.2f} ms"


def run_until_whole(name: str, server: KafkaServer, partitions: int, workload: Workload) -> TransactionRun:
    """Run a client, again where it gave up: Java's does now and then, with InvalidTxnStateException, on Kafka 4.1."""
    for _ in range(_MOST_FAILURES):
        try:
            return run_transactions(name, server, partitions, workload)
        except subprocess.CalledProcessError as error:
            print(f"{name} ended with {error.returncode}, and is run again", flush=True)
    return run_transactions(name, server, partitions, workload)


def bind_ids(server: KafkaServer, count: int) -> str:
    """Bind ids one after the other; return what that took."""
    with fresh_topic(server, "ids", 1) as topic, KafkaProducer({
            "bootstrap.servers": server.bootstrap_servers, "transactional.id": f"{topic}-first",
            "linger.ms": 0}) as producer:
        def bind(transactional_id: str) -> None:
            producer.init_transactions(transactional_id)
            with producer.transaction():
                producer.send(topic, b"value")

        for number in range(20):
            bind(f"{topic}-warm-up-{number}")
        started, own, broker = time.perf_counter(), time.process_time(), _cpu_s(server.pid)
        for number in range(count):
            bind(f"{topic}-{number}")
        seconds, own, broker = time.perf_counter() - started, time.process_time() - own, _cpu_s(server.pid) - broker
    return (f"{count} ids bound one after the other, one record committed with each: {seconds:.2f} s "
            f"({seconds / count * 1000:.2f} ms each), CPU of the producer {own:.2f} s, of the broker {broker:.2f} s")


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Run the comparison and print it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.transactions")
    parser.add_argument("--per", type=int, nargs="*", default=[100, 1000, 100_000], help="records in a transaction")
    parser.add_argument("--ids", type=int, default=200, help="how many are bound; 0 for none")
    parser.add_argument("--value-size", type=int, default=Workload.value_size_bytes, help="bytes")
    parser.add_argument("--partitions", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--warm-up-s", type=float, default=Workload.warm_up_s, help="of every client, unmeasured")
    parser.add_argument("--clients", nargs="+", choices=CLIENTS, default=CLIENTS)
    parser.add_argument("--keep", action="store_true", help="also write the tables to benchmarks/results")
    arguments = parser.parse_args()
    clients = present(arguments.clients)
    texts = []
    with real_broker() as server:
        for per_transaction in arguments.per:
            workload = Workload(record_count=RECORDS.get(per_transaction, MOST_RECORDS), warm_up_s=arguments.warm_up_s,
                                value_size_bytes=arguments.value_size, per_transaction=per_transaction)
            title = (f"transactions of {per_transaction:,} records, {workload.record_count:,} in all, of "
                     f"{workload.describe()}, {arguments.partitions} partition(s); {arguments.rounds} rounds; Apache "
                     f"Kafka on the same machine; {machine()}")
            print(title, flush=True)
            rounds = take_turns(clients, arguments.rounds, lambda name, workload=workload: run_until_whole(  # type: ignore[misc]
                name, server, arguments.partitions, workload), show=show)
            texts.append(report(title, rounds, (*RATE_FIGURES[:2], *COMMITS)))
            print(f"\n{texts[-1]}\n", flush=True)
        if arguments.ids:
            texts.append(bind_ids(server, arguments.ids))
            print(texts[-1])
    if arguments.keep:
        keep("transactions", "transactions", "\n\n".join(texts))


if __name__ == "__main__":
    main()
