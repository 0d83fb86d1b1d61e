"""pyproducer.compat.confluent_kafka: the same program over confluent-kafka's Producer and over ours sees the same.

A test with `client` runs over both, theirs where it is installed; what is compared with theirs is in one test.
"""

from __future__ import annotations

import copy
import gc
import logging
import pickle
import threading
import time
import weakref
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pyproducer import Crc32Partitioner, KafkaProducer
from pyproducer.broker import EmbeddedBroker
from pyproducer.compat import confluent_kafka as ours
from pyproducer.testing import read_topic
from tests.support.patience import GIVE_UP_S
from tests.support.ports import reserved_port
from tests.support.secret_hunt import SecretHunt

TOPIC = "orders"
PARTITIONS = 5
Client = Any
Opened = Callable[..., Any]


@pytest.fixture(params=["ours", "theirs"])
def client(request: pytest.FixtureRequest) -> Client:
    return ours if request.param == "ours" else pytest.importorskip("confluent_kafka")


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(topics={TOPIC: PARTITIONS}, config={"auto.create.topics.enable": "false"}) as broker:
        yield broker


@pytest.fixture
def opened(broker: EmbeddedBroker) -> Iterator[Opened]:
    """Makes producers of either client, which are gone at the end of the test."""
    made: list[Any] = []

    def opened(client: Client, settings: dict[str, Any]) -> Any:
        producer = client.Producer({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0, **settings})
        if client is ours:  # theirs ends when it is dropped, and some that are fenced cannot be closed
            made.append(producer)
        return producer

    yield opened
    for producer in made:
        producer.close()


class Reports:
    """What a program's on_delivery is told."""

    def __init__(self) -> None:
        self.all: list[tuple[Any, Any]] = []
        self.threads: set[int] = set()

    def __call__(self, error: Any, message: Any) -> None:
        self.all.append((error, message))
        self.threads.add(threading.get_ident())

    def await_count(self, producer: Any, count: int) -> None:
        ends = time.monotonic() + GIVE_UP_S
        while len(self.all) < count:
            assert time.monotonic() < ends, f"{len(self.all)} of {count} reports came"
            producer.poll(0.01)


# Beside theirs -------------------------------------------------------------------------------------------------------

def orders_program(client: Client, servers: str) -> tuple[list[Any], list[Any]]:
    """Every argument of produce(); returns what on_delivery was told, and what calls returned."""
    told: list[Any] = []

    def on_delivery(error: Any, message: Any) -> None:
        told.append((error, message.error(), message.topic(), message.partition(), message.offset(), message.key(),
                     message.value(), message.headers(), message.timestamp()[0], 0 <= message.latency() < GIVE_UP_S,
                     len(message), message.leader_epoch()))
        assert message.timestamp()[1] == (1_700_000_000_000 if message.value() == b"dated" else message.timestamp()[1])

    producer = client.Producer({"bootstrap.servers": servers, "linger.ms": 1}, on_delivery=on_delivery)
    for number in range(60):
        producer.produce(TOPIC, f"value {number}", key=f"key {number % 7}")
        producer.poll(0)
    producer.produce(TOPIC, b"dated", b"k", timestamp=1_700_000_000_000, callback=on_delivery)
    producer.produce(TOPIC, value=b"here", partition=3, on_delivery=on_delivery)
    producer.produce(TOPIC, "", "k", headers={"text": "\xe4", "bytes": b"\xff", "none": None})
    producer.produce(TOPIC, None, "k", headers=[("twice", "1"), ("twice", b"2"), ("empty", "")])
    left = producer.flush(GIVE_UP_S)
    return sorted(told, key=lambda one: one[3:5]), [left, len(producer), bool(producer), producer.close()]


def test_program_when_run_over_theirs_and_over_ours_then_callbacks_returns_and_the_log_are_the_same() -> None:
    theirs = pytest.importorskip("confluent_kafka")
    seen = []
    for client in (theirs, ours):
        with EmbeddedBroker(topics={TOPIC: PARTITIONS}) as broker:
            told, returned = orders_program(client, broker.bootstrap_servers)
            stored = [(record.partition, record.offset, record.key, record.value, record.headers)
                      for record in broker.records(TOPIC)]
            dated = [record.timestamp for record in broker.records(TOPIC) if record.value == b"dated"]
            seen.append((told, returned, stored, dated))
    assert seen[1] == seen[0]
    assert len(seen[1][0]) == len(seen[1][2]) == 64
    assert seen[1][1] == [0, 0, True, True]
    assert seen[1][3] == [1_700_000_000_000]


def partitions_of_keys(client: Client, servers: str, settings: dict[str, Any]) -> dict[bytes | None, set[int]]:
    found: dict[bytes | None, set[int]] = defaultdict(set)
    reports = Reports()
    producer = client.Producer({"bootstrap.servers": servers, "sticky.partitioning.linger.ms": 0, **settings})
    for number in range(300):
        producer.produce(TOPIC, b"v", b"%d" % (number % 150), on_delivery=reports)
    for _ in range(60):
        producer.produce(TOPIC, b"v", on_delivery=reports)
    assert producer.flush(GIVE_UP_S) == 0
    producer.close()
    for error, message in reports.all:
        assert error is None
        found[message.key()].add(message.partition())
    return found


@pytest.mark.parametrize("partitioner", [None, "consistent_random", "murmur2_random", "fnv1a_random", "consistent",
                                         "murmur2", "fnv1a", "random"])
def test_key_when_sent_by_theirs_and_by_ours_then_it_is_in_the_same_partition(broker: EmbeddedBroker,
                                                                              partitioner: str | None) -> None:
    """librdkafka's default is not Java's: keys of a topic would have been in two partitions each."""
    theirs = pytest.importorskip("confluent_kafka")
    settings = {} if partitioner is None else {"partitioner": partitioner}
    expected, found = (partitions_of_keys(client, broker.bootstrap_servers, settings) for client in (theirs, ours))
    if partitioner is None or "random" in partitioner:
        assert found[None] == expected[None] == set(range(PARTITIONS))
    if partitioner == "random":
        for places in (found, expected):  # all records of a key are few, and ours go by turns
            assert set().union(*(places[b"%d" % number] for number in range(150))) == set(range(PARTITIONS))
    else:
        assert {**found, None: set()} == {**expected, None: set()}


# Over both -----------------------------------------------------------------------------------------------------------

def test_on_delivery_when_polled_then_it_runs_in_the_caller_and_nowhere_else(client: Client, broker: EmbeddedBroker,
                                                                             opened: Opened) -> None:
    reports = Reports()
    producer = opened(client, {"linger.ms": 0})
    producer.produce(TOPIC, b"v", on_delivery=reports)
    ends = time.monotonic() + GIVE_UP_S
    while broker.log_end_offsets(TOPIC) == dict.fromkeys(range(PARTITIONS), 0):
        assert time.monotonic() < ends
        time.sleep(0.01)
    assert reports.all == []
    assert len(producer) > 0
    reports.await_count(producer, 1)
    assert reports.threads == {threading.get_ident()}
    assert len(producer) == producer.flush(GIVE_UP_S) == producer.poll(0) == 0


def test_report_when_nobody_wants_it_then_poll_counts_it_all_the_same(client: Client, opened: Opened) -> None:
    """A loop that waits in poll() for room would wait for its whole timeout."""
    producer = opened(client, {"linger.ms": 0})
    producer.produce(TOPIC, b"v")
    assert producer.poll(GIVE_UP_S) == 1
    assert len(producer) == 0


def test_queue_when_it_is_full_then_buffer_error_until_somebody_polls(client: Client, broker: EmbeddedBroker,
                                                                      opened: Opened) -> None:
    reports = Reports()
    held = broker.faults.on("Produce", times=None).hold()
    producer = opened(client, {"queue.buffering.max.messages": 10,
                                "on_delivery": reports})
    for number in range(10):
        producer.produce(TOPIC, b"%d" % number, partition=0)
    for _ in range(3):
        with pytest.raises(BufferError):
            producer.produce(TOPIC, b"one too many", partition=0)
    assert len(producer) == 10
    assert producer.flush(0.05) == 10
    held.await_held()
    held.remove()
    reports.await_count(producer, 10)
    producer.produce(TOPIC, b"10", partition=0)
    assert producer.flush(GIVE_UP_S) == 0
    assert [message.value() for _, message in reports.all] == [b"%d" % number for number in range(11)]
    assert [record.value for record in broker.records(TOPIC)] == [b"%d" % number for number in range(11)]


def test_queue_when_its_bytes_are_used_up_then_buffer_error(client: Client, broker: EmbeddedBroker,
                                                            opened: Opened) -> None:
    held = broker.faults.on("Produce", times=None).hold()
    producer = opened(client, {"queue.buffering.max.kbytes": 10})
    for _ in range(4):
        producer.produce(TOPIC, b"v" * 2400, partition=0)
    with pytest.raises(BufferError):
        producer.produce(TOPIC, b"v" * 2400, partition=0)
    held.remove()
    assert producer.flush(GIVE_UP_S) == 0
    producer.produce(TOPIC, b"v" * 2400, partition=0)
    assert producer.flush(GIVE_UP_S) == 0
    assert broker.log_end_offsets(TOPIC)[0] == 5


def test_queue_when_nobody_answers_then_buffer_error_and_no_call_waits(client: Client, opened: Opened) -> None:
    """Records of a topic that is not known yet have a quarter of buffer.memory, and produce() waited for more of it
    until others had timed out, five minutes by default."""
    reports = Reports()
    with reserved_port() as port:
        producer = opened(client, {"bootstrap.servers": f"127.0.0.1:{port}", "queue.buffering.max.kbytes": 1000,
                                   "queue.buffering.max.messages": 20, "message.timeout.ms": 15_000,
                                   "on_delivery": reports})
        for _ in range(10):
            producer.produce(TOPIC, b"v" * 100_000, partition=0)
        with pytest.raises(BufferError):
            producer.produce(TOPIC, b"v" * 100_000, partition=0)
        producer.poll(0)
        assert reports.all == [], "none has timed out meanwhile"
        producer.purge()
        producer.flush(GIVE_UP_S)


def test_record_when_nobody_answers_then_it_is_timed_out_and_the_message_says_the_same(client: Client,
                                                                                       opened: Opened) -> None:
    reports = Reports()
    with reserved_port() as port:
        producer = opened(client, {"bootstrap.servers": f"127.0.0.1:{port}", "message.timeout.ms": 200})
        producer.produce(TOPIC, b"v", b"k", partition=2, on_delivery=reports, timestamp=1_700_000_000_000)
        assert producer.flush(GIVE_UP_S) == 0
        producer.close()
    ((error, message),) = reports.all
    assert message.timestamp() == (client.TIMESTAMP_NOT_AVAILABLE, -1)
    assert error.code() == client.KafkaError._MSG_TIMED_OUT
    assert message.error() == error
    assert (message.topic(), message.partition(), message.offset()) == (TOPIC, 2, None)
    assert (message.key(), message.value()) == (b"k", b"v")
    assert (error.fatal(), error.retriable(), error.txn_requires_abort()) == (False, False, False)
    assert message.latency() >= 0.1


def test_record_when_it_cannot_be_taken_then_produce_raises_and_nothing_is_told(client: Client,
                                                                                opened: Opened) -> None:
    producer = opened(client, {"message.max.bytes": 2000})
    with pytest.raises(client.KafkaException) as raised:
        producer.produce(TOPIC, b"v" * 3000)
    assert raised.value.args[0].code() == client.KafkaError.MSG_SIZE_TOO_LARGE
    for wrong in ({"value": 1}, {"key": 1.5}, {"headers": ("a", "b")}, {"headers": ["a"]}, {"headers": {"a": 1}}):
        with pytest.raises(TypeError):
            producer.produce(TOPIC, **wrong)
    with pytest.raises(TypeError):
        producer.produce(None, b"v")
    assert len(producer) == 0
    assert producer.close()


def test_on_delivery_when_it_raises_then_poll_does_and_the_others_are_told_later(client: Client,
                                                                                 opened: Opened) -> None:
    told = []

    def on_delivery(error: Any, message: Any) -> None:
        told.append(message.value())
        if message.value() == b"1":
            raise ZeroDivisionError

    producer = opened(client, {"on_delivery": on_delivery})
    for number in range(3):
        producer.produce(TOPIC, b"%d" % number, partition=0)
    with pytest.raises(ZeroDivisionError):
        producer.flush(GIVE_UP_S)
    assert producer.flush(GIVE_UP_S) == 0
    assert told == [b"0", b"1", b"2"]


def test_on_delivery_when_it_was_called_then_nothing_keeps_it(client: Client, opened: Opened) -> None:
    """With it was kept what it and its record hold: after a burst as much as queue.buffering.max.kbytes."""
    producer = opened(client, {"on_delivery": print})
    on_delivery = Reports()
    kept = weakref.ref(on_delivery)
    producer.produce(TOPIC, b"v", on_delivery=on_delivery)
    assert producer.flush(GIVE_UP_S) == 0
    assert len(on_delivery.all) == 1
    del on_delivery
    gc.collect()
    assert kept() is None


def test_on_delivery_when_it_produces_then_flush_sends_that_too(client: Client, opened: Opened) -> None:
    producer = opened(client, {})
    told = []

    def on_delivery(error: Any, message: Any) -> None:
        told.append(message.value())
        if len(told) < 5:
            producer.produce(TOPIC, b"%d" % len(told), on_delivery=on_delivery)

    producer.produce(TOPIC, b"0", on_delivery=on_delivery)
    assert producer.flush(GIVE_UP_S) == 0
    assert told == [b"0", b"1", b"2", b"3", b"4"]


def test_reports_when_only_failures_are_wanted_then_only_they_are_told(client: Client, broker: EmbeddedBroker,
                                                                       opened: Opened) -> None:
    reports = Reports()
    producer = opened(client, {"delivery.report.only.error": True,
                                "on_delivery": reports})
    producer.produce(TOPIC, b"stored", partition=0)
    assert producer.flush(GIVE_UP_S) == 0
    broker.faults.on("Produce").error(87)
    producer.produce(TOPIC, b"refused", partition=0)
    assert producer.flush(GIVE_UP_S) == 0
    assert [(error.code(), message.value()) for error, message in reports.all] == [(87, b"refused")]


def test_partition_when_there_is_none_then_the_same_code(client: Client, opened: Opened) -> None:
    """Theirs raises it where it knows the topic, and tells it where it does not yet."""
    reports = Reports()
    producer = opened(client, {"on_delivery": reports})
    producer.produce(TOPIC, b"v", partition=PARTITIONS + 4)
    assert producer.flush(GIVE_UP_S) == 0
    ((error, message),) = reports.all
    assert error.code() == client.KafkaError._UNKNOWN_PARTITION
    assert message.partition() == PARTITIONS + 4


def test_transactions_when_committed_and_aborted_then_readers_see_the_first(client: Client, broker: EmbeddedBroker,
                                                                            opened: Opened) -> None:
    reports = Reports()
    producer = opened(client, {"transactional.id": "bank",
                                "on_delivery": reports})
    with pytest.raises(client.KafkaException) as raised:
        producer.begin_transaction()
    assert raised.value.args[0].code() == client.KafkaError._STATE
    producer.init_transactions(GIVE_UP_S)
    for number in range(3):
        producer.begin_transaction()
        producer.produce(TOPIC, b"%d" % number, partition=0)
        if number == 1:
            producer.flush(GIVE_UP_S)
            producer.abort_transaction(GIVE_UP_S)
        else:
            producer.commit_transaction()
    assert [error for error, _ in reports.all] == [None] * 3
    held = broker.faults.on("Produce", times=None).hold()
    producer.begin_transaction()
    producer.produce(TOPIC, b"given up", partition=1)
    assert producer.flush(0.05) == 1
    held.await_held()
    held.remove()
    producer.abort_transaction(GIVE_UP_S)
    assert len(reports.all) == 4
    with pytest.raises(client.KafkaException) as raised:
        producer.produce(TOPIC, b"in none", partition=1)
    assert raised.value.args[0].code() == client.KafkaError._STATE
    assert [record.value for record in read_topic(broker.bootstrap_servers, TOPIC, isolation_level="read_committed")
            ] == [b"0", b"2"]
    assert producer.close()


def test_record_of_a_transaction_when_it_fails_then_it_is_told_of_before_the_commit_raises(
        client: Client, broker: EmbeddedBroker, opened: Opened) -> None:
    """A program that looks into its reports for why a commit failed found none."""
    reports = Reports()
    producer = opened(client, {"transactional.id": "bank", "on_delivery": reports})
    producer.init_transactions(GIVE_UP_S)
    producer.begin_transaction()
    broker.faults.on("Produce").error(87)
    producer.produce(TOPIC, b"refused", partition=0)
    with pytest.raises(client.KafkaException) as raised:
        producer.commit_transaction(GIVE_UP_S)
    assert raised.value.args[0].txn_requires_abort()
    assert [(error.code(), message.value()) for error, message in reports.all] == [(87, b"refused")]
    producer.abort_transaction(GIVE_UP_S)
    producer.close()


def test_transactional_calls_when_there_is_no_transactional_id_then_the_same_code(client: Client,
                                                                                  opened: Opened) -> None:
    producer = opened(client, {})
    for call in (producer.init_transactions, producer.begin_transaction, producer.commit_transaction,
                 producer.abort_transaction):
        with pytest.raises(client.KafkaException) as raised:
            call()
        assert raised.value.args[0].code() == client.KafkaError._NOT_CONFIGURED


def test_transaction_when_the_producer_is_closed_in_it_then_its_records_are_told_as_given_up(
        client: Client, broker: EmbeddedBroker, opened: Opened) -> None:
    """They were sent, told as stored, and aborted then."""
    reports = Reports()
    with opened(client, {"transactional.id": "bank", "on_delivery": reports, "linger.ms": 10_000}) as producer:
        producer.init_transactions(GIVE_UP_S)
        producer.begin_transaction()
        producer.produce(TOPIC, b"v", partition=0)
    assert [error.code() for error, _ in reports.all] == [client.KafkaError._PURGE_QUEUE]
    assert not broker.records(TOPIC)


def test_producer_when_another_has_its_transactional_id_then_it_is_fenced_for_good(client: Client,
                                                                                   opened: Opened) -> None:
    first, second = (opened(client, {"transactional.id": "bank",
                                      "log_level": 0}) for _ in range(2))
    first.init_transactions(GIVE_UP_S)
    first.begin_transaction()
    first.produce(TOPIC, b"v")
    first.flush(GIVE_UP_S)
    second.init_transactions(GIVE_UP_S)
    with pytest.raises(client.KafkaException) as raised:
        first.commit_transaction(GIVE_UP_S)
    error = raised.value.args[0]
    assert (error.code(), error.fatal(), error.txn_requires_abort()) == (client.KafkaError._FENCED, True, False)


def test_transactional_call_when_its_time_is_over_then_the_same_call_waits_on(client: Client, broker: EmbeddedBroker,
                                                                              opened: Opened) -> None:
    held = broker.faults.on("InitProducerId").hold()
    producer = opened(client, {"transactional.id": "bank"})
    with pytest.raises(client.KafkaException) as raised:
        producer.init_transactions(0.05)
    error = raised.value.args[0]
    assert (error.code(), error.retriable(), error.fatal()) == (client.KafkaError._TIMED_OUT, True, False)
    with pytest.raises(client.KafkaException) as raised:
        producer.begin_transaction()
    error = raised.value.args[0]
    assert (error.code(), error.retriable()) == (client.KafkaError._CONFLICT, True)
    held.await_held()
    held.release()
    producer.init_transactions(GIVE_UP_S)
    producer.begin_transaction()
    producer.commit_transaction(GIVE_UP_S)
    producer.close()


def test_consumed_offsets_when_sent_with_a_transaction_then_they_are_committed(client: Client, broker: EmbeddedBroker,
                                                                               opened: Opened) -> None:
    theirs = pytest.importorskip("confluent_kafka")
    consumer = theirs.Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "readers",
                                "auto.offset.reset": "earliest", "enable.auto.commit": False})
    with KafkaProducer({"bootstrap.servers": broker.bootstrap_servers}) as seed:
        seed.send(TOPIC, b"consumed", partition=2)
    consumer.subscribe([TOPIC])
    assert consumer.poll(GIVE_UP_S).value() == b"consumed"
    producer = opened(client, {"transactional.id": "bank"})
    producer.init_transactions()
    producer.begin_transaction()
    producer.send_offsets_to_transaction(consumer.position(consumer.assignment()), consumer.consumer_group_metadata())
    producer.send_offsets_to_transaction([theirs.TopicPartition(TOPIC, 1)], consumer.consumer_group_metadata(), 60)
    producer.commit_transaction()
    places = [theirs.TopicPartition(TOPIC, number) for number in range(PARTITIONS)]
    assert [place.offset for place in consumer.committed(places, GIVE_UP_S)] == [-1001, -1001, 1, -1001, -1001]
    consumer.close()
    producer.close()


def test_records_when_they_are_given_up_then_reports_say_so_and_the_producer_goes_on(client: Client,
                                                                                     opened: Opened) -> None:
    reports = Reports()
    with reserved_port() as port:
        producer = opened(client, {"bootstrap.servers": f"127.0.0.1:{port}", "on_delivery": reports})
        producer.produce(TOPIC, b"v", partition=0)
        producer.purge(in_queue=False)
        assert producer.flush(0.01) == 1
        producer.purge()
        assert producer.flush(GIVE_UP_S) == 0
        assert [error.code() for error, _ in reports.all] == [client.KafkaError._PURGE_QUEUE]
        producer.produce(TOPIC, b"v", partition=0)
        assert len(producer) == 1
        producer.purge()
        producer.close()
    assert len(reports.all) == 2


def test_topic_when_it_is_listed_then_partitions_leaders_and_brokers_are_there(client: Client, broker: EmbeddedBroker,
                                                                               opened: Opened) -> None:
    producer = opened(client, {})
    found = producer.list_topics(TOPIC, timeout=GIVE_UP_S)
    topic = found.topics[TOPIC]
    assert (topic.topic, topic.error) == (TOPIC, None)
    assert sorted(topic.partitions) == list(range(PARTITIONS))
    assert {(number, one.id, one.leader, tuple(one.replicas), tuple(one.isrs), one.error)
            for number, one in topic.partitions.items()} == {
        (number, number, 1, (1,), (1,), None) for number in range(PARTITIONS)}
    assert [(node.id, node.port) for node in found.brokers.values()] == [(1, broker.port)]
    producer.close()


def test_producer_when_closed_then_calls_raise_and_its_length_is_nothing(client: Client, opened: Opened) -> None:
    reports = Reports()
    with opened(client, {"on_delivery": reports}) as producer:
        producer.produce(TOPIC, b"v")
    assert [error for error, _ in reports.all] == [None]
    for call in (lambda: producer.produce(TOPIC, b"v"), producer.flush, producer.purge, producer.init_transactions,
                 lambda: producer.poll(0), lambda: producer.produce_batch(TOPIC, [{}]), producer.begin_transaction,
                 producer.commit_transaction, producer.abort_transaction):
        with pytest.raises(RuntimeError, match="Producer has been closed"):
            call()
    assert (len(producer), bool(producer), producer.close()) == (0, True, True)


def test_producer_when_a_subclass_does_not_call_its_constructor_then_calls_say_so(client: Client) -> None:
    class Unmade(client.Producer):  # type: ignore[misc]  # of either client
        def __init__(self) -> None:
            pass

    with pytest.raises(RuntimeError, match="Producer has been closed"):
        Unmade().produce(TOPIC, b"v")
    assert len(Unmade()) == 0


@pytest.mark.parametrize("settings", [{"linger.ms": "x"}, {"partitioner": "murmur"}, {"no.such.name": 1},
                                      {"queue.buffering.max.messages": -1}, {"queue.buffering.max.kbytes": 0}])
def test_setting_when_it_is_wrong_then_kafka_exception_of_its_code(client: Client, settings: dict[str, Any]) -> None:
    with pytest.raises(client.KafkaException) as raised:
        client.Producer({"bootstrap.servers": "127.0.0.1:1", **settings})
    assert raised.value.args[0].code() == client.KafkaError._INVALID_ARG


def test_connections_when_none_is_ever_idle_for_too_long_then_records_go(client: Client, opened: Opened) -> None:
    """0 is librdkafka's default, and means never; here each connection was closed at once, and nothing was sent."""
    producer = opened(client, {"connections.max.idle.ms": 0})
    producer.produce(TOPIC, b"v")
    assert producer.flush(GIVE_UP_S) == 0


@pytest.mark.parametrize("settings", [{"bootstrap.servers": "127.0.0.1"}, {"linger.ms": 0.5}, {"linger.ms": "1.0"},
                                      {"max.in.flight": 1_000_000}])
def test_setting_when_theirs_takes_it_then_so_do_we(client: Client, settings: dict[str, Any]) -> None:
    client.Producer({"bootstrap.servers": "127.0.0.1:1", "log_level": 0, **settings}).close()


def test_producer_when_it_is_pickled_or_copied_then_type_error(client: Client, opened: Opened) -> None:
    """A copy had the queue of the first, and was closed by itself."""
    producer = opened(client, {})
    for call in (pickle.dumps, copy.copy):
        with pytest.raises(TypeError, match=r"cannot (be )?pickle"):
            call(producer)


@pytest.mark.parametrize("arguments", [(), ([],), ({}, {}), ("127.0.0.1:1",)])
def test_constructor_when_it_gets_no_dict_then_type_error(client: Client, arguments: tuple[Any, ...]) -> None:
    with pytest.raises(TypeError):
        client.Producer(*arguments)


# Ours ----------------------------------------------------------------------------------------------------------------

def test_batch_when_some_are_refused_then_they_have_an_error_and_the_others_go(broker: EmbeddedBroker,
                                                                               opened: Opened) -> None:
    held = broker.faults.on("Produce", times=None).hold()
    reports = Reports()
    producer = opened(ours, {"queue.buffering.max.messages": 3, "message.max.bytes": 1000})
    messages: list[dict[str, Any]] = [{"value": "a", "key": "k"}, {"value": b"b" * 2000}, {"value": "c"},
                                      {"value": b"d", "partition": 1}, {"value": b"e"}]
    assert producer.produce_batch(TOPIC, messages, partition=0, on_delivery=reports) == 3
    assert {number: message["_error"].name() for number, message in enumerate(messages) if "_error" in message} == {
        1: "MSG_SIZE_TOO_LARGE", 4: "_QUEUE_FULL"}
    held.remove()
    reports.await_count(producer, 3)
    assert [(record.partition, record.value) for record in broker.records(TOPIC)] == [(0, b"a"), (0, b"c"), (1, b"d")]
    with pytest.raises(TypeError, match="index 1"):
        producer.produce_batch(TOPIC, [{}, "no dict"])  # type: ignore[list-item]  # that is what it is about


def test_errors_of_all_when_records_fail_of_them_then_error_cb_is_called_once(
                                                                              caplog: pytest.LogCaptureFixture) -> None:
    told: list[ours.KafkaError] = []
    with reserved_port() as port, ours.Producer({"bootstrap.servers": f"127.0.0.1:{port}", "message.timeout.ms": 100,
                                                 "error_cb": told.append}) as producer:
        for _ in range(20):
            producer.produce(TOPIC, b"v")
        assert producer.flush(GIVE_UP_S) == 0
    assert [error.code() for error in told] == [ours.KafkaError._TRANSPORT]
    assert f"127.0.0.1:{port}" in told[0].str()
    lines = [record.getMessage() for record in caplog.records if record.name == ours.__name__]
    assert len(lines) == 1, "and one line of the log, for there is no on_delivery"
    assert lines[0].startswith("A record failed that has no on_delivery")


def test_error_cb_when_it_raises_then_poll_does_and_on_delivery_is_told_all_the_same() -> None:
    def error_cb(error: ours.KafkaError) -> None:
        raise ours.KafkaException(error)

    reports = Reports()
    with reserved_port() as port, ours.Producer({"bootstrap.servers": f"127.0.0.1:{port}", "message.timeout.ms": 100,
                                                 "error_cb": error_cb}) as producer:
        producer.produce(TOPIC, b"v", on_delivery=reports)
        with pytest.raises(ours.KafkaException, match="_TRANSPORT"):
            producer.flush(GIVE_UP_S)
    assert [error.name() for error, _ in reports.all] == ["_MSG_TIMED_OUT"]


def test_wait_for_reports_when_the_producer_is_closed_by_another_thread_then_it_ends(opened: Opened) -> None:
    producer = opened(ours, {})
    counts: list[int] = []
    waiting = threading.Thread(target=lambda: counts.append(producer.poll()))
    waiting.start()
    producer.close()
    waiting.join(GIVE_UP_S)
    assert not waiting.is_alive()


def test_records_when_a_part_is_to_be_given_up_then_the_call_is_refused(broker: EmbeddedBroker,
                                                                        opened: Opened) -> None:
    held = broker.faults.on("Produce", times=None).hold()
    producer = opened(ours, {"linger.ms": 0})
    producer.produce(TOPIC, b"v", partition=0)
    held.await_held()
    for part in ({"in_queue": False}, {"in_flight": False}):
        with pytest.raises(ours.KafkaException, match="_NOT_IMPLEMENTED"):
            producer.purge(**part)
    producer.purge(in_queue=False, in_flight=False)
    assert len(producer) == 1
    held.remove()
    assert producer.flush(GIVE_UP_S) == 0
    transactional = opened(ours, {"transactional.id": "bank"})
    with pytest.raises(ours.KafkaException, match=r"abort_transaction\(\)"):
        transactional.purge()


def test_record_in_flight_when_it_is_given_up_then_the_report_says_that_it_may_be_stored(broker: EmbeddedBroker,
                                                                                         opened: Opened) -> None:
    held = broker.faults.on("Produce").hold()
    reports = Reports()
    producer = opened(ours, {"linger.ms": 0, "on_delivery": reports})
    producer.produce(TOPIC, b"v", partition=0)
    held.await_held()
    producer.purge()
    reports.await_count(producer, 1)
    assert [error.name() for error, _ in reports.all] == ["_PURGE_INFLIGHT"]
    held.release()
    producer.produce(TOPIC, b"after it", partition=1)
    assert producer.flush(GIVE_UP_S) == 0
    assert reports.all[1][0] is None


def test_topics_when_none_is_named_or_known_then_the_error_says_what_there_is(broker: EmbeddedBroker,
                                                                              opened: Opened) -> None:
    producer = opened(ours, {})
    with pytest.raises(ours.KafkaException, match=r"admin client.*check\(timeout\)"):
        producer.list_topics(timeout=1)
    with pytest.raises(ours.KafkaException, match="_TIMED_OUT"):
        producer.list_topics("no-such-topic", timeout=0.05)
    error = producer.list_topics("no/topic").topics["no/topic"].error
    assert error.code() == ours.KafkaError.TOPIC_EXCEPTION
    assert broker.create_topic("no-such-topic", 2)
    assert sorted(producer.list_topics("no-such-topic").topics["no-such-topic"].partitions) == [0, 1]


def test_topic_when_no_broker_knows_it_then_the_record_fails_with_its_code(opened: Opened) -> None:
    reports = Reports()
    producer = opened(ours, {"on_delivery": reports, "max.block.ms": 300})
    producer.produce("no-such-topic", b"v")
    assert producer.flush(GIVE_UP_S) == 0
    ((error, message),) = reports.all
    assert error.name() == "_UNKNOWN_TOPIC"
    assert (message.topic(), message.partition()) == ("no-such-topic", None)


def test_credentials_when_changed_then_the_call_is_refused(opened: Opened) -> None:
    with pytest.raises(ours.KafkaException, match="make another Producer"):
        opened(ours, {}).set_sasl_credentials("ada", "secret")


def test_kafka_producer_when_asked_for_then_it_is_what_sends(opened: Opened) -> None:
    producer = opened(ours, {})
    producer.produce(TOPIC, b"v")
    assert producer.flush(GIVE_UP_S) == 0
    assert producer.kafka_producer.metrics()["record-send-total"] == 1
    producer.close()
    with pytest.raises(RuntimeError, match="Producer has been closed"):
        _ = producer.kafka_producer


def test_settings_when_given_twice_then_those_by_name_win(broker: EmbeddedBroker,
                                                          caplog: pytest.LogCaptureFixture) -> None:
    reports = Reports()
    conf = {"bootstrap.servers": broker.bootstrap_servers, "on_delivery": print, "client.id": "a",
            "default.topic.config": {"message.timeout.ms": 7000}}
    with ours.Producer(conf, logger=logging.getLogger("theirs"), on_delivery=reports,
                       **{"client.id": "b"}) as producer:
        assert producer.kafka_producer.client_id == "b"
        assert producer.kafka_producer.config()["delivery.timeout.ms"] == "7000"
        producer.produce(TOPIC, b"v")
    assert len(reports.all) == 1
    assert conf["client.id"] == "a"
    assert "logger has no effect: lines go to Python's logger 'pyproducer'" in caplog.text


@pytest.mark.parametrize("value", ["yes", 1, "1", None])
def test_reports_of_failures_when_it_is_neither_true_nor_false_then_it_is_refused(value: object) -> None:
    """All records were told of."""
    with pytest.raises(ours.KafkaException, match=r"delivery\.report\.only\.error: it must be True or False"):
        ours.Producer({"bootstrap.servers": "127.0.0.1:1", "delivery.report.only.error": value})


def test_settings_when_one_is_wrong_then_no_secret_is_shown() -> None:
    password = "Zx9-never-shown"
    settings = {"bootstrap.servers": "127.0.0.1:1", "sasl.username": "ada", "sasl.password": password,
                "sasl.mechanism": "PLAIN", "security.protocol": "SASL_PLAINTEXT"}
    with SecretHunt(password) as hunt:
        for wrong in ({"no.such.name": 1}, {"message.timeout.ms": "soon"}, {"on_delivery": 7}):
            with hunt.errors(ours.KafkaException):
                ours.Producer({**settings, **wrong})
        with ours.Producer(settings) as producer:
            hunt.look("producer", producer)


def test_token_when_oauth_cb_gives_it_then_it_gets_the_configuration() -> None:
    asked = []

    def oauth_cb(config: str) -> tuple[str, float]:
        asked.append(config)
        return "abc", time.time() + 900

    with reserved_port() as port, ours.Producer({
            "bootstrap.servers": f"127.0.0.1:{port}", "security.protocol": "sasl_plaintext", "sasl.mechanisms":
            "OAUTHBEARER", "oauth_cb": oauth_cb, "sasl.oauthbearer.config": "scope=orders"}):
        ends = time.monotonic() + GIVE_UP_S
        while not asked:
            assert time.monotonic() < ends
            time.sleep(0.01)
    assert set(asked) == {"scope=orders"}


def test_key_when_no_partitioner_is_named_then_it_goes_where_librdkafka_sends_it(broker: EmbeddedBroker,
                                                                                 opened: Opened) -> None:
    producer = opened(ours, {})
    with KafkaProducer({"bootstrap.servers": broker.bootstrap_servers, "partitioner.class": Crc32Partitioner}) as plain:
        for number in range(50):
            key = b"%d" % number
            producer.produce(TOPIC, b"compat", key)
            plain.send(TOPIC, b"plain", key=key)
        assert producer.flush(GIVE_UP_S) == 0
    places = defaultdict(set)
    for record in broker.records(TOPIC):
        places[record.key].add(record.partition)
    assert len(places) == 50
    assert all(len(where) == 1 for where in places.values())
