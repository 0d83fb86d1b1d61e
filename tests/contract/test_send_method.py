"""send() is a method like any other: it keeps its producer alive, can be patched, overridden and looked up."""

from __future__ import annotations

import gc
import inspect
from collections.abc import Callable
from typing import Any
from unittest import mock

import pytest

from pyproducer import KafkaProducer, ProducerRecord
from tests.contract.clusters import Cluster
from tests.contract.conftest import Connect
from tests.contract.witness import await_known, wait_until
from tests.support.patience import GIVE_UP_S


def test_send_when_only_the_method_is_kept_then_its_producer_lives(cluster: Cluster, topic: str) -> None:
    """`return producer.send` out of a factory: the producer was collected and closed, and every record refused."""
    def make() -> tuple[KafkaProducer, Callable[..., Any]]:
        producer = KafkaProducer({"bootstrap.servers": cluster.bootstrap_servers})
        return producer, producer.send

    send = make()[1]
    gc.collect()
    for number in range(3):
        assert send(topic, b"%d" % number, partition=0).result(GIVE_UP_S).offset == number
    producer: Any = send.__self__  # type: ignore[attr-defined]
    producer.close()


def test_send_when_a_class_or_an_instance_is_patched_then_nothing_is_sent(
        cluster: Cluster, topic: str, connect: Connect) -> None:
    """What tracing and test frameworks do: the patched call went to the broker all the same."""
    producer = connect()
    await_known(producer, topic)
    with mock.patch.object(KafkaProducer, "send", return_value="mocked") as patched:
        assert producer.send(topic, b"never") == "mocked"
        patched.assert_called_once_with(topic, b"never")
    with mock.patch.object(producer, "send", return_value="mocked") as patched:
        assert producer.send(topic, b"never", key=b"k") == "mocked"
    original = KafkaProducer.send
    seen: list[Any] = []

    def traced(self: KafkaProducer, *arguments: Any, **named: Any) -> Any:
        seen.append(arguments)
        return original(self, *arguments, **named)

    with mock.patch.object(KafkaProducer, "send", traced):
        producer.send(topic, b"traced", partition=0).result(GIVE_UP_S)
    assert seen == [(topic, b"traced")]
    assert [record.value for record in cluster.await_log(topic, 1)] == [b"traced"]


def test_send_when_a_subclass_overrides_it_then_that_is_called_and_can_go_on(cluster: Cluster, topic: str) -> None:
    class Shouting(KafkaProducer):
        def send(self, topic: Any, value: Any = None, **named: Any) -> Any:  # type: ignore[override]
            return super().send(topic, value.upper(), **named)

    with Shouting({"bootstrap.servers": cluster.bootstrap_servers}) as producer:
        producer.send(topic, b"loud", partition=0).result(GIVE_UP_S)
    assert [record.value for record in cluster.await_log(topic, 1)] == [b"LOUD"]


def test_send_when_looked_up_then_it_has_a_signature_and_says_what_it_does() -> None:
    assert list(inspect.signature(KafkaProducer.send).parameters) == [
        "self", "topic", "value", "key", "partition", "timestamp", "headers", "on_completion"]
    text = inspect.getdoc(KafkaProducer.send)
    assert text is not None
    for word in ("Args:", "Raises:", "SerializationError", "headers: Pairs of str and bytes or None"):
        assert word in text


@pytest.mark.parametrize("spelling", ["record", "record and callback", "record, callback by name", "all by name"])
def test_send_when_spelt_in_any_way_then_the_same_record_is_stored(
        cluster: Cluster, topic: str, connect: Connect, spelling: str) -> None:
    producer = connect()
    await_known(producer, topic)
    told: list[Any] = []

    def on_completion(metadata: Any, error: Any) -> None:
        told.append((metadata, error))

    for number in range(4):  # the first opens a batch, the others find it open
        parts: dict[str, Any] = {"key": b"k", "partition": 1, "timestamp": 1_700_000_000_000 + number,
                                 "headers": [("a", b"1"), ("\u00e4", None), ("a", b"")]}
        record = ProducerRecord(topic, b"%d" % number, **parts)
        if spelling == "record":
            future = producer.send(record)
        elif spelling == "record and callback":
            future = producer.send(record, on_completion)
        elif spelling == "record, callback by name":
            future = producer.send(record, on_completion=on_completion)  # type: ignore[call-overload]
        else:
            future = producer.send(topic, b"%d" % number, on_completion=on_completion, **parts)
    producer.flush(GIVE_UP_S)
    assert future.result(0).offset == 3
    stored = cluster.await_log(topic, 4)
    assert [(record.partition, record.timestamp, record.key, record.value) for record in stored] == [
        (1, 1_700_000_000_000 + number, b"k", b"%d" % number) for number in range(4)]
    assert all(list(record.headers) == [("a", b"1"), ("\u00e4", None), ("a", b"")] for record in stored)
    if spelling != "record":
        wait_until(lambda: len(told) == 4, "every callback was called")
        assert [error for _, error in told] == [None] * 4
