"""A producer that has secrets shows none of them, while it works and while it fails."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from pyproducer import AuthenticationError, KafkaProducer, KafkaTimeoutError
from pyproducer.broker import EmbeddedBroker
from tests.support.patience import GIVE_UP_S
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
            future.result(timeout=GIVE_UP_S)
        hunt.look("producer", producer)
        hunt.look("future", future)
        hunt.look("metrics", producer.metrics())
        hunt.look("summary", producer.close())


def test_producer_when_it_works_then_logs_metrics_and_results_show_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_SECRET", "an ordinary name")
    with EmbeddedBroker(topics={"orders": 1}) as broker, SecretHunt(PASSWORD, KEY_PASSWORD) as hunt, KafkaProducer(
            {**PROPS, "bootstrap.servers": broker.bootstrap_servers, "max.block.ms": 60000}) as producer:
        hunt.look("metadata", producer.send("orders", b"v").result(timeout=GIVE_UP_S))
        hunt.look("producer", producer)
        hunt.look("metrics", producer.metrics())
    assert hunt.looked_at > {"metadata", "producer", "metrics"}


MODULES = {"PLAIN": "plain.PlainLoginModule", "SCRAM-SHA-256": "scram.ScramLoginModule",
           "SCRAM-SHA-512": "scram.ScramLoginModule"}
WRONG = "Mn3-is-the-wrong-one"
BROKER_PASSWORD = "Lk2-of-the-broker"


@pytest.fixture(scope="module")
def sasl_broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(topics={"orders": 1}, log_requests=True, config={
            "listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0",
            "sasl.enabled.mechanisms": ",".join(MODULES), "sasl.mechanism.inter.broker.protocol": "PLAIN",
            "listener.name.sasl_plaintext.plain.sasl.jaas.config":
                "org.apache.kafka.common.security.plain.PlainLoginModule required username=\"broker\" "
                f"password=\"{BROKER_PASSWORD}\" user_ada=\"{PASSWORD}\";"}) as broker:
        broker.add_scram_user("ada", PASSWORD)
        yield broker


def sasl_props(broker: EmbeddedBroker, mechanism: str, password: str) -> dict[str, Any]:
    return {"bootstrap.servers": broker.bootstrap_servers_of("SASL_PLAINTEXT"), "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": mechanism, "max.block.ms": 60000,
            "sasl.jaas.config": f'org.apache.kafka.common.security.{MODULES[mechanism]} required '
                                f'username="ada" password="{password}";'}


@pytest.mark.parametrize("mechanism", MODULES)
def test_login_when_it_succeeds_then_neither_side_shows_the_password(sasl_broker: EmbeddedBroker,
                                                                    mechanism: str) -> None:
    with SecretHunt(PASSWORD, BROKER_PASSWORD) as hunt:
        with KafkaProducer(sasl_props(sasl_broker, mechanism, PASSWORD)) as producer:
            hunt.look("metadata", producer.send("orders", b"v").result(timeout=GIVE_UP_S))
            hunt.look("producer", producer)
            hunt.look("metrics", producer.metrics())
        hunt.look("broker", sasl_broker)
        hunt.look("requests", sasl_broker.requests())


@pytest.mark.parametrize("mechanism", MODULES)
def test_login_when_it_is_refused_then_no_error_of_either_side_shows_a_password(sasl_broker: EmbeddedBroker,
                                                                               mechanism: str) -> None:
    with SecretHunt(PASSWORD, BROKER_PASSWORD, WRONG) as hunt:
        producer = KafkaProducer(sasl_props(sasl_broker, mechanism, WRONG))
        future = producer.send("orders", b"v")
        with hunt.errors(AuthenticationError):
            producer.partitions_for("orders")
        with hunt.errors(AuthenticationError):
            future.result(timeout=GIVE_UP_S)
        hunt.look("producer", producer)
        hunt.look("future", future)
        hunt.look("metrics", producer.metrics())
        hunt.look("summary", producer.close())
        hunt.look("requests", sasl_broker.requests())
