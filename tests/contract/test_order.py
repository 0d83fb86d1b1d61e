"""Order: of a partition, of a key, over retries; and from many threads, each in its own order."""

from __future__ import annotations

import threading

import pytest

from pyproducer import ErrorCode
from tests.contract.clusters import PARTITIONS, Can, Cluster
from tests.contract.conftest import Connect
from tests.contract.witness import Witness, await_memory_back, number_of, numbers_of
from tests.support.fault_proxy import Fault, FaultProxy
from tests.support.patience import GIVE_UP_S

COUNT = 60


def fail_now_and_then(proxy: FaultProxy, how: str) -> list[Fault]:
    faults = []
    for _ in range(5):
        proxy.on("Produce", times=2).pass_on()
        fault = proxy.on("Produce", times=2)
        faults.append({"error": lambda fault=fault: fault.error(ErrorCode.NOT_ENOUGH_REPLICAS),
                       "cut before": fault.cut_before, "cut after": fault.cut_after,
                       "error after": lambda fault=fault: fault.error_after(ErrorCode.REQUEST_TIMED_OUT)}[how]())
    return faults


@pytest.mark.parametrize("how", ["error", "cut before"])
def test_order_when_one_is_in_flight_without_idempotence_then_retries_keep_it(
        cluster: Cluster, topic: str, connect: Connect, proxy: FaultProxy, how: str) -> None:
    """While a batch waits for its next attempt, the one behind it must not pass: the partition is muted."""
    producer = connect(through=proxy, enable_idempotence=False, max_in_flight_requests_per_connection=1, batch_size=0,
                       retry_backoff_ms=50, retry_backoff_max_ms=50)
    faults = fail_now_and_then(proxy, how)
    witness = Witness(producer, topic)
    witness.send(range(COUNT))
    witness.await_all()
    assert sum(fault.count for fault in faults) >= 5, "the story has hardly happened"
    assert witness.order == list(range(COUNT))
    assert numbers_of(cluster.log(topic)) == list(range(COUNT))
    witness.check_log(cluster)
    await_memory_back(producer)


def test_order_when_one_is_in_flight_and_answers_are_lost_then_only_repeats_of_the_last_are_stored(
        cluster: Cluster, topic: str, connect: Connect, proxy: FaultProxy) -> None:
    producer = connect(through=proxy, enable_idempotence=False, max_in_flight_requests_per_connection=1, batch_size=0)
    faults = fail_now_and_then(proxy, "cut after")
    witness = Witness(producer, topic)
    witness.send(range(COUNT))
    witness.await_all()
    assert sum(fault.count for fault in faults) >= 5, "the story has hardly happened"
    numbers = numbers_of(cluster.log(topic))
    assert numbers == sorted(numbers)
    assert sorted(set(numbers)) == list(range(COUNT))
    assert len(numbers) > COUNT, "the story has not happened"


@pytest.mark.needs(Can.CHECK_SEQUENCES)
@pytest.mark.parametrize("how", ["error", "cut before", "cut after", "error after"])
def test_order_when_five_are_in_flight_then_retries_keep_it(
        cluster: Cluster, topic: str, connect: Connect, proxy: FaultProxy, how: str) -> None:
    producer = connect(through=proxy, batch_size=0)
    producer.partitions_for(topic)
    # The first waits until five are on the wire: what happens to it, happens in front of four others.
    held = proxy.on("Produce").hold_request().error(ErrorCode.NOT_ENOUGH_REPLICAS)
    faults = fail_now_and_then(proxy, how)
    witness = Witness(producer, topic)
    for number in range(COUNT):
        witness.send(number, partition=number % 2)
    held.await_count()
    held.release()
    witness.await_all()
    assert sum(fault.count for fault in faults) >= 5, "the story has hardly happened"
    assert sorted(witness.metadata) == list(range(COUNT))
    log = witness.check_log(cluster)
    for partition in (0, 1):
        numbers = list(range(partition, COUNT, 2))
        assert [number_of(record) for record in log if record.partition == partition] == numbers
        if how != "error after":  # a batch that is stored and asked for again is told after the one behind it
            assert [number for number in witness.order if number % 2 == partition] == numbers
    await_memory_back(producer)


def test_order_when_keys_choose_the_partition_then_each_key_is_in_order(
        cluster: Cluster, topic: str, connect: Connect) -> None:
    producer = connect(batch_size=200)
    futures = [producer.send(topic, b"%d" % number, key=b"key-%d" % (number % 7)) for number in range(350)]
    producer.flush(GIVE_UP_S)
    assert all(future.exception(0) is None for future in futures)
    by_key: dict[bytes | None, list[int]] = {}
    for record in cluster.log(topic):
        by_key.setdefault(record.key, []).append(number_of(record))
    assert by_key == {b"key-%d" % key: list(range(key, 350, 7)) for key in range(7)}


@pytest.mark.parametrize("linger_ms", [0, 5])
def test_order_when_many_threads_send_then_each_has_its_own_and_nothing_is_lost(
        cluster: Cluster, topic: str, connect: Connect, linger_ms: int) -> None:
    producer = connect(linger_ms=linger_ms, batch_size=1000)
    witness = Witness(producer, topic)
    threads = [threading.Thread(target=lambda first=first: [
        witness.send(number, partition=number % PARTITIONS) for number in range(first, first + 200)])
        for first in range(0, 1200, 200)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(GIVE_UP_S)
    producer.flush(GIVE_UP_S)
    log = witness.check_log(cluster)
    assert sorted(witness.metadata) == list(range(1200))
    for first in range(0, 1200, 200):
        for partition in range(PARTITIONS):
            numbers = [number_of(record) for record in log
                       if record.partition == partition and first <= number_of(record) < first + 200]
            assert numbers == sorted(numbers)
