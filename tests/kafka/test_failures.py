"""Failures explain themselves, none comes before its timeout, and close() returns."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

import pytest

from pyproducer import (
    FutureRecordMetadata,
    IllegalStateError,
    InvalidTopicError,
    KafkaProducer,
    KafkaTimeoutError,
    ProducerRecord,
    RecordTooLargeError,
    SerializationError,
    UnknownTopicOrPartitionError,
)
from tests.support.bad_servers import black_hole, closed_port, hanging_up_server, http_server, silent_server
from tests.support.kafka_server import KafkaServer
from tests.support.log_checker import check_log, check_order, read_topic
from tests.support.patience import GIVE_UP_S
from tests.support.sending import Outcomes, error_of_send

MAX_BLOCK_MS = 2500
# For what must not wait: a test that waits after all ends by the suite's own timeout.
PATIENT_MS = 3_600_000
CLOCK_STEP_S = 0.01


@pytest.mark.parametrize(("server", "words"), [
    (closed_port, ("refused",)),
    (silent_server, ("no answer", "did not answer", "timed out", "timeout", "no response")),
    (black_hole, ("connect", "timed out", "timeout", "set up", "setup")),
    (http_server, ("http",)),
    (hanging_up_server, ("closed", "disconnected", "reset")),
])
def test_bootstrap_server_when_it_is_no_broker_then_the_error_says_what_it_is(
        server: Callable[[], AbstractContextManager[str]], words: tuple[str, ...]) -> None:
    with server() as address:
        check_refusal(address, words)


def test_host_name_when_it_does_not_resolve_then_the_error_says_so() -> None:
    check_refusal("no-such-host.invalid:9092", ("no-such-host.invalid", "resolve", "dns"))


def check_refusal(address: str, words: tuple[str, ...]) -> None:
    props = {"bootstrap.servers": address, "max.block.ms": MAX_BLOCK_MS, "request.timeout.ms": 1000,
             "delivery.timeout.ms": 2 * MAX_BLOCK_MS, "socket.connection.setup.timeout.ms": 1000}
    with KafkaProducer(props) as producer:
        started = time.monotonic()
        error = error_of_send(producer, "orders", b"value")
        assert time.monotonic() - started >= MAX_BLOCK_MS / 1000 - CLOCK_STEP_S
    text = str(error)
    assert isinstance(error, KafkaTimeoutError)
    assert f"{MAX_BLOCK_MS} ms" in text
    assert error.phase == "metadata"
    assert error.outcome == "not_sent"
    assert address in text
    assert "orders" in text
    assert any(word in text.lower() for word in words), text


def test_several_bootstrap_servers_when_only_the_last_is_a_broker_then_it_is_found(
        kafka: KafkaServer, topic_name: str) -> None:
    topic = kafka.create_topic(topic_name)
    with silent_server() as silent, http_server() as http, closed_port() as closed:
        servers = ",".join([closed, http, silent, kafka.bootstrap_servers])
        props = {"bootstrap.servers": servers, "request.timeout.ms": 1000, "delivery.timeout.ms": 60_000,
                 "max.block.ms": 60_000}
        with KafkaProducer(props) as producer:
            assert producer.send(topic, b"v").result(GIVE_UP_S).offset == 0


@pytest.fixture
def producer(kafka: KafkaServer) -> Iterator[KafkaProducer]:
    with KafkaProducer({"bootstrap.servers": kafka.bootstrap_servers, "max.block.ms": MAX_BLOCK_MS}) as producer:
        yield producer


def test_topic_when_unknown_and_not_created_then_the_error_names_it_and_the_answer(producer: KafkaProducer) -> None:
    started = time.monotonic()
    error = error_of_send(producer, "no-such-topic", b"v")
    assert time.monotonic() - started >= MAX_BLOCK_MS / 1000 - CLOCK_STEP_S
    assert isinstance(error, KafkaTimeoutError)
    assert error.phase == "metadata"
    assert error.outcome == "not_sent"
    assert f"{MAX_BLOCK_MS} ms" in str(error)
    assert "no-such-topic" in str(error)
    assert "UNKNOWN_TOPIC_OR_PARTITION" in str(error)


@pytest.mark.parametrize("name", ["a/b", "with space", "x" * 250, ".."])
def test_topic_when_its_name_is_invalid_then_the_error_does_not_wait_for_max_block_ms(
        kafka: KafkaServer, name: str) -> None:
    with KafkaProducer({"bootstrap.servers": kafka.bootstrap_servers, "max.block.ms": PATIENT_MS}) as producer:
        error = error_of_send(producer, name, b"v")
    assert isinstance(error, InvalidTopicError), repr(error)
    assert name[:60] in str(error), "and not all of a long one"


def test_partition_when_it_does_not_exist_then_the_error_names_it(
        producer: KafkaProducer, kafka: KafkaServer, topic_name: str) -> None:
    topic = kafka.create_topic(topic_name, 3)
    error = error_of_send(producer, topic, b"v", partition=99)
    assert isinstance(error, UnknownTopicOrPartitionError), repr(error)
    assert "99" in str(error)
    assert topic in str(error)
    assert producer.send(topic, b"v", partition=2).result(GIVE_UP_S).partition == 2


def test_record_when_larger_than_max_request_size_then_it_is_refused_before_it_is_sent(
        producer: KafkaProducer, kafka: KafkaServer, topic_name: str) -> None:
    topic = kafka.create_topic(topic_name)
    error = error_of_send(producer, topic, b"x" * 1_100_000)
    assert isinstance(error, RecordTooLargeError)
    assert error.outcome == "not_sent"
    assert "max.request.size" in str(error)
    assert producer.send(topic, b"small").result(GIVE_UP_S).offset == 0


def test_record_when_larger_than_the_topic_allows_then_only_it_is_rejected(
        producer: KafkaProducer, kafka: KafkaServer, topic_name: str) -> None:
    topic = kafka.create_topic(topic_name, 1, {"max.message.bytes": "2000"})
    futures = [producer.send(topic, b"a" * 100), producer.send(topic, b"b" * 5000), producer.send(topic, b"c" * 100)]
    producer.flush(GIVE_UP_S)
    errors = [future.exception(GIVE_UP_S) for future in futures]
    assert errors[0] is None
    assert errors[2] is None
    assert isinstance(errors[1], RecordTooLargeError)
    assert errors[1].outcome == "rejected"
    assert [record.value for record in read_topic(kafka.bootstrap_servers, topic)] == [b"a" * 100, b"c" * 100]


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_batches_when_larger_than_the_topic_allows_then_they_are_split(
        kafka: KafkaServer, topic_name: str, codec: str) -> None:
    topic = kafka.create_topic(topic_name, 2, {"max.message.bytes": "1000"})
    count = 3000
    outcomes = Outcomes()
    props = {"bootstrap.servers": kafka.bootstrap_servers, "linger.ms": 20, "compression.type": codec}
    with KafkaProducer(props) as producer:
        for number in range(count):
            producer.send(topic, b"%d" % number, on_completion=outcomes.callback(number), partition=number % 2)
    outcomes.ensure_all_acknowledged(count)
    stored = read_topic(kafka.bootstrap_servers, topic)
    check_log(range(count), [int(record.value or b"-1") for record in stored])
    check_order((record.partition, int(record.value or b"-1")) for record in stored)


def test_record_when_a_compacted_topic_needs_its_key_then_only_its_batch_fails(
        producer: KafkaProducer, kafka: KafkaServer, topic_name: str) -> None:
    topic = kafka.create_topic(topic_name, 1, {"cleanup.policy": "compact"})
    error = error_of_send(producer, topic, b"no key")
    assert getattr(error, "outcome", None) == "rejected", repr(error)
    assert "INVALID_RECORD" in f"{error} {getattr(error, 'code', '')}" or getattr(error, "code", None) == 87
    assert producer.send(topic, b"with key", key=b"k").result(GIVE_UP_S).offset == 0


def test_serializer_when_it_fails_then_the_error_keeps_the_cause(kafka: KafkaServer, topic_name: str) -> None:
    topic = kafka.create_topic(topic_name)

    def serialize(topic: str, headers: object, data: object) -> bytes:
        raise ZeroDivisionError("in the serializer")

    with KafkaProducer({"bootstrap.servers": kafka.bootstrap_servers}, value_serializer=serialize) as producer:
        with pytest.raises(SerializationError) as caught:
            producer.send(topic, "text")
        assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_producer_when_closed_then_send_is_refused_and_close_again_is_no_error(
        kafka: KafkaServer, topic_name: str) -> None:
    topic = kafka.create_topic(topic_name)
    producer = KafkaProducer({"bootstrap.servers": kafka.bootstrap_servers})
    future = producer.send(ProducerRecord(topic, b"v"))
    producer.close(GIVE_UP_S)
    assert future.result(0).offset == 0
    producer.close()
    with pytest.raises(IllegalStateError, match="closed"):
        producer.send(ProducerRecord(topic, b"v"))


def test_buffer_when_it_is_full_and_the_broker_is_gone_then_send_gives_up_after_max_block_ms(
        own_kafka: KafkaServer) -> None:
    topic = own_kafka.create_topic("full")
    props = {"bootstrap.servers": own_kafka.bootstrap_servers, "buffer.memory": 200_000, "max.block.ms": 1000}
    producer = KafkaProducer(props)
    try:
        producer.send(topic, b"v").result(GIVE_UP_S)
        own_kafka.kill()
        futures: list[FutureRecordMetadata] = []
        error: BaseException | None = None
        while error is None:
            assert len(futures) < 30, "more was taken than fits"
            started = time.monotonic()
            try:
                futures.append(producer.send(topic, b"x" * 15_000))
            except KafkaTimeoutError as raised:
                error = raised
            else:
                error = futures[-1].exception(0) if futures[-1].done() else None
        assert time.monotonic() - started >= 1 - CLOCK_STEP_S
        assert isinstance(error, KafkaTimeoutError)
        assert error.phase == "buffer"
        assert error.outcome == "not_sent"
        assert "buffer.memory" in str(error)
        assert "1000 ms" in str(error)
    finally:
        producer.close(0.5)
    assert all(future.exception(0) is not None for future in futures), "close() leaves nobody waiting"
