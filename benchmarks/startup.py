"""What a short program pays: importing a client, and the time until its first record is acknowledged.

`python -m benchmarks.startup [--rounds 10] [--keep]`

Each run is a new process; clients take turns on one real Apache Kafka broker whose topic exists. `total` begins when
the process is started, so the interpreter's own start is in it. Byte code is cached for all, in a folder of the
benchmark's own, whatever the environment says: the first run of each client fills it and does not count. `CPU` is that
of the import, which the machine's other work lengthens less than its time.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from typing import NamedTuple

from benchmarks.rounds import ROOT, delete_topic, real_broker
from benchmarks.tables import keep, machine

RUN_TIMEOUT_S = 60
TOPIC = "startup"

FIRST_RECORD = {
    "pyproducer": """
from pyproducer import KafkaProducer
imported, imported_cpu = time.time(), time.process_time()
with KafkaProducer({"bootstrap.servers": servers}) as producer:
    producer.send(topic, b"first").result(timeout=30)
    acknowledged = time.time()
""",
    "confluent-kafka": """
from confluent_kafka import Producer
imported, imported_cpu = time.time(), time.process_time()
producer = Producer({"bootstrap.servers": servers, "acks": "all", "enable.idempotence": True})
producer.produce(topic, b"first")
if producer.flush(30):
    raise SystemExit("not stored")
acknowledged = time.time()
""",
    "kafka-python": """
from kafka import KafkaProducer
imported, imported_cpu = time.time(), time.process_time()
producer = KafkaProducer(bootstrap_servers=servers, acks="all", enable_idempotence=True)
producer.send(topic, b"first").get(30)
acknowledged = time.time()
producer.close(30)
""",
    "aiokafka": """
import asyncio
from aiokafka import AIOKafkaProducer
imported, imported_cpu = time.time(), time.process_time()
async def main():
    producer = AIOKafkaProducer(bootstrap_servers=servers, acks="all", enable_idempotence=True)
    await producer.start()
    await producer.send_and_wait(topic, b"first")
    acknowledged = time.time()
    await producer.stop()
    return acknowledged
acknowledged = asyncio.run(main())
""",
}
"""The shortest program with each client; it sees `servers` and `topic` and leaves two times behind."""

FRAME = """
import json, sys, time
servers, topic = sys.argv[1:]
began, began_cpu = time.time(), time.process_time()
{program}
print(json.dumps([began, imported, acknowledged, imported_cpu - began_cpu]))
"""


class Startup(NamedTuple):
    """What one process took, in ms: the import, its CPU, from there to the acknowledgement, from the start to that."""

    import_ms: float
    import_cpu_ms: float
    acknowledged_ms: float
    total_ms: float


def run_once(name: str, bootstrap_servers: str, topic: str, byte_code: str) -> Startup:
    """Run the shortest program with a client in a new process."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPYCACHEPREFIX"] = byte_code
    started = time.time()
    answer = subprocess.run([sys.executable, "-c", FRAME.format(program=FIRST_RECORD[name]), bootstrap_servers, topic],
                            stdout=subprocess.PIPE, text=True, check=True, timeout=RUN_TIMEOUT_S, cwd=ROOT,
                            env=environment)
    began, imported, acknowledged, cpu_s = json.loads(answer.stdout.splitlines()[-1])
    return Startup((imported - began) * 1000, cpu_s * 1000, (acknowledged - imported) * 1000,
                   (acknowledged - started) * 1000)


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.startup")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--clients", nargs="+", choices=list(FIRST_RECORD), default=list(FIRST_RECORD))
    parser.add_argument("--keep", action="store_true", help="also write the table to benchmarks/results")
    arguments = parser.parse_args()
    runs: dict[str, list[Startup]] = {name: [] for name in arguments.clients}
    with real_broker() as server, tempfile.TemporaryDirectory() as byte_code:
        server.create_topic(TOPIC, 3)
        for number in range(arguments.rounds + 1):
            for name in arguments.clients:
                one = run_once(name, server.bootstrap_servers, TOPIC, byte_code)
                if number:  # the first round reads the files from the disk, and compiles them
                    runs[name].append(one)
        delete_topic(server, TOPIC)
    lines = [f"medians of {arguments.rounds} processes, in ms; Apache Kafka on the same machine; {machine()}", "",
             f"{'':<18}{'import':>10}{'CPU':>8}{'then to the first acknowledgement':>36}{'total':>10}"]
    for name, each in runs.items():
        imported, cpu, acknowledged, total = (statistics.median(column) for column in zip(*each, strict=True))
        lines.append(f"{name:<18}{imported:>10.0f}{cpu:>8.0f}{acknowledged:>36.0f}{total:>10.0f}")
    print("\n".join(lines))
    if arguments.keep:
        keep("startup", "startup", "\n".join(lines))


if __name__ == "__main__":
    main()
