"""The broker is killed, paused and cut off in the middle of the load: nothing is lost, doubled or reordered."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from pyproducer import KafkaProducer, KafkaTimeoutError
from tests.support.delay_proxy import DelayProxy
from tests.support.kafka_server import KafkaServer
from tests.support.log_checker import check_log, check_order, read_topic
from tests.support.sending import Outcomes

PARTITION_COUNT = 3


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
        own_kafka: KafkaServer, beside: Callable[..., Future[None]]) -> None:
    count = 200_000
    topic = own_kafka.create_topic("crash", PARTITION_COUNT)
    outcomes = Outcomes()

    def kill_and_restart() -> None:
        own_kafka.kill()
        time.sleep(1)
        own_kafka.restart()

    # Little memory, so that the load lasts: else all would be handed over before the first answer.
    props = {"bootstrap.servers": own_kafka.bootstrap_servers, "compression.type": "lz4", "buffer.memory": 2**20}
    with KafkaProducer(props) as producer:
        crash: Future[None] | None = None
        for number in range(count):
            if crash is None and len(outcomes) > count // 4:
                crash = beside(kill_and_restart)
            producer.send(topic, b"%d" % number, on_completion=outcomes.callback(number), key=b"%d" % (number % 1000))
        assert crash is not None, "the producer was never answered while it sent"
        crash.result(120)
        producer.flush(120)
    outcomes.ensure_all_acknowledged(count)
    check_everything_once(own_kafka.bootstrap_servers, topic, outcomes, count)


def test_connections_when_torn_with_answers_swallowed_then_nothing_lost_or_doubled() -> None:
    count = 60_000
    with DelayProxy(one_way_delay_ms=2) as proxy, KafkaServer(proxy_port=proxy.port) as server:
        proxy.target = ("127.0.0.1", server.proxied_port)
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
            try:
                for number in range(count):
                    producer.send(topic, b"%d" % number, key=b"%d" % (number % 1000),
                                  on_completion=outcomes.callback(number))
                    if number % 200 == 0:
                        time.sleep(0.01)  # spread over some seconds, so that there are many cuts
                producer.flush(60)
            finally:
                stop.set()
                tearer.join()
        assert cut_count >= 5
        outcomes.ensure_all_acknowledged(count)
        check_everything_once(server.bootstrap_servers, topic, outcomes, count)


def test_batch_when_sent_twice_then_its_metadata_is_that_of_the_first_time() -> None:
    timestamps = [5, 1000, 70]
    with DelayProxy(one_way_delay_ms=1) as proxy, KafkaServer(proxy_port=proxy.port) as server:
        proxy.target = ("127.0.0.1", server.proxied_port)
        topic = server.create_topic("twice")
        with KafkaProducer({"bootstrap.servers": f"127.0.0.1:{proxy.port}", "linger.ms": 50}) as producer:
            producer.send(topic, b"first", timestamp=1).result(20)
            proxy.swallow_replies = True
            futures = [producer.send(topic, b"v", timestamp=timestamp) for timestamp in timestamps]
            time.sleep(0.5)  # it is stored, and the answer is gone
            assert not any(future.done() for future in futures)
            proxy.cut_connections()
            proxy.swallow_replies = False
            answers = [future.result(20) for future in futures]
        stored = read_topic(server.bootstrap_servers, topic)
    assert [(record.offset, record.timestamp) for record in stored[1:]] == [(1, 5), (2, 1000), (3, 70)]
    assert [(metadata.offset, metadata.timestamp) for metadata in answers] == [(1, 5), (2, 1000), (3, 70)]


def test_broker_when_paused_beyond_delivery_timeout_then_records_expire_and_later_ones_arrive(
        own_kafka: KafkaServer) -> None:
    topic = own_kafka.create_topic("paused", PARTITION_COUNT)
    props = {"bootstrap.servers": own_kafka.bootstrap_servers, "request.timeout.ms": 1000, "linger.ms": 0,
             "delivery.timeout.ms": 3000, "max.block.ms": 20_000}
    with KafkaProducer(props) as producer:
        first = [producer.send(topic, b"%d" % number) for number in range(10)]
        for future in first:
            future.result(20)
        own_kafka.pause()
        started = time.monotonic()
        try:
            lost = [producer.send(topic, b"%d" % number) for number in range(10, 40)]
            errors = [future.exception(15) for future in lost]
            elapsed = time.monotonic() - started
        finally:
            own_kafka.resume()
        assert all(isinstance(error, KafkaTimeoutError) for error in errors), errors
        assert {error.phase for error in errors} == {"delivery"}
        assert 2.5 < elapsed < 6
        later = [producer.send(topic, b"%d" % number) for number in range(100, 120)]
        for future in later:
            future.result(30)
    stored = [int(record.value or b"-1") for record in read_topic(own_kafka.bootstrap_servers, topic)]
    # The paused broker may or may not store what lay in its sockets: at most once each.
    check_log([*range(10), *range(100, 120)], stored, may_be_lost=range(10, 40))


def test_records_when_some_expire_under_trouble_then_each_error_tells_the_truth() -> None:
    count, late_count = 3000, 100
    outcomes = Outcomes()
    with DelayProxy(one_way_delay_ms=1) as proxy, KafkaServer(proxy_port=proxy.port) as server:
        proxy.target = ("127.0.0.1", server.proxied_port)
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
                for number in range(count):
                    producer.send(topic, b"%d" % number, on_completion=outcomes.callback(number))
                    if number % 10 == 0:
                        time.sleep(0.01)
            finally:
                stop.set()
                troubler.join()
            producer.flush(30)
            time.sleep(1)  # out of the last reconnect's backoff
            for number in range(count, count + late_count):
                producer.send(topic, b"%d" % number, on_completion=outcomes.callback(number))
        stored = read_topic(server.bootstrap_servers, topic)
    assert len(outcomes) == count + late_count
    assert outcomes.errors
    assert outcomes.metadata.keys() >= set(range(count, count + late_count)), "it recovers"
    # An error that says "not sent" is a promise; one that says "unknown" allows either, but never twice.
    unknown = {number for number, error in outcomes.errors.items() if error.outcome == "unknown"}  # type: ignore[attr-defined]
    numbers = [int(record.value or b"-1") for record in stored]
    check_log(outcomes.metadata, numbers, may_be_lost=unknown)
    check_order(((record.partition, number) for record, number in zip(stored, numbers, strict=True)), "partition")


def test_close_when_the_broker_is_gone_then_it_returns_within_its_timeout(own_kafka: KafkaServer) -> None:
    topic = own_kafka.create_topic("gone", 1)
    producer = KafkaProducer({"bootstrap.servers": own_kafka.bootstrap_servers})
    producer.send(topic, b"there").result(20)
    own_kafka.kill()
    futures = [producer.send(topic, b"%d" % number) for number in range(100)]
    started = time.monotonic()
    producer.close(1)
    assert time.monotonic() - started < 3
    assert all(future.exception(0) is not None for future in futures)
