"""delivery.timeout.ms: a record that cannot be delivered is decided, not before its time, whatever it went through."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from pyproducer import ErrorCode, KafkaProducer, KafkaTimeoutError
from tests.contract.clusters import Can, Cluster
from tests.contract.conftest import Connect
from tests.contract.witness import ROUNDING_S, Witness, await_memory_back, numbers_of
from tests.support.fault_proxy import FaultProxy
from tests.support.patience import GIVE_UP_S

DELIVERY_MS = 300
EXPIRY = {"delivery_timeout_ms": DELIVERY_MS, "request_timeout_ms": 120}


def check_expired(witness: Witness, number: int, *, is_quiet: bool = False, oldest: int | None = None,
                  outcomes: tuple[str, ...] = ("not_sent", "unknown")) -> None:
    """A record expired: at its time or later, and its future and callback say so.

    A batch ages from its first record on: `oldest` is the first record that may share this one's batch (itself where it
    is left out). An attempt may fail at the moment when the time is up; then its error is told, for there is no next
    attempt. With `is_quiet` no attempt can fail.
    """
    error = witness.error_of(number)
    age = witness.told_of(number).at - witness.sent_at[number if oldest is None else oldest]
    assert age >= DELIVERY_MS / 1000 - ROUNDING_S, f"record {number} was given up after {age} s: {error!r}"
    if is_quiet or (isinstance(error, KafkaTimeoutError) and error.phase != "request"):
        assert isinstance(error, KafkaTimeoutError), repr(error)
        assert error.phase == "delivery"
        assert error.outcome in outcomes
        assert "delivery.timeout.ms" in str(error)
    else:
        assert error.retriable


def know(producer: KafkaProducer, topic: str) -> None:
    """Have a topic known: on a loaded machine a third of a second may not be enough for that."""
    deadline = time.monotonic() + GIVE_UP_S
    while True:
        try:
            assert producer.partitions_for(topic)
            return
        except KafkaTimeoutError:
            assert time.monotonic() < deadline, "nobody tells the topic's partitions"


def silent(proxy: FaultProxy) -> None:
    proxy.on("Produce", times=None).swallow_request()


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
    before = witness.deliver_one()
    story(proxy)
    witness.send(before + 1)
    check_expired(witness, before + 1, is_quiet=story is gone)
    await_memory_back(producer)
    assert numbers_of(witness.check_log(cluster))[-1] == before


@pytest.mark.needs(Can.CHECK_SEQUENCES)
def test_record_when_it_is_stored_and_the_answers_vanish_then_it_expires_as_unknown(
        cluster: Cluster, topic: str, connect: Connect, proxy: FaultProxy) -> None:
    producer = connect(through=proxy, **EXPIRY)
    know(producer, topic)
    witness = Witness(producer, topic)
    number = expire_stored(witness, proxy)
    assert number in numbers_of(witness.check_log(cluster))


def test_records_when_they_wait_behind_another_then_each_expires_at_its_own_time(
        cluster: Cluster, topic: str, connect: Connect, proxy: FaultProxy) -> None:
    producer = connect(through=proxy, max_in_flight_requests_per_connection=1, batch_size=0, **EXPIRY)
    know(producer, topic)
    silent(proxy)
    witness = Witness(producer, topic)
    for number in range(4):
        witness.send(number)
        time.sleep(0.04)  # their ages differ
    for number in range(4):
        check_expired(witness, number)
    witness.await_all()
    assert witness.order == [0, 1, 2, 3]
    assert not cluster.log(topic)


@pytest.mark.parametrize("story", [silent, errors, gone], ids=lambda story: story.__name__)
def test_records_when_partitions_have_different_ages_then_each_expires_at_its_own_time(
        topic: str, connect: Connect, proxy: FaultProxy, story: Callable[[FaultProxy], None]) -> None:
    """A younger one does not go with the oldest. That it does not hide it either, to the millisecond, is shown by a
    clock that stands still meanwhile: unit/sender/test_expiry.py.
    """
    producer = connect(through=proxy, **EXPIRY)
    Witness(producer, topic).deliver_one()
    story(proxy)
    witness = Witness(producer, topic)
    for number, partition in enumerate((2, 0, 3, 1)):
        witness.send(number, partition=partition)
        time.sleep(0.05)  # their ages differ
    for number in range(4):
        check_expired(witness, number, is_quiet=story is gone)
    witness.await_all()


def test_record_when_the_one_before_expired_then_it_is_delivered_once(
        cluster: Cluster, topic: str, connect: Connect, proxy: FaultProxy) -> None:
    producer = connect(through=proxy, **EXPIRY)
    witness = Witness(producer, topic)
    before = witness.deliver_one()
    silent(proxy)
    lost = range(before + 1, before + 4)
    witness.send(lost)
    for number in lost:
        check_expired(witness, number, oldest=lost[0])
    proxy.heal()
    last = witness.deliver_one()
    numbers = numbers_of(witness.check_log(cluster))
    assert before in numbers
    assert numbers[-1] == last
    assert not set(lost) & set(numbers)


def expire_stored(witness: Witness, proxy: FaultProxy) -> int:
    """Send until a record that was stored expires, and return its number: on a slow machine one may expire before.

    Those before it are no free tries: each expired at its time, and none that comes later.
    """
    stored = proxy.on("Produce", times=None).swallow_answer()
    number = max(witness.futures, default=-1) + 1
    deadline = time.monotonic() + GIVE_UP_S
    while True:
        witness.send(number)
        witness.error_of(number)
        is_stored = bool(stored.count)
        check_expired(witness, number, outcomes=("unknown",) if is_stored else ("not_sent", "unknown"))
        if is_stored:
            return number
        number += 1
        assert time.monotonic() < deadline, "nothing comes to the cluster any more"


@pytest.mark.needs(Can.CHECK_SEQUENCES)
def test_records_when_the_one_before_expired_and_was_stored_then_they_are_delivered_once_and_in_order(
        cluster: Cluster, topic: str, connect: Connect, proxy: FaultProxy) -> None:
    producer = connect(through=proxy, **EXPIRY)
    witness = Witness(producer, topic)
    before = witness.deliver_one()
    stored = expire_stored(witness, proxy)
    proxy.heal()
    last = witness.deliver_one()
    numbers = numbers_of(witness.check_log(cluster))
    assert [number for number in numbers if number in (before, stored, last)] == [before, stored, last]
    assert numbers == sorted(numbers)


def test_record_when_linger_ends_late_then_its_age_counts_from_send(
        topic: str, connect: Connect, proxy: FaultProxy) -> None:
    producer = connect(through=proxy, linger_ms=150, **EXPIRY)
    know(producer, topic)
    silent(proxy)
    witness = Witness(producer, topic)
    witness.send(0)
    check_expired(witness, 0)
