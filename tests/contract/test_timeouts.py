"""How long to wait: from no time at all to for ever, and what is no time at all."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from pyproducer import KafkaProducer, KafkaTimeoutError
from tests.contract.clusters import Cluster
from tests.contract.conftest import Connect
from tests.support.fault_proxy import FaultProxy
from tests.support.patience import GIVE_UP_S

LONGEST_MS = 2**63 - 1  # Java's Long.MAX_VALUE, with which its users say "for ever"
LONGEST_INT_MS = 2**31 - 1
# Each setting in milliseconds that is a long in Java, with what must go with it.
LONG_SETTINGS: dict[str, dict[str, Any]] = {
    "connections_max_idle_ms": {}, "linger_ms": {"delivery_timeout_ms": LONGEST_INT_MS}, "max_block_ms": {},
    "metadata_max_age_ms": {}, "metadata_max_idle_ms": {}, "metadata_recovery_rebootstrap_trigger_ms": {},
    "metrics_sample_window_ms": {}, "partitioner_availability_timeout_ms": {"partitioner_class": "uniform_sticky"},
    "reconnect_backoff_ms": {"reconnect_backoff_max_ms": LONGEST_MS}, "reconnect_backoff_max_ms": {},
    # Not retry.backoff.ms: after one hiccup of a cluster the producer waits for ever, as it was told to.
    "retry_backoff_max_ms": {},
    "socket_connection_setup_timeout_ms": {"socket_connection_setup_timeout_max_ms": LONGEST_MS},
    "socket_connection_setup_timeout_max_ms": {},
}
FOR_EVER = [1e10, 1e300, float("inf"), 10**400]
WAITS: dict[str, Callable[[KafkaProducer, str, Any], object]] = {
    "flush": lambda producer, topic, timeout: producer.flush(timeout),
    "result": lambda producer, topic, timeout: producer.send(topic, b"v").result(timeout),
    "exception": lambda producer, topic, timeout: producer.send(topic, b"v").exception(timeout),
    "batch result": lambda producer, topic, timeout: producer.send_batch(topic, [b"v"]).result(timeout),
    "batch exception": lambda producer, topic, timeout: producer.send_batch(topic, [b"v"]).exception(timeout),
    "close": lambda producer, topic, timeout: producer.close(timeout),
}


@pytest.mark.parametrize("setting", LONG_SETTINGS)
def test_setting_when_it_is_the_longest_time_then_records_are_stored(
        cluster: Cluster, topic: str, connect: Connect, setting: str) -> None:
    """`max.block.ms = Long.MAX_VALUE` is how Java programs say "for ever".

    Every first send() raised a bare OverflowError: so long a time was handed to Condition.wait.
    """
    producer = connect(**{setting: LONGEST_MS, **LONG_SETTINGS[setting]})
    future = producer.send(topic, b"v")
    assert len(producer.partitions_for(topic)) > 0
    producer.flush(GIVE_UP_S)
    assert future.result(0).offset == 0
    rows = producer.send_batch(topic, [b"w"])
    producer.flush(GIVE_UP_S)
    rows.result(0).raise_on_error()
    assert sorted(record.value or b"" for record in cluster.log(topic)) == [b"v", b"w"]


@pytest.mark.parametrize("setting", ["delivery_timeout_ms", "request_timeout_ms"])
def test_setting_when_it_is_the_longest_int_then_records_are_stored(
        topic: str, connect: Connect, setting: str) -> None:
    both = {"delivery_timeout_ms": LONGEST_INT_MS, setting: LONGEST_INT_MS}
    assert connect(**both).send(topic, b"v").result(GIVE_UP_S).offset == 0


def test_max_block_when_it_is_the_longest_and_memory_is_used_up_then_send_waits_until_there_is_some(
        topic: str, connect: Connect, proxy: FaultProxy) -> None:
    producer = connect(through=proxy, max_block_ms=LONGEST_MS, buffer_memory=40_000, batch_size=20_000)
    assert producer.send(topic, b"v").result(GIVE_UP_S).offset >= 0
    held = proxy.on("Produce").hold_request()
    first = producer.send(topic, b"v" * 30_000)
    waiting = threading.Thread(target=producer.send, args=(topic, b"w" * 30_000))
    waiting.start()
    while not producer.metrics()["waiting-threads"]:
        assert waiting.is_alive(), "send() gave up at once"
    held.release()
    waiting.join(GIVE_UP_S)
    assert not waiting.is_alive()
    producer.flush(GIVE_UP_S)
    assert first.done()


@pytest.mark.parametrize("timeout", FOR_EVER, ids=lambda timeout: f"{timeout:.0e}" if timeout < 1e301 else "int")
@pytest.mark.parametrize("wait", WAITS)
def test_wait_when_the_timeout_is_huge_then_it_waits_until_all_is_done(
        cluster: Cluster, topic: str, connect: Connect, wait: str, timeout: float) -> None:
    """What a thread can wait ends at some hundred years; beyond, an OverflowError came out of `threading`."""
    producer = connect(linger_ms=20)
    future = producer.send(topic, b"v")
    WAITS[wait](producer, topic, timeout)
    assert future.done() or wait not in ("flush", "close"), "the others wait for a record of their own"
    producer.close(timeout)
    assert future.done()
    assert all(record.value == b"v" for record in cluster.log(topic))


NO_TIMES: list[tuple[Any, type[Exception], str]] = [
    (float("nan"), ValueError, "timeout nan is not a number of seconds"),
    ("5", TypeError, "timeout must be a number of seconds or None, got str: '5'"),
    (b"5", TypeError, "got bytes"), ([5], TypeError, "got list"), (True, TypeError, "got bool")]


@pytest.mark.parametrize("wait", WAITS)
def test_wait_when_the_timeout_makes_no_sense_then_that_is_said_and_nothing_is_lost(
        cluster: Cluster, topic: str, connect: Connect, wait: str) -> None:
    producer = connect(linger_ms=20_000)
    future = producer.send(topic, b"v")
    for timeout, error, words in NO_TIMES:
        with pytest.raises(error, match=words):
            WAITS[wait](producer, topic, timeout)
    producer.flush(GIVE_UP_S)
    assert future.result(0).offset >= 0
    assert producer.send(topic, b"w").done() is False, "the producer is open"


@pytest.mark.parametrize("wait", [wait for wait in WAITS if wait != "close"])
def test_wait_when_the_timeout_is_negative_then_it_is_over_at_once(
        topic: str, connect: Connect, proxy: FaultProxy, wait: str) -> None:
    producer = connect(through=proxy)
    held = proxy.on("Produce").hold_request()
    future = producer.send(topic, b"v")
    with pytest.raises(KafkaTimeoutError):
        WAITS[wait](producer, topic, -1)
    held.release()
    assert future.result(GIVE_UP_S).offset >= 0


def test_close_when_the_timeout_is_negative_then_refused_as_in_java(topic: str, connect: Connect) -> None:
    producer = connect()
    with pytest.raises(ValueError, match="timeout -1 is negative: close\\(\\) waits 0 seconds or more, None"):
        producer.close(-1)
    assert producer.send(topic, b"v").result(GIVE_UP_S).offset == 0
