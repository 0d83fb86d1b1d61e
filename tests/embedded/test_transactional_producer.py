"""Our transactional producer on our broker, with each version of transactions: faults, moves, kills, late requests."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pyproducer import AbortableTransactionError, AuthorizationError, ErrorCode, FatalProducerError, KafkaProducer
from pyproducer.broker import EmbeddedBroker
from pyproducer.protocol.apis import ApiKeys
from pyproducer.transaction.transactions import OpenTransaction
from tests.support import killed_transactions, late_requests, zombie
from tests.support.late_requests import PROPS
from tests.support.log_checker import LogProblem, read_topic
from tests.support.patience import GIVE_UP_S

pytest.importorskip("confluent_kafka")

StartBroker = Callable[..., EmbeddedBroker]
SEED = 11
LEVELS = pytest.mark.parametrize("level", [0, 1, 2])


@pytest.fixture
def connect() -> Iterator[Callable[..., KafkaProducer]]:
    """Make transactional producers of a broker; closed at the end."""
    producers: list[KafkaProducer] = []

    def make(broker: EmbeddedBroker, transactional_id: str = "shop", **props: Any) -> KafkaProducer:
        producers.append(KafkaProducer({
            **PROPS, "bootstrap.servers": broker.bootstrap_servers, "transactional.id": transactional_id,
            **{name.replace("_", "."): value for name, value in props.items()}}))
        return producers[-1]

    yield make
    for producer in producers:
        producer.close(60)


Connect = Callable[..., KafkaProducer]


def committed(broker: EmbeddedBroker, topic: str = "orders") -> list[bytes]:
    return [record.value or b"" for record in read_topic(
        broker.bootstrap_servers, topic, consumer_settings={"isolation.level": "read_committed"})]


@LEVELS
def test_transactions_when_their_sizes_are_random_then_those_committed_are_seen_whole_and_the_others_not(
        start_broker: StartBroker, connect: Connect, level: int) -> None:
    broker = start_broker(topics={"orders": 3}, config={"transaction.version": level})
    broker.log_requests()
    chance = random.Random(level)
    producer = connect(broker)
    producer.init_transactions()
    expected: list[bytes] = []
    for number in range(60):
        values = [b"%d %d" % (number, index) for index in range(chance.choice((0, 1, 3, 40)))]
        producer.begin_transaction()
        for value in values:
            producer.send("orders", value, key=value)
        if chance.random() < 1 / 3:
            if chance.random() < 0.5:
                producer.flush()
            producer.abort_transaction()
        else:
            producer.commit_transaction()
            expected.extend(values)
    assert sorted(committed(broker)) == sorted(expected)
    versions = {request.api_version for request in broker.requests(ApiKeys.PRODUCE)}
    assert versions == ({13} if level == 2 else {11})
    assert bool(broker.requests(ApiKeys.ADD_PARTITIONS_TO_TXN)) == (level < 2)


TROUBLES = {  # of each API: the codes that pass, and ways in which an answer is lost
    "FindCoordinator": [ErrorCode.COORDINATOR_NOT_AVAILABLE],
    "InitProducerId": [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR,
                       ErrorCode.CONCURRENT_TRANSACTIONS],
    "AddPartitionsToTxn": [ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.CONCURRENT_TRANSACTIONS],
    "AddOffsetsToTxn": [ErrorCode.NOT_COORDINATOR, ErrorCode.CONCURRENT_TRANSACTIONS],
    "TxnOffsetCommit": [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR],
    "EndTxn": [ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR, ErrorCode.CONCURRENT_TRANSACTIONS],
    "Produce": [ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.CONCURRENT_TRANSACTIONS],
}


@pytest.mark.parametrize("level", [0, 2])
@pytest.mark.parametrize("api", TROUBLES)
def test_transactions_when_requests_fail_for_a_moment_then_each_is_committed_once(
        start_broker: StartBroker, connect: Connect, level: int, api: str) -> None:
    broker = start_broker(topics={"orders": 2, "in": 1}, config={"transaction.version": level})
    producer = connect(broker)
    expected: list[bytes] = []
    for number, trouble in enumerate([None, *TROUBLES[api], "before_apply", "after_apply"]):
        if isinstance(trouble, str):
            broker.faults.on(api).close(trouble)
        elif trouble is not None:
            broker.faults.on(api).error(trouble)
        producer.init_transactions(f"shop-{number}")
        for turn in range(2):
            with producer.transaction():
                for partition in (0, 1):
                    value = b"%d %d %d" % (number, turn, partition)
                    expected.append(value)
                    producer.send("orders", value, partition=partition)
                producer.send_offsets_to_transaction({("in", 0): 10 * number + turn}, "readers")
    assert sorted(committed(broker)) == sorted(expected)


@LEVELS
def test_coordinator_when_it_moves_in_every_transaction_then_each_is_committed_once(
        start_broker: StartBroker, connect: Connect, level: int) -> None:
    broker = start_broker(brokers=3, topics={"orders": 3}, config={"transaction.version": level})
    producer = connect(broker)
    producer.init_transactions()
    expected: list[bytes] = []
    for number in range(12):
        producer.begin_transaction()
        for partition in range(3):
            expected.append(b"%d %d" % (number, partition))
            producer.send("orders", expected[-1], partition=partition)
        broker.move_coordinator("shop", number % 3 + 1, key_type="transaction")
        producer.commit_transaction()
    assert sorted(committed(broker)) == sorted(expected)


@LEVELS
def test_second_producer_when_it_comes_in_the_middle_then_the_first_one_is_fenced(
        start_broker: StartBroker, connect: Connect, level: int) -> None:
    broker = start_broker(topics={"orders": 1}, config={"transaction.version": level})
    first = connect(broker)
    first.init_transactions()
    first.begin_transaction()
    first.send("orders", b"1").result(60)
    second = connect(broker)
    second.init_transactions()
    first.send("orders", b"2")
    with pytest.raises((AbortableTransactionError, FatalProducerError)):
        first.commit_transaction()
    with pytest.raises(FatalProducerError, match="Another producer was initialised"):
        first.abort_transaction()
    with second.transaction():
        second.send("orders", b"3")
    assert committed(broker) == [b"3"]


def test_authorizer_when_it_denies_the_id_then_init_transactions_says_so_and_may_be_called_again(
        start_broker: StartBroker, connect: Connect) -> None:
    broker = start_broker(topics={"orders": 1})
    producer = connect(broker)
    broker.set_authorizer(lambda _context, _operation, kind, _name: kind.value != "TRANSACTIONAL_ID")
    with pytest.raises(AuthorizationError, match="TRANSACTIONAL_ID_AUTHORIZATION_FAILED"):
        producer.init_transactions()
    broker.set_authorizer(lambda *_question: True)
    producer.init_transactions()
    with producer.transaction():
        producer.send("orders", b"1")
    assert committed(broker) == [b"1"]


@LEVELS
@pytest.mark.parametrize("kind", ["TOPIC", "GROUP"])
def test_authorizer_when_it_denies_what_is_in_the_transaction_then_that_is_aborted_and_the_next_one_committed(
        start_broker: StartBroker, connect: Connect, level: int, kind: str) -> None:
    broker = start_broker(topics={"orders": 1, "secret": 1}, config={"transaction.version": level})
    producer = connect(broker)
    producer.init_transactions()
    with producer.transaction():
        producer.send("secret", b"0")  # so that its metadata are known
    broker.set_authorizer(lambda _context, operation, asked, name: asked.value != kind or name == "orders" or (
        operation.value == "DESCRIBE"))

    def transact() -> None:
        with producer.transaction():
            producer.send("orders", b"aborted")
            if kind == "TOPIC":
                producer.send("secret", b"aborted")
            else:
                producer.send_offsets_to_transaction({("orders", 0): 1}, "secret")

    with pytest.raises(AbortableTransactionError, match=f"{kind}_AUTHORIZATION_FAILED"):
        transact()
    with producer.transaction():
        producer.send("orders", b"1")
    assert committed(broker) == [b"1"]


def test_authorizer_when_it_denies_the_id_in_the_middle_then_the_producer_can_only_be_closed(
        start_broker: StartBroker, connect: Connect) -> None:
    broker = start_broker(topics={"orders": 1})
    producer = connect(broker)
    producer.init_transactions()
    producer.begin_transaction()
    producer.send("orders", b"1").result(60)
    broker.set_authorizer(lambda _context, _operation, kind, _name: kind.value != "TRANSACTIONAL_ID")
    with pytest.raises(FatalProducerError, match="TRANSACTIONAL_ID_AUTHORIZATION_FAILED"):
        producer.commit_transaction()
    with pytest.raises(FatalProducerError):
        producer.abort_transaction()
    broker.set_authorizer(lambda *_question: True)
    assert committed(broker) == []


@pytest.mark.parametrize(("level", "when"), [
    (2, "sent"), pytest.param(0, "sent", marks=pytest.mark.soak), pytest.param(2, "unsent", marks=pytest.mark.soak),
    pytest.param(0, "unsent", marks=pytest.mark.soak), pytest.param(2, "committing", marks=pytest.mark.soak),
    pytest.param(0, "committing", marks=pytest.mark.soak)])
def test_process_when_it_is_stopped_until_its_successor_has_committed_then_it_is_fenced(
        start_broker: StartBroker, level: int, when: str) -> None:
    broker = start_broker(topics={"orders": 1}, config={"transaction.version": level})
    story = zombie.run(broker.bootstrap_servers, "orders", "shop", when=when)
    seen = committed(broker)
    if when == "committing" and seen[0] == b"zombie 0":  # it was quick
        seen = seen[zombie.COUNT:]
    else:
        assert story.told[-1] == "FatalProducerError"
        assert "Another producer was initialised" in story.text
    assert seen == [b"successor %d" % number for number in range(zombie.COUNT + 1)]


@pytest.mark.parametrize("level", [0, 2])
def test_transaction_when_it_takes_too_long_then_the_error_says_so_and_since_v2_the_producer_goes_on(
        start_broker: StartBroker, connect: Connect, level: int) -> None:
    broker = start_broker(topics={"orders": 1}, config={"transaction.version": level})
    producer = connect(broker, transaction_timeout_ms=1500)
    producer.init_transactions()
    producer.begin_transaction()
    producer.send("orders", b"1").result(60)
    deadline = time.monotonic() + GIVE_UP_S
    while ongoing(broker):
        assert time.monotonic() < deadline, "the coordinator does not abort it"
        time.sleep(0.02)
    assert producer.send("orders", b"2").exception(60) is not None
    with pytest.raises((AbortableTransactionError, FatalProducerError), match=r"transaction\.timeout\.ms = 1500"):
        producer.commit_transaction()
    if level < 2:  # the coordinator's answer is that of one who was fenced
        with pytest.raises(FatalProducerError):
            producer.abort_transaction()
    else:
        producer.abort_transaction()
        with producer.transaction():
            producer.send("orders", b"3")
    assert committed(broker) == ([] if level < 2 else [b"3"])


@pytest.mark.parametrize("level", [0, 1, 2])
def test_late_end_txn_when_the_next_transaction_has_begun_then_it_is_not_torn(
        start_broker: StartBroker, level: int) -> None:
    """Found by Jepsen on Bufstream 0.1.0: below Transactions V2 a delayed EndTxn ended a later transaction."""
    broker = start_broker(topics={"orders": 1}, config={"transaction.version": level})
    told = late_requests.late_end_txn(broker.bootstrap_servers, "orders", "shop")
    assert [answer["error_code"] for answer in told.late] == [ErrorCode.PRODUCER_FENCED]
    assert told.error is None
    assert committed(broker) == [b"first"]


def test_late_end_txn_when_the_client_asks_for_no_epoch_then_the_next_transaction_is_torn(
        start_broker: StartBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """The story can tear a transaction: else the test above would prove nothing."""
    monkeypatch.setattr(OpenTransaction, "note_lost", lambda _transaction, _api: None)
    broker = start_broker(topics={"orders": 1}, config={"transaction.version": 0})
    told = late_requests.late_end_txn(broker.bootstrap_servers, "orders", "shop")
    assert [answer["error_code"] for answer in told.late] == [ErrorCode.NONE]
    assert committed(broker) == [b"first", b"second"]


@pytest.mark.parametrize("asks", [True, False])
def test_late_add_partitions_when_its_transaction_has_ended_then_no_transaction_is_left_open(
        start_broker: StartBroker, monkeypatch: pytest.MonkeyPatch, asks: bool) -> None:
    """KAFKA-18957 and its siblings: a transaction that nobody ends holds up every reader of committed records."""
    if not asks:
        monkeypatch.setattr(OpenTransaction, "note_lost", lambda _transaction, _api: None)
    broker = start_broker(topics={"orders": 1}, config={"transaction.version": 0})
    late_requests.late_add_partitions(broker.bootstrap_servers, "orders", "shop")
    assert ongoing(broker) == ([] if asks else ["shop"])


def ongoing(broker: EmbeddedBroker) -> list[str]:
    """The transactional ids with an open transaction, as ListTransactions tells them."""
    from tests.support.raw_client import RawClient

    with RawClient(("127.0.0.1", broker.port)) as client:
        answer = client.request(ApiKeys.LIST_TRANSACTIONS, 0, {"state_filters": ["Ongoing"], "producer_id_filters": []})
    return [row["transactional_id"] for row in answer["transaction_states"]]


@pytest.mark.parametrize(("level", "count"), [
    (2, 15), *(pytest.param(level, 1000, marks=pytest.mark.soak) for level in (0, 1, 2))])
def test_processes_when_they_are_killed_then_each_transaction_is_seen_whole_or_not_at_all(
        start_broker: StartBroker, level: int, count: int) -> None:
    broker = start_broker(topics={"orders": 3}, config={"transaction.version": level}, separate_process=True)
    story = killed_transactions.run(broker.bootstrap_servers, "orders", "shop", count=count, partitions=3, seed=SEED)
    seen = read_topic(broker.bootstrap_servers, "orders", consumer_settings={"isolation.level": "read_committed"})
    killed_transactions.check(story, [(record.partition, record.value or b"") for record in seen], SEED)
    print(f"{len(story.fates)} transactions, {story.kills} processes killed, {story.in_doubt} during a commit")
    assert story.kills >= count / 10
    assert story.in_doubt


def test_check_when_a_transaction_is_torn_or_missing_then_it_says_so() -> None:
    story = killed_transactions.Story({0: killed_transactions.Fate(True)}, 0, 0)
    size = killed_transactions.size_of(0, 7)
    whole = [(0, b"0 %d %d" % (index, size)) for index in range(size)]
    killed_transactions.check(story, whole, 7)
    for seen, words in (([], "not there"), (whole + whole, "lies behind"), ([(0, b"1 0 1")], "says that it has|begun")):
        with pytest.raises(LogProblem, match=words):
            killed_transactions.check(story, seen, 7)
