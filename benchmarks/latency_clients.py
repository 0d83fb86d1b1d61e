"""One caller that waits for each record: what its send and the acknowledgement take, for every Python client.

linger is 0 everywhere, acks=all, idempotent; the rest is each client's default. A busy second thread, when asked for,
runs Python without a pause, as a web server's other requests do: it competes for the interpreter with the caller and
with whatever threads of the client need the interpreter.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from benchmarks.workload import Workload

ANSWER_TIMEOUT_S = 60

SendAndWait = Callable[[bytes | None, bytes], object]


@contextmanager
def busy_thread(wanted: bool) -> Iterator[None]:
    """Run a thread that computes in Python until the block ends."""
    ended = threading.Event()

    def compute() -> None:
        number = 0
        while not ended.is_set():
            for _ in range(1000):
                number = (number * 31 + 7) % 1_000_003

    thread = threading.Thread(target=compute, name="busy")
    if wanted:
        thread.start()
    try:
        yield
    finally:
        ended.set()
        if wanted:
            thread.join()


def waits_of(send_and_wait: SendAndWait, workload: Workload, busy: bool) -> list[int]:
    """Return the wait of each record, in nanoseconds."""
    for key, value in workload.first_records():
        send_and_wait(key, value)
    waits = []
    with busy_thread(busy):
        for key, value in workload.records():
            started = time.perf_counter_ns()
            send_and_wait(key, value)
            waits.append(time.perf_counter_ns() - started)
    return waits


def wait_pyproducer(bootstrap_servers: str, topic: str, workload: Workload, busy: bool) -> list[int]:
    """This project's producer."""
    from pyproducer import KafkaProducer

    with KafkaProducer({"bootstrap.servers": bootstrap_servers, "acks": "all", "enable.idempotence": True,
                        "linger.ms": 0}) as producer:
        return waits_of(lambda key, value: producer.send(topic, value, key=key).result(timeout=ANSWER_TIMEOUT_S),
                        workload, busy)


def wait_confluent_kafka(bootstrap_servers: str, topic: str, workload: Workload, busy: bool) -> list[int]:
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

    return waits_of(send_and_wait, workload, busy)


def wait_kafka_python(bootstrap_servers: str, topic: str, workload: Workload, busy: bool) -> list[int]:
    """The producer of kafka-python."""
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=bootstrap_servers, acks="all", enable_idempotence=True, linger_ms=0)
    try:
        return waits_of(lambda key, value: producer.send(topic, value, key).get(ANSWER_TIMEOUT_S), workload, busy)
    finally:
        producer.close(30)


def wait_aiokafka(bootstrap_servers: str, topic: str, workload: Workload, busy: bool) -> list[int]:
    """The producer of aiokafka, awaited inside its loop."""
    return asyncio.run(_wait_aiokafka(bootstrap_servers, topic, workload, busy))


async def _wait_aiokafka(bootstrap_servers: str, topic: str, workload: Workload, busy: bool) -> list[int]:
    from aiokafka import AIOKafkaProducer

    producer = AIOKafkaProducer(bootstrap_servers=bootstrap_servers, acks="all", enable_idempotence=True, linger_ms=0)
    await producer.start()
    try:
        for key, value in workload.first_records():
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


LATENCY_CLIENTS: dict[str, Callable[[str, str, Workload, bool], list[int]]] = {
    "pyproducer": wait_pyproducer,
    "confluent-kafka": wait_confluent_kafka,
    "kafka-python": wait_kafka_python,
    "aiokafka": wait_aiokafka,
}
