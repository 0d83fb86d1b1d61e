"""Programs of confluent-kafka's users."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pyproducer import JsonSerializer, KafkaError, KafkaProducer, RecordMetadata, StringSerializer


def delivery_reports(servers: str, topic: str, lines: Iterable[str], report: Callable[[str], None]) -> None:
    """A delivery report for each line.

        def acked(err, msg):
            if err is not None: report(f"failed: {err}")
            else: report(f"{msg.topic()} [{msg.partition()}] @ {msg.offset()}")
        producer.produce(topic, line.encode(), on_delivery=acked)
        producer.poll(0)
        ...
        producer.flush()
    """
    def acked(metadata: RecordMetadata | None, exception: KafkaError | None) -> None:
        if metadata is None:
            report(f"failed: {exception}")
        else:
            report(f"{metadata.topic} [{metadata.partition}] @ {metadata.offset}")

    with KafkaProducer({"bootstrap.servers": servers}) as producer:
        for line in lines:
            producer.send(topic, line.encode(), on_completion=acked)


def back_pressure(servers: str, topic: str, values: Iterable[bytes]) -> None:
    """A queue that is full.

        while True:
            try:
                producer.produce(topic, value)
                break
            except BufferError:
                producer.poll(0.1)
    """
    with KafkaProducer({"bootstrap.servers": servers, "buffer.memory": 100_000, "batch.size": 0}) as producer:
        for value in values:
            producer.send(topic, value)  # waits while there is no memory, up to max.block.ms
        producer.flush(raise_on_error=True)


@dataclass
class User:
    """A user."""

    name: str
    favorite_number: int


def json_objects(servers: str, topic: str, users: Mapping[str, User]) -> None:
    """SerializingProducer with functions `(obj, ctx)`.

        producer = SerializingProducer({"bootstrap.servers": servers, "key.serializer": StringSerializer("utf_8"),
                                        "value.serializer": lambda user, ctx: json.dumps(vars(user)).encode()})
        producer.produce(topic=topic, key=key, value=user, on_delivery=acked)
    """
    with KafkaProducer({"bootstrap.servers": servers}, StringSerializer(), JsonSerializer()) as producer:
        for key, user in users.items():
            producer.send(topic, user, key=key)


def headers_of_text(servers: str, topic: str, trace: str) -> RecordMetadata:
    """Headers whose values are text.

        producer.produce(topic, b"v", headers={"trace": trace, "tags": ["a"]})
    """
    with KafkaProducer({"bootstrap.servers": servers}) as producer:
        return producer.send(topic, b"v", headers={"trace": trace.encode()}).result()


def safe_settings(servers: str, topic: str, value: bytes) -> Mapping[str, float]:
    """Settings for no loss and no duplicate, and statistics.

        Producer({"bootstrap.servers": servers, "enable.idempotence": True, "acks": "all", "compression.codec": "lz4",
                  "message.send.max.retries": 1000000, "queue.buffering.max.ms": 50, "message.timeout.ms": 60000,
                  "statistics.interval.ms": 1000, "stats_cb": lambda text: report(json.loads(text)["txmsgs"])})
    """
    with KafkaProducer({"bootstrap.servers": servers, "enable.idempotence": True, "acks": "all",
                        "compression.type": "lz4", "linger.ms": 50, "delivery.timeout.ms": 60_000}) as producer:
        producer.send(topic, value).result()
        return producer.metrics()


class EventWriter:
    """A class of an application's around a producer, with `partial` to know what a report is about.

        self._producer.produce(topic, json.dumps(event), on_delivery=partial(self._on_delivery, event["id"]))
        self._producer.poll(0)
    """

    def __init__(self, servers: str, topic: str) -> None:
        self._producer = KafkaProducer({"bootstrap.servers": servers})
        self._topic = topic
        self.states: dict[int, str] = {}

    def write(self, event: dict[str, Any]) -> None:
        """Hand an event over."""
        from functools import partial

        self.states[event["id"]] = "sent"
        self._producer.send(self._topic, json.dumps(event).encode(),
                            on_completion=partial(self._on_completion, event["id"]))

    def _on_completion(self, event_id: int, metadata: RecordMetadata | None, exception: KafkaError | None) -> None:
        self.states[event_id] = "failed" if exception else "stored"

    def close(self) -> None:
        """Wait for all events; `flush()` in the original."""
        self._producer.close()
