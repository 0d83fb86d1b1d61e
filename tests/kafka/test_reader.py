"""read_topic against Apache Kafka, what it reads written by librdkafka."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from pyproducer.client.blocking_client import Answer, BlockingClient, Connection
from pyproducer.common.errors import (
    DisconnectedError,
    InvalidReceiveError,
    KafkaTimeoutError,
    UnknownTopicOrPartitionError,
)
from pyproducer.common.records import Header
from pyproducer.protocol.apis import ApiKeys
from pyproducer.testing import ConsumedRecord, read_topic
from tests.support.certificates import Certificates
from tests.support.kafka_server import KafkaServer
from tests.support.patience import GIVE_UP_S


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_read_topic_of_each_codec_gives_every_record_in_order(kafka: KafkaServer, topic_name: str, codec: str) -> None:
    kafka.create_topic(topic_name, 2)
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "compression.type": codec, "log_level": 0})
    for number in range(5000):
        producer.produce(topic_name, b"value %d" % number, b"key", partition=number % 2, timestamp=1000 + number,
                         headers=[("n", b"%d" % number)])
    producer.flush(GIVE_UP_S)
    assert list(read_topic(kafka.bootstrap_servers, topic_name)) == [
        ConsumedRecord(topic_name, partition, offset, 1000 + number, b"key", b"value %d" % number,
                       (Header("n", b"%d" % number),))
        for partition in (0, 1) for offset, number in enumerate(range(partition, 5000, 2))]


def test_read_topic_with_nulls_and_transactions_skips_only_control_records(kafka: KafkaServer,
                                                                           topic_name: str) -> None:
    kafka.create_topic(topic_name, 1)
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": topic_name, "log_level": 0})
    producer.init_transactions(30)
    for value in (None, b""):
        producer.begin_transaction()
        producer.produce(topic_name, value, None if value is None else b"")
        producer.commit_transaction(30)
    assert [(record.offset, record.key, record.value) for record in read_topic(kafka.bootstrap_servers, topic_name)] \
        == [(0, None, None), (2, b"", b"")]


def test_read_topic_whose_first_records_were_deleted_begins_behind_them(kafka: KafkaServer, topic_name: str) -> None:
    kafka.create_topic(topic_name, 1)
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "log_level": 0})
    for number in range(10):
        producer.produce(topic_name, b"%d" % number)
    producer.flush(GIVE_UP_S)
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers, "log_level": 0})
    for future in admin.delete_records([TopicPartition(topic_name, 0, 7)]).values():
        future.result(GIVE_UP_S)
    assert [record.value for record in read_topic(kafka.bootstrap_servers, topic_name)] == [b"7", b"8", b"9"]


def test_read_topic_of_a_client_whose_quota_is_used_up_gives_every_record(
        kafka: KafkaServer, topic_name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kafka answers a throttled Fetch with no topics at all: no reading ended well."""
    kafka.create_topic(topic_name, 1)
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "log_level": 0, "linger.ms": 0})
    values = [b"%d" % number + b"x" * 10_000 for number in range(6)]
    for value in values:
        producer.produce(topic_name, value)
        producer.flush(GIVE_UP_S)
    kafka.run_tool("kafka.admin.ConfigCommand", "--bootstrap-server", kafka.bootstrap_servers, "--alter",
                   "--add-config", "consumer_byte_rate=10000", "--entity-type", "clients", "--entity-name", topic_name)
    throttled = []
    ask = BlockingClient.ask

    def watched(client: BlockingClient, connection: Connection, api_key: ApiKeys, *body: Any, **how: Any) -> Answer:
        answer = ask(client, connection, api_key, *body, **how)
        if api_key is ApiKeys.FETCH and answer.body["throttle_time_ms"]:
            throttled.append(answer.body["responses"])
        return answer

    monkeypatch.setattr(BlockingClient, "ask", watched)
    ends = time.monotonic() + GIVE_UP_S
    while not throttled:  # a new quota takes a while to be known
        assert time.monotonic() < ends, "never throttled"
        found = read_topic(kafka.bootstrap_servers, topic_name, settings={"client.id": topic_name})
        assert [record.value for record in found] == values
    assert not any(throttled)


def test_read_topic_over_tls_takes_the_producers_settings(
        kafka: KafkaServer, certificates: Certificates, topic_name: str) -> None:
    kafka.create_topic(topic_name, 1)
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "log_level": 0})
    values = [b"%d" % number + b"x" * 2000 for number in range(5000)]
    for value in values:
        producer.produce(topic_name, value)
    producer.flush(GIVE_UP_S)
    settings = {"security.protocol": "SSL", "ssl.truststore.location": str(certificates.ca)}
    found = read_topic(kafka.ssl_bootstrap_servers, topic_name, settings=settings)
    assert [record.value for record in found] == values


def test_read_topic_that_is_not_there_says_so(kafka: KafkaServer) -> None:
    with pytest.raises(UnknownTopicOrPartitionError, match="Metadata of never-made"):
        list(read_topic(kafka.bootstrap_servers, "never-made"))


def test_read_topic_when_the_first_address_refuses_takes_the_next(kafka: KafkaServer, topic_name: str) -> None:
    kafka.create_topic(topic_name, 1)
    with closed_port() as port:
        assert list(read_topic(f"127.0.0.1:{port},{kafka.bootstrap_servers}", topic_name)) == []


def test_read_topic_when_nobody_listens_names_every_address() -> None:
    with closed_port() as port, pytest.raises(DisconnectedError, match=f"127.0.0.1:{port}: .*refused"):
        list(read_topic(f"127.0.0.1:{port}", "any"))


def test_read_topic_when_a_web_server_answers_says_so() -> None:
    with answering(b"HTTP/1.1 400 Bad Request\r\n\r\n") as port, \
            pytest.raises(InvalidReceiveError, match="seems to speak HTTP"):
        list(read_topic(f"127.0.0.1:{port}", "any"))


def test_read_topic_when_the_peer_hangs_up_says_so() -> None:
    with answering(b"\x00\x00\x01\x00half") as port, pytest.raises(DisconnectedError, match="closed the connection"):
        list(read_topic(f"127.0.0.1:{port}", "any"))


def test_read_topic_when_nothing_answers_gives_up_after_the_timeout() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(KafkaTimeoutError, match=r"within 0\.2 s"):
        list(read_topic(f"127.0.0.1:{silent.getsockname()[1]}", "any", timeout=0.2))


@contextmanager
def closed_port() -> Iterator[int]:
    """A port that is ours and on which nobody listens."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


@contextmanager
def answering(answer: bytes) -> Iterator[int]:
    """A server that says the same to everybody, then hangs up."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield server.getsockname()[1]
        thread.join()
