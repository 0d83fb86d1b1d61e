"""The stories that a team wants to tell of its own program, in public words: each in Python, and over the control port.

What the broker does in each is looked at on the wire elsewhere (test_replication.py, test_clock.py, test_faults.py);
here a producer lives through it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from pyproducer import AuthenticationError, ErrorCode, KafkaError, KafkaProducer
from pyproducer.broker import EmbeddedBroker
from pyproducer.protocol.apis import ApiKeys
from pyproducer.testing import read_topic
from tests.support.group_member import GroupMember
from tests.support.http_broker import HttpBroker
from tests.support.patience import GIVE_UP_S
from tests.support.raw_client import RawClient, fetch_body, fetched

Start = Callable[..., EmbeddedBroker]
Connect = Callable[..., KafkaProducer]
THREE = {"default.replication.factor": 3, "min.insync.replicas": 2}
RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="secret";'
LOGINS: dict[str, object] = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0", "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": JAAS, "connection.failed.authentication.delay.ms": 0}
ALICE = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.jaas.config":
         'org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="secret";'}


@pytest.fixture(params=[EmbeddedBroker, HttpBroker], ids=["python", "http"])
def start(request: pytest.FixtureRequest) -> Iterator[Start]:
    """Start brokers, told what to do in Python or over HTTP."""
    brokers: list[EmbeddedBroker] = []

    def make(**arguments: object) -> EmbeddedBroker:
        brokers.append(request.param(**arguments).start())
        return brokers[-1]

    yield make
    for broker in brokers:
        broker.stop()


@pytest.fixture
def connect() -> Iterator[Connect]:
    """Make producers; closed at the end."""
    producers: list[KafkaProducer] = []

    def make(broker: EmbeddedBroker, **props: object) -> KafkaProducer:
        producers.append(KafkaProducer({
            "bootstrap.servers": broker.bootstrap_servers, "linger.ms": 0, "retry.backoff.ms": 10,
            "reconnect.backoff.ms": 10, **{name.replace("_", "."): value for name, value in props.items()}}))
        return producers[-1]

    yield make
    for producer in producers:
        producer.close(0)


def send(producer: KafkaProducer, value: bytes, topic: str = "orders") -> None:
    """Send one record, and wait until it is stored."""
    producer.send(topic, value, partition=0).result(GIVE_UP_S)


def stored(broker: EmbeddedBroker, topic: str = "orders") -> list[bytes | None]:
    return [record.value for record in broker.records(topic)]


def test_broker_dies_and_the_client_fails_over_the_second_dies_and_acks_all_is_refused_and_then_it_heals(
        start: Start, connect: Connect) -> None:
    broker = start(brokers=3, topics={"orders": 1}, config=THREE)
    producer = connect(broker)
    hasty = connect(broker, delivery_timeout_ms=1000, request_timeout_ms=500)
    send(producer, b"1")
    send(hasty, b"2")
    broker.stop_node(1, kill=True)
    send(producer, b"3")
    view = broker.describe_partition("orders", 0)
    assert view is not None
    assert (view.leader_id, sorted(view.isr)) == (2, [2, 3])
    broker.stop_node(3)
    error = hasty.send("orders", b"refused", partition=0).exception(GIVE_UP_S)
    assert isinstance(error, KafkaError)
    assert "NOT_ENOUGH_REPLICAS" in str(error)
    waiting = producer.send("orders", b"4", partition=0)
    broker.start_node(3)
    waiting.result(GIVE_UP_S)
    broker.start_node(1)
    send(producer, b"5")
    assert stored(broker) == [b"1", b"2", b"3", b"4", b"5"]
    view = broker.describe_partition("orders", 0)
    assert view is not None
    assert sorted(view.isr) == [1, 2, 3]


def test_each_of_three_brokers_is_restarted_and_nothing_is_lost_doubled_or_reordered(
        start: Start, connect: Connect) -> None:
    broker = start(brokers=3, topics={"orders": 1}, config=THREE)
    producer = connect(broker)
    futures = []
    for node_id in (1, 2, 3):
        futures += [producer.send("orders", b"%d before" % node_id, partition=0) for _ in range(5)]
        broker.stop_node(node_id)
        futures += [producer.send("orders", b"%d while" % node_id, partition=0) for _ in range(5)]
        producer.flush(GIVE_UP_S)
        broker.start_node(node_id)
    assert [future.result(GIVE_UP_S).offset for future in futures] == list(range(30))
    assert stored(broker) == [value for node_id in (1, 2, 3) for word in ("before", "while")
                              for value in [b"%d %s" % (node_id, word.encode())] * 5]


def test_consumer_is_sent_to_the_follower_in_its_rack(start: Start, connect: Connect) -> None:
    broker = start(brokers=3, topics={"orders": 1}, config={**THREE, "replica.selector.class": RACK_AWARE},
                   node_config={node_id: {"broker.rack": f"r{node_id}"} for node_id in (1, 2, 3)})
    send(connect(broker), b"1")

    def preferred(rack: str) -> int:
        with RawClient(("127.0.0.1", broker.port)) as client:
            answer = client.request(ApiKeys.FETCH, 12, {**fetch_body(12, "orders", 0, 0), "rack_id": rack})
        return int(fetched(answer)["preferred_read_replica"])

    assert [preferred(rack) for rack in ("r1", "r2", "r3")] == [-1, 2, 3]
    broker.stop_following(2)
    assert preferred("r2") == -1


def test_election_is_unclean_and_what_the_new_leader_lacks_is_lost(start: Start, connect: Connect) -> None:
    broker = start(brokers=3, topics={"orders": 1}, config={**THREE, "unclean.leader.election.enable": "true"})
    producer = connect(broker, acks="1", enable_idempotence="false")
    send(producer, b"everybody has it")
    for follower in (2, 3):
        broker.stop_following(follower)
    send(producer, b"the leader alone has it")
    broker.stop_node(1, kill=True)
    send(producer, b"of the new leader")
    assert stored(broker) == [b"everybody has it", b"of the new leader"]


def test_login_is_refused_for_ten_seconds(start: Start, connect: Connect) -> None:
    broker = start(topics={"orders": 1}, config=LOGINS)
    refusal = broker.faults.on("SaslAuthenticate", times=None).error("SASL_AUTHENTICATION_FAILED", "the store is away")
    producer = connect(broker, **ALICE)
    error = producer.send("orders", b"1", partition=0).exception(GIVE_UP_S)
    assert isinstance(error, AuthenticationError)
    assert "the store is away" in str(error)
    broker.clock.advance(seconds=10)
    refusal.remove()
    ends = time.monotonic() + GIVE_UP_S
    while producer.send("orders", b"2", partition=0).exception(GIVE_UP_S) is not None:  # the refusal is remembered
        assert time.monotonic() < ends
    assert stored(broker) == [b"2"]


def test_session_of_a_login_ends_and_the_producer_goes_on(start: Start, connect: Connect) -> None:
    broker = start(topics={"orders": 1}, config={**LOGINS, "connections.max.reauth.ms": 60_000}, log_requests=True)
    producer = connect(broker, **ALICE)
    send(producer, b"1")
    logins = len(broker.requests("SaslAuthenticate"))
    broker.clock.advance(seconds=61)
    send(producer, b"2")
    assert stored(broker) == [b"1", b"2"]
    assert len(broker.requests("SaslAuthenticate")) > logins


def test_third_produce_of_a_partition_is_refused_and_sent_again(start: Start, connect: Connect) -> None:
    broker = start(topics={"orders": 2})
    third = broker.faults.on("Produce", topic="orders", partition=0, after=2).error("NOT_ENOUGH_REPLICAS")
    producer = connect(broker)
    for number in range(4):
        producer.send("orders", b"other", partition=1).result(GIVE_UP_S)
        send(producer, b"%d" % number)
        assert third.count == (number >= 2)
    assert stored(broker) == [b"0", b"1", b"2", b"3", *[b"other"] * 4]
    assert broker.faults.unused() == []


def test_two_requests_are_held_and_go_on_in_the_other_order(start: Start, connect: Connect) -> None:
    broker = start(topics={"orders": 1})
    both = broker.faults.on("Produce", times=2).hold()
    futures = []
    for number in (1, 2):
        futures.append(connect(broker).send("orders", b"%d" % number, partition=0))
        both.await_held(number)
    both.release(2)
    assert futures[1].result(GIVE_UP_S).offset == 0
    both.release(1)
    assert futures[0].result(GIVE_UP_S).offset == 1
    assert stored(broker) == [b"2", b"1"]


def test_time_passes_and_a_member_is_evicted_and_a_transaction_aborted(start: Start, connect: Connect) -> None:
    broker = start(topics={"orders": 1}, config={"offsets.topic.num.partitions": 1,
                                                 "transaction.state.log.num.partitions": 1})
    producer = connect(broker, transactional_id="shop", transaction_timeout_ms=600_000)
    producer.init_transactions()
    producer.begin_transaction()
    send(producer, b"1")
    with RawClient(("127.0.0.1", broker.port)) as client:
        client.request(ApiKeys.FIND_COORDINATOR, 3, {"key": "g", "key_type": 0})
    with GroupMember(RawClient(("127.0.0.1", broker.port)), "g", session_timeout_ms=45_000) as member:
        assert member.join()["error_code"] == 0
        assert member.sync({member.member_id: b"all"})["error_code"] == 0
        assert member.heartbeat() == 0
        broker.clock.advance(minutes=15)
        assert member.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID
    with pytest.raises(KafkaError):
        producer.commit_transaction()
    assert list(read_topic(broker.bootstrap_servers, "orders", isolation_level="read_committed")) == []


def test_producer_id_is_forgotten_and_nothing_is_lost_or_doubled(start: Start, connect: Connect) -> None:
    broker = start(topics={"orders": 1})
    producer = connect(broker)
    for day in range(3):
        send(producer, b"%d" % day)
        broker.clock.advance(days=1, minutes=15)
    send(producer, b"3")
    assert stored(broker) == [b"0", b"1", b"2", b"3"]
