"""The broker of a comparison, and clients taking turns on it: each time a new process and a new topic.

Source:  ours.
"""

from __future__ import annotations

import dataclasses
import itertools
import os
import random
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TypeVar

from benchmarks.clients import CLIENTS, ENVIRONMENT, SLOW
from benchmarks.foreign_clients import FOREIGN, foreign_arguments
from benchmarks.latency_clients import LATENCY_CLIENTS
from benchmarks.workload import Latency, Lateness, Measurement, TransactionRun, Workload
from pyproducer.hotpath import IMPL
from tests.support.delay_proxy import DelayProxy
from tests.support.kafka_jars import MissingTool
from tests.support.kafka_server import BENCHMARK_JVM_OPTIONS, KafkaServer, ServerCertificates

ROOT = Path(__file__).resolve().parents[1]
RUN_TIMEOUT_S = 600
ALL_CLIENTS = (*CLIENTS, *FOREIGN)
ALL_LATENCY_CLIENTS = (*LATENCY_CLIENTS, *FOREIGN)

Result = TypeVar("Result", Measurement, Latency, Lateness, TransactionRun)


@contextmanager
def real_broker(delay_ms: float = 0, certificates: ServerCertificates | None = None) -> Iterator[KafkaServer]:
    """Start Apache Kafka; with a delay, its address is a proxy's, which adds that much to each round trip.

    With certificates it has listeners with TLS, too.
    """
    with ExitStack() as stack:
        settings: dict[str, object] = {}
        proxy = None
        if delay_ms:
            # In this process, which only waits while a client runs: nobody competes for its interpreter.
            proxy = stack.enter_context(DelayProxy(one_way_delay_ms=delay_ms / 2))
            settings["advertised.listeners"] = f"PLAINTEXT://127.0.0.1:{proxy.port}"
        server = KafkaServer(settings=settings, certificates=certificates, jvm_options=BENCHMARK_JVM_OPTIONS)
        if proxy is not None:
            proxy.target = ("127.0.0.1", server.port)
        yield stack.enter_context(server)


@contextmanager
def certificate_files() -> Iterator[tuple[ServerCertificates, str]]:
    """Make certificates; yields those of the broker's listeners, and the file that clients trust."""
    from tests.support.certificates import make_certificates  # here: `cryptography` is for TLS alone

    with tempfile.TemporaryDirectory(prefix="benchmark-tls-") as folder:
        made = make_certificates(Path(folder))
        yield ServerCertificates(made.server.keystore, made.ca, made.misnamed_server.keystore), str(made.ca)


def present(names: Sequence[str]) -> list[str]:
    """Return those of the clients that can run here; one sentence is printed for each that cannot."""
    able = []
    for name in names:
        if name == "pyproducer-python" and IMPL != "native":
            continue  # it is what pyproducer is already
        try:
            if name in FOREIGN:
                FOREIGN[name]()
        except MissingTool as missing:
            print(f"{name} is skipped: {missing}", flush=True)
            continue
        able.append(name)
    return able


def run_client(name: str, server: KafkaServer, partitions: int, workload: Workload, root: Path = ROOT) -> Measurement:
    """Run one client once, on a topic of its own that is removed afterwards; a slow client sends fewer records.

    Args:
        name: Which.
        server: The broker.
        partitions: Of the topic.
        workload: What is sent.
        root: The checkout that it is run from.
    """
    fewer = dataclasses.replace(workload, record_count=max(1, workload.record_count // SLOW.get(name, 1)))
    return Measurement.from_json(_run("rate", name, server, partitions, fewer, root))


def run_latency(name: str, server: KafkaServer, partitions: int, workload: Workload, *, busy: bool,
                root: Path = ROOT) -> Latency:
    """Let one client wait for each of its records, on a topic of its own; see run_client."""
    return Latency.from_json(_run("busy-latency" if busy else "latency", name, server, partitions, workload, root))


def run_transactions(name: str, server: KafkaServer, partitions: int, workload: Workload) -> TransactionRun:
    """Run one client's transactions once, on a topic of its own."""
    return TransactionRun.from_json(_run("transactions", name, server, partitions, workload))


def run_sleeper(name: str, server: KafkaServer, partitions: int, workload: Workload, wake_up_count: int) -> Lateness:
    """Let a thread sleep beside one client's caller; beside nothing, where the name is sleeper_process.NOTHING."""
    with fresh_topic(server, name, partitions) as topic:
        return Lateness.from_json(last_line(
            [sys.executable, "-m", "benchmarks.sleeper_process", name, server.bootstrap_servers, topic,
             workload.to_json(), str(wake_up_count)], ENVIRONMENT.get(name, {})))


def take_turns(names: Sequence[str], rounds: int, run: Callable[[str], Result], *, show: Callable[[Result], str],
               first: Sequence[str] = (), last: Sequence[str] = ()) -> list[dict[str, Result]]:
    """Return what each client measured in each round; the first round warms the broker's JVM and is not counted.

    Args:
        names: Who takes turns, in another order each round.
        rounds: How many are counted.
        run: Measures one of them.
        show: Returns a measurement for its progress line.
        first: What every round begins with.
        last: What every round ends with: with `first` the round's bracket.
    """
    counted: list[dict[str, Result]] = []
    for number in range(rounds + 1):
        one: dict[str, Result] = {}
        for name in itertools.chain(first, _shuffled(names, number), last):
            one[name] = run(name)
            label = f"round {number}" if number else "warm-up"
            print(f"  {label:<8} {name:<18}{show(one[name])}", flush=True)
        if number:
            counted.append(one)
    return counted


def _shuffled(names: Sequence[str], number: int) -> list[str]:
    """Nobody is always the one that finds the broker rested, or busy with what the same other one has left."""
    first = names[number % len(names)]
    others = [name for name in names if name != first]
    return [first, *random.Random(number).sample(others, len(others))]  # the same orders in each run


def _run(mode: str, name: str, server: KafkaServer, partitions: int, workload: Workload, root: Path = ROOT) -> str:
    foreign = FOREIGN.get(name)
    command = foreign() if foreign else [sys.executable, "-m", "benchmarks.client_process", mode, name]
    servers = server.ssl_bootstrap_servers if workload.trusted_file else server.bootstrap_servers
    with fresh_topic(server, name, partitions) as topic:
        arguments = (foreign_arguments(mode, servers, topic, workload) if foreign
                     else [servers, topic, workload.to_json()])
        return last_line([*command, *arguments], ENVIRONMENT.get(name, {}), root)


def last_line(command: Sequence[str], environment: Mapping[str, str], root: Path = ROOT) -> str:
    """Run a program from a checkout; return the last line that it printed."""
    answer = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=RUN_TIMEOUT_S, cwd=root,
                            env={**os.environ, **environment})
    return answer.stdout.splitlines()[-1]


@contextmanager
def fresh_topic(server: KafkaServer, client: str, partitions: int) -> Iterator[str]:
    """Make a topic for one run of a client, which is removed afterwards; yields its name."""
    topic = server.create_topic(f"{client}-{uuid.uuid4().hex[:8]}", partitions)
    try:
        yield topic
    finally:
        delete_topic(server, topic)


def delete_topic(server: KafkaServer, topic: str) -> None:
    """Remove a topic, so that rounds do not fill the disk."""
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": server.bootstrap_servers, "log_level": 0})
    admin.delete_topics([topic], request_timeout=30)[topic].result(timeout=40)
