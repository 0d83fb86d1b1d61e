"""flush(): everything accepted before is done when it returns, callbacks included; in vain it loses nothing."""

from __future__ import annotations

import threading
import time

import pytest

from pyproducer import ErrorCode, KafkaTimeoutError
from tests.contract.clusters import PARTITIONS, Cluster
from tests.contract.conftest import Connect
from tests.contract.witness import Witness, await_known
from tests.support.fault_proxy import FaultProxy
from tests.support.patience import GIVE_UP_S


def test_flush_when_it_returns_then_everything_before_is_stored_and_told(
        cluster: Cluster, topic: str, connect: Connect) -> None:
    producer = connect(linger_ms=20_000)  # nothing but the flush ends the wait
    await_known(producer, topic)
    witness = Witness(producer, topic)
    for number in range(200):
        witness.send(number, partition=number % PARTITIONS)
    producer.flush(GIVE_UP_S)
    assert [future.done() for future in witness.futures.values()] == [True] * 200
    assert sorted(witness.order) == list(range(200))
    witness.check_log(cluster)


def test_flush_when_nothing_waits_then_it_returns(connect: Connect, topic: str) -> None:
    producer = connect()
    producer.flush()
    producer.flush(0)
    producer.send(topic, b"v").result(GIVE_UP_S)
    producer.flush()


def test_flush_when_records_fail_then_it_returns_and_their_futures_tell(
        topic: str, connect: Connect, proxy: FaultProxy) -> None:
    producer = connect(through=proxy, linger_ms=20_000)
    await_known(producer, topic)
    proxy.on("Produce").error(ErrorCode.INVALID_RECORD)
    witness = Witness(producer, topic)
    witness.send(range(3))
    producer.flush(GIVE_UP_S)
    assert sorted(witness.errors) == [0, 1, 2]


def test_flush_when_a_record_is_retried_then_it_waits_for_the_end_of_it(
        cluster: Cluster, topic: str, connect: Connect, proxy: FaultProxy) -> None:
    producer = connect(through=proxy)
    faults = proxy.on("Produce", times=4).error(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    witness = Witness(producer, topic)
    witness.send(range(3))
    producer.flush(GIVE_UP_S)
    assert faults.count == 4
    assert sorted(witness.metadata) == [0, 1, 2]
    witness.check_log(cluster)


def test_flush_when_its_timeout_passes_then_it_says_so_and_loses_nothing(
        cluster: Cluster, topic: str, connect: Connect, proxy: FaultProxy) -> None:
    producer = connect(through=proxy, linger_ms=20_000)
    await_known(producer, topic)
    held = proxy.on("Produce", times=None).hold_request()
    witness = Witness(producer, topic)
    witness.send(range(10))
    before = time.monotonic()
    with pytest.raises(KafkaTimeoutError) as caught:
        producer.flush(0.2)
    assert time.monotonic() - before >= 0.199
    assert caught.value.phase == "flush"
    assert caught.value.outcome == "unknown"
    assert not witness.told
    held.release()
    producer.flush(GIVE_UP_S)
    assert sorted(witness.metadata) == list(range(10))
    witness.check_log(cluster)


def test_flush_when_its_timeout_is_below_that_of_the_delivery_then_it_ends_first(
        topic: str, connect: Connect, proxy: FaultProxy) -> None:
    """How long it waits, to the millisecond, is shown by a clock of its own: unit/producer/test_kafka_producer.py."""
    producer = connect(through=proxy, delivery_timeout_ms=3_600_000, request_timeout_ms=3_600_000)
    proxy.on("Produce", times=None).swallow_request()
    future = producer.send(topic, b"v")
    with pytest.raises(KafkaTimeoutError) as caught:
        producer.flush(0.2)
    assert caught.value.phase == "flush"
    assert not future.done()


def test_flush_when_called_by_several_threads_then_each_waits_for_all(
        topic: str, connect: Connect, proxy: FaultProxy) -> None:
    producer = connect(through=proxy, linger_ms=20_000)
    await_known(producer, topic)
    held = proxy.on("Produce", times=None).hold_answer()
    witness = Witness(producer, topic)
    witness.send(range(5))
    done_counts: list[int] = []

    def flush() -> None:
        producer.flush(GIVE_UP_S)
        done_counts.append(len(witness.told))

    threads = [threading.Thread(target=flush) for _ in range(4)]
    for thread in threads:
        thread.start()
    held.await_count()
    assert not done_counts
    held.release()
    for thread in threads:
        thread.join(GIVE_UP_S)
    assert done_counts == [5] * 4


def test_flush_when_it_is_over_then_linger_holds_again(topic: str, connect: Connect, proxy: FaultProxy) -> None:
    producer = connect(through=proxy, linger_ms=20_000)
    await_known(producer, topic)
    producer.send(topic, b"v", partition=0)
    producer.flush(GIVE_UP_S)
    futures = [producer.send(topic, b"v", partition=0) for _ in range(50)]
    producer.flush(GIVE_UP_S)
    assert [future.result(0).offset for future in futures] == list(range(1, 51))
    assert len(proxy.requests("Produce")) == 2
