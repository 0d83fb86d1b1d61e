"""The versions that each release since 2.1 leads to are spoken, and understood by Apache Kafka."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pyproducer import KafkaProducer
from tests.support.kafka_server import KafkaServer
from tests.support.log_checker import check_log, check_order, read_topic
from tests.support.old_broker import API_VERSIONS, INIT_PRODUCER_ID, METADATA, PRODUCE, RELEASES, OldBroker
from tests.support.ports import reserved_port
from tests.support.sending import Outcomes

COUNT = 3000


class ProxiedKafka:
    """A broker that sends its clients to a port where each test puts an old broker's face."""

    def __init__(self, server: KafkaServer, port: int) -> None:
        self.server = server
        self.port = port


@pytest.fixture(scope="module")
def proxied_kafka() -> Iterator[ProxiedKafka]:
    with reserved_port() as port, KafkaServer(proxy_port=port) as server:
        yield ProxiedKafka(server, port)


@pytest.mark.parametrize("release", RELEASES)
def test_release_when_its_versions_are_negotiated_then_records_arrive(
        proxied_kafka: ProxiedKafka, topic_name: str, release: str) -> None:
    server = proxied_kafka.server
    topic = server.create_topic(topic_name, 3)
    outcomes = Outcomes()
    target = ("127.0.0.1", server.proxied_port)
    with OldBroker(release, target=target, port=proxied_kafka.port) as old_broker:
        props = {"bootstrap.servers": f"127.0.0.1:{proxied_kafka.port}", "compression.type": "zstd"}
        with KafkaProducer(props) as producer:
            for number in range(COUNT):
                producer.send(topic, b"%d" % number, on_completion=outcomes.callback(number), key=b"%d" % (number % 50),
                              headers=[("h", b"1")])
        outcomes.ensure_all_acknowledged(COUNT)
        for api_key in (PRODUCE, METADATA, INIT_PRODUCER_ID):
            assert old_broker.versions_seen[api_key] == {RELEASES[release][api_key]}, api_key
        # A first question that is too new may be asked; then what the broker has.
        assert len(old_broker.versions_seen[API_VERSIONS]) <= 2
    stored = read_topic(server.bootstrap_servers, topic)
    check_log(range(COUNT), [int(record.value or b"-1") for record in stored])
    check_order((record.key, int(record.value or b"-1")) for record in stored)
