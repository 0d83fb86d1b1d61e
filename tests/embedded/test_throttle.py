"""C38 and C41: throttled channels, quotas, limits of connections, and who is idle."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from pyproducer.broker import EmbeddedBroker
from pyproducer.protocol.apis import ApiKeys
from pyproducer.record.batch_writer import build_batch
from tests.support.raw_client import RawClient, metadata_body, produce_body

StartBroker = Callable[..., EmbeddedBroker]
both_kinds = pytest.mark.parametrize("separate_process", [False, True], ids=["in process", "separate process"])
BATCH = bytes(build_batch([(1_700_000_000_000, b"k", b"v", ())]))


def connect(broker: EmbeddedBroker) -> RawClient:
    return RawClient(("127.0.0.1", broker.port))


@both_kinds
def test_c38_a_throttled_answer_comes_at_once_and_the_next_request_waits(
        start_broker: StartBroker, separate_process: bool) -> None:
    broker = start_broker(topics=["orders"], separate_process=separate_process)
    broker.faults.on("Metadata").throttle(400)
    with connect(broker) as client, connect(broker) as other:
        begin = time.monotonic()
        answer = client.request(ApiKeys.METADATA, 6, metadata_body("orders", allow_auto_topic_creation=False))
        assert answer["throttle_time_ms"] == 400
        assert time.monotonic() - begin < 0.2
        assert any("THROTTLED" in connection.mute_state for connection in broker.connections())
        other.request(ApiKeys.METADATA, 1, metadata_body())
        assert time.monotonic() - begin < 0.3
        answer = client.request(ApiKeys.METADATA, 6, metadata_body("orders", allow_auto_topic_creation=False))
        assert 0.38 < time.monotonic() - begin < 2
        assert answer["throttle_time_ms"] == 0


def test_c38_a_throttle_that_ends_before_its_response_is_sent(start_broker: StartBroker) -> None:
    broker = start_broker(topics=["orders"])
    broker.faults.on("Produce").throttle(100)
    broker.faults.on("Produce", times=None).throttle(1)
    with connect(broker) as client:
        client.send_request(ApiKeys.PRODUCE, 9, produce_body("orders", 0, BATCH, acks=0))
        for _ in range(20):
            client.request(ApiKeys.PRODUCE, 9, produce_body("orders", 0, BATCH))
    assert broker.log_end_offsets("orders")[0] == 21


def test_c38_quota_of_requests(start_broker: StartBroker) -> None:
    broker = start_broker(config={"quota.requests.per.second": 10})
    with connect(broker) as client:
        begin = time.monotonic()
        throttles = [client.request(ApiKeys.METADATA, 6, metadata_body(allow_auto_topic_creation=False))
                     ["throttle_time_ms"] for _ in range(14)]
        elapsed = time.monotonic() - begin
    assert throttles[0] == 0
    assert throttles[-1] > 0
    assert 0.2 < elapsed < 2


def test_quota_of_produced_bytes(start_broker: StartBroker) -> None:
    broker = start_broker(topics=["orders"], config={"quota.producer.default": 5000})
    records = bytes(build_batch([(1, b"k", bytes(6000), ())]))
    with connect(broker) as client:
        throttle_ms = client.request(ApiKeys.PRODUCE, 9, produce_body("orders", 0, records))["throttle_time_ms"]
        assert 150 < throttle_ms < 400
        assert client.request(ApiKeys.METADATA, 6,
                              metadata_body(allow_auto_topic_creation=False))["throttle_time_ms"] == 0


def test_a_throttled_connection_is_not_idle(start_broker: StartBroker) -> None:
    broker = start_broker(config={"connections.max.idle.ms": 200})
    broker.faults.on("Metadata").throttle(700)
    with connect(broker) as client:
        client.request(ApiKeys.METADATA, 1, metadata_body())
        client.request(ApiKeys.METADATA, 1, metadata_body())
        assert client.is_closed(within_s=3)


def test_c41_connections_of_one_address_are_limited(start_broker: StartBroker) -> None:
    broker = start_broker(config={"max.connections.per.ip": 2})
    first, second = connect(broker), connect(broker)
    for client in (first, second):
        client.request(ApiKeys.METADATA, 1, metadata_body())
    with connect(broker) as third:
        assert third.is_closed()
    first.close()
    deadline = time.monotonic() + 5
    while len(broker.connections()) > 1:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    with connect(broker) as fourth:
        fourth.request(ApiKeys.METADATA, 1, metadata_body())
    second.close()
    broker = start_broker(config={"max.connections.per.ip": 2, "max.connections.per.ip.overrides": "127.0.0.1:0"})
    with connect(broker) as client:
        assert client.is_closed()
