"""`outcome` of every failed record, compared with the log: what is said not to be there is not there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from pyproducer import ErrorCode
from tests.contract.clusters import PARTITIONS, Can, Cluster
from tests.contract.conftest import Connect
from tests.contract.witness import Witness, await_memory_back, longer_and_longer, numbers_of, wait_until
from tests.support.fault_proxy import FaultProxy

COUNT = 60
NO_RETRIES: dict[str, Any] = {"enable_idempotence": False, "retries": 0}
SHORT: dict[str, Any] = {"delivery_timeout_ms": 400, "request_timeout_ms": 150}


class Story(NamedTuple):
    """What goes wrong while records are sent in many small batches."""

    script: Callable[[FaultProxy], object]
    settings: dict[str, Any]


def nothing(proxy: FaultProxy) -> None:
    pass


def refused_now_and_then(proxy: FaultProxy) -> None:
    for _ in range(6):
        proxy.on("Produce", times=2).pass_on()
        proxy.on("Produce").error(ErrorCode.INVALID_RECORD)


def cut_now_and_then(proxy: FaultProxy) -> None:
    for _ in range(4):
        proxy.on("Produce", times=2).pass_on()
        proxy.on("Produce").cut_before()
        proxy.on("Produce", times=2).pass_on()
        proxy.on("Produce").cut_after()


def stored_and_called_an_error(proxy: FaultProxy) -> None:
    for code in (ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, ErrorCode.REQUEST_TIMED_OUT):
        for _ in range(2):
            proxy.on("Produce", times=2).pass_on()
            proxy.on("Produce").error_after(code)


def answers_vanish(proxy: FaultProxy) -> None:
    proxy.on("Produce", times=3).pass_on()
    proxy.on("Produce", times=None).swallow_answer()


def requests_vanish(proxy: FaultProxy) -> None:
    proxy.on("Produce", times=3).pass_on()
    proxy.on("Produce", times=None).swallow_request()


def cut_and_then_silence(proxy: FaultProxy) -> None:
    proxy.on("Produce", times=3).pass_on()
    proxy.on("Produce", times=2).cut_after()
    proxy.on("Produce", times=None).swallow_request()


STORIES = {
    "nothing": Story(nothing, {}),
    "refused": Story(refused_now_and_then, {}),
    "refused, not idempotent": Story(refused_now_and_then, {"enable_idempotence": False}),
    "cut, no retries": Story(cut_now_and_then, NO_RETRIES),
    "error after append, no retries": Story(stored_and_called_an_error, NO_RETRIES),
    "answers vanish": Story(answers_vanish, SHORT),
    "requests vanish": Story(requests_vanish, SHORT),
    "answers cut, then silence": Story(cut_and_then_silence, SHORT),
    "answers vanish, one in flight": Story(answers_vanish, {**SHORT, "max_in_flight_requests_per_connection": 1}),
    "answers vanish, no retries": Story(answers_vanish, {**NO_RETRIES, **SHORT}),
}
# Where idempotence has to sort out what was stored already, the cluster must look at sequence numbers.
NEED_SEQUENCES = {"answers vanish", "answers cut, then silence", "answers vanish, one in flight"}


def check_story(cluster: Cluster, topic: str, connect: Connect, proxy: FaultProxy, story: Story) -> Witness:
    producer = connect(through=proxy, batch_size=0, **story.settings)
    producer.partitions_for(topic)
    story.script(proxy)
    witness = Witness(producer, topic)
    for number in range(COUNT):
        witness.send(number, partition=number % PARTITIONS)
    witness.await_all()
    proxy.heal()
    await_memory_back(producer)
    witness.check_log(cluster)
    return witness


@pytest.mark.parametrize("name", [name for name in STORIES if name not in NEED_SEQUENCES])
def test_outcomes_when_things_go_wrong_then_they_fit_the_log(
        cluster: Cluster, topic: str, connect: Connect, proxy: FaultProxy, name: str) -> None:
    witness = check_story(cluster, topic, connect, proxy, STORIES[name])
    assert bool(witness.errors) == (name != "nothing"), "the story has not happened"


@pytest.mark.needs(Can.CHECK_SEQUENCES)
@pytest.mark.parametrize("name", sorted(NEED_SEQUENCES))
def test_outcomes_when_answers_get_lost_then_they_fit_the_log(
        cluster: Cluster, topic: str, connect: Connect, proxy: FaultProxy, name: str) -> None:
    witness = check_story(cluster, topic, connect, proxy, STORIES[name])
    assert witness.errors, "the story has not happened"


def test_outcome_when_a_stored_record_expires_then_it_is_unknown(
        cluster: Cluster, topic: str, connect: Connect, proxy: FaultProxy) -> None:
    """A record that is in the log, and is said not to be, is sent again by its owner."""
    witness = Witness(connect(through=proxy), topic)
    for number, delivery_ms in enumerate(longer_and_longer(400)):  # it may expire before it comes to the cluster
        witness.change(connect(through=proxy, **{**SHORT, "delivery_timeout_ms": delivery_ms}))
        stored = proxy.on("Produce").swallow_answer()
        proxy.on("Produce", times=None).swallow_request()
        witness.send(number)
        error = witness.error_of(number)
        if stored.count:
            break
        witness.check_age(number, delivery_ms)
        proxy.heal()
    assert error.outcome == "unknown"
    assert number in numbers_of(witness.check_log(cluster))


def test_outcome_when_a_stored_record_is_retried_and_then_the_cluster_is_gone_then_it_is_unknown(
        cluster: Cluster, topic: str, connect: Connect, proxy: FaultProxy) -> None:
    """The batch waits for its next attempt when it expires, so it is not on the wire, and is in the log."""
    # A wait so long that the record is not sent again before it expires.
    witness = Witness(connect(through=proxy), topic)
    for number, delivery_ms in enumerate(longer_and_longer(400)):  # it may expire before it comes to the cluster
        witness.change(connect(through=proxy, retry_backoff_ms=5 * delivery_ms, retry_backoff_max_ms=5 * delivery_ms,
                               **{**SHORT, "delivery_timeout_ms": delivery_ms}))
        stored = proxy.on("Produce").hold_answer().cut_after()
        witness.send(number)
        wait_until(lambda stored=stored, number=number: stored.count or witness.futures[number].done(),
                   "the record is stored")
        if stored.count:
            break
        witness.check_age(number, delivery_ms)
        proxy.heal()
    proxy.shut()
    assert witness.error_of(number).outcome == "unknown"
    assert number in numbers_of(witness.check_log(cluster))


def test_outcome_when_records_were_never_sent_then_it_is_not_sent(
        cluster: Cluster, topic: str, connect: Connect, proxy: FaultProxy) -> None:
    producer = connect(through=proxy, **SHORT)
    witness = Witness(producer, topic)
    first = witness.deliver_one() + 1
    proxy.shut()
    witness.send(first)  # may be written to the connection before its end is seen
    assert witness.error_of(first).outcome in ("not_sent", "unknown")
    never_sent = range(first + 1, first + 5)
    witness.send(never_sent)
    assert [witness.error_of(number).outcome for number in never_sent] == ["not_sent"] * 4
    witness.check_log(cluster)
