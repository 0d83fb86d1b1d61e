"""The client on real sockets: the same answers, and what real failures look like."""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from pyproducer.client.metadata import ProducerMetadata
from pyproducer.client.network_client import NetworkClient
from pyproducer.client.request import ClientRequest, ClientResponse
from pyproducer.client.resolver import ThreadedResolver
from pyproducer.common.backoff import ExponentialBackoff
from pyproducer.common.clock import SystemClock
from pyproducer.common.cluster import Node
from pyproducer.common.errors import AuthenticationError
from pyproducer.network.channel_builder import ChannelBuilder, PlaintextChannelBuilder
from pyproducer.network.selector import Selector
from pyproducer.network.ssl_channel_builder import SslChannelBuilder
from pyproducer.protocol.apis import ApiKeys
from tests.support.patience import GIVE_UP_S
from tests.unit.client.mock_selector import Request
from tests.unit.client.scripted_cluster import ScriptedCluster, topic_row
from tests.unit.client.tiny_server import CLOSE, TinyServer

CLOCK = SystemClock()


class Loopback:
    """A client, polled by the test's thread."""

    def __init__(self, *addresses: tuple[str, int], builder: ChannelBuilder | None = None, **options: Any) -> None:
        self.metadata = ProducerMetadata(
            refresh_backoff=ExponentialBackoff(20, 100), metadata_max_age_ms=300_000, metadata_max_idle_ms=300_000,
            clock=CLOCK, bootstrap=addresses)
        self.selector = Selector(max_receive_size_bytes=1 << 20, connections_max_idle_ms=540_000,
                                 channel_builder=builder or PlaintextChannelBuilder())
        self.client = NetworkClient(
            self.selector, self.metadata, resolver=ThreadedResolver(self.selector.wakeup), client_id="test",
            clock=CLOCK, max_in_flight_requests_per_connection=5,
            reconnect_backoff=ExponentialBackoff(20, 100),
            connection_setup_timeout=ExponentialBackoff(5_000, 5_000), **options)

    def poll_until(self, condition: Any) -> list[ClientResponse]:
        deadline = time.monotonic() + GIVE_UP_S
        responses: list[ClientResponse] = []
        while not condition():
            assert time.monotonic() < deadline, self.metadata.last_errors()
            responses += self.client.poll(50, CLOCK.now_ms())
        return responses

    def make_ready(self, node_id: int) -> Node:
        node = self.metadata.cluster.nodes[node_id]
        self.poll_until(lambda: self.client.ready(node, CLOCK.now_ms()))
        return node


@contextmanager
def loopback(*addresses: tuple[str, int], **options: Any) -> Iterator[Loopback]:
    running = Loopback(*addresses, **options)
    try:
        yield running
    finally:
        running.client.close()


@contextmanager
def cluster_server() -> Iterator[tuple[TinyServer, ScriptedCluster]]:
    cluster = ScriptedCluster(node_count=0)

    def answer(request: Request) -> Any:
        if request.api_key is ApiKeys.FIND_COORDINATOR:
            return {"throttle_time_ms": 0, "coordinators": []}
        return cluster(request)

    with TinyServer(answer) as server:
        cluster.nodes = [Node(1, "localhost", server.port)]
        cluster.topics["t"] = topic_row("t", 1)
        yield server, cluster


def find_coordinator(ended: list[ClientResponse]) -> ClientRequest:
    return ClientRequest(1, ApiKeys.FIND_COORDINATOR, lambda version: {"key_type": 0, "coordinator_keys": ["g"]},
                         timeout_ms=10_000, on_complete=ended.append)


def test_round_when_a_broker_answers_then_metadata_and_pipelined_responses_arrive_in_order():
    with cluster_server() as (server, _), loopback(("127.0.0.1", server.port)) as running:
        running.metadata.add("t", CLOCK.now_ms())
        running.poll_until(lambda: "t" in running.metadata.cluster.topics)
        node = running.make_ready(1)
        assert node.host == "localhost"
        ended: list[ClientResponse] = []
        for count in range(1, 201):
            running.client.send(find_coordinator(ended), CLOCK.now_ms())
            running.poll_until(lambda count=count: running.client.is_ready(1, CLOCK.now_ms())
                               or len(ended) == count)
        running.poll_until(lambda: len(ended) == 200)
        first = ended[0].request.correlation_id
        assert [response.request.correlation_id for response in ended] == list(range(first, first + 200))
        assert running.metadata.last_errors() == {}


def test_await_when_another_thread_waits_for_a_topic_then_it_is_woken_by_the_poll():
    with cluster_server() as (server, _), loopback(("127.0.0.1", server.port)) as running:
        found = []

        def wait() -> None:
            running.metadata.add("t", CLOCK.now_ms())
            while not running.metadata.cluster.partitions_for_topic("t"):
                version = running.metadata.request_update_for_topic("t", CLOCK.now_ms())
                running.selector.wakeup()
                assert running.metadata.await_update(version, 10_000, 0)
            found.append(running.metadata.cluster)

        caller = threading.Thread(target=wait)
        caller.start()
        running.poll_until(lambda: found)
        caller.join(GIVE_UP_S)
        assert found[0].partition_count_for_topic("t") == 1


def test_restart_when_the_server_goes_away_then_requests_end_and_the_error_is_told():
    ended: list[ClientResponse] = []
    with loopback(("127.0.0.1", 1)) as running:
        with cluster_server() as (server, cluster):
            running.metadata.bootstrap_addresses = (("127.0.0.1", server.port),)
            running.metadata.rebootstrap(forget_leaders=True)
            running.poll_until(lambda: running.metadata.version() > 0)
            running.make_ready(1)
            cluster.answers_metadata = False
        running.client.send(find_coordinator(ended), CLOCK.now_ms())
        running.poll_until(lambda: ended)
        assert ended[0].disconnected
        running.poll_until(lambda: "connect: Connection refused" in running.metadata.last_errors().get(
            f"localhost:{server.port}", ""))


def failure_of(address: tuple[str, int], words: str, **options: Any) -> str:
    """Poll until the address has an error with these words, and return it."""
    with loopback(address, **options) as running:
        key = f"{address[0]}:{address[1]}"
        running.poll_until(lambda: words in running.metadata.last_errors().get(key, ""))
        return running.metadata.describe_failure("orders")


def test_failure_when_nobody_listens():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    text = failure_of(("127.0.0.1", port), "connect: Connection refused")
    assert text == (f"no broker has answered a metadata request yet (bootstrap.servers: 127.0.0.1:{port}); "
                    f"127.0.0.1:{port}: connect: Connection refused (nothing listens there: wrong port, or the broker "
                    "is not running)")


def test_failure_when_the_name_does_not_resolve():
    assert "DNS: the host name does not resolve" in failure_of(("no..such..host", 9092), "DNS")


def test_failure_when_the_peer_hangs_up_on_the_first_request():
    with TinyServer(lambda request: CLOSE) as server:
        failure_of(("127.0.0.1", server.port), "closed the connection right after the first request (ApiVersions)")


@pytest.mark.parametrize(("first_bytes", "words"), [
    (b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n", "the peer speaks HTTP, not Kafka"),
    (b"\x15\x03\x03\x00\x02\x02\x46", "the peer speaks TLS, not Kafka: set security.protocol"),
    (b"SSH-2.0-OpenSSH_9.6\r\n", "the peer speaks SSH, not Kafka"),
])
def test_failure_when_the_peer_speaks_something_else(first_bytes, words):
    with TinyServer(first_bytes=first_bytes) as server:
        failure_of(("127.0.0.1", server.port), words)


def test_failure_when_the_peer_never_answers():
    with TinyServer(lambda request: None) as server:
        failure_of(("127.0.0.1", server.port), "no answer to ApiVersions, the first request, within",
                   request_timeout_ms=100)


def test_failure_when_the_peer_hangs_up_on_metadata():
    cluster = ScriptedCluster()
    with TinyServer(lambda request: CLOSE if request.api_key is ApiKeys.METADATA else cluster(request)) as server:
        failure_of(("127.0.0.1", server.port), "the listener may require SASL")


def test_failure_when_we_speak_tls_and_the_peer_does_not():
    builder = SslChannelBuilder(ssl.create_default_context())
    with TinyServer(first_bytes=b"\0\0\0\4\0\0\0\0") as server, \
            loopback(("127.0.0.1", server.port), builder=builder) as running:
        key = f"127.0.0.1:{server.port}"
        running.poll_until(lambda: key in running.metadata.last_errors())
        assert running.metadata.last_errors()[key].startswith("TLS: ")
        with pytest.raises(AuthenticationError, match="TLS"):
            running.metadata.await_update(running.metadata.version(), 1_000, 0)
