"""librdkafka with the consumer protocol of KIP-848, which our broker does not have: the log says why nothing comes."""

from __future__ import annotations

import time

import pytest

from pyproducer.broker import EmbeddedBroker
from tests.support.patience import GIVE_UP_S

confluent_kafka = pytest.importorskip("confluent_kafka")


def test_consumer_when_it_speaks_a_protocol_that_is_not_there_then_the_log_names_it(
        caplog: pytest.LogCaptureFixture) -> None:
    with EmbeddedBroker(topics={"orders": 1}) as broker:
        consumer = confluent_kafka.Consumer({
            "bootstrap.servers": broker.bootstrap_servers, "group.id": "readers", "group.protocol": "consumer",
            "client.id": "modern"})
        try:
            consumer.subscribe(["orders"])
            ends = time.monotonic() + GIVE_UP_S
            while "group.protocol=classic" not in caplog.text:
                assert time.monotonic() < ends, caplog.text
                consumer.poll(0.2)
        finally:
            consumer.close()
    (told,) = [record.getMessage() for record in caplog.records if "group.protocol" in record.getMessage()]
    assert "Client modern" in told
    assert "group readers" in told


def test_consumer_when_it_speaks_the_classic_one_then_nothing_is_told(caplog: pytest.LogCaptureFixture) -> None:
    with EmbeddedBroker(topics={"orders": 1}) as broker:
        for _ in range(6):
            consumer = confluent_kafka.Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "readers"})
            consumer.subscribe(["orders"])
            ends = time.monotonic() + GIVE_UP_S
            while not consumer.assignment():
                assert time.monotonic() < ends
                consumer.poll(0.05)
            consumer.close()
    assert "group.protocol" not in caplog.text
