"""What an operator asks at three in the morning: fifteen questions, each made true on our broker, and its answer read.

Before there was a registry none of them could be answered: twelve totals for a producer, none by topic or partition,
names that came with their first event, no age of anything.
"""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

import pytest

from pyproducer import (
    BatchFuture,
    ErrorCode,
    FutureRecordMetadata,
    KafkaProducer,
    KafkaTimeoutError,
    ProducerMetrics,
    all_metrics,
)
from pyproducer.broker import EmbeddedBroker
from tests.support.certificates import Certificates
from tests.support.patience import GIVE_UP_S

TOPIC = "orders"
StartBroker = Callable[..., EmbeddedBroker]


@pytest.fixture
def broker(start_broker: StartBroker) -> EmbeddedBroker:
    return start_broker(topics={TOPIC: 3, "audit": 1})


@pytest.fixture
def producer(broker: EmbeddedBroker) -> Iterator[KafkaProducer]:
    with made(broker) as running:
        yield running
        broker.faults.clear()


def made(broker: EmbeddedBroker, **props: Any) -> KafkaProducer:
    return KafkaProducer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 0,
                          **{key.replace("_", "."): value for key, value in props.items()}})


def wait_for(producer: KafkaProducer, is_so: Callable[[ProducerMetrics], bool]) -> ProducerMetrics:
    ends = time.monotonic() + GIVE_UP_S
    while not is_so(producer.metrics()):
        assert time.monotonic() < ends, dict(producer.metrics())
        time.sleep(0.01)
    return producer.metrics()


def test_1_is_it_retrying_which_partition_and_which_error(broker: EmbeddedBroker, producer: KafkaProducer) -> None:
    broker.faults.on("Produce", partition=1, times=None).error(ErrorCode.NOT_ENOUGH_REPLICAS)
    producer.send(TOPIC, b"v", partition=1)
    metrics = wait_for(producer, lambda now: now.retries.get("NOT_ENOUGH_REPLICAS", 0) >= 2)
    assert metrics.topics[TOPIC]["record-retry-total"] == metrics["record-retry-total"]
    (stuck,) = [state for state in producer.waiting() if state.attempts >= 2]
    assert (stuck.topic, stuck.partition, stuck.error, stuck.leader) == (TOPIC, 1, "NOT_ENOUGH_REPLICAS", 1)
    assert metrics.partitions[(TOPIC, 1)]["attempts"] >= 2


def test_2_and_3_how_old_is_the_oldest_record_and_how_many_wait_where(
        broker: EmbeddedBroker, producer: KafkaProducer) -> None:
    producer.partitions_for(TOPIC)
    assert producer.metrics()["oldest-record-age-ms"] == 0
    broker.faults.on("Produce", times=None).delay(3_600_000)
    for number in range(5):
        producer.send(TOPIC, b"v", partition=number % 2)
    producer.send("no-such-topic-yet", b"v", partition=7)
    metrics = wait_for(producer, lambda now: now["oldest-record-age-ms"] >= 50)
    assert metrics["records-waiting"] == 6
    assert {(state.topic, state.partition): state.records for state in producer.waiting()} == {
        (TOPIC, 0): 3, (TOPIC, 1): 2, ("no-such-topic-yet", -1): 1} or metrics.partitions[(TOPIC, 0)][
            "records-waiting"] == 3
    assert metrics.partitions[(TOPIC, 2)]["records-waiting"] == 0
    broker.faults.clear()
    producer.close(0)


def test_4_what_is_the_99th_percentile_of_delivery(broker: EmbeddedBroker, producer: KafkaProducer) -> None:
    for _ in range(20):
        producer.send(TOPIC, b"v", partition=0).result(GIVE_UP_S)
    broker.faults.on("Produce", times=1).delay(400)
    producer.send(TOPIC, b"v", partition=0).result(GIVE_UP_S)
    metrics = wait_for(producer, lambda now: now["record-delivery-time-max"] >= 400)
    assert metrics["record-delivery-time-p99"] >= 400 > metrics["record-delivery-time-p50"]
    assert metrics.topics[TOPIC]["record-delivery-time-p99"] >= 400
    assert metrics.nodes[1]["request-latency-p999"] >= 400


def test_5_are_we_throttled(broker: EmbeddedBroker, producer: KafkaProducer) -> None:
    assert producer.metrics()["produce-throttle-time-max"] == 0
    broker.faults.on("Produce", times=1).throttle(120)
    producer.send(TOPIC, b"v", partition=0).result(GIVE_UP_S)
    metrics = producer.metrics()
    assert (metrics["produce-throttle-time-max"], metrics.nodes[1]["produce-throttle-time-total"]) == (120, 120)


def test_6_which_topic_is_busy(producer: KafkaProducer) -> None:
    for _ in range(30):
        producer.send(TOPIC, b"v" * 100)
    producer.send("audit", b"v").result(GIVE_UP_S)
    producer.flush(GIVE_UP_S)
    metrics = wait_for(producer, lambda now: now["record-send-total"] == 31)
    assert {topic: row["record-send-total"] for topic, row in metrics.topics.items()} == {TOPIC: 30, "audit": 1}
    assert metrics.topics[TOPIC]["record-send-rate"] > metrics.topics["audit"]["record-send-rate"] > 0
    assert metrics.topics[TOPIC]["byte-total"] > 3000


def test_7_batch_size_records_a_request_compression_and_whether_linger_is_wrong(broker: EmbeddedBroker) -> None:
    with made(broker, linger_ms=3_600_000, compression_type="gzip") as producer:
        for _ in range(50):
            producer.send(TOPIC, b"same " * 40, partition=0)
        producer.flush(GIVE_UP_S)
        metrics = wait_for(producer, lambda now: now["records-per-batch-avg"] == 50)
        assert metrics["records-per-request-avg"] == 50
        assert 0 < metrics["compression-rate-avg"] < 0.2
        assert 0 < metrics["batch-size-avg"] == metrics["batch-size-max"] < 50 * 200
        assert metrics["batches-per-request-avg"] == 1


def test_8_connections_made_and_lost_and_since_when_the_leader_is_gone(start_broker: StartBroker) -> None:
    broker = start_broker(brokers=2, topics={TOPIC: 1})
    with made(broker) as producer:
        leader = producer.partitions_for(TOPIC)[0].leader
        assert leader is not None
        producer.send(TOPIC, b"v", partition=0).result(GIVE_UP_S)
        assert producer.metrics().nodes[leader.node_id]["connection-creation-total"] == 1
        broker.stop_node(leader.node_id)
        producer.send(TOPIC, b"v", partition=0)
        metrics = wait_for(producer, lambda now: now.nodes[leader.node_id]["connection-close-total"] == 1 and now[
            "oldest-record-age-ms"] > 0)
        assert metrics["connection-close-total"] >= 1
        assert metrics.partitions[(TOPIC, 0)]["oldest-record-age-ms"] > 0
        producer.close(0)


def test_9_who_leads_now_and_how_old_are_metadata(start_broker: StartBroker) -> None:
    broker = start_broker(brokers=2, topics={TOPIC: 1})
    with made(broker) as producer:
        producer.send(TOPIC, b"v", partition=0).result(GIVE_UP_S)
        metrics = producer.metrics()
        before = metrics.partitions[(TOPIC, 0)]["leader"]
        assert before in (1, 2)
        assert metrics["metadata-age"] < GIVE_UP_S
        broker.move_leader(TOPIC, 0, int(3 - before))
        producer.send(TOPIC, b"v", partition=0).result(GIVE_UP_S)
        assert producer.metrics().partitions[(TOPIC, 0)]["leader"] == 3 - before
        assert producer.metrics()["metadata-update-total"] >= 1


def test_10_which_error_codes_and_how_often(broker: EmbeddedBroker, producer: KafkaProducer) -> None:
    producer.partitions_for(TOPIC)
    broker.faults.on("Produce", times=2).error(ErrorCode.INVALID_RECORD)
    for _ in range(2):
        assert producer.send(TOPIC, b"v", partition=0).exception(GIVE_UP_S) is not None
    broker.faults.on("Produce", times=1).error(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    assert producer.send("audit", b"v", partition=0).exception(GIVE_UP_S) is not None
    metrics = wait_for(producer, lambda now: sum(now.errors.values()) == 3)
    assert metrics.errors == {"INVALID_RECORD": 2, "TOPIC_AUTHORIZATION_FAILED": 1}
    assert metrics["record-error-total"] == 3
    assert metrics.topics["audit"]["record-error-total"] == 1


def test_11_when_does_the_certificate_end(start_broker: StartBroker, certificates: Certificates) -> None:
    broker = start_broker(topics={TOPIC: 1}, config={
        "listeners": "PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0",
        "ssl.keystore.location": str(certificates.server.keystore),
        "ssl.truststore.location": str(certificates.ca)})
    with KafkaProducer({
            "bootstrap.servers": broker.bootstrap_servers_of("SSL"), "security.protocol": "SSL",
            "ssl.truststore.location": str(certificates.ca), "ssl.truststore.type": "PEM",
            "ssl.keystore.location": str(certificates.client.keystore), "ssl.keystore.type": "PEM"}) as producer:
        producer.send(TOPIC, b"v").result(GIVE_UP_S)
        metrics = producer.metrics()
        now_ms = time.time() * 1000
        assert metrics["certificate-expiry-time-ms"] > now_ms
        assert metrics["broker-certificate-expiry-time-ms"] > now_ms


def test_11_when_does_the_token_end(start_broker: StartBroker) -> None:
    broker = start_broker(topics={TOPIC: 1}, config={
        "listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "OAUTHBEARER"})
    before_ms = time.time() * 1000
    with KafkaProducer({
            "bootstrap.servers": broker.bootstrap_servers_of("SASL_PLAINTEXT"), "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER", "sasl.jaas.config":
            "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
            'unsecuredLoginStringClaim_sub="alice" unsecuredLoginLifetimeSeconds="7200";'}) as producer:
        producer.send(TOPIC, b"v").result(GIVE_UP_S)
        ends_ms = producer.metrics()["token-expiry-time-ms"]
    assert before_ms + 7_100_000 < ends_ms < time.time() * 1000 + 7_300_000


def test_12_is_the_sender_thread_alive_and_does_it_come_round(broker: EmbeddedBroker, producer: KafkaProducer) -> None:
    is_in, may_go = threading.Event(), threading.Event()

    def hangs(_metadata: object, _error: object) -> None:
        is_in.set()
        may_go.wait(GIVE_UP_S)

    producer.send(TOPIC, b"v", on_completion=hangs)
    assert is_in.wait(GIVE_UP_S)
    try:
        metrics = wait_for(producer, lambda now: now["sender-last-turn-ms"] >= 100)
        assert metrics["sender-alive"] == 1
        producer.send(TOPIC, b"v")
        assert "callback" in {finding.cause for finding in _ask_until(producer, "callback")}
    finally:
        may_go.set()


def _ask_until(producer: KafkaProducer, cause: str) -> tuple[Any, ...]:
    ends = time.monotonic() + GIVE_UP_S
    while cause not in {finding.cause for finding in producer.why(last=5).findings}:
        assert time.monotonic() < ends, str(producer.why(last=5))
        time.sleep(0.05)
    return producer.why(last=5).findings


def test_13_which_version_and_settings_run_there(broker: EmbeddedBroker, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "pyproducer"), made(broker, batch_size=5000, client_id="app") as producer:
        config = producer.config()
        assert (config["batch.size"], config["acks"], config["linger.ms"]) == ("5000", "all", "0")
        (line,) = [record.getMessage() for record in caplog.records if "starts, pyproducer" in record.getMessage()]
        assert "app starts" in line
        assert "'batch.size': 5000" in line
        (info,) = [metric for metric in all_metrics() if metric.name == "info" and metric.tags["client-id"] == "app"]
        assert info.tags["version"] in line


def test_14_the_same_for_all_producers_of_a_process(broker: EmbeddedBroker) -> None:
    with made(broker, client_id="a") as one, made(broker, client_id="b") as other, made(broker, client_id="a") as third:
        one.send(TOPIC, b"v").result(GIVE_UP_S)
        sent = {metric.tags["client-id"]: metric.value for metric in all_metrics()
                if metric.name == "record-send-total" and "topic" not in metric.tags}
        assert {name: sent[name] for name in ("a", "b", "a#2")} == {"a": 1, "b": 0, "a#2": 0}
        assert other.client_id == "b"
        assert third.client_id == "a"


def test_15_what_happened_at_02_47(broker: EmbeddedBroker, producer: KafkaProducer, tmp_path: Any) -> None:
    from pyproducer.observe.why import at, from_json

    producer.partitions_for(TOPIC)
    broker.faults.on("Produce", times=1).error(ErrorCode.INVALID_RECORD)
    assert producer.send(TOPIC, b"v", partition=0).exception(GIVE_UP_S) is not None
    began_ms = time.time() * 1000
    ends = time.monotonic() + 1.2
    while time.monotonic() < ends:  # a second is over, so that the history has it
        producer.send(TOPIC, b"v", partition=0).result(GIVE_UP_S)
    producer.why(save=tmp_path / "why.json")
    told = at(from_json((tmp_path / "why.json").read_text()), int(began_ms))
    assert f"{datetime.fromtimestamp(began_ms / 1000):%Y-%m-%d %H:%M}" in told
    assert "1 failed" in told


def test_errors_when_send_and_send_batch_refuse_records_then_the_producers_total_has_them(
        start_broker: StartBroker) -> None:
    """It had only those that failed after they were taken, where the topic's, and metrics().errors, had all."""
    broker = start_broker(topics={"orders": 1})
    producer = KafkaProducer({"bootstrap.servers": broker.bootstrap_servers})
    producer.send("bad topic!", b"v")
    producer.send_batch("bad topic!", [b"v"] * 10)
    producer.send("orders", b"v", partition=7)
    failed = sum(producer.close().failed.values())
    metrics = producer.metrics()
    assert metrics["record-error-total"] == sum(metrics.errors.values()) == failed == 12


def test_a_batch_that_was_split_is_counted_by_its_parts_alone(broker: EmbeddedBroker) -> None:
    with made(broker, linger_ms=60_000, batch_size=16_000) as producer:
        producer.partitions_for(TOPIC)
        broker.faults.on("Produce", times=1).error(ErrorCode.MESSAGE_TOO_LARGE)
        futures = [producer.send(TOPIC, b"x" * 100, partition=0) for _ in range(100)]
        producer.flush()
        metrics = producer.metrics()
        assert [future.result().offset for future in futures] == list(range(100))
        assert metrics["record-send-total"] == metrics.topics[TOPIC]["record-send-total"] == 100
        assert metrics["batch-split-total"] == 1


@pytest.mark.parametrize(("api", "code"), [("Produce", ErrorCode.NOT_ENOUGH_REPLICAS),
                                           ("InitProducerId", ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)])
def test_flush_when_its_time_is_over_then_it_says_what_the_requests_are_answered(
        broker: EmbeddedBroker, producer: KafkaProducer, api: str, code: ErrorCode) -> None:
    """It said that records are on their way, and nothing else, where the brokers were reached."""
    broker.faults.on(api, times=None).error(code)
    producer.send(TOPIC, b"v")
    ends = time.monotonic() + GIVE_UP_S
    while code.name not in (said := flushed_in_vain(producer)):
        assert time.monotonic() < ends, said
        time.sleep(0.01)
    assert "1 records are still on their way; " in said


@pytest.mark.parametrize(("api", "code"), [("Produce", ErrorCode.NOT_ENOUGH_REPLICAS),
                                           ("InitProducerId", ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)])
@pytest.mark.parametrize("call", ["send", "send_batch"])
def test_result_when_its_time_is_over_then_it_says_why_the_record_is_not_stored(
        broker: EmbeddedBroker, producer: KafkaProducer, call: str, api: str, code: ErrorCode) -> None:
    """It said that the record is on its way, and nothing else, where flush() said why."""
    broker.faults.on(api, times=None).error(code)
    future = producer.send(TOPIC, b"v") if call == "send" else producer.send_batch(TOPIC, [b"v"])
    said = waited_in_vain(future, code.name)
    assert "delivery.timeout.ms decides" in said
    assert "max.block.ms" not in said


def test_result_when_another_partition_fails_then_it_does_not_say_that_of_its_own(
        broker: EmbeddedBroker, producer: KafkaProducer) -> None:
    broker.faults.on("Produce", partition=0, times=None).error(ErrorCode.NOT_ENOUGH_REPLICAS)
    broker.faults.on("Produce", partition=1, times=None).delay(3_600_000)
    waited_in_vain(producer.send(TOPIC, b"v", partition=0), "NOT_ENOUGH_REPLICAS")
    assert "NOT_ENOUGH_REPLICAS" not in waited_in_vain(producer.send(TOPIC, b"v", partition=1), "on its way")


@pytest.mark.parametrize("call", ["send", "send_batch"])
def test_result_when_the_topic_is_not_there_then_it_says_so_and_what_bounds_the_wait(
        start_broker: StartBroker, call: str) -> None:
    with made(start_broker(config={"auto.create.topics.enable": "false"})) as producer:
        future = producer.send(TOPIC, b"v") if call == "send" else producer.send_batch(TOPIC, [b"v"])
        said = waited_in_vain(future, "UNKNOWN_TOPIC_OR_PARTITION")
        assert "max.block.ms" in said
        assert "delivery.timeout.ms" not in said
        producer.close(0)


@pytest.mark.parametrize("partition", [None, 0])
def test_result_when_nobody_listens_at_the_address_then_it_says_so(partition: int | None) -> None:
    """The first error of who mistypes an address: it had no cause, and named a setting that did not bound the wait."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
    with KafkaProducer({"bootstrap.servers": address}) as producer:
        future = producer.send(TOPIC, b"v", partition=partition)
        said = waited_in_vain(future, "refused")
        assert address in said
        assert "max.block.ms" in said
        assert f"for {'topic orders' if partition is None else 'orders-0'} was not done" in said
        producer.close(0)


def waited_in_vain(future: FutureRecordMetadata | BatchFuture, until_it_says: str) -> str:
    ends = time.monotonic() + GIVE_UP_S
    while True:
        with pytest.raises(KafkaTimeoutError) as caught:
            future.result(0)
        assert (caught.value.phase, caught.value.outcome) == ("future", "unknown")
        if until_it_says in (said := str(caught.value)):
            return said
        assert time.monotonic() < ends, said
        time.sleep(0.01)


def flushed_in_vain(producer: KafkaProducer) -> str:
    with pytest.raises(KafkaTimeoutError) as caught:
        producer.flush(0)
    return str(caught.value)
