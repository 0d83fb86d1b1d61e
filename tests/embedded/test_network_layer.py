"""The network layer seen from inside: threads, queues, bounds."""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from pyproducer.broker import EmbeddedBroker
from pyproducer.broker.apis import kafka_apis
from pyproducer.broker.apis.api_handler import ApiHandler
from pyproducer.broker.apis.services import Answer, Services
from pyproducer.broker.cluster.cluster_state import ClusterState
from pyproducer.broker.control.broker_server import BrokerServer
from pyproducer.broker.control.in_process import InProcessCluster
from pyproducer.broker.network import handler_pool
from pyproducer.broker.network import processor as processor_module
from pyproducer.broker.network.processor import Processor
from pyproducer.broker.network.request_channel import Request
from pyproducer.common.error_codes import ErrorCode
from pyproducer.common.errors import ConfigError
from pyproducer.protocol.apis import ApiKeys
from pyproducer.protocol.header import parse_response_correlation_id
from pyproducer.record.batch_writer import build_batch
from tests.support.patience import GIVE_UP_S
from tests.support.raw_client import (
    RawClient,
    fetch_body,
    fetched,
    framed,
    metadata_body,
    produce_body,
    produced,
    request_bytes,
)

StartBroker = Callable[..., EmbeddedBroker]
METADATA = framed(request_bytes(ApiKeys.METADATA, 1, metadata_body()))


def server_of(broker: EmbeddedBroker) -> BrokerServer:
    cluster = broker._cluster
    assert isinstance(cluster, InProcessCluster)
    return cluster.servers[0]


def state_of(broker: EmbeddedBroker) -> ClusterState:
    cluster = broker._cluster
    assert isinstance(cluster, InProcessCluster)
    return cluster.state


def processors_of(broker: EmbeddedBroker) -> tuple[Processor, ...]:
    return server_of(broker).socket_server.acceptors["PLAINTEXT"].processors


def connect(broker: EmbeddedBroker) -> RawClient:
    return RawClient(("127.0.0.1", broker.port))


def await_true(condition: Callable[[], bool], *, within_s: float = GIVE_UP_S) -> None:
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.005)


class Handler:
    """Stands before the Metadata handler: counts, waits at a gate, fails."""

    def __init__(self, handle: Callable[[Services, Request], Answer]) -> None:
        self._handle = handle
        self.gate = threading.Event()
        self.gate.set()
        self.requests: list[Request] = []
        self.failure: Exception | None = None
        self.delay_s: Callable[[], float] = float

    def __call__(self, services: Services, request: Request) -> Answer:
        self.requests.append(request)
        self.gate.wait()
        if self.failure is not None:
            raise self.failure
        time.sleep(self.delay_s())
        return self._handle(services, request)


@pytest.fixture
def metadata_handler(monkeypatch: pytest.MonkeyPatch) -> Iterator[Handler]:
    original = kafka_apis.HANDLERS[ApiKeys.METADATA]
    handler = Handler(original.handle)
    monkeypatch.setitem(kafka_apis.HANDLERS, ApiKeys.METADATA, ApiHandler(handler, original.error_response))
    yield handler
    handler.gate.set()


def test_request_when_it_is_above_socket_request_max_bytes_then_it_is_refused_and_logged(
        start_broker: StartBroker, caplog: pytest.LogCaptureFixture) -> None:
    broker = start_broker(config={"socket.request.max.bytes": 1000})
    frame = request_bytes(ApiKeys.METADATA, 1, metadata_body())
    with connect(broker) as client:
        client.send_frame(frame + bytes(1000 - len(frame)))
        client.receive_frame()
        client.send_frame(bytes(1001))
        assert client.is_closed()
    await_true(lambda: "Request of length 1001 is not valid, it is larger than the maximum size of 1000 bytes."
               in caplog.text)


def test_connection_when_its_api_header_or_body_cannot_be_read_then_why_it_is_closed_is_logged(
        start_broker: StartBroker, caplog: pytest.LogCaptureFixture) -> None:
    broker = start_broker()
    for frame, text in [
            (b"\x03\xe7\x00\x00" + bytes(6), "Unexpected ApiKeys id `999`, it should be between `0` and"),
            (b"\x00\x03\x00\x01", "Error parsing request header. Our best guess of the apiKey is: 3"),
            (request_bytes(ApiKeys.METADATA, 1, metadata_body())[:-2],
             "Error getting request for apiKey: 3 and apiVersion: 1"),
            (request_bytes(ApiKeys.FETCH, 4, fetch_body(4, "orders", 0, 0)).replace(b"\0\1\0\4", b"\0\1\0\3", 1),
             "Received request for api with key 1 (Fetch) and unsupported version 3")]:
        with connect(broker) as client:
            client.send_frame(frame)
            assert client.is_closed()
        assert text in caplog.text


def test_bytes_when_they_are_read_and_written_then_they_are_counted_with_their_sizes(start_broker: StartBroker) -> None:
    broker = start_broker(config={"num.network.threads": 1})
    (processor,) = processors_of(broker)
    with connect(broker) as client:
        for _ in range(3):
            client.send_bytes(METADATA)
        answered = sum(4 + len(client.receive_frame()) for _ in range(3))
        await_true(lambda: processor.bytes_read == 3 * len(METADATA))
        await_true(lambda: processor.bytes_written == answered)
    await_true(lambda: processor.connection_count == 0)
    assert processor.bytes_read == 3 * len(METADATA)


def test_request_when_it_is_handled_then_its_context_names_connection_address_principal_and_listener(
        start_broker: StartBroker, metadata_handler: Handler) -> None:
    broker = start_broker(config={"num.network.threads": 1})
    ports = []
    for _ in range(2):
        with connect(broker) as client:
            ports.append(client.local_port)
            client.request(ApiKeys.METADATA, 1, metadata_body())
    first, second = (request.context for request in metadata_handler.requests)
    assert first.connection_id == f"127.0.0.1:{broker.port}-127.0.0.1:{ports[0]}-0-0"
    assert second.connection_id == f"127.0.0.1:{broker.port}-127.0.0.1:{ports[1]}-0-1"
    assert first.client_address == f"127.0.0.1:{ports[0]}"
    assert (str(first.principal), first.listener_name, first.security_protocol) == (
        "User:ANONYMOUS", "PLAINTEXT", "PLAINTEXT")
    assert first.header.client_id == "probe"


def test_connections_when_they_are_accepted_then_they_go_to_the_processors_in_turn(start_broker: StartBroker) -> None:
    broker = start_broker(config={"num.network.threads": 3})
    clients = [connect(broker) for _ in range(6)]
    await_true(lambda: [processor.connection_count for processor in processors_of(broker)] == [2, 2, 2])
    for client in clients:
        client.close()


def test_processor_when_it_is_stalled_then_connections_of_the_others_are_accepted_and_served(
        start_broker: StartBroker, metadata_handler: Handler) -> None:
    broker = start_broker(config={"num.network.threads": 2, "num.io.threads": 1, "queued.max.requests": 1})
    metadata_handler.gate.clear()
    blockers = [connect(broker) for _ in range(5)]
    for client in blockers:  # one is handled, one waits, and both processors block on the full queue
        client.send_bytes(METADATA)
    others = [connect(broker) for _ in range(30)]  # more than one processor's queue of new connections
    metadata_handler.gate.set()
    for client in [*blockers, *others]:
        if client in others:
            client.send_bytes(METADATA)
        client.receive_frame()
        client.close()


def test_processor_when_the_request_queue_is_full_then_it_reads_no_further(
        start_broker: StartBroker, metadata_handler: Handler) -> None:
    broker = start_broker(config={"num.network.threads": 1, "num.io.threads": 1, "queue.max.requests": 2})
    channel = server_of(broker).channel
    metadata_handler.gate.clear()
    clients = [connect(broker) for _ in range(7)]
    for client in clients[:6]:
        client.send_bytes(METADATA)
    # One is handled and two are queued: with a fourth one read, the processor blocks before it reads again.
    await_true(lambda: len(metadata_handler.requests) == 1 and channel.request_queue_size == 2
               and processors_of(broker)[0].bytes_read >= 4 * len(METADATA))
    clients[6].send_bytes(METADATA)
    assert clients[6].is_silent(for_s=0.3)
    assert channel.request_queue_size == 2
    assert len(metadata_handler.requests) == 1
    assert processors_of(broker)[0].bytes_read < 7 * len(METADATA), "the processor read on while it was blocked"
    metadata_handler.gate.set()
    for client in clients:
        client.receive_frame()
        client.close()
    assert channel.request_queue_size == 0


def test_requests_when_many_handlers_have_odd_delays_then_each_connection_keeps_its_order(
        start_broker: StartBroker, metadata_handler: Handler) -> None:
    broker = start_broker(config={"num.io.threads": 8})
    metadata_handler.delay_s = lambda: 0.001 * (len(metadata_handler.requests) % 3)
    count = 300
    with connect(broker) as client, connect(broker) as other:
        for number in range(count):
            frame = framed(request_bytes(ApiKeys.METADATA, 1, metadata_body(), correlation_id=number))
            client.send_bytes(frame)
            other.send_bytes(frame)
        for connection in (client, other):
            assert [parse_response_correlation_id(connection.receive_frame()) for _ in range(count)] == list(
                range(count))
    # Each request is handled exactly once.
    handled = Counter((request.context.connection_id, request.header.correlation_id)
                      for request in metadata_handler.requests)
    assert len(handled) == 2 * count
    assert set(handled.values()) == {1}


def test_requests_when_60_connections_pipeline_40_each_then_their_order_and_the_bound_of_the_queue_are_kept(
        start_broker: StartBroker, metadata_handler: Handler) -> None:
    connections, requests = 60, 40
    broker = start_broker(config={"queued.max.requests": 16})
    channel = server_of(broker).channel
    depths: list[int] = []

    def look_at_the_queue() -> float:
        depths.append(channel.request_queue_size)
        return 0.0

    metadata_handler.delay_s = look_at_the_queue
    clients = [connect(broker) for _ in range(connections)]
    metadata_handler.gate.clear()
    for client in clients:
        client.send_bytes(b"".join(
            framed(request_bytes(ApiKeys.METADATA, 1, metadata_body(), correlation_id=number))
            for number in range(requests)))
    await_true(lambda: channel.request_queue_size == 16)
    metadata_handler.gate.set()
    for client in clients:
        assert [parse_response_correlation_id(client.receive_frame()) for _ in range(requests)] == list(
            range(requests))
        client.close()
    assert len(depths) == connections * requests
    assert max(depths) <= 16
    assert channel.request_queue_size == 0


def test_processor_when_a_response_is_ready_then_it_is_woken(
        start_broker: StartBroker, metadata_handler: Handler, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a selector that sleeps for an hour, only the wakeup lets the response out before the client gives up."""
    monkeypatch.setattr(processor_module, "POLL_TIMEOUT_MS", 3_600_000)
    broker = start_broker(config={"num.network.threads": 1})
    metadata_handler.gate.clear()
    with connect(broker) as client:
        client.send_bytes(METADATA)
        await_true(lambda: len(metadata_handler.requests) == 1)
        assert client.is_silent(for_s=0.1)  # the processor goes to sleep meanwhile
        metadata_handler.gate.set()
        client.receive_frame()
    await_true(lambda: server_of(broker).channel.response_queue_sizes() == {0: 0})


def test_processors_when_they_are_removed_and_added_while_requests_are_handled_then_only_theirs_end(
        start_broker: StartBroker, metadata_handler: Handler) -> None:
    broker = start_broker(config={"num.network.threads": 4})
    server = server_of(broker)
    clients = [connect(broker) for _ in range(4)]
    ports = [f"127.0.0.1:{client.local_port}" for client in clients]
    await_true(lambda: [processor.connection_count for processor in processors_of(broker)] == [1, 1, 1, 1])
    metadata_handler.gate.clear()
    for client in clients:
        client.send_bytes(METADATA)
    await_true(lambda: len(metadata_handler.requests) == 4)
    server.socket_server.resize_thread_pool(2)
    metadata_handler.gate.set()
    outcomes = []
    for client in clients:
        outcomes.append(client.is_closed())  # an answer comes, or the end
        client.close()
    owners = [request.processor for request in sorted(
        metadata_handler.requests, key=lambda request: ports.index(request.context.client_address))]
    assert sorted(owners) == [0, 1, 2, 3], "in turn"
    assert outcomes == [owner > 1 for owner in owners], "the last two are gone, with their connections"
    assert sorted(server.channel.response_queue_sizes()) == [0, 1]
    server.socket_server.resize_thread_pool(3)
    assert len(processors_of(broker)) == 3
    fresh = [connect(broker) for _ in range(6)]
    await_true(lambda: sum(processor.connection_count for processor in processors_of(broker)) == 6)
    assert min(processor.connection_count for processor in processors_of(broker)) == 2
    for client in fresh:
        client.request(ApiKeys.METADATA, 1, metadata_body())
        client.close()


@pytest.mark.parametrize("count", [0, 1, 9])
def test_processors_when_they_are_resized_by_more_than_a_factor_of_two_then_refused(
        start_broker: StartBroker, count: int) -> None:
    server = server_of(start_broker(config={"num.network.threads": 4}))
    with pytest.raises(ConfigError, match=r"num\.network\.threads"):
        server.socket_server.resize_thread_pool(count)


def test_stop_when_handlers_and_connections_are_idle_then_whoever_sleeps_is_woken(
        start_broker: StartBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Selectors and handlers that would sleep for an hour: without being woken, nobody would end in half of it."""
    monkeypatch.setattr(processor_module, "POLL_TIMEOUT_MS", 3_600_000)
    monkeypatch.setattr(handler_pool, "RECEIVE_TIMEOUT_MS", 3_600_000)
    broker = start_broker()
    clients = [connect(broker) for _ in range(5)]
    await_true(lambda: server_of(broker).socket_server.connection_count == 5)
    stopping = threading.Thread(target=broker.stop)
    stopping.start()
    stopping.join(GIVE_UP_S)
    assert not stopping.is_alive(), "somebody was not woken"
    for client in clients:
        assert client.is_closed()
        client.close()


def test_stop_when_a_poll_is_long_and_a_processor_blocked_then_both_end(
        start_broker: StartBroker, metadata_handler: Handler) -> None:
    broker = start_broker(topics=["orders"], config={
        "num.network.threads": 1, "num.io.threads": 1, "queued.max.requests": 1})
    poll = connect(broker)
    poll.send_request(ApiKeys.FETCH, 4, fetch_body(4, "orders", 0, 0, max_wait_ms=3_600_000))
    await_true(lambda: len(state_of(broker).delayed_fetches) == 1)
    metadata_handler.gate.clear()
    clients = [connect(broker) for _ in range(5)]
    for client in clients:
        client.send_bytes(METADATA)
    await_true(lambda: server_of(broker).channel.request_queue_size == 1)
    opener = threading.Timer(0.1, metadata_handler.gate.set)
    opener.start()
    broker.stop()  # it waits for the handler and for nobody else
    opener.join()
    _, answer = poll.receive_response(ApiKeys.FETCH, 4)
    assert (fetched(answer)["error_code"], fetched(answer)["records"]) == (0, b""), "told before it is cut off"
    for client in (*clients, poll):
        client.close()


def test_handler_when_it_fails_then_the_answer_is_unknown_server_error(
        start_broker: StartBroker, metadata_handler: Handler, caplog: pytest.LogCaptureFixture) -> None:
    broker = start_broker(config={"num.io.threads": 1})
    metadata_handler.failure = RuntimeError("by the test")
    with connect(broker) as client:
        answer = client.request(ApiKeys.METADATA, 1, metadata_body("orders"))
        assert answer["topics"][0]["error_code"] == ErrorCode.UNKNOWN_SERVER_ERROR
        metadata_handler.failure = None
        assert client.request(ApiKeys.METADATA, 1, metadata_body("orders"))["topics"][0]["error_code"] == 0
    assert "by the test" in caplog.text


def test_produce_when_its_handler_fails_with_acks_0_then_the_connection_is_closed(
        start_broker: StartBroker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    def fail(_services: Services, _request: Request) -> Answer:
        raise RuntimeError("by the test")

    original = kafka_apis.HANDLERS[ApiKeys.PRODUCE]
    monkeypatch.setitem(kafka_apis.HANDLERS, ApiKeys.PRODUCE, ApiHandler(fail, original.error_response))
    broker = start_broker(topics={"orders": 1})
    records = build_batch([(1, b"k", b"v", ())])
    with caplog.at_level(logging.CRITICAL), connect(broker) as client:
        answer = client.request(ApiKeys.PRODUCE, 9, produce_body("orders", 0, records, acks=1))
        assert produced(answer)["error_code"] == ErrorCode.UNKNOWN_SERVER_ERROR
        client.send_request(ApiKeys.PRODUCE, 9, produce_body("orders", 0, records, acks=0))
        assert client.is_closed()


def test_connection_when_it_is_idle_too_long_then_it_is_closed(start_broker: StartBroker) -> None:
    broker = start_broker(config={"connections.max.idle.ms": 200})
    with connect(broker) as client:
        client.request(ApiKeys.METADATA, 1, metadata_body())
        assert client.is_closed()


def test_connection_when_its_request_is_being_handled_then_it_is_not_idle(start_broker: StartBroker) -> None:
    broker = start_broker(topics=["orders"], config={"connections.max.idle.ms": 200})
    with connect(broker) as client:
        begin = time.monotonic()
        client.request(ApiKeys.FETCH, 4, fetch_body(4, "orders", 0, 0, max_wait_ms=500))
        assert time.monotonic() - begin > 0.49
        client.request(ApiKeys.METADATA, 1, metadata_body())
        assert client.is_closed()


def test_a_hundred_connections_that_only_connect_are_gone_when_closed(start_broker: StartBroker) -> None:
    broker = start_broker()
    clients = [connect(broker) for _ in range(100)]
    await_true(lambda: server_of(broker).socket_server.connection_count == 100)
    for client in clients:
        client.close()
    await_true(lambda: server_of(broker).socket_server.connection_count == 0)


def test_a_port_that_is_taken_is_a_config_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(ConfigError, match="could not bind"):
        EmbeddedBroker(port=taken.getsockname()[1]).start()
