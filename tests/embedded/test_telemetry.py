"""Metrics for brokers that ask for them (KIP-714): our broker receives, and OpenTelemetry's own messages read."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from pyproducer import IllegalStateError, KafkaProducer
from pyproducer.broker import EmbeddedBroker
from pyproducer.broker.apis import get_telemetry_subscriptions
from pyproducer.client.request import ClientRequest, ClientResponse
from pyproducer.common.clock import SystemClock
from pyproducer.common.sender_log import SenderLog
from pyproducer.observe.otlp import OtlpWriter, Told
from pyproducer.observe.registry import Registry
from pyproducer.protocol.apis import ApiKeys
from pyproducer.record.compression import compressor_for
from pyproducer.record.decompression import decompress
from pyproducer.sender import sender as sender_module
from pyproducer.sender import telemetry as telemetry_module
from pyproducer.sender.telemetry import Telemetry
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
        broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sender_module, "_GOODBYE_MS", int(1_000 * GIVE_UP_S))  # on a loaded machine 300 ms pass
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


@pytest.mark.parametrize("code", ["UNKNOWN_SUBSCRIPTION_ID", "UNSUPPORTED_COMPRESSION_TYPE"])
def test_push_when_the_subscription_changed_then_it_is_asked_for_anew_by_the_same_id(
        broker: EmbeddedBroker, code: str) -> None:
    broker.faults.on("PushTelemetry", times=1).error(code)
    with KafkaProducer({"bootstrap.servers": broker.bootstrap_servers}) as producer:
        producer.send("orders", b"v").result(GIVE_UP_S)
        ends = time.monotonic() + GIVE_UP_S
        while len(asked := broker.requests(ApiKeys.GET_TELEMETRY_SUBSCRIPTIONS)) < 2:
            assert time.monotonic() < ends
            time.sleep(0.05)
        assert asked[1].body["client_instance_id"] == producer.client_instance_id(GIVE_UP_S)


def test_push_when_numbers_cannot_be_written_then_said_once_and_records_go_on(
        broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """With a protobuf of another version the import in write() raised in each turn of the sender: connections were made
    anew without end, and close() raised."""
    def write(*_arguments: object) -> bytes:
        raise TypeError("Descriptors cannot be created directly")

    monkeypatch.setattr(OtlpWriter, "write", write)
    with KafkaProducer({"bootstrap.servers": broker.bootstrap_servers}) as producer:
        producer.send("orders", b"v").result(GIVE_UP_S)
        ends = time.monotonic() + GIVE_UP_S
        while "cannot be written" not in caplog.text:
            assert time.monotonic() < ends
            time.sleep(0.05)
        producer.send("orders", b"v").result(GIVE_UP_S)
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert pushes(broker) == []


def test_goodbye_when_numbers_cannot_be_written_then_close_ends_in_order(
        broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(get_telemetry_subscriptions, "PUSH_INTERVAL_MS", 600_000)

    def write(*_arguments: object) -> bytes:
        raise TypeError("Descriptors cannot be created directly")

    monkeypatch.setattr(OtlpWriter, "write", write)
    producer = KafkaProducer({"bootstrap.servers": broker.bootstrap_servers})
    producer.send("orders", b"v")
    producer.client_instance_id(GIVE_UP_S)
    assert producer.close().delivered == 1
    assert [record.getMessage() for record in caplog.records if record.levelname != "INFO"] == [
        "Metrics for brokers cannot be written: no more are sent"]


class Polled:
    """A client whose one node answers what the test says."""

    def __init__(self) -> None:
        self.sent: list[ClientRequest] = []

    def is_ready(self, _node_id: int, _now_ms: int) -> bool:
        return True

    def api_version(self, _node_id: int, _api_key: ApiKeys) -> int:
        return 0

    def send(self, request: ClientRequest, _now_ms: int) -> None:
        self.sent.append(request)

    def answer(self, now_ms: int, **body: object) -> None:
        request = self.sent[-1]
        assert request.on_complete is not None
        request.on_complete(ClientResponse(request, 0, {
            "error_code": 0, "client_instance_id": uuid.UUID(int=7), "subscription_id": 1, "telemetry_max_bytes": 1_000,
            "accepted_compression_types": [], "requested_metrics": ["*"], "delta_temporality": True,
            "push_interval_ms": 1_000, **body}, received_ms=now_ms))


    def lose(self, now_ms: int, **how: bool) -> None:
        request = self.sent[-1]
        assert request.on_complete is not None
        request.on_complete(ClientResponse(request, 0, None, received_ms=now_ms, **how))


@pytest.fixture
def polled() -> tuple[Polled, Telemetry]:
    client, registry = Polled(), Registry("app")
    registry.node(1)
    wire: Any = SimpleNamespace(client=client)
    return client, Telemetry(wire=wire, registry=registry, clock=SystemClock(), request_timeout_ms=30_000,
                             uniform=lambda low, high: low)


@pytest.mark.parametrize("given_ms", [0, -1])
def test_interval_when_the_broker_names_none_then_it_is_five_minutes(
        polled: tuple[Polled, Telemetry], given_ms: int) -> None:
    """Java's ClientTelemetryUtils.validateIntervalMs; it was 1 ms, and a request each turn."""
    client, telemetry = polled
    telemetry.step(0)
    client.answer(10, push_interval_ms=given_ms)
    assert telemetry.step(10) == 150_000


def test_subscriptions_when_they_are_refused_as_unknown_then_not_asked_for_at_once(
        polled: tuple[Polled, Telemetry]) -> None:
    """The code is for pushes. As an answer to the question itself it made a request each turn."""
    client, telemetry = polled
    telemetry.step(0)
    client.answer(10, error_code=117)
    assert telemetry.step(10) == 30_000


def test_question_when_its_client_was_thrown_away_then_the_next_one_asks_again(
        polled: tuple[Polled, Telemetry]) -> None:
    """After a freeze or a recovery nobody tells of what was on its way."""
    client, telemetry = polled
    telemetry.step(0)
    telemetry.step(10)
    assert len(client.sent) == 1
    fresh: Any = Polled()
    telemetry._wire.client = fresh
    telemetry.step(20)
    assert [request.api_key for request in fresh.sent] == [ApiKeys.GET_TELEMETRY_SUBSCRIPTIONS]


@pytest.fixture
def pushing(polled: tuple[Polled, Telemetry]) -> tuple[Polled, Telemetry]:
    """A push is on its way, since 510."""
    client, telemetry = polled
    telemetry.step(0)
    client.answer(10, telemetry_max_bytes=100_000)
    telemetry.step(510)
    return polled


def test_goodbye_when_a_push_is_on_its_way_then_the_last_one_comes_after_its_answer(
        pushing: tuple[Polled, Telemetry]) -> None:
    """It was not sent at all: what came after the push that was on its way was never told."""
    client, telemetry = pushing
    assert [telemetry.say_goodbye(520), telemetry.say_goodbye(520), len(client.sent)] == [True, True, 2]
    client.answer(530)
    assert telemetry.say_goodbye(530)
    assert [request.build(0).get("terminating") for request in client.sent] == [None, False, True]
    client.answer(540)
    assert not telemetry.say_goodbye(540)
    assert len(client.sent) == 3


def test_goodbye_when_the_push_on_its_way_is_refused_then_there_is_no_last_one(
        pushing: tuple[Polled, Telemetry]) -> None:
    client, telemetry = pushing
    client.answer(530, error_code=42)
    assert not telemetry.say_goodbye(530)


def test_goodbye_when_the_subscription_is_asked_for_then_nobody_waits_for_the_answer(
        polled: tuple[Polled, Telemetry]) -> None:
    _client, telemetry = polled
    telemetry.step(0)
    assert not telemetry.say_goodbye(10)


def write(writer: OtlpWriter, told: Told, metrics: Any, now_ns: int) -> bytes:
    """What goes to a broker, as told."""
    written, telling = writer.write(metrics, now_ns)
    told.tell(telling, now_ns)
    return written


@pytest.mark.parametrize("is_delta", [True, False])
def test_start_of_a_sum_when_it_is_told_again_then_a_delta_begins_where_the_last_one_ended(is_delta: bool) -> None:
    """OpenTelemetry's model: deltas join without a gap or an overlap, and a cumulative sum began once."""
    registry = Registry("app", now_ms=0)
    registry.ledger.topic_row("t").record_error_total += 1
    told = Told(7)
    writer = OtlpWriter(["*"], is_delta=is_delta, told=told)

    def times(now_ns: int) -> tuple[int, int]:
        found = read({"compression_type": 0, "metrics": write(writer, told, registry.collect(10), now_ns)})
        (point,) = found["org.apache.kafka.producer.topic.record.error.total"]
        return point.start_time_unix_nano, point.time_unix_nano

    assert times(100) == (7, 100)
    assert times(200) == (100 if is_delta else 7, 200)
    assert times(5) == (5, 5), "the wall's clock went back"


def test_delta_when_a_topics_row_goes_and_comes_back_then_it_is_never_below_0_and_nothing_is_kept() -> None:
    """It was -97: the row began anew at 0, and the writer remembered the old one, for ever."""
    registry, live = Registry("app", window_ms=1, now_ms=0), {"t"}
    registry.live_topics(lambda: live)
    told = Told(0)
    writer = OtlpWriter(["*"], is_delta=True, told=told)

    def push(now_ms: int) -> list[float]:
        found = read({"compression_type": 0, "metrics": write(writer, told, registry.collect(now_ms), now_ms)})
        return [point.as_double for point in found.get("org.apache.kafka.producer.topic.record.error.total", ())]

    registry.ledger.topic_row("t").record_error_total += 100
    assert push(10) == [100]
    size = len(told.values)
    live.clear()
    registry.roll(100)
    assert push(110) == []
    assert len(told.values) < size
    live.add("t")
    registry.ledger.topic_row("t").record_error_total += 3
    assert push(210) == [3]
    live.clear()
    registry.roll(300)
    live.add("t")
    registry.ledger.topic_row("t").record_error_total += 2
    assert push(310) == [2], "it came back before a push saw that it had gone"


def test_push_when_its_client_was_thrown_away_then_the_next_one_comes_an_interval_later(
        pushing: tuple[Polled, Telemetry]) -> None:
    """It came at once, and brokers answer that with THROTTLING_QUOTA_EXCEEDED where they took the first."""
    _client, telemetry = pushing
    fresh: Any = Polled()
    telemetry._wire.client = fresh
    assert telemetry.step(520) == 990
    telemetry.step(1_510)
    assert [request.api_key for request in fresh.sent] == [ApiKeys.PUSH_TELEMETRY]


def sent_totals(client: Polled) -> list[float]:
    """What each push says of the errors of topic t."""
    return [sum(point.as_double for point in read(request.build(0)).get(
        "org.apache.kafka.producer.topic.record.error.total", ()))
        for request in client.sent if request.api_key is ApiKeys.PUSH_TELEMETRY]


@pytest.mark.parametrize("code", [None, 117, 118, 89])
def test_delta_when_the_subscription_changes_or_a_push_is_refused_then_each_total_is_told_once(
        pushing: tuple[Polled, Telemetry], code: int | None) -> None:
    """Who subscribed anew was told all totals again, from the beginning; what was refused was told to nobody."""
    client, telemetry = pushing
    registry = telemetry._registry
    client.answer(520)
    registry.ledger.topic_row("t").record_error_total += 5
    telemetry.step(1_520)
    client.answer(1_530, error_code=code or 0)
    registry.ledger.topic_row("t").record_error_total += 2
    telemetry._subscription, telemetry.due_ms = None, 1_540
    telemetry.step(1_540)
    client.answer(1_550, subscription_id=2, telemetry_max_bytes=100_000)
    telemetry.step(2_050)
    assert sent_totals(client) == [0, 5, 2 if code is None else 7]


@pytest.mark.parametrize("wanted", [["org.apache.kafka.producer.node."], []])
def test_delta_when_a_total_was_not_wanted_for_a_while_then_what_came_meanwhile_is_told(
        pushing: tuple[Polled, Telemetry], wanted: list[str]) -> None:
    """Each write took all totals for told, those that it had left out, too."""
    client, telemetry = pushing
    registry = telemetry._registry
    client.answer(520)
    registry.ledger.topic_row("t").record_error_total += 5
    for number, prefixes in enumerate((wanted, ["*"])):
        telemetry._subscription, telemetry.due_ms = None, 2_000 * (number + 1)
        telemetry.step(telemetry.due_ms)
        client.answer(2_000 * (number + 1), requested_metrics=prefixes, telemetry_max_bytes=100_000)
        telemetry.step(2_000 * (number + 1) + 500)
        if wanted or number:
            client.answer(2_000 * (number + 1) + 510)
        registry.ledger.topic_row("t").record_error_total += 2
    assert sum(sent_totals(client)) == 7


@pytest.mark.parametrize("was_sent", [True, False])
def test_delta_when_a_push_never_left_then_the_next_one_tells_it(pushing: tuple[Polled, Telemetry],
                                                                 was_sent: bool) -> None:
    client, telemetry = pushing
    registry = telemetry._registry
    client.answer(520)
    registry.ledger.topic_row("t").record_error_total += 5
    telemetry.step(1_520)
    client.lose(1_530, disconnected=True, was_sent=was_sent)
    telemetry.step(2_530)
    assert sent_totals(client) == [0, 5, 0 if was_sent else 5]


def test_delta_when_a_push_is_interrupted_before_it_leaves_then_the_last_one_tells_it(
        pushing: tuple[Polled, Telemetry], monkeypatch: pytest.MonkeyPatch) -> None:
    client, telemetry = pushing
    client.answer(520)
    telemetry._registry.ledger.topic_row("t").record_error_total += 5
    def interrupt(*_arguments: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(client, "send", interrupt)
        with pytest.raises(KeyboardInterrupt):
            telemetry.step(1_520)
    assert telemetry.say_goodbye(1_530)
    assert sent_totals(client) == [0, 5]


def test_goodbye_when_it_is_too_large_then_nobody_waits(polled: tuple[Polled, Telemetry]) -> None:
    client, telemetry = polled
    telemetry.step(0)
    client.answer(10, telemetry_max_bytes=10)
    assert not telemetry.say_goodbye(20)


def test_delta_when_nobody_answers_then_it_counts_as_told(pushing: tuple[Polled, Telemetry]) -> None:
    """A broker may have taken it, and would count it twice."""
    client, telemetry = pushing
    registry = telemetry._registry
    client.answer(520)
    registry.ledger.topic_row("t").record_error_total += 5
    telemetry.step(1_520)
    client.lose(1_530)
    registry.ledger.topic_row("t").record_error_total += 2
    telemetry.step(2_530)
    assert sent_totals(client) == [0, 5, 2]


def test_line_when_it_is_written_in_a_turn_then_it_goes_through_the_senders_log() -> None:
    """A handler that sends to Kafka stopped the sender, which waited for that handler's lock."""
    assert isinstance(telemetry_module.log, SenderLog)


def test_client_instance_id_when_it_is_asked_for_in_a_callback_then_refused(start_broker: StartBroker) -> None:
    """It waited for max.block.ms, in the thread that it waited for."""
    plain, raised = start_broker(topics={"orders": 1}), []
    with KafkaProducer({"bootstrap.servers": plain.bootstrap_servers}) as producer:
        def tell(_metadata: object, _error: object) -> None:
            try:
                producer.client_instance_id(0)
            except Exception as error:
                raised.append(type(error))

        producer.send("orders", b"v", on_completion=tell).result(GIVE_UP_S)
    assert raised == [IllegalStateError]


def test_compressor_when_the_tests_read_pushes_then_it_is_the_one_that_wrote() -> None:
    assert bytes(decompress(1, compressor_for("gzip", None).compress(b"x"))) == b"x"
