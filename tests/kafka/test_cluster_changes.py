"""What a cluster does under a living producer: topics grow and are made anew, quotas throttle."""

from __future__ import annotations

import time

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions

from pyproducer import KafkaProducer
from tests.support.kafka_server import KafkaServer
from tests.support.log_checker import check_log, read_topic
from tests.support.patience import GIVE_UP_S
from tests.support.sending import Outcomes


@pytest.fixture
def admin(kafka: KafkaServer) -> AdminClient:
    return AdminClient({"bootstrap.servers": kafka.bootstrap_servers, "log_level": 0})


def test_topic_when_deleted_and_created_again_then_records_arrive(
        kafka: KafkaServer, admin: AdminClient, topic_name: str) -> None:
    topic = kafka.create_topic(topic_name, 1)
    with KafkaProducer({"bootstrap.servers": kafka.bootstrap_servers}) as producer:
        assert producer.send(topic, b"old").result(GIVE_UP_S).offset == 0
        admin = admin  # kept: librdkafka fails what is under way when its handle goes
        admin.delete_topics([topic])[topic].result(GIVE_UP_S)
        _create_again(kafka, topic)
        # The producer still knows the old topic's id; the broker's refusal makes it ask again.
        assert producer.send(topic, b"new").result(GIVE_UP_S).offset == 0
        assert producer.send(topic, b"newer").result(GIVE_UP_S).offset == 1
    assert [record.value for record in read_topic(kafka.bootstrap_servers, topic)] == [b"new", b"newer"]


def _create_again(kafka: KafkaServer, topic: str) -> None:
    """Deletion takes effect a moment after it is answered."""
    from confluent_kafka import KafkaException

    deadline = time.monotonic() + GIVE_UP_S
    while True:
        try:
            kafka.create_topic(topic, 1)
        except KafkaException:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
        else:
            return


def test_topic_when_it_grows_then_the_new_partitions_are_found(
        kafka: KafkaServer, admin: AdminClient, topic_name: str) -> None:
    topic = kafka.create_topic(topic_name, 1)
    with KafkaProducer({"bootstrap.servers": kafka.bootstrap_servers, "metadata.max.age.ms": 300}) as producer:
        assert producer.send(topic, b"v").result(GIVE_UP_S).partition == 0
        admin = admin
        admin.create_partitions([NewPartitions(topic, 3)])[topic].result(GIVE_UP_S)
        # An explicit partition that is not known yet is waited for.
        assert producer.send(topic, b"v", partition=2).result(GIVE_UP_S).partition == 2
        deadline = time.monotonic() + GIVE_UP_S
        while producer.send(topic, b"v").result(GIVE_UP_S).partition == 0:
            assert time.monotonic() < deadline, "the new partitions were never chosen"


def test_quota_when_exceeded_then_the_producer_waits_and_all_records_arrive(
        kafka: KafkaServer, topic_name: str) -> None:
    topic = kafka.create_topic(topic_name, 3)
    client_id = topic_name
    kafka.run_tool("kafka.admin.ConfigCommand", "--bootstrap-server", kafka.bootstrap_servers, "--alter",
                   "--add-config", "producer_byte_rate=200000", "--entity-type", "clients", "--entity-name", client_id)
    outcomes = Outcomes()
    count = 0
    ends = time.monotonic() + GIVE_UP_S
    with KafkaProducer({"bootstrap.servers": kafka.bootstrap_servers, "client.id": client_id}) as producer:
        while not producer.metrics()["produce-throttle-time-total"]:  # a new quota takes a while to be known
            assert time.monotonic() < ends, f"{count} records, and never throttled"
            for number in range(count, count + 300):
                producer.send(topic, b"%0999d" % number, on_completion=outcomes.callback(number))
            count += 300
            producer.flush(GIVE_UP_S)
    outcomes.ensure_all_acknowledged(count)
    check_log(range(count), [int(record.value or b"-1") for record in read_topic(kafka.bootstrap_servers, topic)])
