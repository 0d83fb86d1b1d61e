"""Throttled channels, quotas, limits of connections, and who is idle."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from pyproducer.broker import EmbeddedBroker
from pyproducer.protocol.apis import ApiKeys
from pyproducer.record.batch_writer import build_batch
from tests.support.patience import GIVE_UP_S
from tests.support.raw_client import RawClient, fetch_body, fetched, metadata_body, produce_body, request_bytes

StartBroker = Callable[..., EmbeddedBroker]
both_kinds = pytest.mark.parametrize("separate_process", [False, True], ids=["in process", "separate process"])
BATCH = bytes(build_batch([(1_700_000_000_000, b"k", b"v", ())]))


def connect(broker: EmbeddedBroker) -> RawClient:
    return RawClient(("127.0.0.1", broker.port))


METADATA = metadata_body(allow_auto_topic_creation=False)
LONG_MS = 3_600_000  # never over in a test


def throttle_of(client: RawClient) -> int:
    throttle_ms: int = client.request(ApiKeys.METADATA, 6, METADATA)["throttle_time_ms"]
    return throttle_ms


@both_kinds
def test_connection_when_it_is_throttled_then_its_answer_comes_at_once_and_its_next_request_waits(
        start_broker: StartBroker, separate_process: bool) -> None:
    broker = start_broker(topics=["orders"], separate_process=separate_process)
    broker.faults.on("Metadata").throttle(LONG_MS)
    with connect(broker) as client, connect(broker) as other:
        assert throttle_of(client) == LONG_MS, "it is answered although its throttle has hardly begun"
        client.send_request(ApiKeys.METADATA, 6, METADATA)
        assert throttle_of(other) == 0, "others are served meanwhile"
        assert client.is_silent(for_s=0.1)
        assert {connection.remote_address: connection.mute_state for connection in broker.connections()} == {
            f"127.0.0.1:{client.local_port}": "MUTED_AND_THROTTLED", f"127.0.0.1:{other.local_port}": "NOT_MUTED"}


@both_kinds
def test_connection_when_the_throttle_is_over_then_its_next_request_is_answered(
        start_broker: StartBroker, separate_process: bool) -> None:
    broker = start_broker(topics=["orders"], separate_process=separate_process)
    broker.faults.on("Metadata").throttle(200)
    with connect(broker) as client:
        begin = time.monotonic()
        assert throttle_of(client) == 200
        assert throttle_of(client) == 0
        assert time.monotonic() - begin > 0.19


def test_throttle_when_it_ends_before_its_response_is_sent_then_the_connection_goes_on(
        start_broker: StartBroker) -> None:
    broker = start_broker(topics=["orders"])
    broker.faults.on("Produce").throttle(100)
    broker.faults.on("Produce", times=None).throttle(1)
    with connect(broker) as client:
        client.send_request(ApiKeys.PRODUCE, 9, produce_body("orders", 0, BATCH, acks=0))
        for _ in range(20):
            client.request(ApiKeys.PRODUCE, 9, produce_body("orders", 0, BATCH))
    assert broker.log_end_offsets("orders")[0] == 21


def test_quota_of_requests_when_it_is_used_up_then_each_request_waits_for_the_throttle_of_the_one_before(
        start_broker: StartBroker) -> None:
    """A second's worth is free; how long the others wait for what, test_quotas.py says with a clock of its own."""
    broker = start_broker(config={"quota.requests.per.second": 20})
    with connect(broker) as client:
        begin = time.monotonic()
        throttles = [throttle_of(client) for _ in range(25)]
        waited_ms = (time.monotonic() - begin) * 1000
    assert throttles[0] == 0
    # The last throttle begins with the last answer, and nobody waits for it here. A bucket of 20 that gains 20 in a
    # second gives 25 requests not before 4 intervals are over.
    assert waited_ms > 190
    assert waited_ms >= sum(throttles[:-1]) * 0.9, "each request waited for the throttle of the one before"


def test_quota_when_one_client_is_in_debt_then_only_its_own_connections_are_throttled(
        start_broker: StartBroker) -> None:
    broker = start_broker(topics=["orders"], config={"quota.producer.default": 100})
    records = bytes(build_batch([(1, b"k", bytes(6000), ())]))
    body = produce_body("orders", 0, records)
    with connect(broker) as loud, connect(broker) as quiet:
        throttle_ms = loud.request(ApiKeys.PRODUCE, 9, body)["throttle_time_ms"]
        assert throttle_ms >= 59_000, "6,000 bytes of 100 in a second"
        quiet.send_frame(request_bytes(ApiKeys.PRODUCE, 9, produce_body("orders", 0, None), client_id="quiet"))
        _, answer = quiet.receive_response(ApiKeys.PRODUCE, 9)
        assert answer["throttle_time_ms"] < 1000, "what its own few bytes cost"
        assert {connection.remote_address for connection in broker.connections()
                if "THROTTLED" in connection.mute_state} >= {f"127.0.0.1:{loud.local_port}"}


def test_quota_of_produced_bytes(start_broker: StartBroker) -> None:
    broker = start_broker(topics=["orders"], config={"quota.producer.default": 5000})
    records = bytes(build_batch([(1, b"k", bytes(6000), ())]))
    with connect(broker) as client:
        request = request_bytes(ApiKeys.PRODUCE, 9, produce_body("orders", 0, records))
        throttle_ms = client.request(ApiKeys.PRODUCE, 9, produce_body("orders", 0, records))["throttle_time_ms"]
        assert throttle_ms == round((len(request) - 5000) * 1000 / 5000)
        assert throttle_of(client) == 0, "only Produce counts"


@pytest.mark.parametrize("version", [4, 7, 12])
def test_quota_of_fetched_bytes_when_it_is_used_up_then_nothing_is_fetched_until_it_is_not(
        start_broker: StartBroker, version: int) -> None:
    """As Apache Kafka answers (FetchContext.getThrottledResponse). Ours gave the records with a throttle time, and no
    client of ours was ever seen with what Kafka gives."""
    broker = start_broker(topics=["orders"], config={"quota.consumer.default": 1})
    with connect(broker) as client:
        client.request(ApiKeys.PRODUCE, 9, produce_body("orders", 0, BATCH))

        def fetch() -> tuple[int, list[int]]:
            answer = client.request(ApiKeys.FETCH, version, fetch_body(version, "orders", 0, 0))
            return answer["throttle_time_ms"], [len(topic["partitions"][0]["records"]) for topic in answer["responses"]]

        assert fetch() == (0, [len(BATCH)])
        throttle_ms, found = fetch()
        assert 0 < throttle_ms <= len(BATCH) * 1000
        assert found == []
        broker.clock.advance(ms=throttle_ms)
        assert fetch() == (0, [len(BATCH)]), "what was not given is not counted"


def test_fetch_when_a_test_throttles_it_then_it_is_answered_as_over_a_quota(start_broker: StartBroker) -> None:
    broker = start_broker(topics=["orders"])
    broker.faults.on("Fetch").throttle(1)
    with connect(broker) as client:
        client.request(ApiKeys.PRODUCE, 9, produce_body("orders", 0, BATCH))
        answers = [client.request(ApiKeys.FETCH, 12, fetch_body(12, "orders", 0, 0)) for _ in range(2)]
    assert (answers[0]["throttle_time_ms"], answers[0]["error_code"], answers[0]["responses"]) == (1, 0, [])
    assert len(fetched(answers[1])["records"]) == len(BATCH)


def test_a_throttled_connection_is_not_idle(start_broker: StartBroker) -> None:
    broker = start_broker(config={"connections.max.idle.ms": 200})
    broker.faults.on("Metadata").throttle(700)
    with connect(broker) as client:
        client.request(ApiKeys.METADATA, 1, metadata_body())
        client.request(ApiKeys.METADATA, 1, metadata_body())
        assert client.is_closed()


def test_connections_when_one_address_has_too_many_then_the_next_is_closed(start_broker: StartBroker) -> None:
    broker = start_broker(config={"max.connections.per.ip": 2})
    first, second = connect(broker), connect(broker)
    for client in (first, second):
        client.request(ApiKeys.METADATA, 1, metadata_body())
    with connect(broker) as third:
        assert third.is_closed()
    first.close()
    deadline = time.monotonic() + GIVE_UP_S
    while len(broker.connections()) > 1:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    with connect(broker) as fourth:
        fourth.request(ApiKeys.METADATA, 1, metadata_body())
    second.close()
    for host in ("127.0.0.1", "[::ffff:127.0.0.1]"):
        broker = start_broker(config={"max.connections.per.ip": 2, "max.connections.per.ip.overrides": f"{host}:0"})
        with connect(broker) as client:
            assert client.is_closed()
