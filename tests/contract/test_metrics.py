"""Totals under Java's names, against what was counted from outside."""

from __future__ import annotations

import pytest

from pyproducer import ErrorCode, KafkaProducer, ProducerClosedError, RecordTooLargeError, SerializationError
from tests.contract.conftest import Connect
from tests.contract.witness import Witness, await_known, wait_until
from tests.support.fault_proxy import FaultProxy
from tests.support.patience import GIVE_UP_S

NAMES = ("record-send-total", "record-error-total", "record-retry-total")


def totals(producer: KafkaProducer) -> tuple[float, ...]:
    """Records sent, failed, retried."""
    metrics = producer.metrics()
    return tuple(metrics[name] for name in NAMES)


def check_totals(producer: KafkaProducer, *expected: float) -> None:
    """Compare, leaving the producer's thread the time to count."""
    wait_until(lambda: totals(producer) == expected, lambda: f"{NAMES} are {expected}; they are {totals(producer)}")


def test_totals_when_all_is_well_then_only_sent_records_are_counted(topic: str, connect: Connect) -> None:
    producer = connect()
    assert totals(producer) == (0, 0, 0)
    witness = Witness(producer, topic)
    witness.send(range(25))
    witness.await_all()
    check_totals(producer, 25, 0, 0)


def test_totals_when_batches_are_refused_then_each_record_counts_as_an_error(
        topic: str, connect: Connect, proxy: FaultProxy) -> None:
    producer = connect(through=proxy, linger_ms=20_000)
    await_known(producer, topic)
    proxy.on("Produce").error(ErrorCode.INVALID_RECORD)
    witness = Witness(producer, topic)
    witness.send(range(7))
    producer.flush(GIVE_UP_S)
    assert len(witness.errors) == 7
    wait_until(lambda: totals(producer)[1:] == (7, 0), "errors are counted")
    witness.send(range(10, 13))
    producer.flush(GIVE_UP_S)
    assert sorted(witness.metadata) == [10, 11, 12]
    wait_until(lambda: totals(producer)[1:] == (7, 0), "errors are counted")


@pytest.mark.parametrize("how", ["error", "cut", "swallowed"])
def test_totals_when_a_batch_is_retried_then_each_record_of_each_attempt_counts(
        topic: str, connect: Connect, proxy: FaultProxy, how: str) -> None:
    producer = connect(through=proxy, linger_ms=20_000, **({"request_timeout_ms": 300} if how == "swallowed" else {}))
    producer.partitions_for(topic)
    fault = proxy.on("Produce", times=2)
    {"error": lambda: fault.error(ErrorCode.NOT_LEADER_OR_FOLLOWER), "cut": fault.cut_before,
     "swallowed": fault.swallow_request}[how]()
    witness = Witness(producer, topic)
    witness.send(range(6))
    producer.flush(GIVE_UP_S)
    assert fault.count == 2
    assert len(witness.metadata) == 6
    again = len(proxy.requests("Produce")) - 1
    # A third of a second may not be enough for the third attempt, on a slow machine.
    assert again >= 2 if how == "swallowed" else again == 2
    wait_until(lambda: totals(producer)[1:] == (0, 6 * again), lambda: f"{6 * again} retries: {totals(producer)}")


def test_totals_when_records_expire_then_each_counts_as_an_error(
        topic: str, connect: Connect, proxy: FaultProxy) -> None:
    producer = connect(through=proxy, delivery_timeout_ms=300, request_timeout_ms=200)
    proxy.on("Produce", times=None).swallow_request()
    witness = Witness(producer, topic)
    witness.send(range(5))
    witness.await_all()
    assert len(witness.errors) == 5
    wait_until(lambda: totals(producer)[1] == 5, lambda: f"5 errors are counted: {totals(producer)}")


@pytest.mark.parametrize("mode", ["send", "columns", "rows"])
def test_totals_when_a_call_raises_then_its_record_counts_as_an_error(topic: str, connect: Connect, mode: str) -> None:
    """Java's doSend records `errors` for what it throws, too: an alert that came from there was silent here."""
    producer = connect(**({"value_serializer": "bytes"} if mode == "rows" else {}))
    take = producer.send if mode == "send" else lambda topic, value: producer.send_batch(topic, [b"v", value])
    for value, error in ((b"v" * 2_000_000, RecordTooLargeError), ("text", SerializationError)):
        with pytest.raises(error):
            take(topic, value)
    with pytest.raises(TypeError):
        take(3, b"v")  # a wrong call, which Java's compiler refuses, is no record
    metrics = producer.metrics()
    assert metrics.errors == {"MESSAGE_TOO_LARGE": 1, "SerializationError": 1}
    assert totals(producer) == (0, 2, 0)
    assert metrics["record-error-rate"] > 0
    producer.close(GIVE_UP_S)
    with pytest.raises(ProducerClosedError):
        take(topic, b"v")
    assert totals(producer) == (0, 2, 0)
