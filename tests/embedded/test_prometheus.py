"""The Prometheus door, against prometheus_client itself: what it registers, renders and parses again."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable

import pytest

from pyproducer import KafkaProducer, ProducerDeadError, PrometheusCollector
from pyproducer.broker import EmbeddedBroker
from pyproducer.producer import process_life
from tests.support.patience import GIVE_UP_S

StartBroker = Callable[..., EmbeddedBroker]
prometheus_client = pytest.importorskip("prometheus_client")


@pytest.fixture
def broker(start_broker: StartBroker) -> EmbeddedBroker:
    return start_broker(topics={"orders": 2})


def rendered() -> tuple[str, dict[tuple[str, tuple[tuple[str, str], ...]], float]]:
    from prometheus_client.openmetrics.exposition import generate_latest
    from prometheus_client.openmetrics.parser import text_string_to_metric_families

    registry = prometheus_client.CollectorRegistry()
    registry.register(PrometheusCollector())
    text = generate_latest(registry).decode()
    found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            key = sample.name, tuple(sorted(sample.labels.items()))
            assert key not in found, "no series twice"
            found[key] = sample.value
    return text, found


def test_collector_when_two_producers_run_then_each_series_is_there_once_and_parses(broker: EmbeddedBroker) -> None:
    props = {"bootstrap.servers": broker.bootstrap_servers, "client.id": "app"}
    with KafkaProducer(props) as one, KafkaProducer(props):
        for _ in range(7):
            one.send("orders", b"v").result(GIVE_UP_S)
        _, found = rendered()
    assert found["kafka_producer_record_send_total", (("client_id", "app"),)] == 7
    assert found["kafka_producer_record_send_total", (("client_id", "app#2"),)] == 0
    assert found["kafka_producer_topic_record_send_total", (("client_id", "app"), ("topic", "orders"))] == 7
    assert found["kafka_producer_node_request_total", (("client_id", "app"), ("node_id", "node-1"))] >= 7
    assert found["kafka_producer_partition_leader",
                 (("client_id", "app"), ("partition", "1"), ("topic", "orders"))] == 1


def test_histogram_when_answers_came_then_counts_grow_with_the_bound_and_end_with_all(broker: EmbeddedBroker) -> None:
    began = time.monotonic()
    with KafkaProducer({"bootstrap.servers": broker.bootstrap_servers, "client.id": "app"}) as producer:
        broker.faults.on("Produce", times=1).delay(300)
        producer.send("orders", b"v").result(GIVE_UP_S)
        producer.send("orders", b"v").result(GIVE_UP_S)
        _, found = rendered()
    buckets = sorted((float(dict(labels)["le"]), value) for (name, labels), value in found.items()
                     if name == "kafka_producer_record_delivery_time_seconds_bucket")
    values = [value for _, value in buckets]
    assert values == sorted(values)
    assert values[-1] == found["kafka_producer_record_delivery_time_seconds_count", (("client_id", "app"),)] == 2
    assert [value for bound, value in buckets if bound < 0.3][-1] <= 1
    seconds = found["kafka_producer_record_delivery_time_seconds_sum", (("client_id", "app"),)]
    assert 0.3 <= seconds <= 2 * (time.monotonic() - began)


@pytest.fixture
def dead(broker: EmbeddedBroker) -> KafkaProducer:
    """A producer of client.id "dead" whose sender thread could not go on, with one record that failed."""
    producer = KafkaProducer({"bootstrap.servers": broker.bootstrap_servers, "client.id": "dead"})
    sender = producer._runtime.io_thread._sender

    def fail(*_arguments: object) -> None:
        raise ZeroDivisionError("a bug")

    sender.run_once = sender.recover = fail  # type: ignore[method-assign]
    assert isinstance(producer.send("orders", b"v").exception(GIVE_UP_S), ProducerDeadError)
    assert producer._runtime.life.await_end(GIVE_UP_S)
    deadline_s = time.monotonic() + GIVE_UP_S
    while producer._runtime.life in process_life.runtimes:
        assert time.monotonic() < deadline_s, "its thread does not end"
        time.sleep(0.001)
    return producer


def test_producer_when_its_sender_thread_died_then_that_is_told_until_somebody_closes_it(dead: KafkaProducer) -> None:
    """It was gone with its thread: no scrape came in those milliseconds, and the alert for it could never fire."""
    own = (("client_id", "dead"),)
    for _ in range(2):
        found = rendered()[1]
        assert found["kafka_producer_sender_alive", own] == 0
        assert found["kafka_producer_record_error_total", own] == 1
    dead.close()
    assert 'client_id="dead"' not in rendered()[0]


def test_producer_when_its_sender_thread_died_and_it_is_dropped_then_its_series_are_gone(
        dead: KafkaProducer) -> None:
    assert 'client_id="dead"' in rendered()[0]
    process_life.close_dropped(weakref.ref(dead._runtime))  # what the finalizer calls
    assert 'client_id="dead"' not in rendered()[0]


def test_producer_when_it_is_closed_then_its_series_are_gone(broker: EmbeddedBroker) -> None:
    producer = KafkaProducer({"bootstrap.servers": broker.bootstrap_servers, "client.id": "gone"})
    assert 'client_id="gone"' in rendered()[0]
    producer.close()
    assert 'client_id="gone"' not in rendered()[0]
