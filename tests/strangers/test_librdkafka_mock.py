"""Our producer against librdkafka's mock cluster: three brokers, older protocol versions, written by strangers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from pyproducer import KafkaProducer
from tests.support.log_checker import check_log, check_order, read_topic
from tests.support.patience import GIVE_UP_S
from tests.support.sending import Outcomes

COUNT = 20_000


@pytest.fixture(scope="module")
def mock_cluster() -> Iterator[str]:
    """The bootstrap servers of a mock cluster; it lives as long as the librdkafka client that asked for it."""
    owner = Producer({"bootstrap.servers": "replaced.by.the.mock:9092", "test.mock.num.brokers": 3, "log_level": 0})
    brokers = owner.list_topics(timeout=GIVE_UP_S).brokers.values()
    yield ",".join(f"{broker.host}:{broker.port}" for broker in brokers)
    owner.flush(0)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_records_when_sent_to_three_mock_brokers_then_all_are_read_back_in_order(mock_cluster: str, codec: str) -> None:
    outcomes = Outcomes()
    with KafkaProducer({"bootstrap.servers": mock_cluster, "compression.type": codec}) as producer:
        # The mock draws leaders by lot: the first topic, of several, whose partitions have more than one.
        topic = next(name for name in (f"mock-{codec}-{number}" for number in range(20))
                     if len({info.leader.node_id for info in producer.partitions_for(name) if info.leader}) > 1)
        for number in range(COUNT):
            producer.send(topic, b"%d" % number, on_completion=outcomes.callback(number), key=b"%d" % (number % 100))
    outcomes.ensure_all_acknowledged(COUNT)
    stored = read_topic(mock_cluster, topic)
    check_log(range(COUNT), [int(record.value or b"-1") for record in stored])
    check_order((record.key, int(record.value or b"-1")) for record in stored)


# Not acks=0: the mock answers such requests too, which Kafka never does; an answer that nobody asked for ends the
# connection, and with it what the mock had not read yet. tests/kafka sends with acks=0.
def test_records_when_sent_without_idempotence_then_all_are_read_back(mock_cluster: str) -> None:
    topic = "mock-acks-1"
    outcomes = Outcomes()
    with KafkaProducer({"bootstrap.servers": mock_cluster, "acks": "1", "enable.idempotence": False}) as producer:
        for number in range(COUNT):
            producer.send(topic, b"%d" % number, on_completion=outcomes.callback(number))
        producer.flush(GIVE_UP_S)
        outcomes.ensure_all_acknowledged(COUNT)
    check_log(range(COUNT), [int(record.value or b"-1") for record in read_topic(mock_cluster, topic)])


def test_transactions_when_the_mock_is_their_coordinator_then_it_takes_each_request(mock_cluster: str) -> None:
    """It is Kafka's side before Transactions V2, as librdkafka's authors read it; its markers have no checksum."""
    topics = [f"mock-transactions-{number}" for number in range(3)]
    props = {"bootstrap.servers": mock_cluster, "transactional.id": "mock-1"}
    with KafkaProducer(props) as producer:
        producer.init_transactions()
        for number in range(20):
            producer.begin_transaction()
            futures = [producer.send(topic, b"%d" % number, partition=partition)
                       for topic in topics for partition in range(4)]
            producer.send_offsets_to_transaction({(topics[0], 0): number}, "mock-group")
            if number % 2:
                producer.flush()
                producer.abort_transaction()
            else:
                producer.commit_transaction()
            assert all(future.exception(GIVE_UP_S) is None for future in futures)
        producer.init_transactions("mock-2")
        with producer.transaction():
            producer.send(topics[0], b"of another id")
    for topic in topics:
        stored = [int(record.value)
                  for record in read_topic(mock_cluster, topic, consumer_settings={"check.crcs": False})
                  if record.value and record.value.isdigit()]
        assert sorted(stored) == [number for number in range(20) for _ in range(4)]
