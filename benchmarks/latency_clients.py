"""One caller that waits for each record: what its send and the acknowledgement take, for every Python client.

linger is 0 everywhere, acks=all, idempotent; the rest is each client's default. Every client waits for its first
records unmeasured, for as long as the workload's warm-up lasts. A busy second thread, when asked for,
runs Python without a pause, as a web server's other requests do: it competes for the interpreter with the caller and
with whatever threads of the client need the interpreter.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from benchmarks.busy import busy_thread
from benchmarks.workload import FIRST_COUNT, Workload

ANSWER_TIMEOUT_S = 60

SendAndWait = Callable[[bytes | None, bytes], object]


@contextmanager
def pyproducer(bootstrap_servers: str, topic: str) -> Iterator[SendAndWait]:
    """This project's producer."""
    from pyproducer import KafkaProducer

    with KafkaProducer({"bootstrap.servers": bootstrap_servers, "acks": "all", "enable.idempotence": True,
                        "linger.ms": 0}) as producer:
        yield lambda key, value: producer.send(topic, value, key=key).result(timeout=ANSWER_TIMEOUT_S)


@contextmanager
def confluent_kafka(bootstrap_servers: str, topic: str) -> Iterator[SendAndWait]:
    """The Python client of librdkafka: produce and flush, as its own documentation has it for a synchronous send."""
    from confluent_kafka import Producer

    failures: list[object] = []

    def on_delivery(error: object, message: object) -> None:
        if error is not None:
            failures.append(error)

    producer = Producer({"bootstrap.servers": bootstrap_servers, "acks": "all", "enable.idempotence": True,
                         "linger.ms": 0, "partitioner": "murmur2_random"})

    def send_and_wait(key: bytes | None, value: bytes) -> None:
        producer.produce(topic, value, key, on_delivery=on_delivery)
        if producer.flush(ANSWER_TIMEOUT_S) or failures:
            raise RuntimeError(f"a record was not stored: {failures}")

    yield send_and_wait


@contextmanager
def kafka_python(bootstrap_servers: str, topic: str) -> Iterator[SendAndWait]:
    """The producer of kafka-python."""
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=bootstrap_servers, acks="all", enable_idempotence=True, linger_ms=0)
    try:
        yield lambda key, value: producer.send(topic, value, key).get(ANSWER_TIMEOUT_S)
    finally:
        producer.close(30)


CALLERS: dict[str, Callable[[str, str], AbstractContextManager[SendAndWait]]] = {
    "pyproducer": pyproducer,
    "confluent-kafka": confluent_kafka,
    "kafka-python": kafka_python,
}
"""Clients whose caller is a thread, by name: bootstrap servers and topic in, a synchronous send out."""

AIOKAFKA = "aiokafka"
LATENCY_CLIENTS = (*CALLERS, AIOKAFKA)


def waits_of(name: str, bootstrap_servers: str, topic: str, workload: Workload, busy: bool) -> list[int]:
    """Return the wait of each record, in nanoseconds."""
    if name == AIOKAFKA:
        return asyncio.run(_waits_of_aiokafka(bootstrap_servers, topic, workload, busy))
    with CALLERS[name](bootstrap_servers, topic) as send_and_wait:
        for records in workload.rehearsals(FIRST_COUNT):
            for key, value in records:
                send_and_wait(key, value)
        waits = []
        with busy_thread(busy):
            for key, value in workload.records():
                started = time.perf_counter_ns()
                send_and_wait(key, value)
                waits.append(time.perf_counter_ns() - started)
        return waits


async def _waits_of_aiokafka(bootstrap_servers: str, topic: str, workload: Workload, busy: bool) -> list[int]:
    """The producer of aiokafka, awaited inside its loop."""
    from aiokafka import AIOKafkaProducer

    producer = AIOKafkaProducer(bootstrap_servers=bootstrap_servers, acks="all", enable_idempotence=True, linger_ms=0)
    await producer.start()
    try:
        for records in workload.rehearsals(FIRST_COUNT):
            for key, value in records:
                await producer.send_and_wait(topic, value, key)
        waits = []
        with busy_thread(busy):
            for key, value in workload.records():
                started = time.perf_counter_ns()
                await producer.send_and_wait(topic, value, key)
                waits.append(time.perf_counter_ns() - started)
        return waits
    finally:
        await producer.stop()
