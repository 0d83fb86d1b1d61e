"""The scripted broker of tests/support: what a test tells it to do, it does, and it says what clients did wrong."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from pyproducer import ErrorCode, KafkaProducer
from pyproducer.protocol.apis import ApiKeys
from tests.simulation.model_broker import ClientBug
from tests.support.raw_client import ConnectionEnded, RawClient, produce_body, produced
from tests.support.scripted_broker import GIVE_UP_S, ScriptedBroker, kafka_2_3

TOPIC = "orders"
SETTINGS = {"linger.ms": 0, "retry.backoff.ms": 5, "retry.backoff.max.ms": 10, "reconnect.backoff.ms": 5,
            "reconnect.backoff.max.ms": 10, "delivery.timeout.ms": 60_000}


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    with ScriptedBroker({TOPIC: 2}, node_count=2) as broker:
        yield broker


@pytest.fixture
def producer(broker: ScriptedBroker) -> Iterator[KafkaProducer]:
    with KafkaProducer({"bootstrap.servers": broker.bootstrap_servers, **SETTINGS}) as producer:
        yield producer


def send(producer: KafkaProducer, value: bytes, **others: Any) -> Any:
    return producer.send(TOPIC, value, partition=0, **others)


def test_rules_when_batches_are_refused_and_answers_lost_then_the_log_is_as_it_should_be(
        broker: ScriptedBroker, producer: KafkaProducer) -> None:
    refused = broker.on_batch(TOPIC, holding=b"b").refuse(ErrorCode.NOT_ENOUGH_REPLICAS)
    lost = broker.on_batch(TOPIC, holding=b"c").lose_answer()
    after = broker.on_batch(TOPIC, holding=b"d").refuse_after(ErrorCode.REQUEST_TIMED_OUT)
    for value in (b"a", b"b", b"c", b"d"):
        assert send(producer, value).result(GIVE_UP_S).offset == len(broker.values(TOPIC)) - 1
    assert broker.values(TOPIC) == [b"a", b"b", b"c", b"d"]
    assert [record.sequence for record in broker.log(TOPIC)] == [0, 1, 2, 3]
    assert [rule.count for rule in (refused, lost, after)] == [1, 1, 1]
    assert [batch.values for batch in broker.arrived_of(TOPIC)] == [[value] for value in (
        b"a", b"b", b"b", b"c", b"c", b"d", b"d")]
    assert broker.epochs(TOPIC) == [(1000, 0)]


def test_rules_when_requests_are_held_then_they_are_handled_on_release(
        broker: ScriptedBroker, producer: KafkaProducer) -> None:
    held = broker.on_batch(TOPIC, nth=2).hold()
    send(producer, b"a").result(GIVE_UP_S)
    future = send(producer, b"b")
    held.await_count()
    assert broker.values(TOPIC) == [b"a"]
    assert not future.done()
    held.release()
    future.result(GIVE_UP_S)
    answer = broker.on_batch(TOPIC).hold_answer()
    future = send(producer, b"c")
    answer.await_count()
    assert broker.values(TOPIC) == [b"a", b"b", b"c"]
    assert not future.done()
    answer.release()
    assert future.result(GIVE_UP_S).offset == 2


def test_gather_when_two_batches_come_then_both_are_there_before_the_first_is_handled(
        broker: ScriptedBroker, producer: KafkaProducer) -> None:
    send(producer, b"a").result(GIVE_UP_S)
    with broker.gather(TOPIC, count=2):
        futures = [send(producer, b"b")]
        broker.await_true(lambda: len(broker.arrived_of(TOPIC)) == 2, "the first one")
        futures.append(send(producer, b"c"))
        broker.await_true(lambda: len(broker.arrived_of(TOPIC)) == 3, "the second one")
        assert broker.values(TOPIC) == [b"a"]
    assert [future.result(GIVE_UP_S).offset for future in futures] == [1, 2]


def test_cluster_when_the_leader_moves_and_topics_are_made_anew_then_producers_follow(
        broker: ScriptedBroker, producer: KafkaProducer) -> None:
    send(producer, b"a").result(GIVE_UP_S)
    broker.move_leader(TOPIC, to=1)
    assert broker.leader_of(TOPIC) == 1
    assert send(producer, b"b").result(GIVE_UP_S).offset == 1
    assert broker.arrived[-1].node_id == 1
    broker.recreate_topic(TOPIC)
    assert broker.values(TOPIC) == []
    assert send(producer, b"c").result(GIVE_UP_S).offset == 0
    both = [[record.value for record in records] for partition, records in broker.all_logs(TOPIC) if partition == 0]
    assert both == [[b"a", b"b"], [b"c"]]
    broker.cut()
    assert send(producer, b"d").result(GIVE_UP_S).offset == 1
    broker.set_max_message_bytes(100)
    error = send(producer, b"." * 100).exception(GIVE_UP_S)
    assert error.code == ErrorCode.MESSAGE_TOO_LARGE


def test_producers_when_the_broker_forgets_them_then_any_number_is_the_first(
        broker: ScriptedBroker, producer: KafkaProducer) -> None:
    send(producer, b"a").result(GIVE_UP_S)
    assert broker.expire_producers() == 0
    broker.advance_time(86_400_000)
    assert broker.expire_producers() == 1
    assert not broker.forget_producer(TOPIC)
    send(producer, b"b").result(GIVE_UP_S)
    assert [record.sequence for record in broker.log(TOPIC)] == [0, 1]
    send(producer, b"c", timestamp=broker.now_ms - 86_400_000).result(GIVE_UP_S)
    assert broker.expire_producers() == 1, "what is old says the producer's timestamp"
    broker.await_quiet()


def test_requests_when_their_connection_ended_then_those_that_were_read_are_handled(broker: ScriptedBroker) -> None:
    from pyproducer.record.batch_writer import build_batch

    host, port = broker.bootstrap_servers.split(",")[0].split(":")
    broker.pause()
    with RawClient((host, int(port))) as client:
        client.request(ApiKeys.API_VERSIONS, 0, {})
        client.send_request(ApiKeys.PRODUCE, 9, produce_body(TOPIC, 0, bytes(build_batch([(5, None, b"late", ())]))))
        broker.await_true(lambda: broker.waiting_values() == {b"late"}, "the request")
    broker.await_quiet()
    assert broker.values(TOPIC) == []
    broker.resume()
    broker.await_true(lambda: broker.values(TOPIC) == [b"late"], "the record in the log")


def test_client_when_it_does_what_none_does_then_its_connection_ends_and_the_exit_raises_it() -> None:
    broker = ScriptedBroker({TOPIC: 1})
    broker.__enter__()
    host, port = broker.bootstrap_servers.split(":")
    with RawClient((host, int(port))) as client, pytest.raises(ConnectionEnded):
        client.request(ApiKeys.METADATA, 9, {"topics": []})
    with pytest.raises(ClientBug, match="the first request on a connection"):
        broker.await_true(lambda: False, "never")
    with pytest.raises(ClientBug, match="the first request on a connection"):
        broker.__exit__(None, None, None)


def test_old_cluster_when_it_does_not_know_a_producer_then_it_says_59_and_where_its_log_begins() -> None:
    from pyproducer.record.batch_writer import build_batch

    rows = []
    with ScriptedBroker({TOPIC: 1}, parameters=kafka_2_3(knows_all_producers=False)) as broker:
        host, port = broker.bootstrap_servers.split(":")
        with RawClient((host, int(port))) as client:
            client.request(ApiKeys.API_VERSIONS, 0, {})
            for sequence in range(3):
                if sequence == 2:
                    broker.delete_records(TOPIC)
                    broker.forget_producer(TOPIC)
                records = build_batch([(5, None, b"v", ())], producer_id=7, producer_epoch=0, base_sequence=sequence)
                rows.append(produced(client.request(ApiKeys.PRODUCE, 7, produce_body(TOPIC, 0, bytes(records)))))
    assert [(row["error_code"], row["base_offset"], row["log_start_offset"]) for row in rows] == [
        (0, 0, 0), (0, 1, 0), (59, -1, 2)]


def test_broker_when_it_is_closed_with_clients_that_wait_then_nothing_is_left(broker: ScriptedBroker) -> None:
    broker.on_batch(TOPIC, times=None).lose_answer(cut=False)
    producer = KafkaProducer({"bootstrap.servers": broker.bootstrap_servers, **SETTINGS})
    future = send(producer, b"a")
    broker.await_true(lambda: broker.values(TOPIC) == [b"a"], "the record")
    broker.pause()
    producer.close(0)
    assert future.exception(GIVE_UP_S).outcome == "unknown"
