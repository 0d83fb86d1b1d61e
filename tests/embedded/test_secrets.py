"""A producer that has secrets shows none of them, while it works and while it fails."""

from __future__ import annotations

from typing import Any

import pytest

from pyproducer import KafkaProducer, KafkaTimeoutError
from pyproducer.broker import EmbeddedBroker
from tests.support.ports import reserved_port
from tests.support.secret_hunt import SecretHunt

PASSWORD, KEY_PASSWORD = "Zx9-never-shown", "Qw7-neither-this"
PROPS: dict[str, Any] = {
    "sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule required "
                        f'username="ada" password="{PASSWORD}";',
    "ssl.key.password": KEY_PASSWORD, "schema.registry.basic.auth.user.info": f"ada:{PASSWORD}", "max.block.ms": 100,
    "config.providers": "env", "client.id": "${env:KAFKA_SECRET}",
    "config.providers.env.class": "org.apache.kafka.common.config.provider.EnvVarConfigProvider"}


def test_producer_when_nobody_listens_then_its_errors_show_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_SECRET", "an ordinary name")
    with reserved_port() as port, SecretHunt(PASSWORD, KEY_PASSWORD) as hunt:
        producer = KafkaProducer({**PROPS, "bootstrap.servers": f"127.0.0.1:{port}"})
        with hunt.errors(KafkaTimeoutError):
            producer.partitions_for("orders")
        future = producer.send("orders", b"v")
        with hunt.errors(KafkaTimeoutError):
            future.result(timeout=30)
        hunt.look("producer", producer)
        hunt.look("future", future)
        hunt.look("metrics", producer.metrics())
        hunt.look("summary", producer.close())


def test_producer_when_it_works_then_logs_metrics_and_results_show_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_SECRET", "an ordinary name")
    with EmbeddedBroker(topics={"orders": 1}) as broker, SecretHunt(PASSWORD, KEY_PASSWORD) as hunt, KafkaProducer(
            {**PROPS, "bootstrap.servers": broker.bootstrap_servers, "max.block.ms": 60000}) as producer:
        hunt.look("metadata", producer.send("orders", b"v").result(timeout=30))
        hunt.look("producer", producer)
        hunt.look("metrics", producer.metrics())
    assert hunt.looked_at > {"metadata", "producer", "metrics"}
