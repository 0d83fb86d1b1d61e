"""A process that passes one topic on to another, in transactions that commit its offsets, until it is told to end.

    python -m tests.support.passing_on_worker '{"bootstrap": ..., "consumer": "confluent", "id": ..., ...}'

Each record goes to the partition that it came from, with the same value, so that the target has to become what the
source is. The consumers are confluent-kafka's and kafka-python's, as their users have them. It ends when its standard
input does; it tells "passed N" after each commit and "again WHY" after each abort.

No import of pytest.
"""

from __future__ import annotations

import json
import select
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from pyproducer import AbortableTransactionError, KafkaProducer
from pyproducer.common.cluster import TopicPartition

AT_ONCE = 50
POLL_S = 0.2


class Consumed(NamedTuple):
    """A record of the source."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None


class Consumer(Protocol):
    """What is done with a consumer of any package."""

    def take(self) -> Sequence[Consumed]:
        """Return the next records, or none."""

    def group_metadata(self) -> object:
        """Return what send_offsets_to_transaction() wants."""

    def rewind(self) -> None:
        """Go back to what is committed, for each partition that it has."""

    def close(self) -> None:
        """End."""


class ConfluentConsumer:
    """confluent-kafka's."""

    def __init__(self, job: Mapping[str, Any]) -> None:
        from confluent_kafka import Consumer

        self._consumer = Consumer({
            "bootstrap.servers": job["bootstrap"], "group.id": job["group"], "enable.auto.commit": False,
            "auto.offset.reset": "earliest", "isolation.level": "read_committed",
            "session.timeout.ms": job["session_ms"], "heartbeat.interval.ms": job["session_ms"] // 5})
        self._consumer.subscribe([job["source"]])

    def take(self) -> Sequence[Consumed]:
        """See Consumer."""
        return [Consumed(message.partition(), message.offset(), message.key(), message.value())
                for message in self._consumer.consume(AT_ONCE, POLL_S) if message.error() is None]

    def group_metadata(self) -> object:
        """See Consumer."""
        return self._consumer.consumer_group_metadata()

    def rewind(self) -> None:
        """See Consumer."""
        from confluent_kafka import TopicPartition

        for place in self._consumer.committed(self._consumer.assignment(), timeout=10):
            self._consumer.seek(TopicPartition(place.topic, place.partition, max(place.offset, 0)))

    def close(self) -> None:
        """See Consumer."""
        self._consumer.close()


class KafkaPythonConsumer:
    """kafka-python's."""

    def __init__(self, job: Mapping[str, Any]) -> None:
        from kafka import KafkaConsumer

        self._consumer = KafkaConsumer(
            job["source"], bootstrap_servers=job["bootstrap"], group_id=job["group"], enable_auto_commit=False,
            auto_offset_reset="earliest", isolation_level="read_committed", session_timeout_ms=job["session_ms"],
            heartbeat_interval_ms=job["session_ms"] // 5)

    def take(self) -> Sequence[Consumed]:
        """See Consumer."""
        polled = self._consumer.poll(timeout_ms=int(POLL_S * 1000), max_records=AT_ONCE)
        return [Consumed(record.partition, record.offset, record.key, record.value)
                for records in polled.values() for record in records]

    def group_metadata(self) -> object:
        """See Consumer."""
        return self._consumer.group_metadata()

    def rewind(self) -> None:
        """See Consumer."""
        for place in self._consumer.assignment():
            self._consumer.seek(place, self._consumer.committed(place) or 0)

    def close(self) -> None:
        """See Consumer."""
        self._consumer.close()


CONSUMERS: dict[str, type[ConfluentConsumer | KafkaPythonConsumer]] = {
    "confluent": ConfluentConsumer, "kafka-python": KafkaPythonConsumer}


def _until_told() -> Iterator[None]:
    while not select.select([sys.stdin], [], [], 0)[0]:
        yield


def run(job: Mapping[str, Any]) -> None:
    """Pass records on."""
    with KafkaProducer({"bootstrap.servers": job["bootstrap"], "transactional.id": job["id"], "linger.ms": 0,
                        "retry.backoff.ms": 20, "retry.backoff.max.ms": 200, "max.block.ms": 120_000,
                        "delivery.timeout.ms": 120_000}) as producer:
        producer.init_transactions()
        consumer = CONSUMERS[job["consumer"]](job)
        for _turn in _until_told():
            taken = consumer.take()
            if not taken:
                continue
            try:
                _pass_on(producer, consumer, taken, job)
            except AbortableTransactionError as error:
                print(f"again {type(error.__cause__).__name__}", flush=True)
                try:
                    consumer.rewind()
                except Exception as problem:
                    print(f"anew {problem!r}", flush=True)
                    consumer.close()
                    consumer = CONSUMERS[job["consumer"]](job)
            else:
                print(f"passed {len(taken)}", flush=True)
        consumer.close()


def _pass_on(producer: KafkaProducer, consumer: Consumer, taken: Sequence[Consumed], job: Mapping[str, Any]) -> None:
    offsets: dict[TopicPartition, int] = {}
    with producer.transaction():
        for record in taken:
            producer.send(job["target"], record.value, key=record.key, partition=record.partition)
            offsets[TopicPartition(job["source"], record.partition)] = record.offset + 1
        producer.send_offsets_to_transaction(offsets, consumer.group_metadata())


if __name__ == "__main__":
    run(json.loads(sys.argv[1]))
