"""Fixtures of the contract: the cluster (three kinds of it), a topic, producers, and a proxy that makes faults.

    @pytest.mark.needs(Can.ACKS_0)                      where not every cluster can do what the test is about
    def test_something(cluster, topic, connect): ...    collected once for each cluster that can
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pyproducer import KafkaProducer
from tests.conftest import missing_tool, refuse
from tests.contract.clusters import CANNOT, Cluster, KafkaCluster, start_embedded_cluster, start_mock_cluster
from tests.support.fault_proxy import FaultProxy

# Short waits between attempts, long ones before giving up: what a test is about, it sets itself.
SETTINGS: dict[str, object] = {
    "linger.ms": 0,
    "max.block.ms": 60_000,
    "request.timeout.ms": 30_000,
    "delivery.timeout.ms": 60_000,
    "retry.backoff.ms": 20,
    "retry.backoff.max.ms": 50,
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 50,
}

Connect = Callable[..., KafkaProducer]


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "needs(*abilities): what the cluster must be able to do; see clusters.Can")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "cluster" not in metafunc.fixturenames:
        return
    needed = {ability for mark in metafunc.definition.iter_markers("needs") for ability in mark.args}
    # Which clusters are asked at all: each, unless PYPRODUCER_TEST_CLUSTERS names some, with commas between them.
    asked = os.environ.get("PYPRODUCER_TEST_CLUSTERS", ",".join(CANNOT)).split(",")
    assert set(asked) <= set(CANNOT), f"PYPRODUCER_TEST_CLUSTERS: {', '.join(CANNOT)} are there, {asked} were asked for"
    able = [kind for kind, cannot in CANNOT.items() if not needed & cannot.keys()]
    assert able, f"{metafunc.definition.nodeid}: no cluster can do what it needs"
    nobody = pytest.param(None, marks=pytest.mark.skip(
        reason=f"no cluster of {asked} can {'; '.join(sorted(ability.value for ability in needed))}"))
    metafunc.parametrize("cluster", [kind for kind in able if kind in asked] or [nobody], indirect=True)


@pytest.fixture
def cluster(request: pytest.FixtureRequest) -> Cluster:
    """The cluster of this test. Each is made once: in whatever order tests come, no cluster ends because of another."""
    found: Cluster = request.getfixturevalue(f"{request.param}_cluster")
    return found


@pytest.fixture
def _cluster_first(request: pytest.FixtureRequest) -> None:
    if "cluster" in request.fixturenames:
        request.getfixturevalue("cluster")


@pytest.fixture(autouse=True)
def no_leaks(_cluster_first: None, no_leaks: None) -> None:
    """What a cluster has open is there before the look at what a test leaves open."""


@pytest.fixture(scope="session")
def embedded_cluster() -> Iterator[Cluster]:
    with start_embedded_cluster() as cluster:
        yield cluster


@pytest.fixture(scope="session")
def mock_cluster() -> Iterator[Cluster]:
    if importlib.util.find_spec("confluent_kafka") is None:
        refuse("the package confluent_kafka is not installed: pip install -e '.[test]'")
    with start_mock_cluster() as cluster:
        yield cluster


@pytest.fixture(scope="session")
def kafka_cluster(request: pytest.FixtureRequest) -> Cluster:
    missing = missing_tool("kafka")
    if missing is not None:
        refuse(missing)
    return KafkaCluster(request.getfixturevalue("kafka"))


@pytest.fixture
def topic(cluster: Cluster, topic_name: str) -> str:
    """A topic of four partitions that no other test uses."""
    return cluster.new_topic(topic_name)


@pytest.fixture
def proxy(cluster: Cluster) -> Iterator[FaultProxy]:
    """A way to the cluster on which requests can go wrong: `connect(through=proxy)`."""
    with FaultProxy(cluster.bootstrap_servers) as proxy:
        yield proxy


@pytest.fixture
def connect(cluster: Cluster) -> Iterator[Connect]:
    """Make producers: `connect(acks="1", linger_ms=50)`; closed without waiting at the end of the test."""
    producers: list[KafkaProducer] = []

    def connect_one(*, through: FaultProxy | None = None, key_serializer: object = None,
                    value_serializer: object = None, **props: Any) -> KafkaProducer:
        servers = (cluster if through is None else through).bootstrap_servers
        settings = {"bootstrap.servers": servers, **SETTINGS,
                    **{name.replace("_", "."): value for name, value in props.items()}}
        producers.append(KafkaProducer(settings, key_serializer, value_serializer))
        return producers[-1]

    yield connect_one
    for producer in producers:
        producer.close(0)
