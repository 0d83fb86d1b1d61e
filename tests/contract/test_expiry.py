"""delivery.timeout.ms: a record that cannot be delivered is decided, not before its time, whatever it went through."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from pyproducer import ErrorCode, KafkaTimeoutError
from tests.contract.clusters import Can, Cluster
from tests.contract.conftest import Connect
from tests.contract.witness import Witness, await_memory_back, numbers_of
from tests.support.fault_proxy import FaultProxy

DELIVERY_MS = 300
EXPIRY = {"delivery_timeout_ms": DELIVERY_MS, "request_timeout_ms": 120}
ROUNDING_S = 0.002  # times are kept in whole milliseconds


def check_expired(witness: Witness, number: int, *, is_quiet: bool = False,
                  outcomes: tuple[str, ...] = ("not_sent", "unknown")) -> None:
    """A record expired: at its time or later, and its future and callback say so.

    An attempt may fail at the moment when the time is up; then its error is told, for there is no next attempt. With
    `is_quiet` no attempt can fail.
    """
    error = witness.error_of(number)
    age = witness.told_of(number).at - witness.sent_at[number]
    assert age >= DELIVERY_MS / 1000 - ROUNDING_S, f"record {number} was given up after {age} s: {error!r}"
    if is_quiet or (isinstance(error, KafkaTimeoutError) and error.phase != "request"):
        assert isinstance(error, KafkaTimeoutError), repr(error)
        assert error.phase == "delivery"
        assert error.outcome in outcomes
        assert "delivery.timeout.ms" in str(error)
    else:
        assert error.retriable


def silent(proxy: FaultProxy) -> None:
    proxy.on("Produce", times=None).swallow_request()


def stores_and_is_silent(proxy: FaultProxy) -> None:
    proxy.on("Produce", times=None).swallow_answer()


def error_then_silent(proxy: FaultProxy) -> None:
    proxy.on("Produce").error(ErrorCode.NOT_ENOUGH_REPLICAS)
    silent(proxy)


def errors(proxy: FaultProxy) -> None:
    proxy.on("Produce", times=None).error(ErrorCode.NOT_LEADER_OR_FOLLOWER)


def cut(proxy: FaultProxy) -> None:
    proxy.on("Produce", times=None).cut_before()


def gone(proxy: FaultProxy) -> None:
    proxy.shut()


def error_then_gone(proxy: FaultProxy) -> None:
    """The batch that was queued again has nobody to go to: nothing happens any more that would wake anybody."""
    proxy.on("Produce").error(ErrorCode.NOT_ENOUGH_REPLICAS)
    proxy.on("Produce", times=None).cut_before()
    proxy.on("Metadata", times=None).swallow_request()


@pytest.mark.parametrize("story", [silent, error_then_silent, errors, cut, gone, error_then_gone],
                         ids=lambda story: story.__name__)
@pytest.mark.parametrize("is_idempotent", [True, False], ids=["idempotent", "plain"])
def test_record_when_it_cannot_be_delivered_then_it_expires_and_is_not_in_the_log(
        cluster: Cluster, topic: str, connect: Connect, proxy: FaultProxy, story: Callable[[FaultProxy], None],
        is_idempotent: bool) -> None:
    producer = connect(through=proxy, enable_idempotence=is_idempotent, **EXPIRY)
    witness = Witness(producer, topic)
    witness.send(0)
    witness.await_all()
    story(proxy)
    witness.send(1)
    check_expired(witness, 1, is_quiet=story is gone)
    await_memory_back(producer)
    assert numbers_of(cluster.log(topic)) == [0]
    witness.check_log(cluster)


@pytest.mark.needs(Can.CHECK_SEQUENCES)
def test_record_when_it_is_stored_and_the_answers_vanish_then_it_expires_as_unknown(
        cluster: Cluster, topic: str, connect: Connect, proxy: FaultProxy) -> None:
    producer = connect(through=proxy, **EXPIRY)
    stores_and_is_silent(proxy)
    witness = Witness(producer, topic)
    witness.send(0)
    check_expired(witness, 0, outcomes=("unknown",))
    assert numbers_of(cluster.log(topic)) == [0]


def test_records_when_they_wait_behind_another_then_each_expires_at_its_own_time(
        cluster: Cluster, topic: str, connect: Connect, proxy: FaultProxy) -> None:
    producer = connect(through=proxy, max_in_flight_requests_per_connection=1, batch_size=0, **EXPIRY)
    silent(proxy)
    witness = Witness(producer, topic)
    for number in range(4):
        witness.send(number)
        time.sleep(0.04)  # their ages differ
    for number in range(4):
        check_expired(witness, number, is_quiet=number > 0)
    witness.await_all()
    assert witness.order == [0, 1, 2, 3]
    assert not cluster.log(topic)


@pytest.mark.parametrize("story", [silent, errors, gone], ids=lambda story: story.__name__)
def test_records_when_partitions_have_different_ages_then_each_expires_at_its_own_time(
        topic: str, connect: Connect, proxy: FaultProxy, story: Callable[[FaultProxy], None]) -> None:
    """The oldest batch of any partition says when to look again; a younger one must neither hide it nor go with it."""
    producer = connect(through=proxy, **EXPIRY)
    producer.send(topic, b"first").result(60)
    story(proxy)
    witness = Witness(producer, topic)
    for number, partition in enumerate((2, 0, 3, 1)):
        witness.send(number, partition=partition)
        time.sleep(0.05)  # their ages differ
    for number in range(4):
        check_expired(witness, number, is_quiet=story is gone)
    witness.await_all()
    assert witness.order == [0, 1, 2, 3]


def test_record_when_the_one_before_expired_then_it_is_delivered_once(
        cluster: Cluster, topic: str, connect: Connect, proxy: FaultProxy) -> None:
    producer = connect(through=proxy, **EXPIRY)
    witness = Witness(producer, topic)
    witness.send(0)
    witness.await_all()
    silent(proxy)
    witness.send(range(1, 4))
    for number in range(1, 4):
        check_expired(witness, number)
    proxy.heal()
    last = deliver_one(witness)
    numbers = numbers_of(witness.check_log(cluster))
    assert (numbers[0], numbers[-1]) == (0, last)
    assert not {1, 2, 3} & set(numbers)


def deliver_one(witness: Witness) -> int:
    """Send until a record is delivered: on a slow machine a third of a second may not be enough for the first."""
    number = 100
    while True:
        witness.send(number)
        witness.await_all()
        if number in witness.metadata:
            return number
        number += 1
        assert number < 150, "nothing is delivered any more"


@pytest.mark.needs(Can.CHECK_SEQUENCES)
def test_records_when_the_one_before_expired_and_was_stored_then_they_are_delivered_once_and_in_order(
        cluster: Cluster, topic: str, connect: Connect, proxy: FaultProxy) -> None:
    producer = connect(through=proxy, **EXPIRY)
    witness = Witness(producer, topic)
    witness.send(0)
    witness.await_all()
    stores_and_is_silent(proxy)
    witness.send(1)
    check_expired(witness, 1, outcomes=("unknown",))
    proxy.heal()
    last = deliver_one(witness)
    numbers = numbers_of(witness.check_log(cluster))
    assert (numbers[0], numbers[1], numbers[-1]) == (0, 1, last)


def test_record_when_linger_ends_late_then_its_age_counts_from_send(
        topic: str, connect: Connect, proxy: FaultProxy) -> None:
    producer = connect(through=proxy, linger_ms=150, **EXPIRY)
    silent(proxy)
    witness = Witness(producer, topic)
    witness.send(0)
    check_expired(witness, 0)
