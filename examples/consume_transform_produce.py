"""Exactly once from one topic to another: what is produced and what is consumed are one transaction.

The consumer is confluent-kafka's. kafka-python's and aiokafka's go as well: only the group's metadata come from
`consumer.group_metadata()`, or from the consumer itself.

Run:     python -m examples.consume_transform_produce
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaException, TopicPartition

from pyproducer import AbortableTransactionError, KafkaProducer
from pyproducer.broker import EmbeddedBroker
from pyproducer.testing import read_topic

GROUP = "shouters"


def transform(value: bytes) -> bytes:
    """What is done with a record."""
    return value.upper()


def pass_on(consumer: Any, producer: KafkaProducer, messages: Sequence[Any]) -> None:
    """Produce what comes of some records, and commit that they are consumed: both, or neither.

    Raises:
        AbortableTransactionError: Neither was done, and the transaction is aborted: they have to be consumed again.
        FatalProducerError: Another process has this transactional id now: end this one.
    """
    offsets = {}
    with producer.transaction():
        for message in messages:
            producer.send("shouts", transform(message.value()), key=message.key())
            offsets[message.topic(), message.partition()] = message.offset() + 1  # that of the next one to read
        # With the group's metadata the coordinator refuses this where another consumer has the partitions by now.
        producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata())


def rewind(consumer: Any) -> None:
    """After an abort: go back to what was committed last."""
    for place in consumer.committed(consumer.assignment(), timeout=10):
        consumer.seek(TopicPartition(place.topic, place.partition, max(place.offset, 0)))


def run(servers: str, count: int, most_at_once: int = 100) -> int:
    """Pass so many records on; return how many transactions that took."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": GROUP, "enable.auto.commit": False,
                         "auto.offset.reset": "earliest", "isolation.level": "read_committed"})
    transactions = 0
    try:
        with KafkaProducer({"bootstrap.servers": servers, "transactional.id": f"{GROUP}-1"}) as producer:
            producer.init_transactions()  # aborts what an earlier process with this id has left open
            consumer.subscribe(["whispers"])
            while count:
                messages = consumer.consume(most_at_once, timeout=1)
                for message in messages:
                    if message.error():
                        raise KafkaException(message.error())
                if not messages:
                    continue
                try:
                    pass_on(consumer, producer, messages)
                except AbortableTransactionError as error:
                    print(f"again: {error}")
                    rewind(consumer)
                    continue
                transactions += 1
                count -= len(messages)
    finally:
        consumer.close()
    return transactions


def main() -> None:
    """Pass a thousand records on, and read them."""
    with EmbeddedBroker(topics={"whispers": 3, "shouts": 3}) as broker:
        with KafkaProducer({"bootstrap.servers": broker.bootstrap_servers}) as producer:
            for number in range(1000):
                producer.send("whispers", b"record %d" % number, key=b"%d" % number)
        transactions = run(broker.bootstrap_servers, 1000)
        shouts = [record.value for record in read_topic(broker.bootstrap_servers, "shouts",
                                                        isolation_level="read_committed")]
        print(f"{len(shouts)} records passed on, {len(set(shouts))} of them different; transactions: {transactions}")


if __name__ == "__main__":
    main()
