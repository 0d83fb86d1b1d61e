"""The broker is killed, paused and cut off in the middle of the load: nothing is lost, doubled or reordered."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple

import pytest

from pyproducer import KafkaProducer, KafkaTimeoutError, ProducerClosedError
from tests.support.delay_proxy import DelayProxy
from tests.support.kafka_server import KafkaServer
from tests.support.log_checker import check_log, check_order, read_topic
from tests.support.patience import GIVE_UP_S
from tests.support.sending import Outcomes

PARTITION_COUNT = 3
CUT_COUNT = 6


class Line(NamedTuple):
    """A broker, and the proxy that its clients are sent to."""

    proxy: DelayProxy
    server: KafkaServer


@pytest.fixture(scope="module")
def line_of_the_module() -> Iterator[Line]:
    with DelayProxy(one_way_delay_ms=1) as proxy, KafkaServer(proxy_port=proxy.port) as server:
        proxy.target = ("127.0.0.1", server.proxied_port)
        yield Line(proxy, server)


@pytest.fixture
def line(line_of_the_module: Line) -> Iterator[Line]:
    """One broker for all tests of this file: it may be killed if it is restarted, and paused if it is resumed."""
    yield line_of_the_module
    line_of_the_module.proxy.swallow_replies = False
    line_of_the_module.proxy.cut_connections()


@pytest.fixture
def beside() -> Iterator[Callable[..., Future[None]]]:
    """Runs something beside the test's thread and shows its error."""
    with ThreadPoolExecutor(1, "beside") as pool:
        yield pool.submit


def check_everything_once(bootstrap_servers: str, topic: str, outcomes: Outcomes, count: int) -> None:
    """Every number is in the log once, where its metadata says, and numbers rise in every partition."""
    stored = read_topic(bootstrap_servers, topic)
    numbers = [int(record.value or b"-1") for record in stored]
    check_log(range(count), numbers)
    check_order(((record.partition, number) for record, number in zip(stored, numbers, strict=True)), "partition")
    places = {number: (record.partition, record.offset) for record, number in zip(stored, numbers, strict=True)}
    wrong = [number for number, metadata in outcomes.metadata.items()
             if metadata.has_offset and places[number] != (metadata.partition, metadata.offset)]
    assert not wrong, f"{len(wrong)} records lie elsewhere than their metadata says, for example {wrong[:5]}"


def test_broker_when_killed_and_restarted_under_load_then_nothing_lost_or_doubled(
        line: Line, beside: Callable[..., Future[None]]) -> None:
    count = 100_000
    server = line.server
    topic = server.create_topic("crash", PARTITION_COUNT)
    outcomes = Outcomes()

    def kill_and_restart() -> None:
        server.kill()
        server.restart()  # seconds, while which the load goes on

    # Little memory, so that the load lasts: else all would be handed over before the first answer.
    props = {"bootstrap.servers": server.bootstrap_servers, "compression.type": "lz4", "buffer.memory": 2**20}
    with KafkaProducer(props) as producer:
        crash: Future[None] | None = None
        for number in range(count):
            if crash is None and len(outcomes) > count // 4:
                crash = beside(kill_and_restart)
            producer.send(topic, b"%d" % number, on_completion=outcomes.callback(number), key=b"%d" % (number % 1000))
        assert crash is not None, "the producer was never answered while it sent"
        crash.result(GIVE_UP_S)
        producer.flush(GIVE_UP_S)
    outcomes.ensure_all_acknowledged(count)
    check_everything_once(server.bootstrap_servers, topic, outcomes, count)


def test_connections_when_torn_with_answers_swallowed_then_nothing_lost_or_doubled(line: Line) -> None:
    count = 0
    proxy, server = line
    topic = server.create_topic("torn", PARTITION_COUNT)
    outcomes = Outcomes()
    cut_count = 0
    stop = threading.Event()

    def tear() -> None:
        nonlocal cut_count
        while not stop.wait(0.25):
            proxy.swallow_replies = True  # what is appended now is not heard of: it will be sent again
            stop.wait(0.05)
            cut_count += proxy.cut_connections()
            proxy.swallow_replies = False

    props = {"bootstrap.servers": f"127.0.0.1:{proxy.port}", "reconnect.backoff.ms": 10, "retry.backoff.ms": 10}
    with KafkaProducer(props) as producer:
        producer.partitions_for(topic)
        tearer = threading.Thread(target=tear)
        tearer.start()
        deadline = time.monotonic() + GIVE_UP_S
        try:
            while cut_count < CUT_COUNT:
                assert time.monotonic() < deadline, f"{cut_count} connections were cut"
                for number in range(count, count + 200):
                    producer.send(topic, b"%d" % number, key=b"%d" % (number % 1000),
                                  on_completion=outcomes.callback(number))
                count += 200
                time.sleep(0.01)  # the load lasts, and does not grow without end
        finally:
            stop.set()
            tearer.join()
        producer.flush(GIVE_UP_S)
    assert len(outcomes) == count
    outcomes.ensure_all_acknowledged(count)
    check_everything_once(server.bootstrap_servers, topic, outcomes, count)


def test_batch_when_sent_twice_then_its_metadata_is_that_of_the_first_time(line: Line) -> None:
    timestamps = [5, 1000, 70]
    proxy, server = line
    topic = server.create_topic("twice")
    with KafkaProducer({"bootstrap.servers": f"127.0.0.1:{proxy.port}", "linger.ms": 50}) as producer:
        producer.send(topic, b"first", timestamp=1).result(GIVE_UP_S)
        proxy.swallow_replies = True
        futures = [producer.send(topic, b"v", timestamp=timestamp) for timestamp in timestamps]
        # Stored; the answer is swallowed, or lies somewhere on the connection that is cut.
        await_end_offset(server.bootstrap_servers, topic, 1 + len(timestamps))
        assert not any(future.done() for future in futures)
        proxy.cut_connections()
        proxy.swallow_replies = False
        answers = [future.result(GIVE_UP_S) for future in futures]
    stored = read_topic(server.bootstrap_servers, topic)
    assert [(record.offset, record.timestamp) for record in stored[1:]] == [(1, 5), (2, 1000), (3, 70)]
    assert [(metadata.offset, metadata.timestamp) for metadata in answers] == [(1, 5), (2, 1000), (3, 70)]


def await_end_offset(bootstrap_servers: str, topic: str, offset: int) -> None:
    """Wait until partition 0 of a topic ends at an offset."""
    from confluent_kafka import Consumer, TopicPartition

    deadline = time.monotonic() + GIVE_UP_S
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": "not-used", "log_level": 0})
    try:
        # Without `cached`, the broker is asked each time.
        while (end := consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=GIVE_UP_S)[1]) < offset:
            assert time.monotonic() < deadline, f"the log ends at {end}"
            time.sleep(0.02)
    finally:
        consumer.close()


def send_until_one_is_stored(producer: KafkaProducer, topic: str, outcomes: Outcomes, number: int) -> int:
    """Send numbers from this one on, one after the other, until one is acknowledged; return the next number."""
    deadline = time.monotonic() + GIVE_UP_S
    while True:
        future = producer.send(topic, b"%d" % number, on_completion=outcomes.callback(number))
        number += 1
        if (error := future.exception(GIVE_UP_S)) is None:
            return number
        assert time.monotonic() < deadline, error


def check_truth(bootstrap_servers: str, topic: str, outcomes: Outcomes) -> None:
    """What was acknowledged is there; "not_sent" is a promise, "unknown" allows either, and nothing is there twice."""
    unknown = {number for number, error in outcomes.errors.items() if error.outcome == "unknown"}  # type: ignore[attr-defined]
    stored = read_topic(bootstrap_servers, topic)
    numbers = [int(record.value or b"-1") for record in stored]
    check_log(outcomes.metadata, numbers, may_be_lost=unknown)
    check_order(((record.partition, number) for record, number in zip(stored, numbers, strict=True)), "partition")


def test_broker_when_paused_beyond_delivery_timeout_then_records_expire_and_later_ones_arrive(
        line: Line) -> None:
    """The broker was "paused" by a signal that is only on its way when kill() returns: it could answer some records."""
    server = line.server
    topic = server.create_topic("paused", PARTITION_COUNT)
    outcomes = Outcomes()
    props = {"bootstrap.servers": server.bootstrap_servers, "request.timeout.ms": 1000, "linger.ms": 0,
             "delivery.timeout.ms": 3000, "max.block.ms": 60_000}
    with KafkaProducer(props) as producer:
        first = send_until_one_is_stored(producer, topic, outcomes, 0)
        lost = range(first, first + 30)
        server.pause()
        started = time.monotonic()
        try:
            futures = [producer.send(topic, b"%d" % number, on_completion=outcomes.callback(number))
                       for number in lost]
            errors = [future.exception(GIVE_UP_S) for future in futures]
            assert time.monotonic() - started > 2.9, "not before delivery.timeout.ms"
        finally:
            server.resume()
        for error in errors:
            assert isinstance(error, KafkaTimeoutError), error
            assert error.phase == "delivery"
            assert error.outcome in ("unknown", "not_sent")
        assert "unknown" in {error.outcome for error in errors}, "some lay in the paused broker's sockets"
        send_until_one_is_stored(producer, topic, outcomes, lost.stop)
    check_truth(server.bootstrap_servers, topic, outcomes)


def test_records_when_some_expire_under_trouble_then_each_error_tells_the_truth(line: Line) -> None:
    count = 0
    outcomes = Outcomes()
    proxy, server = line
    topic = server.create_topic("trouble", PARTITION_COUNT)
    stop = threading.Event()

    def trouble() -> None:
        while not stop.wait(0.3):
            proxy.swallow_replies = True  # longer than delivery.timeout.ms: some are stored and not heard of
            stop.wait(0.6)
            proxy.swallow_replies = False
            proxy.cut_connections()

    props = {"bootstrap.servers": f"127.0.0.1:{proxy.port}", "request.timeout.ms": 300, "linger.ms": 0,
             "delivery.timeout.ms": 400, "reconnect.backoff.ms": 10, "retry.backoff.ms": 10}
    with KafkaProducer(props) as producer:
        producer.partitions_for(topic)
        troubler = threading.Thread(target=trouble)
        troubler.start()
        try:
            deadline = time.monotonic() + GIVE_UP_S
            while count < 3000 or not outcomes.errors or not outcomes.metadata:
                assert time.monotonic() < deadline, f"{len(outcomes.errors)} failed, {len(outcomes)} answered"
                for number in range(count, count + 10):
                    producer.send(topic, b"%d" % number, on_completion=outcomes.callback(number))
                count += 10
                time.sleep(0.01)  # over several troubles
        finally:
            stop.set()
            troubler.join()
        producer.flush(GIVE_UP_S)
        assert len(outcomes) == count
        send_until_one_is_stored(producer, topic, outcomes, count)
    check_truth(server.bootstrap_servers, topic, outcomes)


def test_close_when_the_broker_is_gone_then_it_gives_up_after_its_timeout(own_kafka: KafkaServer) -> None:
    topic = own_kafka.create_topic("gone", 1)
    # An hour: whatever ends earlier is ended by close().
    producer = KafkaProducer({"bootstrap.servers": own_kafka.bootstrap_servers, "delivery.timeout.ms": 3_600_000})
    producer.send(topic, b"there").result(GIVE_UP_S)
    own_kafka.kill()
    futures = [producer.send(topic, b"%d" % number) for number in range(100)]
    started = time.monotonic()
    producer.close(1)
    assert time.monotonic() - started > 0.99, "not before its timeout"
    for future in futures:
        error = future.exception(0)
        assert isinstance(error, ProducerClosedError), error
        # What was written to the connection before its end was noticed may have arrived; the rest never left.
        assert error.outcome in ("not_sent", "unknown")
