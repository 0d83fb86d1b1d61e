"""One function per client: connect, rehearse, start the stopwatch, send the workload, stop it when all is answered.

Each imports its client itself, so that a process holds and pays for one client only. Settings are those of the
workload under each client's own names; what is not named there is the client's default. Out of the box, `tuning` names
nothing and all of it is the client's default, but for acks=all and idempotence.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Iterable
from typing import Any

from benchmarks.stopwatch import Stopwatch
from benchmarks.workload import Workload

Pairs = Iterable[tuple[bytes | None, bytes]]


class Answers:
    """Counts callbacks; the same few bytecodes for each client."""

    def __init__(self) -> None:
        self.stored_count = 0
        self.failures: list[object] = []

    def take(self, count: int) -> None:
        """Refuse a run that lost something, its rate would mean nothing; then count anew."""
        if self.failures or self.stored_count != count:
            raise RuntimeError(f"{self.stored_count} of {count} records were stored; "
                               f"{len(self.failures)} failures, the first: {self.failures[:1]}")
        self.stored_count = 0


def perform(workload: Workload, send_all: Callable[[Pairs], None], answers: Answers, stopwatch: Stopwatch) -> None:
    """Rehearse, then measure.

    Args:
        workload: Tells how long to rehearse and how many records are measured.
        send_all: Sends so many records, and returns when all are answered.
        answers: Those.
        stopwatch: Runs while the workload is sent.
    """
    for some in workload.rehearsals():
        send_all(some)
        answers.take(len(some))
    records = workload.records()
    stopwatch.start()
    send_all(records)
    stopwatch.stop()
    answers.take(workload.record_count)


def tuning(workload: Workload, settings: dict[str, Any]) -> dict[str, Any]:
    """Return the settings that make clients alike, or none of them out of the box."""
    return {} if workload.out_of_the_box else settings


def over_tls(workload: Workload, settings: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of TLS, or none of them where the workload has no file of whom to trust."""
    return settings if workload.trusted_file else {}


def codec_or_none(workload: Workload) -> str | None:
    """Return the codec as the two pure Python clients name it."""
    return None if workload.compression == "none" else workload.compression


def run_pyproducer(bootstrap_servers: str, topic: str, workload: Workload, stopwatch: Stopwatch) -> None:
    """This project's producer."""
    from pyproducer import KafkaProducer

    answers = Answers()

    def on_completion(metadata: object, exception: BaseException | None) -> None:
        if exception is None:
            answers.stored_count += 1
        else:
            answers.failures.append(exception)

    with KafkaProducer({"bootstrap.servers": bootstrap_servers, "acks": "all", "enable.idempotence": True,
                        **over_tls(workload, {"security.protocol": "SSL", "ssl.truststore.type": "PEM",
                                              "ssl.truststore.location": workload.trusted_file}),
                        **tuning(workload, {"linger.ms": workload.linger_ms, "batch.size": workload.batch_size_bytes,
                                            "compression.type": workload.compression})}) as producer:
        send, headers = producer.send, workload.headers()

        def send_all(records: Pairs) -> None:
            if headers:
                for key, value in records:
                    send(topic, value, key=key, headers=headers, on_completion=on_completion)
            else:
                for key, value in records:
                    send(topic, value, key=key, on_completion=on_completion)
            producer.flush()

        perform(workload, send_all, answers, stopwatch)


def run_pyproducer_python(bootstrap_servers: str, topic: str, workload: Workload, stopwatch: Stopwatch) -> None:
    """The same, its per-record work in Python although a compiled twin is there."""
    from pyproducer import IMPL

    if IMPL != "python":
        raise RuntimeError(f"this run is meant for the Python text, but the {IMPL} twin was loaded")
    run_pyproducer(bootstrap_servers, topic, workload, stopwatch)


def run_confluent_kafka(bootstrap_servers: str, topic: str, workload: Workload, stopwatch: Stopwatch) -> None:
    """The Python client of librdkafka."""
    from confluent_kafka import Producer

    produce_and_poll(Producer, bootstrap_servers, topic, workload, stopwatch)


def run_pyproducer_compat(bootstrap_servers: str, topic: str, workload: Workload, stopwatch: Stopwatch) -> None:
    """The same program over this project's producer, by confluent-kafka's interface."""
    from pyproducer.compat.confluent_kafka import Producer

    produce_and_poll(Producer, bootstrap_servers, topic, workload, stopwatch)


def produce_and_poll(producer_class: Callable[[dict[str, Any]], Any], bootstrap_servers: str, topic: str,
                     workload: Workload, stopwatch: Stopwatch) -> None:
    """Answer a full queue by serving callbacks, as confluent-kafka's own examples do."""
    answers = Answers()

    def on_delivery(error: object, message: object) -> None:
        if error is None:
            answers.stored_count += 1
        else:
            answers.failures.append(error)

    producer = producer_class({
        "bootstrap.servers": bootstrap_servers, "acks": "all", "enable.idempotence": True,
        **over_tls(workload, {"security.protocol": "SSL", "ssl.ca.location": workload.trusted_file}),
        **tuning(workload, {"linger.ms": workload.linger_ms, "batch.size": workload.batch_size_bytes,
                            "compression.type": workload.compression, "partitioner": "murmur2_random"})})
    produce, poll = producer.produce, producer.poll
    named: dict[str, Any] = {"headers": workload.headers()} if workload.has_header else {}

    def send_all(records: Pairs) -> None:
        for number, (key, value) in enumerate(records):
            while True:
                try:
                    produce(topic, value, key, on_delivery=on_delivery, **named)
                    break
                except BufferError:
                    poll(0.01)
            if number % 100 == 0:  # polling for each record would cost it a third of its rate
                poll(0)
        producer.flush(120)

    perform(workload, send_all, answers, stopwatch)


def run_kafka_python(bootstrap_servers: str, topic: str, workload: Workload, stopwatch: Stopwatch) -> None:
    """The producer of kafka-python, pure Python as ours."""
    from kafka import KafkaProducer

    answers = Answers()

    def on_success(metadata: object) -> None:
        answers.stored_count += 1

    producer = KafkaProducer(bootstrap_servers=bootstrap_servers, acks="all", enable_idempotence=True,
                             **over_tls(workload, {"security_protocol": "SSL", "ssl_cafile": workload.trusted_file}),
                             **tuning(workload, {"linger_ms": workload.linger_ms,
                                                 "batch_size": workload.batch_size_bytes,
                                                 "compression_type": codec_or_none(workload)}))
    try:
        send, headers = producer.send, workload.headers()

        def send_all(records: Pairs) -> None:
            for key, value in records:
                future = send(topic, value, key, headers)
                future.add_callback(on_success)
                future.add_errback(answers.failures.append)
            producer.flush(120)

        perform(workload, send_all, answers, stopwatch)
    finally:
        producer.close(30)


def run_aiokafka(bootstrap_servers: str, topic: str, workload: Workload, stopwatch: Stopwatch) -> None:
    """The producer of aiokafka, with its compiled record writer."""
    asyncio.run(_run_aiokafka(bootstrap_servers, topic, workload, stopwatch))


async def _run_aiokafka(bootstrap_servers: str, topic: str, workload: Workload, stopwatch: Stopwatch) -> None:
    from aiokafka import AIOKafkaProducer

    answers = Answers()

    def on_done(future: asyncio.Future[Any]) -> None:
        error = future.exception()
        if error is None:
            answers.stored_count += 1
        else:
            answers.failures.append(error)

    ssl_context = ssl.create_default_context(cafile=workload.trusted_file) if workload.trusted_file else None
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap_servers, acks="all", enable_idempotence=True,
                                **over_tls(workload, {"security_protocol": "SSL", "ssl_context": ssl_context}),
                                **tuning(workload, {"linger_ms": workload.linger_ms,
                                                    "max_batch_size": workload.batch_size_bytes,
                                                    "compression_type": codec_or_none(workload)}))
    await producer.start()
    try:
        send, headers = producer.send, workload.headers()

        async def send_all(records: Pairs) -> None:
            for key, value in records:
                (await send(topic, value, key, headers=headers)).add_done_callback(on_done)
            await producer.flush()
            await asyncio.sleep(0)  # callbacks of the last futures are run by the loop after flush

        for some in workload.rehearsals():
            await send_all(some)
            answers.take(len(some))
        records = workload.records()
        stopwatch.start()
        await send_all(records)
        stopwatch.stop()
        answers.take(workload.record_count)
    finally:
        await producer.stop()


CLIENTS: dict[str, Callable[[str, str, Workload, Stopwatch], None]] = {
    "pyproducer": run_pyproducer,
    "pyproducer-python": run_pyproducer_python,
    "pyproducer-compat": run_pyproducer_compat,
    "confluent-kafka": run_confluent_kafka,
    "kafka-python": run_kafka_python,
    "aiokafka": run_aiokafka,
}

SLOW: dict[str, int] = {"pyproducer-python": 4, "kafka-python": 10, "aiokafka": 5}
"""How many times fewer records a slow client sends, so that a round does not wait for it; figures are per record."""

ENVIRONMENT: dict[str, dict[str, str]] = {"pyproducer-python": {"PYPRODUCER_IMPL": "python"}}
"""What a client's process needs in its environment."""
