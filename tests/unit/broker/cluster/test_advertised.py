"""The addresses that clients are told: where they must connect, which need not be where the broker listens."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pyproducer.broker.cluster.config import BrokerConfig
from pyproducer.broker.cluster.listener import EndPoint, advertised_end_points, parse_listeners
from pyproducer.broker.cluster.living_brokers import BrokerInfo
from pyproducer.broker.control.in_process import ClusterOptions, InProcessCluster
from pyproducer.common.errors import ConfigError
from pyproducer.protocol.apis import ApiKeys
from tests.support.raw_client import metadata_body
from tests.unit.broker.apis.stage import ApiStage

MAP = "PLAINTEXT:PLAINTEXT,SSL:SSL,OUTSIDE:PLAINTEXT"
LISTENERS = "PLAINTEXT://0.0.0.0:9092,OUTSIDE://127.0.0.1:9192"


def advertised(text: str | None, listeners: str = LISTENERS, port_offset: int = 0) -> list[EndPoint]:
    return advertised_end_points(text, parse_listeners(listeners, MAP), port_offset)


def test_advertised_listeners_when_they_are_given_then_clients_are_told_those() -> None:
    assert advertised("PLAINTEXT://kafka:19092,OUTSIDE://[::1]:29092") == [
        EndPoint("PLAINTEXT", "PLAINTEXT", "kafka", 19092), EndPoint("OUTSIDE", "PLAINTEXT", "::1", 29092)]


def test_advertised_listeners_when_one_is_not_given_then_it_is_not_told() -> None:
    """As in Kafka: a listener that only the brokers use has no advertised address."""
    assert [found.listener_name for found in advertised("OUTSIDE://h:1")] == ["OUTSIDE"]


def test_advertised_listeners_when_none_are_given_then_they_are_where_the_broker_listens() -> None:
    assert advertised(None) == parse_listeners(LISTENERS, MAP)


def test_advertised_port_when_it_is_0_then_it_is_the_one_that_is_listened_on() -> None:
    assert advertised("PLAINTEXT://kafka:0")[0].port == 9092


def test_advertised_port_when_there_are_further_brokers_then_they_have_the_next_ones() -> None:
    (found,) = advertised("PLAINTEXT://kafka:19092", "PLAINTEXT://0.0.0.0:9094", port_offset=2)
    assert (found.host, found.port) == ("kafka", 19094)


@pytest.mark.parametrize(("text", "why"), [
    ("PLAINTEXT://0.0.0.0:9092", "nonroutable meta-address"), ("PLAINTEXT://[::]:9092", "nonroutable meta-address"),
    ("INSIDE://h:1", "no such listener"), ("PLAINTEXT://h:1,PLAINTEXT://h:2", "appears twice"), ("kafka:9092", "form")])
def test_advertised_listeners_when_they_make_no_sense_then_they_are_refused_before_anything_is_opened(
        text: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        InProcessCluster(ClusterOptions(config={"listeners": "PLAINTEXT://127.0.0.1:0", "advertised.listeners": text}))


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[ApiStage]:
    made = ApiStage(tmp_path)
    yield made
    made.close()


def told(stage: ApiStage) -> list[tuple[str, int]]:
    """Return the address that each API tells a client of."""
    stage.state.topic_life.create_topic("orders", 1, {})
    metadata: Any = stage.ask(ApiKeys.METADATA, 9, metadata_body("orders"))["brokers"][0]
    cluster: Any = stage.ask(ApiKeys.DESCRIBE_CLUSTER, 1, {"include_cluster_authorized_operations": False})[
        "brokers"][0]
    coordinator: Any = stage.ask(ApiKeys.FIND_COORDINATOR, 4, {"key_type": 0, "coordinator_keys": ["g"]})[
        "coordinators"][0]
    return [(found["host"], found["port"]) for found in (metadata, cluster, coordinator)]


@pytest.mark.parametrize(("host", "expected"), [("kafka", "kafka"), ("0.0.0.0", "10.1.2.3"), ("::", "10.1.2.3")])
def test_client_when_the_broker_listens_on_all_addresses_then_it_is_told_the_one_that_it_came_in_by(
        stage: ApiStage, host: str, expected: str) -> None:
    """It was told 0.0.0.0, which is its own machine: no container and no second machine could use the broker."""
    stage.connection_id = "10.1.2.3:9092-10.9.9.9:5000-0-0"
    stage.state.brokers.register(BrokerInfo(1, {"PLAINTEXT": EndPoint("PLAINTEXT", "PLAINTEXT", host, 9092)}, None))
    assert told(stage) == [(expected, 9092)] * 3


def test_listeners_when_they_are_the_controllers_then_they_are_not_opened() -> None:
    cluster = InProcessCluster(ClusterOptions(config={
        "listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0", "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "CONTROLLER:SASL_SSL,PLAINTEXT:PLAINTEXT",
        "advertised.listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0"}))
    assert BrokerConfig({"controller.listener.names": "CONTROLLER"}).text("controller.listener.names") == "CONTROLLER"
    cluster.start()
    try:
        assert list(cluster.addresses()) == ["PLAINTEXT"]
    finally:
        cluster.stop()
