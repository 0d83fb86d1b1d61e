"""Interceptors: they see records in order, outcomes before the callback, and their own failures stop nobody."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from pyproducer import ErrorCode, Header, ProducerInterceptor, ProducerRecord, RecordMetadata, SerializationError
from tests.contract.clusters import Can, Cluster
from tests.contract.conftest import Connect
from tests.contract.witness import await_known, wait_until
from tests.support.fault_proxy import FaultProxy
from tests.support.patience import GIVE_UP_S

Events = list[tuple[str, str]]


class Signer(ProducerInterceptor):
    """Adds its name to each value, and keeps what happens to it in a list that several share."""

    def __init__(self, name: str, events: Events) -> None:
        self.name = name
        self.events = events
        self.props: Mapping[str, object] = {}
        self.told: list[tuple[RecordMetadata | None, BaseException | None]] = []

    def configure(self, props: Mapping[str, object]) -> None:
        self.props = props

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        self.events.append((self.name, "send"))
        return ProducerRecord(record.topic, record.value + self.name.encode(), record.key, partition=record.partition,
                              timestamp=record.timestamp, headers=[*record.headers, (self.name, None)])

    def on_acknowledgement(self, metadata: RecordMetadata | None, exception: BaseException | None) -> None:
        self.events.append((self.name, "acknowledged"))
        self.told.append((metadata, exception))

    def close(self) -> None:
        self.events.append((self.name, "closed"))


class SendFails(Signer):
    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        self.events.append((self.name, "send"))
        raise ZeroDivisionError("in on_send")


class SendForgets(Signer):
    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        self.events.append((self.name, "send"))
        return None  # type: ignore[return-value]  # the mistake that is tested


class AcknowledgementFails(Signer):
    def on_acknowledgement(self, metadata: RecordMetadata | None, exception: BaseException | None) -> None:
        super().on_acknowledgement(metadata, exception)
        raise ZeroDivisionError("in on_acknowledgement")


def callback(events: Events):
    def on_completion(metadata: RecordMetadata | None, exception: BaseException | None) -> None:
        events.append(("callback", "stored" if exception is None else "failed"))
    return on_completion


def test_interceptors_when_there_are_two_then_the_record_passes_both_in_order(
        cluster: Cluster, topic: str, connect: Connect) -> None:
    events: Events = []
    producer = connect(interceptor_classes=[Signer("a", events), Signer("b", events)])
    metadata = producer.send(topic, b"value ", key=b"k", partition=3, timestamp=77).result(GIVE_UP_S)
    assert metadata.partition == 3
    (record,) = cluster.log(topic)
    assert (record.key, record.value, record.timestamp) == (b"k", b"value ab", 77)
    assert record.headers == (("a", None), ("b", None))
    assert events[:2] == [("a", "send"), ("b", "send")]


def test_interceptors_when_a_record_is_stored_then_they_are_told_before_its_callback(
        topic: str, connect: Connect) -> None:
    events: Events = []
    first, second = Signer("a", events), Signer("b", events)
    producer = connect(interceptor_classes=[first, second])
    metadata = producer.send(topic, b"v", on_completion=callback(events)).result(GIVE_UP_S)
    wait_until(lambda: len(events) == 5, "all are told")
    assert events[2:] == [("a", "acknowledged"), ("b", "acknowledged"), ("callback", "stored")]
    assert first.told == second.told == [(metadata, None)]


def test_interceptors_when_a_record_is_refused_then_they_are_told_before_its_callback(
        topic: str, connect: Connect, proxy: FaultProxy) -> None:
    events: Events = []
    signer = Signer("a", events)
    producer = connect(through=proxy, interceptor_classes=[signer])
    proxy.on("Produce").error(ErrorCode.INVALID_RECORD)
    error = producer.send(topic, b"v", on_completion=callback(events)).exception(GIVE_UP_S)
    wait_until(lambda: len(events) == 3, "all are told")
    assert events[1:] == [("a", "acknowledged"), ("callback", "failed")]
    ((metadata, told),) = signer.told
    assert type(told) is type(error)
    assert metadata is not None
    assert (metadata.topic, metadata.offset) == (topic, -1)
    assert metadata.partition >= 0


class SeesHeaders(Signer):
    def on_acknowledgement(self, metadata: RecordMetadata | None, exception: BaseException | None,
                           headers: Sequence[Header] = ()) -> None:
        super().on_acknowledgement(metadata, exception)
        self.headers = headers


def test_interceptors_when_they_take_headers_then_they_get_those_that_on_send_left(
        topic: str, connect: Connect) -> None:
    """KIP-512: a span that on_send began and wrote into the headers is found again when the outcome is told."""
    events: Events = []
    first, second = SeesHeaders("a", events), Signer("b", events)
    producer = connect(interceptor_classes=[first, second])
    producer.send(topic, b"v", headers=[("own", b"1")]).result(GIVE_UP_S)
    wait_until(lambda: len(events) == 4, "all are told")
    assert first.headers == (("own", b"1"), ("a", None), ("b", None))
    with pytest.raises(SerializationError):
        producer.send(topic, "text", headers=[("own", b"2")])
    assert first.headers == (("own", b"2"),)  # the interceptors could do nothing with a text


@pytest.mark.parametrize("kind", [SendFails, SendForgets])
def test_interceptors_when_on_send_fails_then_the_next_gets_the_record_of_the_one_before(
        cluster: Cluster, topic: str, connect: Connect, kind: type[Signer]) -> None:
    events: Events = []
    producer = connect(interceptor_classes=[Signer("a", events), kind("x", events), Signer("b", events)])
    producer.send(topic, b"value ").result(GIVE_UP_S)
    assert [record.value for record in cluster.log(topic)] == [b"value ab"]
    assert events[:3] == [("a", "send"), ("x", "send"), ("b", "send")]


def test_interceptors_when_on_acknowledgement_raises_then_the_others_and_the_callback_are_told(
        topic: str, connect: Connect) -> None:
    events: Events = []
    producer = connect(interceptor_classes=[AcknowledgementFails("x", events), Signer("b", events)], linger_ms=20_000)
    await_known(producer, topic)
    futures = [producer.send(topic, b"v", partition=0, on_completion=callback(events)) for _ in range(3)]
    producer.flush(GIVE_UP_S)
    assert [future.result(0).offset for future in futures] == [0, 1, 2]
    assert events[6:] == [("x", "acknowledged"), ("b", "acknowledged"), ("callback", "stored")] * 3


def test_interceptors_when_a_serializer_fails_then_they_are_told_and_send_raises(
        topic: str, connect: Connect) -> None:
    events: Events = []
    signer = Signer("a", events)
    producer = connect(interceptor_classes=[signer], value_serializer=_fail)
    with pytest.raises(SerializationError):
        producer.send(topic, b"v")
    ((metadata, error),) = signer.told
    assert isinstance(error, SerializationError)
    assert metadata is not None
    assert (metadata.topic, metadata.partition, metadata.offset) == (topic, -1, -1)


@pytest.mark.needs(Can.REFUSE_UNKNOWN_TOPICS)
def test_interceptors_when_the_topic_is_unknown_then_they_are_told_before_the_callback(
        cluster: Cluster, topic_name: str, connect: Connect) -> None:
    events: Events = []
    signer = Signer("a", events)
    producer = connect(interceptor_classes=[signer], max_block_ms=100)
    assert producer.send(topic_name, b"v", on_completion=callback(events)).exception(GIVE_UP_S) is not None
    assert events == [("a", "send"), ("a", "acknowledged"), ("callback", "failed")]
    ((metadata, _),) = signer.told
    assert metadata is not None
    assert (metadata.topic, metadata.partition, metadata.offset) == (topic_name, -1, -1)


def test_interceptors_when_the_producer_is_made_and_closed_then_they_are_configured_and_closed_once(
        cluster: Cluster, connect: Connect) -> None:
    events: Events = []
    signers = [Signer("a", events), Signer("b", events)]
    producer = connect(interceptor_classes=signers, client_id="somebody")
    assert [signer.props["client.id"] for signer in signers] == ["somebody", "somebody"]
    producer.close()
    producer.close()
    assert events == [("a", "closed"), ("b", "closed")]


def _fail(topic: str, headers: object, data: object) -> bytes:
    raise ZeroDivisionError("in the serializer")
