"""What cannot be sent: topics that are not there, names that do not resolve, clusters that are away."""

from __future__ import annotations

import threading
import time

import pytest

from pyproducer import InvalidTopicError, KafkaProducer, KafkaTimeoutError, UnknownTopicOrPartitionError
from tests.contract.clusters import PARTITIONS, Can, Cluster
from tests.contract.conftest import Connect
from tests.contract.witness import Witness, await_known, await_memory_back
from tests.support.fault_proxy import FaultProxy
from tests.support.patience import GIVE_UP_S

UNRESOLVABLE = "no-such-host.invalid:9092"  # .invalid never resolves (RFC 2606)


def check_metadata_timeout(witness: Witness, *words: str) -> None:
    """Record 0 was given up because its topic did not become known: once, everywhere, and it was not sent."""
    error = witness.error_of(0)
    assert isinstance(error, KafkaTimeoutError)
    assert error.phase == "metadata"
    assert error.outcome == "not_sent"
    for word in words:
        assert word in str(error)
    assert witness.told_of(0).metadata is None or witness.told_of(0).metadata.offset == -1
    witness.await_all()


@pytest.mark.needs(Can.REFUSE_UNKNOWN_TOPICS)
def test_topic_when_it_is_unknown_then_the_record_is_given_up_after_max_block_ms(
        topic: str, topic_name: str, connect: Connect) -> None:
    producer = connect(max_block_ms=300)
    await_known(producer, topic)
    witness = Witness(producer, f"{topic_name}-unknown")
    before = time.monotonic()
    witness.send(0)
    check_metadata_timeout(witness, f"{topic_name}-unknown", "max.block.ms")
    assert time.monotonic() - before >= 0.299
    await_memory_back(producer)
    assert producer.send(topic, b"v").result(GIVE_UP_S).offset == 0


@pytest.mark.needs(Can.REFUSE_UNKNOWN_TOPICS)
def test_topic_when_it_appears_while_send_waits_then_the_record_is_stored(
        cluster: Cluster, topic_name: str, connect: Connect, proxy: FaultProxy) -> None:
    producer = connect(through=proxy)
    witness = Witness(producer, topic_name)
    thread = threading.Thread(target=witness.send, args=(0,))
    thread.start()
    asked = proxy.on("Metadata").hold_answer()
    asked.await_count()  # the topic was not there when this was answered
    cluster.create_topic(topic_name)
    asked.release()
    thread.join(GIVE_UP_S)
    witness.check_log(cluster)
    assert sorted(witness.metadata) == [0]


@pytest.mark.needs(Can.CREATE_TOPICS_ON_DEMAND)
def test_topic_when_the_cluster_creates_it_then_the_record_is_stored(
        cluster: Cluster, topic_name: str, connect: Connect) -> None:
    witness = Witness(connect(), topic_name)
    witness.send(0)
    witness.await_all()
    witness.check_log(cluster)
    assert sorted(witness.metadata) == [0]


def test_partition_when_it_does_not_exist_then_the_record_is_given_up_after_one_refresh(
        cluster: Cluster, topic: str, connect: Connect) -> None:
    producer = connect(max_block_ms=3_600_000)  # to wait for it would be noticed
    await_known(producer, topic)
    witness = Witness(producer, topic)
    witness.send(0, partition=PARTITIONS)
    error = witness.error_of(0)
    assert isinstance(error, UnknownTopicOrPartitionError)
    assert (error.outcome, error.retriable) == ("not_sent", False)
    assert f"{topic!r} has no partition {PARTITIONS}: the index must be from 0 to {PARTITIONS - 1}" in str(error)
    assert producer.send(topic, b"1", partition=PARTITIONS - 1).result(GIVE_UP_S).partition == PARTITIONS - 1
    assert len(cluster.log(topic)) == 1


@pytest.mark.parametrize("name", ["with space", "a/b", "x" * 250, "x" * 40_000, ".", "..", "gr\u00fcn", "bad\ud800"],
                         ids=lambda name: ascii(name[:20]))
def test_topic_when_its_name_is_not_allowed_then_only_its_records_fail_and_other_topics_are_still_found(
        cluster: Cluster, topic: str, topic_name: str, connect: Connect, name: str) -> None:
    """A name of 40,000 characters, or one that is no text, fits in no request. Metadata was never asked for again, and
    the producer was dead for every topic that it did not know yet: a kill switch for whoever may choose a topic."""
    producer = connect(max_block_ms=3_600_000)  # to wait for it would be noticed
    told: list[object] = []
    error = producer.send(name, b"v", on_completion=lambda *what: told.append(what)).exception(GIVE_UP_S)
    rows = producer.send_batch(name, [b"a", b"b"]).result(GIVE_UP_S).errors
    with pytest.raises(InvalidTopicError) as caught:
        producer.partitions_for(name)
    assert list(rows) == [0, 1]
    for refused in (error, *rows.values(), caught.value):
        assert isinstance(refused, InvalidTopicError)
        assert refused.outcome == "not_sent"
        assert len(str(refused)) < 400
        assert ascii(name[:20])[1:-1] in str(refused)
        assert "249" in str(refused)
    ((metadata, exception),) = told  # type: ignore[misc]  # what callbacks get
    assert (metadata, type(exception)) == (None, InvalidTopicError)
    assert producer.send(topic, b"v").result(GIVE_UP_S).offset == 0
    assert producer.send(cluster.new_topic(f"{topic_name}-2"), b"v").result(GIVE_UP_S).offset == 0


@pytest.mark.needs(Can.REFUSE_UNKNOWN_TOPICS)
def test_partitions_for_when_the_topic_is_unknown_then_it_raises_after_max_block_ms(
        cluster: Cluster, topic_name: str, connect: Connect) -> None:
    producer = connect(max_block_ms=200)
    before = time.monotonic()
    with pytest.raises(KafkaTimeoutError) as caught:
        producer.partitions_for(topic_name)
    assert time.monotonic() - before >= 0.199
    assert (caught.value.phase, caught.value.outcome) == ("metadata", "not_sent")


def test_partitions_for_when_the_topic_is_there_then_it_tells_them_by_index(topic: str, connect: Connect) -> None:
    found = connect().partitions_for(topic)
    assert [info.partition for info in found] == list(range(PARTITIONS))
    assert {info.topic for info in found} == {topic}
    for info in found:
        assert info.leader is not None
        assert info.leader in info.replicas
        assert info.leader.host == "127.0.0.1"


def test_dns_when_no_name_resolves_then_the_error_names_the_host() -> None:
    with KafkaProducer({"bootstrap.servers": UNRESOLVABLE, "max.block.ms": 500}) as producer:
        witness = Witness(producer, "orders")
        witness.send(0)
        check_metadata_timeout(witness, "no-such-host.invalid", "orders")


def test_dns_when_one_name_does_not_resolve_then_the_next_server_is_used(
        cluster: Cluster, topic: str, connect: Connect) -> None:
    producer = connect(bootstrap_servers=f"{UNRESOLVABLE},{cluster.bootstrap_servers}")
    assert producer.send(topic, b"v").result(GIVE_UP_S).offset == 0


def test_cluster_when_it_is_away_then_the_record_is_given_up_after_max_block_ms(
        topic: str, connect: Connect, proxy: FaultProxy) -> None:
    proxy.shut()
    producer = connect(through=proxy, max_block_ms=300)
    witness = Witness(producer, topic)
    before = time.monotonic()
    witness.send(0)
    check_metadata_timeout(witness, topic)
    assert time.monotonic() - before >= 0.299


def test_cluster_when_it_comes_back_in_time_then_records_from_before_and_during_are_stored(
        cluster: Cluster, topic: str, connect: Connect, proxy: FaultProxy) -> None:
    producer = connect(through=proxy)
    witness = Witness(producer, topic)
    witness.send(0)
    witness.await_all()
    proxy.shut()
    witness.send(range(1, 20))
    assert not witness.futures[19].done()
    proxy.heal()
    producer.flush(GIVE_UP_S)
    witness.check_log(cluster)
    assert sorted(witness.metadata) == list(range(20))
