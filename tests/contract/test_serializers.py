"""Serializers: what they are given, what becomes of their bytes, and what happens when they fail."""

from __future__ import annotations

from typing import Any

import pytest

from pyproducer import Header, IntegerSerializer, ProducerRecord, SerializationError
from tests.contract.clusters import Cluster
from tests.contract.conftest import Connect
from tests.contract.witness import await_memory_back
from tests.support.patience import GIVE_UP_S


def test_serializers_when_given_then_their_bytes_are_stored(cluster: Cluster, topic: str, connect: Connect) -> None:
    asked: list[tuple[str, object, object]] = []

    def serialize(topic: str, headers: list[Header], data: object) -> bytes:
        asked.append((topic, list(headers), data))
        return repr(data).encode()

    producer = connect(key_serializer=IntegerSerializer(), value_serializer=serialize)
    producer.send(topic, {"a": 1}, key=258, headers=[("h", b"1")]).result(GIVE_UP_S)
    assert [(record.key, record.value) for record in cluster.log(topic)] == [(b"\0\0\1\2", b"{'a': 1}")]
    assert asked == [(topic, [Header("h", b"1")], {"a": 1})]


def test_serializers_when_one_adds_a_header_then_the_next_sees_it_and_it_is_stored(
        cluster: Cluster, topic: str, connect: Connect) -> None:
    """As in Java, where a serializer writes down its schema; the application's own record stays as it is."""
    def key_serializer(_topic: str, headers: list[Header], data: bytes) -> bytes:
        headers.append(Header("key-schema", b"1"))
        return data

    def value_serializer(_topic: str, headers: list[Any], data: bytes) -> bytes:
        headers.append(("value-schema", bytearray(b"%d" % len(headers))))
        return data

    record = ProducerRecord(topic, b"v", b"k", partition=0, headers=[("own", None)])
    producer = connect(key_serializer=key_serializer, value_serializer=value_serializer)
    for _ in range(2):
        producer.send(record).result(GIVE_UP_S)
    producer.send_batch(topic, [b"v"], keys=[b"k"], partitions=[0], headers=[[("own", None)]]).result(GIVE_UP_S)
    assert [list(stored.headers) for stored in cluster.await_log(topic, 3)] == [
        [("own", None), ("key-schema", b"1"), ("value-schema", b"2")]] * 3
    assert record.headers == (Header("own", None),)
    failing = connect(value_serializer=lambda _topic, headers, data: headers.append("no header") or data)
    with pytest.raises(TypeError, match="a header must be a pair"):
        failing.send(record)
    await_memory_back(failing)


def test_serializers_when_named_in_the_settings_then_they_are_used(
        cluster: Cluster, topic: str, connect: Connect) -> None:
    producer = connect(key_serializer="string", value_serializer="json")
    producer.send(topic, {"a": [1, None]}, key="\N{EURO SIGN}").result(GIVE_UP_S)
    (record,) = cluster.log(topic)
    assert record.key == "\N{EURO SIGN}".encode()
    assert (record.value or b"").replace(b" ", b"") == b'{"a":[1,null]}'


@pytest.mark.parametrize("part", ["key", "value"])
@pytest.mark.parametrize("mistake", ["raises", "gives text"])
def test_serializers_when_one_fails_then_send_raises_and_nothing_is_kept(
        cluster: Cluster, topic: str, connect: Connect, part: str, mistake: str) -> None:
    def serialize(topic: str, headers: object, data: object) -> object:
        if data != b"bad":
            return data
        if mistake == "raises":
            raise ZeroDivisionError("in the serializer")
        return "text"

    producer = connect(**{f"{part}_serializer": serialize})
    called: list[object] = []
    bad = {"key": b"good", "value": b"good", part: b"bad"}
    with pytest.raises(SerializationError) as caught:
        producer.send(topic, bad["value"], key=bad["key"], on_completion=lambda *told: called.append(told))
    assert caught.value.outcome == "not_sent"
    assert part in str(caught.value)
    assert topic in str(caught.value)
    if mistake == "raises":
        assert isinstance(caught.value.__cause__, ZeroDivisionError)
    await_memory_back(producer)
    assert producer.send(topic, b"good", key=b"good", partition=0).result(GIVE_UP_S).offset == 0
    assert [record.value for record in cluster.log(topic)] == [b"good"]
    assert not called


@pytest.mark.parametrize("data", ["text", 1, {"a": 1}], ids=["str", "int", "dict"])
def test_serializers_when_there_is_none_then_what_is_not_bytes_is_refused(
        cluster: Cluster, topic: str, connect: Connect, data: object) -> None:
    producer = connect()
    with pytest.raises(SerializationError, match="serializer"):
        producer.send(topic, data)
    with pytest.raises(SerializationError, match="serializer"):
        producer.send(topic, b"v", key=data)
    assert cluster.log(topic) == []
    await_memory_back(producer)
