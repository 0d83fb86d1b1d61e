"""Answers for MockSelector: a cluster with nodes, topics and version ranges, all changeable while a test runs."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from pyproducer.client.metadata import ProducerMetadata
from pyproducer.client.network_client import NetworkClient
from pyproducer.client.request import ClientResponse
from pyproducer.client.resolver import ThreadedResolver
from pyproducer.client.wire import Wire
from pyproducer.common.backoff import ExponentialBackoff
from pyproducer.common.cluster import Node
from pyproducer.protocol.apis import ApiKeys
from tests.support.clock import ManualClock
from tests.support.mock_client import MockWakeup
from tests.unit.client.mock_selector import MockSelector, Request
from tests.unit.client.stepped_threads import SteppedThreads

LATEST = {ApiKeys.PRODUCE: (0, 13), ApiKeys.METADATA: (0, 13), ApiKeys.API_VERSIONS: (0, 4),
          ApiKeys.FIND_COORDINATOR: (0, 6), ApiKeys.INIT_PRODUCER_ID: (0, 5)}
BOOTSTRAP = (("boot-1", 9092), ("boot-2", 9092))


def topic_row(name: str, *leaders: int, error: int = 0, epoch: int = 0, topic_id: uuid.UUID | None = None,
              partition_error: int = 0) -> dict[str, Any]:
    """A topic in a Metadata response; one partition per leader."""
    return {"error_code": error, "name": name, "topic_id": topic_id or uuid.uuid5(uuid.NAMESPACE_DNS, name),
            "is_internal": False,
            "partitions": [{"error_code": partition_error, "partition_index": index, "leader_id": leader,
                            "leader_epoch": epoch, "replica_nodes": [leader], "isr_nodes": [leader],
                            "offline_replicas": []} for index, leader in enumerate(leaders)]}


class ScriptedCluster:
    """What the brokers say."""

    def __init__(self, node_count: int = 2) -> None:
        self.nodes = [Node(index + 1, f"host-{index + 1}", 9092) for index in range(node_count)]
        self.topics: dict[str, dict[str, Any]] = {}
        self.versions: dict[ApiKeys, tuple[int, int]] = dict(LATEST)
        self.finalized: dict[str, int] = {}
        self.metadata_error = 0
        self.throttle_ms = 0
        self.answers_metadata = True

    def __call__(self, request: Request) -> Mapping[str, Any] | bytes | Exception | None:
        if request.api_key is ApiKeys.API_VERSIONS:
            return self.api_versions(request.version)
        if request.api_key is ApiKeys.METADATA:
            return self.metadata(request.body) if self.answers_metadata else None
        return None

    def api_versions(self, version: int) -> dict[str, Any]:
        highest = self.versions[ApiKeys.API_VERSIONS][1]
        if version > highest:
            # Brokers from 2.4 on (their highest is 3 or more) name the range, older ones name nothing.
            rows = [{"api_key": 18, "min_version": 0, "max_version": highest}] if highest >= 3 else []
            return {"error_code": 35, "api_keys": rows}
        return {"error_code": 0, "throttle_time_ms": 0, "finalized_features_epoch": 1,
                "api_keys": [{"api_key": key, "min_version": low, "max_version": high}
                             for key, (low, high) in self.versions.items()],
                "finalized_features": [{"name": name, "max_version_level": level, "min_version_level": level}
                                       for name, level in self.finalized.items()]}

    def metadata(self, body: Mapping[str, Any]) -> dict[str, Any]:
        wanted = [topic["name"] for topic in body["topics"] or ()]
        return {"throttle_time_ms": self.throttle_ms, "cluster_id": "scripted", "controller_id": 1,
                "error_code": self.metadata_error,
                "brokers": [{"node_id": node.node_id, "host": node.host, "port": node.port, "rack": None}
                            for node in self.nodes],
                "topics": [self.topics.get(name) or topic_row(name, error=3, topic_id=uuid.UUID(int=0))
                           for name in wanted]}


class Setup:
    """A NetworkClient over a MockSelector and a ScriptedCluster, with a clock that stands still.

    Names resolve at once, unless `threads` holds them.
    """

    def __init__(self, *, bootstrap: tuple[tuple[str, int], ...] = BOOTSTRAP, max_in_flight: int = 5,
                 jitter: float = 0.0, resolve: Any = None, **options: Any) -> None:
        self.clock = ManualClock(now_ms=1_000)
        self.cluster = ScriptedCluster()
        self.selectors: list[MockSelector] = []  # the present one is the last
        self.metadata = ProducerMetadata(
            refresh_backoff=ExponentialBackoff(100, 1_000, jitter=jitter), metadata_max_age_ms=300_000,
            metadata_max_idle_ms=60_000, clock=self.clock, bootstrap=bootstrap)
        self.threads = SteppedThreads()
        self.wakeup = MockWakeup()
        resolver = ThreadedResolver(self.wakeup.wakeup, resolve=resolve or resolve_test_name,
                                    start_thread=self.threads)

        def make_client() -> NetworkClient:
            self.selectors.append(MockSelector(self.clock, answer=self.cluster))
            self.client = NetworkClient(
                self.selector, self.metadata, resolver=resolver, client_id="test", clock=self.clock,
                max_in_flight_requests_per_connection=max_in_flight,
                reconnect_backoff=ExponentialBackoff(50, 1_000, jitter=jitter),
                connection_setup_timeout=ExponentialBackoff(10_000, 30_000, jitter=jitter), **options)
            return self.client

        self.wire = Wire(make_client, self.wakeup)

    def disconnect(self, node_id: int) -> None:
        """End a connection as a rebootstrap does; its requests complete in the next poll."""
        state = self.client._states.by_node[node_id]
        self.client._connections.close_connection(self.client._aborted, state, self.now_ms, "closed by the test")

    def error_of(self, node: Node) -> Exception | None:
        """Why a node is not connected."""
        state = self.client._states.get(node.node_id)
        return None if state is None else state.error

    @property
    def selector(self) -> MockSelector:
        return self.selectors[-1]

    @property
    def now_ms(self) -> int:
        return self.clock.now_ms()

    def poll(self, timeout_ms: int = 0, *, times: int = 1) -> list[ClientResponse]:
        responses: list[ClientResponse] = []
        for _ in range(times):
            responses += self.client.poll(timeout_ms, self.clock.now_ms())
        return responses

    def bring_up(self, *topics: str) -> None:
        """Bootstrap, and learn the topics."""
        for topic in topics:
            self.metadata.add(topic, self.now_ms)
        for _ in range(12):
            self.poll()
            if self.metadata.version() and all(topic in self.metadata.cluster.topics for topic in topics):
                return
            self.clock.advance(100)
        raise AssertionError(f"not up: {self.metadata.last_errors()}")

    def make_ready(self, node_id: int) -> Node:
        """Connect to a node of the cluster."""
        node = self.metadata.cluster.nodes[node_id]
        for _ in range(6):
            if self.client.ready(node, self.now_ms):
                return node
            self.poll()
        raise AssertionError(f"{node} is not ready: {self.error_of(node)}")


def resolve_test_name(host: str, port: int) -> list[Any]:
    """One address per name, derived from it."""
    from pyproducer.client.resolver import ResolvedAddress  # keeps the double importable without sockets

    return [ResolvedAddress(2, (f"10.0.0.{int(host.rpartition('-')[2])}", port))]
