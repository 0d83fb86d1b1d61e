"""Metrics for brokers that ask for them (KIP-714): our broker receives, and OpenTelemetry's own messages read."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from typing import Any

import pytest

from pyproducer import KafkaProducer
from pyproducer.broker import EmbeddedBroker
from pyproducer.protocol.apis import ApiKeys
from pyproducer.record.compression import compressor_for
from pyproducer.record.decompression import decompress
from tests.support.patience import GIVE_UP_S

metrics_pb2 = pytest.importorskip("opentelemetry.proto.metrics.v1.metrics_pb2")

StartBroker = Callable[..., EmbeddedBroker]
TELEMETRY = {ApiKeys.GET_TELEMETRY_SUBSCRIPTIONS: (0, 0), ApiKeys.PUSH_TELEMETRY: (0, 0)}


@pytest.fixture
def broker(start_broker: StartBroker) -> EmbeddedBroker:
    running = start_broker(topics={"orders": 1}, log_requests=True)
    running.set_api_versions(TELEMETRY)
    return running


def pushes(broker: EmbeddedBroker) -> list[dict[str, Any]]:
    return [request.body for request in broker.requests(ApiKeys.PUSH_TELEMETRY)]


def read(push: dict[str, Any]) -> dict[str, list[Any]]:
    data = metrics_pb2.MetricsData()
    data.ParseFromString(bytes(decompress(push["compression_type"], push["metrics"])))
    return {metric.name: list((metric.sum if metric.HasField("sum") else metric.gauge).data_points)
            for resource in data.resource_metrics for scope in resource.scope_metrics for metric in scope.metrics}


def test_push_when_a_broker_subscribes_then_it_gets_all_under_kafkas_names_and_the_rest_at_the_end(
        broker: EmbeddedBroker) -> None:
    with KafkaProducer({"bootstrap.servers": broker.bootstrap_servers, "client.id": "app"}) as producer:
        producer.send("orders", b"v").result(GIVE_UP_S)
        ends = time.monotonic() + GIVE_UP_S
        while not pushes(broker):
            assert time.monotonic() < ends, "no push came"
            time.sleep(0.05)
        assert producer.client_instance_id(GIVE_UP_S) == pushes(broker)[0]["client_instance_id"] != uuid.UUID(int=0)
        producer.send("orders", b"v").result(GIVE_UP_S)
    first, last = pushes(broker)[0], pushes(broker)[-1]
    assert (first["terminating"], last["terminating"]) == (False, True)
    assert first["compression_type"] in (1, 2, 3, 4)
    found = read(first)
    (sent,) = found["org.apache.kafka.producer.record.send.total"]
    assert sent.as_double == 1
    assert sum(read(push)["org.apache.kafka.producer.record.send.total"][0].as_double
               for push in pushes(broker)) == 2, "each tells what came since the one before"
    (by_topic,) = found["org.apache.kafka.producer.topic.record.send.total"]
    assert {attribute.key: attribute.value.string_value for attribute in by_topic.attributes} == {"topic": "orders"}
    assert "org.apache.kafka.producer.node.request.latency.avg" in found


def test_push_when_it_is_switched_off_or_not_advertised_then_nothing_is_asked(
        broker: EmbeddedBroker, start_broker: StartBroker) -> None:
    plain = start_broker(topics={"orders": 1}, log_requests=True)
    for target, props in ((broker, {"enable.metrics.push": False}), (plain, {})):
        with KafkaProducer({"bootstrap.servers": target.bootstrap_servers, **props}) as producer:
            producer.send("orders", b"v").result(GIVE_UP_S)
        assert target.requests(ApiKeys.GET_TELEMETRY_SUBSCRIPTIONS) == []
        assert pushes(target) == []


def test_push_when_the_subscription_changed_then_it_is_asked_for_anew_by_the_same_id(broker: EmbeddedBroker) -> None:
    broker.faults.on("PushTelemetry", times=1).error(117)
    with KafkaProducer({"bootstrap.servers": broker.bootstrap_servers}) as producer:
        producer.send("orders", b"v").result(GIVE_UP_S)
        ends = time.monotonic() + GIVE_UP_S
        while len(asked := broker.requests(ApiKeys.GET_TELEMETRY_SUBSCRIPTIONS)) < 2:
            assert time.monotonic() < ends
            time.sleep(0.05)
        assert asked[1].body["client_instance_id"] == producer.client_instance_id(GIVE_UP_S)


def test_compressor_when_the_tests_read_pushes_then_it_is_the_one_that_wrote() -> None:
    assert bytes(decompress(1, compressor_for("gzip", None).compress(b"x"))) == b"x"
