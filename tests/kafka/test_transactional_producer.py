"""Our transactional producer on Apache Kafka, with each version of transactions: late requests, kills, time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pyproducer import (
    AbortableTransactionError,
    ApiError,
    ErrorCode,
    FatalProducerError,
    KafkaProducer,
    TransactionCompleter,
    TransactionOutcome,
    UnsupportedVersionError,
)
from pyproducer.protocol.apis import ApiKeys
from pyproducer.transaction.transactions import OpenTransaction
from tests.support import killed_transactions, late_requests, zombie
from tests.support.java_reader import read_committed as read_by_java
from tests.support.kafka_server import KafkaServer
from tests.support.late_requests import PROPS
from tests.support.log_checker import read_committed
from tests.support.patience import GIVE_UP_S
from tests.support.raw_client import RawClient
from tests.support.raw_transactions import RawTransactions

SEED = 5
# Timed out transactions are looked for every ten seconds by default.
SETTINGS = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": 200}


@pytest.fixture(scope="module")
def old_kafka() -> Iterator[KafkaServer]:
    """Apache Kafka without the feature transaction.version, which is that of brokers before 4.0."""
    with KafkaServer(settings=SETTINGS, features={"transaction.version": 0}) as server:
        yield server


@pytest.fixture(scope="module")
def middle_kafka() -> Iterator[KafkaServer]:
    """Apache Kafka with transaction.version 1."""
    with KafkaServer(settings=SETTINGS, features={"transaction.version": 1}) as server:
        yield server


@pytest.fixture(scope="module")
def new_kafka(kafka: KafkaServer) -> KafkaServer:
    """Apache Kafka with transaction.version 2."""
    return kafka


@pytest.fixture
def server(request: pytest.FixtureRequest) -> KafkaServer:
    """The one of a level: `@pytest.mark.parametrize("server", [0, 2], indirect=True)`."""
    found: KafkaServer = request.getfixturevalue({0: "old_kafka", 1: "middle_kafka", 2: "new_kafka"}[request.param])
    return found


@pytest.fixture
def _server_first(request: pytest.FixtureRequest) -> None:
    for name in ("server", "kafka"):
        if name in request.fixturenames:
            request.getfixturevalue(name)


@pytest.fixture(autouse=True)
def no_leaks(_server_first: None, no_leaks: None) -> None:
    """What a server has open is there before the look at what a test leaves open."""


SERVERS = pytest.mark.parametrize("server", [0, pytest.param(1, marks=pytest.mark.soak), 2], indirect=True)


def committed(server: KafkaServer, topic: str) -> list[bytes]:
    return [record.value or b"" for record in read_committed(server.bootstrap_servers, topic)]


def new_producer(server: KafkaServer, transactional_id: str, **props: Any) -> KafkaProducer:
    return KafkaProducer({**PROPS, "bootstrap.servers": server.bootstrap_servers, "transactional.id": transactional_id,
                          **{name.replace("_", "."): value for name, value in props.items()}})


def connect(server: KafkaServer, transactional_id: str, **props: Any) -> KafkaProducer:
    producer = new_producer(server, transactional_id, **props)
    producer.init_transactions()
    return producer


def ongoing(server: KafkaServer, transactional_id: str) -> bool:
    """Whether ListTransactions tells of an open transaction of an id."""
    with RawClient(("127.0.0.1", server.port)) as client:
        answer = client.request(ApiKeys.LIST_TRANSACTIONS, 0, {"state_filters": ["Ongoing"], "producer_id_filters": []})
    return transactional_id in [row["transactional_id"] for row in answer["transaction_states"]]


def await_end(is_over: Callable[[], bool]) -> None:
    deadline = time.monotonic() + GIVE_UP_S
    while not is_over():
        assert time.monotonic() < deadline, "it does not come"
        time.sleep(0.05)


@SERVERS
def test_transactions_when_committed_and_aborted_then_the_readers_see_the_committed_ones(
        server: KafkaServer, topic_name: str) -> None:
    server.create_topic(topic_name, 3)
    with connect(server, topic_name) as producer:
        expected = []
        for number in range(30):
            producer.begin_transaction()
            for index in range(number):
                producer.send(topic_name, b"%d %d" % (number, index), key=b"%d" % index)
            producer.send_offsets_to_transaction({(topic_name, 0): number}, topic_name)
            if number % 3 == 2:
                producer.abort_transaction()
            else:
                producer.commit_transaction()
                expected.extend(b"%d %d" % (number, index) for index in range(number))
    assert sorted(committed(server, topic_name)) == sorted(expected)


@pytest.mark.parametrize("server", [0, 2], indirect=True)
def test_late_end_txn_when_the_next_transaction_has_begun_then_it_is_not_torn(
        server: KafkaServer, topic_name: str) -> None:
    """Found by Jepsen on Bufstream 0.1.0: below Transactions V2 a delayed EndTxn ended a later transaction."""
    server.create_topic(topic_name)
    told = late_requests.late_end_txn(server.bootstrap_servers, topic_name, topic_name)
    assert [answer["error_code"] for answer in told.late] == [ErrorCode.PRODUCER_FENCED]
    assert told.error is None
    assert committed(server, topic_name) == [b"first"]


@pytest.mark.parametrize("server", [0], indirect=True)
def test_late_end_txn_when_the_client_asks_for_no_epoch_then_the_next_transaction_is_torn(
        server: KafkaServer, topic_name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The story can tear a transaction: else the test above would prove nothing."""
    monkeypatch.setattr(OpenTransaction, "note_lost", lambda _transaction, _api: None)
    server.create_topic(topic_name)
    told = late_requests.late_end_txn(server.bootstrap_servers, topic_name, topic_name)
    assert [answer["error_code"] for answer in told.late] == [ErrorCode.NONE]
    # EndTxn is answered before its markers are written, and "third" may come before them.
    await_end(lambda: committed(server, topic_name)[:2] == [b"first", b"second"])


@pytest.mark.parametrize("server", [0], indirect=True)
@pytest.mark.parametrize("asks", [True, False])
def test_late_add_partitions_when_its_transaction_has_ended_then_no_transaction_is_left_open(
        server: KafkaServer, topic_name: str, monkeypatch: pytest.MonkeyPatch, asks: bool) -> None:
    """KAFKA-18957 and its siblings: a transaction that nobody ends holds up every reader of committed records."""
    if not asks:
        monkeypatch.setattr(OpenTransaction, "note_lost", lambda _transaction, _api: None)
    server.create_topic(topic_name)
    late_requests.late_add_partitions(server.bootstrap_servers, topic_name, topic_name)
    assert ongoing(server, topic_name) is not asks


@pytest.mark.parametrize("server", [0], indirect=True)
def test_transaction_when_it_takes_too_long_below_v2_then_the_error_says_so(
        server: KafkaServer, topic_name: str) -> None:
    server.create_topic(topic_name)
    with connect(server, topic_name, transaction_timeout_ms=1500) as producer:
        producer.begin_transaction()
        producer.send(topic_name, b"1").result(60)
        await_end(lambda: not ongoing(server, topic_name))
        with pytest.raises((AbortableTransactionError, FatalProducerError), match=r"transaction\.timeout\.ms = 1500"):
            producer.commit_transaction()
    assert committed(server, topic_name) == []


@pytest.mark.soak
@pytest.mark.parametrize("server", [0, 2], indirect=True)
@pytest.mark.parametrize("when", ["sent", "unsent", "committing"])
def test_process_when_it_is_stopped_until_its_successor_has_committed_then_it_is_fenced(
        server: KafkaServer, topic_name: str, when: str) -> None:
    server.create_topic(topic_name)
    story = zombie.run(server.bootstrap_servers, topic_name, topic_name, when=when)
    seen = committed(server, topic_name)
    if when == "committing" and seen[0] == b"zombie 0":  # it was quick
        seen = seen[zombie.COUNT:]
    else:
        assert story.told[-1] == "FatalProducerError"
        assert "Another producer was initialised" in story.text
    assert seen == [b"successor %d" % number for number in range(zombie.COUNT + 1)]


@pytest.mark.soak
def test_transaction_when_it_takes_too_long_since_v2_then_an_abort_lets_the_producer_go_on(topic_name: str) -> None:
    with KafkaServer(settings=SETTINGS) as server:
        server.create_topic(topic_name)
        with connect(server, topic_name, transaction_timeout_ms=3000) as producer:
            producer.begin_transaction()
            producer.send(topic_name, b"1").result(60)
            await_end(lambda: not ongoing(server, topic_name))
            producer.send(topic_name, b"2")
            with pytest.raises(AbortableTransactionError, match=r"transaction\.timeout\.ms = 3000"):
                producer.commit_transaction()
            producer.abort_transaction()
            with producer.transaction():
                producer.send(topic_name, b"3")
        assert committed(server, topic_name) == [b"3"]


def test_first_number_when_a_broker_does_not_know_the_producer_then_since_v2_it_takes_none_but_0(
        kafka: KafkaServer, topic_name: str) -> None:
    """By this the first batch of an epoch need not go alone: no other one can be stored before it."""
    kafka.create_topic(topic_name, 2)
    with RawClient(("127.0.0.1", kafka.port)) as client:
        transactions = RawTransactions(client, topic_name)
        transactions.find_coordinator()
        transactions.init()
        assert transactions.produce(topic_name, 0, 5)[0] == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert transactions.produce(topic_name, 0, 0) == (0, 0)
        assert transactions.end(commit=True) == 0
        for partition in (0, 1):  # the next epoch: where it is known, and where it is not
            assert transactions.produce(topic_name, partition, 1)[0] == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
            assert transactions.produce(topic_name, partition, 0)[0] == 0
        assert transactions.end(commit=False) == 0


@pytest.mark.parametrize("server", [0, 2], indirect=True)
def test_prepared_transaction_when_it_is_ended_twice_and_after_a_new_epoch_then_the_completer_says_what_it_was(
        server: KafkaServer, topic_name: str) -> None:
    server.create_topic(topic_name)
    with connect(server, topic_name) as producer, TransactionCompleter({
            "bootstrap.servers": server.bootstrap_servers}) as completer:
        for commit in (True, False):
            producer.begin_transaction()
            producer.send(topic_name, b"%d" % commit)
            prepared = producer.prepare_transaction()
            asked, other = (completer.commit, completer.abort) if commit else (completer.abort, completer.commit)
            is_now = TransactionOutcome.COMMITTED if commit else TransactionOutcome.ABORTED
            assert [asked(prepared), asked(prepared), other(prepared)] == [is_now] * 3
            if commit:
                producer.commit_transaction()
                assert completer.commit(prepared) in (TransactionOutcome.UNDECIDABLE, is_now)
        with connect(server, topic_name):
            assert completer.abort(prepared) is completer.commit(prepared) is TransactionOutcome.UNDECIDABLE
    assert committed(server, topic_name) == [b"1"]
    assert not ongoing(server, topic_name)


@pytest.mark.soak
def test_prepared_transaction_when_its_coordinators_broker_is_killed_then_it_is_committed_after_the_restart(
        own_kafka: KafkaServer, topic_name: str) -> None:
    own_kafka.create_topic(topic_name)
    with connect(own_kafka, topic_name) as producer:
        producer.begin_transaction()
        producer.send(topic_name, b"1")
        prepared = producer.prepare_transaction()
    own_kafka.restart()
    with TransactionCompleter({"bootstrap.servers": own_kafka.bootstrap_servers}) as completer:
        assert completer.commit(prepared) is TransactionOutcome.COMMITTED
    assert committed(own_kafka, topic_name) == [b"1"]


@pytest.mark.soak
def test_two_phase_commit_when_brokers_have_it_then_a_transaction_does_not_time_out(topic_name: str) -> None:
    """KIP-939: not released, but there in 4.1 for who enables unstable versions."""
    settings = {**SETTINGS, "unstable.api.versions.enable": True, "transaction.two.phase.commit.enable": True,
                "transaction.max.timeout.ms": 1000}
    with KafkaServer(settings=settings) as server:
        server.create_topic(topic_name)
        with new_producer(server, topic_name) as other, pytest.raises(ApiError, match="INVALID_TRANSACTION_TIMEOUT"):
            other.init_transactions()
        with connect(server, topic_name, transaction_two_phase_commit_enable=True) as producer:
            producer.begin_transaction()
            producer.send(topic_name, b"1")
            prepared = producer.prepare_transaction()
        time.sleep(3)  # longer than any other transaction
        assert ongoing(server, topic_name)
        with TransactionCompleter({"bootstrap.servers": server.bootstrap_servers}) as completer:
            assert completer.commit(prepared) is TransactionOutcome.COMMITTED
        assert committed(server, topic_name) == [b"1"]


@pytest.mark.soak
def test_two_phase_commit_when_the_cluster_has_none_then_init_transactions_says_so(
        kafka: KafkaServer, topic_name: str) -> None:
    with (new_producer(kafka, topic_name, transaction_two_phase_commit_enable=True) as producer,
          pytest.raises(UnsupportedVersionError, match="needs InitProducerId in version 6")):
        producer.init_transactions()


@pytest.mark.soak
@pytest.mark.parametrize("server", [0, 1, 2], indirect=True)
def test_processes_when_they_are_killed_then_each_transaction_is_seen_whole_or_not_at_all(
        server: KafkaServer, topic_name: str) -> None:
    server.create_topic(topic_name, 3)
    story = killed_transactions.run(server.bootstrap_servers, topic_name, topic_name, count=1000, partitions=3,
                                    seed=SEED)
    print(f"{len(story.fates)} transactions, {story.kills} processes killed, {story.in_doubt} during a commit")
    by_librdkafka = [(record.partition, record.value or b"")
                     for record in read_committed(server.bootstrap_servers, topic_name)]
    killed_transactions.check(story, by_librdkafka, SEED)
    assert sorted(read_by_java(server.bootstrap_servers, topic_name)) == sorted(by_librdkafka)
    assert story.kills >= 100
    assert story.in_doubt >= 30
