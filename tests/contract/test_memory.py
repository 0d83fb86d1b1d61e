"""buffer.memory: whatever becomes of the records, every byte comes back."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pyproducer import ErrorCode, KafkaProducer, PartitionerError, RecordTooLargeError, SerializationError
from tests.contract.clusters import PARTITIONS, Can, Cluster
from tests.contract.conftest import Connect
from tests.contract.witness import Witness, await_known, await_memory_back, free_bytes
from tests.support.fault_proxy import FaultProxy
from tests.support.patience import GIVE_UP_S

MEMORY = 1_000_000


def test_memory_when_the_producer_is_new_then_all_of_it_is_free(connect: Connect) -> None:
    metrics = connect(buffer_memory=MEMORY).metrics()
    assert metrics["buffer-total-bytes"] == metrics["buffer-available-bytes"] == MEMORY


def test_memory_when_records_wait_then_they_hold_it_and_give_it_back(
        topic: str, connect: Connect, proxy: FaultProxy) -> None:
    producer = connect(through=proxy, buffer_memory=MEMORY)
    held = proxy.on("Produce", times=None).hold_request()
    witness = Witness(producer, topic)
    witness.send(range(10), padding=10_000)
    held.await_count()
    assert free_bytes(producer) <= MEMORY - 10 * 10_000
    held.release()
    producer.flush(GIVE_UP_S)
    await_memory_back(producer)
    assert free_bytes(producer) == MEMORY


# What may happen to records on their way; each with the same end.

def stored(producer: KafkaProducer, proxy: FaultProxy) -> None:
    pass


def retried(producer: KafkaProducer, proxy: FaultProxy) -> None:
    proxy.on("Produce", times=3).error(ErrorCode.NOT_LEADER_OR_FOLLOWER)


def cut(producer: KafkaProducer, proxy: FaultProxy) -> None:
    proxy.on("Produce", times=3).cut_before()


def refused(producer: KafkaProducer, proxy: FaultProxy) -> None:
    proxy.on("Produce", times=2).error(ErrorCode.INVALID_RECORD)


def split(producer: KafkaProducer, proxy: FaultProxy) -> None:
    proxy.on("Produce", times=2).error(ErrorCode.MESSAGE_TOO_LARGE)


def expired(producer: KafkaProducer, proxy: FaultProxy) -> None:
    proxy.on("Produce", times=None).swallow_request()


def expired_without_a_cluster(producer: KafkaProducer, proxy: FaultProxy) -> None:
    proxy.shut()


FATES = [stored, retried, cut, refused, split, expired, expired_without_a_cluster]


@pytest.mark.parametrize("fate", FATES, ids=lambda fate: fate.__name__)
@pytest.mark.parametrize("settings", [
    {}, {"batch_size": 0, "compression_type": "gzip", "enable_idempotence": False, "acks": "1"}],
    ids=["default", "everything else"])
def test_memory_when_records_are_decided_then_all_of_it_is_free(
        topic: str, connect: Connect, proxy: FaultProxy, fate: Callable[[KafkaProducer, FaultProxy], None],
        settings: dict[str, object]) -> None:
    """Memory that leaks by some bytes for each failed batch ends, after days, in a producer that accepts nothing."""
    producer = connect(through=proxy, linger_ms=20, delivery_timeout_ms=300, request_timeout_ms=100,
                       buffer_memory=MEMORY, **settings)
    producer.partitions_for(topic)
    fate(producer, proxy)
    witness = Witness(producer, topic)
    for number in range(40):
        witness.send(number, partition=number % PARTITIONS, padding=500)
    witness.send(40, padding=50_000)  # above batch.size
    witness.await_all()
    await_memory_back(producer)
    assert free_bytes(producer) == MEMORY


@pytest.mark.parametrize("timeout", [None, 0])
def test_memory_when_the_producer_is_closed_then_all_of_it_is_free(
        topic: str, connect: Connect, proxy: FaultProxy, timeout: float | None) -> None:
    producer = connect(through=proxy, buffer_memory=MEMORY, linger_ms=20_000)
    await_known(producer, topic)
    witness = Witness(producer, topic)
    witness.send(range(20), padding=1000)
    producer.close(timeout)
    witness.await_all()
    await_memory_back(producer)


def test_memory_when_send_refuses_a_record_then_none_is_taken(topic: str, connect: Connect) -> None:
    def serialize(topic: str, headers: object, data: object) -> object:
        if data == b"bad":
            raise ZeroDivisionError("in the serializer")
        return data

    def choose(topic: str, key: object, key_bytes: object, value: object, value_bytes: object, cluster: object) -> int:
        return -1 if value == b"nowhere" else 0

    producer = connect(value_serializer=serialize, partitioner_class=choose, max_request_size=100_000)
    producer.send(topic, b"good").result(GIVE_UP_S)
    await_memory_back(producer)
    free = free_bytes(producer)
    for value, error in ((b"bad", SerializationError), (b"nowhere", PartitionerError),
                         (b"x" * 200_000, RecordTooLargeError)):
        with pytest.raises(error):
            producer.send(topic, value)
        assert free_bytes(producer) == free


@pytest.mark.needs(Can.REFUSE_UNKNOWN_TOPICS)
def test_memory_when_the_topic_stays_unknown_then_it_comes_back(
        cluster: Cluster, topic_name: str, connect: Connect) -> None:
    producer = connect(max_block_ms=100)
    free = free_bytes(producer)
    assert producer.send(topic_name, b"v").exception(GIVE_UP_S) is not None
    await_memory_back(producer)
    assert free_bytes(producer) == free


def test_memory_when_callbacks_raise_then_all_of_it_is_free(topic: str, connect: Connect, proxy: FaultProxy) -> None:
    producer = connect(through=proxy, linger_ms=20)
    proxy.on("Produce").error(ErrorCode.INVALID_RECORD)

    def fail(*told: object) -> None:
        raise ZeroDivisionError("in a callback")

    for _ in range(2):
        futures = [producer.send(topic, b"v" * 100, on_completion=fail) for _ in range(20)]
        for future in futures:
            Witness.await_decided(future)
        await_memory_back(producer)
