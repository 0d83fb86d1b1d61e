"""What is tried again and what is not; with idempotence each record is in the log once, whatever got lost."""

from __future__ import annotations

from typing import Any

import pytest

from pyproducer import (
    ApiError,
    AuthorizationError,
    ErrorCode,
    KafkaTimeoutError,
    RecordRejectedError,
    RecordTooLargeError,
    TransportError,
)
from tests.contract.clusters import Can, Cluster
from tests.contract.conftest import Connect
from tests.contract.witness import Witness, await_known, await_memory_back, numbers_of
from tests.support.fault_proxy import Fault, FaultProxy
from tests.support.patience import GIVE_UP_S

RETRIABLE = [
    ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.NETWORK_EXCEPTION]
REFUSALS = {
    ErrorCode.INVALID_RECORD: RecordRejectedError,
    ErrorCode.MESSAGE_TOO_LARGE: RecordTooLargeError,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: AuthorizationError,
    ErrorCode.INVALID_TIMESTAMP: ApiError,
}


def patience(how: str) -> dict[str, Any]:
    """A short time for the answer, where the test waits until it is over, and nowhere else."""
    return {"request_timeout_ms": 300} if how == "swallowed" else {}


def check_attempts(how: str, fault: Fault, proxy: FaultProxy) -> None:
    """Two attempts failed and the third did not; on a slow machine the patience may not be enough for that one."""
    attempts = len(proxy.requests("Produce"))
    if how == "swallowed":
        assert attempts >= 3
    else:
        assert fault.count == 2
        assert attempts == 3


@pytest.mark.needs(Can.CHECK_SEQUENCES)
@pytest.mark.parametrize("how", ["cut", "swallowed", "error"])
def test_answer_when_it_is_lost_then_the_batch_is_sent_again_and_stored_once(
        cluster: Cluster, topic: str, connect: Connect, proxy: FaultProxy, how: str) -> None:
    producer = connect(through=proxy, linger_ms=10_000, **patience(how))
    await_known(producer, topic)
    fault = proxy.on("Produce", times=2)
    {"cut": fault.cut_after, "swallowed": fault.swallow_answer,
     "error": lambda: fault.error_after(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)}[how]()
    witness = Witness(producer, topic)
    witness.send(range(5))
    producer.flush(GIVE_UP_S)
    check_attempts(how, fault, proxy)
    assert numbers_of(cluster.log(topic)) == [0, 1, 2, 3, 4]
    witness.check_log(cluster)
    assert sorted(witness.metadata) == [0, 1, 2, 3, 4]
    await_memory_back(producer)


@pytest.mark.parametrize("how", ["cut", "swallowed"])
@pytest.mark.parametrize("is_idempotent", [True, False])
def test_request_when_it_is_lost_then_it_is_sent_again(
        cluster: Cluster, topic: str, connect: Connect, proxy: FaultProxy, how: str, is_idempotent: bool) -> None:
    producer = connect(through=proxy, enable_idempotence=is_idempotent, linger_ms=10_000, **patience(how))
    await_known(producer, topic)
    fault = proxy.on("Produce", times=2)
    (fault.cut_before if how == "cut" else fault.swallow_request)()
    witness = Witness(producer, topic)
    witness.send(range(5))
    producer.flush(GIVE_UP_S)
    check_attempts(how, fault, proxy)
    assert sorted(witness.metadata) == [0, 1, 2, 3, 4]
    if is_idempotent or len(proxy.requests("Produce")) == 3:  # else an answer that came late made them be stored twice
        witness.check_log(cluster)


def test_answer_when_it_is_lost_without_idempotence_then_the_records_are_stored_twice(
        cluster: Cluster, topic: str, connect: Connect, proxy: FaultProxy) -> None:
    """What idempotence is for; and a proof that the fault does what the tests above rely on."""
    producer = connect(through=proxy, enable_idempotence=False)
    proxy.on("Produce").cut_after()
    assert producer.send(topic, b"0", partition=0).result(GIVE_UP_S).offset == 1
    assert numbers_of(cluster.log(topic)) == [0, 0]


@pytest.mark.parametrize("code", RETRIABLE, ids=lambda code: code.name)
def test_error_when_it_is_retriable_then_the_batch_is_sent_again(
        cluster: Cluster, topic: str, connect: Connect, proxy: FaultProxy, code: ErrorCode) -> None:
    producer = connect(through=proxy, linger_ms=10_000)
    await_known(producer, topic)
    fault = proxy.on("Produce", times=2).error(code)
    witness = Witness(producer, topic)
    witness.send(range(3))
    producer.flush(GIVE_UP_S)
    assert fault.count == 2
    assert len(proxy.requests("Produce")) == 3
    assert sorted(witness.metadata) == [0, 1, 2]
    witness.check_log(cluster)


@pytest.mark.parametrize("code", REFUSALS, ids=lambda code: code.name)
@pytest.mark.parametrize("is_idempotent", [True, False])
def test_error_when_it_is_final_then_the_batch_fails_at_once_and_the_next_is_stored(
        cluster: Cluster, topic: str, connect: Connect, proxy: FaultProxy, code: ErrorCode,
        is_idempotent: bool) -> None:
    producer = connect(through=proxy, enable_idempotence=is_idempotent)
    witness = Witness(producer, topic)
    witness.send(0)
    witness.await_all()
    fault = proxy.on("Produce").error(code)
    witness.send(1)
    error = witness.error_of(1)
    assert isinstance(error, REFUSALS[code])
    assert error.code == code
    assert error.retriable is False
    assert error.outcome == "rejected"
    assert fault.count == 1
    assert len(proxy.requests("Produce")) == 2
    for number in (2, 3):
        witness.send(number)
        witness.await_all()
    assert sorted(witness.metadata) == [0, 2, 3]
    witness.check_log(cluster)
    await_memory_back(producer)


@pytest.mark.parametrize("retries", [0, 2])
def test_retries_when_they_are_used_up_then_the_error_of_the_last_attempt_is_told(
        cluster: Cluster, topic: str, connect: Connect, proxy: FaultProxy, retries: int) -> None:
    producer = connect(through=proxy, enable_idempotence=False, retries=retries)
    fault = proxy.on("Produce", times=None).error(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    witness = Witness(producer, topic)
    witness.send(0)
    error = witness.error_of(0)
    assert isinstance(error, ApiError)
    assert error.code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert error.retriable is True
    assert fault.count == retries + 1
    witness.check_log(cluster)
    assert not cluster.log(topic)


@pytest.mark.parametrize("is_stored", [False, True], ids=["request lost", "answer lost"])
@pytest.mark.parametrize("how", ["cut", "swallowed"])
def test_retries_when_there_are_none_and_the_connection_fails_then_the_outcome_fits_the_log(
        cluster: Cluster, topic: str, connect: Connect, proxy: FaultProxy, how: str, is_stored: bool) -> None:
    producer = connect(through=proxy, enable_idempotence=False, retries=0, **patience(how))
    fault = proxy.on("Produce")
    {("cut", False): fault.cut_before, ("cut", True): fault.cut_after,
     ("swallowed", False): fault.swallow_request, ("swallowed", True): fault.swallow_answer}[how, is_stored]()
    witness = Witness(producer, topic)
    witness.send(0)
    error = witness.error_of(0)
    if how == "swallowed":
        assert isinstance(error, KafkaTimeoutError)
        assert error.phase == "request"
    else:
        assert isinstance(error, TransportError)
    assert error.retriable is True
    assert error.outcome == "unknown"  # from here, both look the same
    cluster.await_log(topic, int(is_stored))
    assert len(cluster.log(topic)) == is_stored
    witness.send(1)
    witness.await_all()
    witness.check_log(cluster)
    await_memory_back(producer)


def test_batch_when_it_is_found_too_large_then_its_records_are_sent_in_smaller_ones(
        cluster: Cluster, topic: str, connect: Connect, proxy: FaultProxy) -> None:
    producer = connect(through=proxy, linger_ms=10_000, batch_size=100_000)
    await_known(producer, topic)
    proxy.on("Produce").error(ErrorCode.MESSAGE_TOO_LARGE)
    witness = Witness(producer, topic)
    witness.send(range(40), padding=1000)
    producer.flush(GIVE_UP_S)
    assert sorted(witness.metadata) == list(range(40))
    assert witness.order == list(range(40))
    assert numbers_of(cluster.log(topic)) == list(range(40))
    witness.check_log(cluster)
    await_memory_back(producer)
