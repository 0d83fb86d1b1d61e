"""Records as they were sent: keys, values, headers, timestamps, both ways to call send(), and wrong arguments."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pyproducer import Header, KafkaProducer, ProducerRecord
from tests.contract.clusters import Cluster
from tests.contract.conftest import Connect
from tests.contract.witness import await_known, free_bytes
from tests.support.patience import GIVE_UP_S


@pytest.mark.parametrize(("key", "value"), [
    (None, None), (None, b"v"), (b"k", None), (b"", b""), (b"k", b""), (bytes(range(256)), b"\0" * 1000)])
def test_key_and_value_when_sent_then_they_are_read_back(
        cluster: Cluster, topic: str, connect: Connect, key: bytes | None, value: bytes | None) -> None:
    connect().send(topic, value, key=key).result(GIVE_UP_S)
    assert [(record.key, record.value) for record in cluster.log(topic)] == [(key, value)]


def test_value_when_it_is_a_view_or_bytearray_then_its_bytes_at_the_time_of_send_are_stored(
        cluster: Cluster, topic: str, connect: Connect) -> None:
    producer = connect(linger_ms=20_000)
    await_known(producer, topic)
    changing = bytearray(b"before")
    futures = [producer.send(topic, changing, key=memoryview(b"key"), partition=0),
               producer.send(topic, memoryview(changing), partition=0)]
    changing[:] = b"behind"
    producer.flush(GIVE_UP_S)
    assert [future.result(0).offset for future in futures] == [0, 1]
    assert [(record.key, record.value) for record in cluster.log(topic)] == [(b"key", b"before"), (None, b"before")]


def test_value_when_it_is_large_then_it_is_read_back(cluster: Cluster, topic: str, connect: Connect) -> None:
    value = bytes(range(250)) * 3600
    connect().send(topic, value).result(GIVE_UP_S)
    assert [record.value for record in cluster.log(topic)] == [value]


@pytest.mark.parametrize("headers", [
    [], [("a", b"1")], [("a", b"1"), ("a", b"2"), ("b", None), ("", b"")], [("\N{EURO SIGN}", b"\xff" * 200)],
    [Header("h", b"v")]], ids=["none", "one", "repeated", "unicode", "Header"])
def test_headers_when_sent_then_they_are_read_back_in_order(
        cluster: Cluster, topic: str, connect: Connect, headers: list[tuple[str, bytes | None]]) -> None:
    connect().send(topic, b"v", headers=headers).result(GIVE_UP_S)
    assert [list(record.headers) for record in cluster.log(topic)] == [headers]


@pytest.mark.parametrize("timestamp", [0, 1, 1_600_000_000_000])
def test_timestamp_when_given_then_the_log_has_it(
        cluster: Cluster, topic: str, connect: Connect, timestamp: int) -> None:
    connect().send(topic, b"v", timestamp=timestamp).result(GIVE_UP_S)
    assert [record.timestamp for record in cluster.log(topic)] == [timestamp]


def test_timestamps_when_they_go_back_within_a_batch_then_each_is_kept(
        cluster: Cluster, topic: str, connect: Connect) -> None:
    producer = connect(linger_ms=20_000)
    await_known(producer, topic)
    timestamps = [1_600_000_000_000, 5, 1_700_000_000_000, 5]
    for timestamp in timestamps:
        producer.send(topic, b"v", partition=0, timestamp=timestamp)
    producer.flush(GIVE_UP_S)
    assert [record.timestamp for record in cluster.log(topic)] == timestamps


def test_send_when_called_with_a_record_or_its_parts_then_the_same_is_stored(
        cluster: Cluster, topic: str, connect: Connect) -> None:
    producer = connect()
    record = ProducerRecord(topic, b"v", b"k", partition=1, timestamp=7, headers=[("h", None)])
    first = producer.send(record).result(GIVE_UP_S)
    second = producer.send(topic, b"v", key=b"k", partition=1, timestamp=7, headers=[("h", None)]).result(GIVE_UP_S)
    assert second == first._replace(offset=1)
    stored = [entry._replace(offset=0) for entry in cluster.log(topic)]
    assert len(stored) == 2
    assert stored[0] == stored[1]


@pytest.mark.parametrize(("call", "error"), [
    (lambda producer, topic: producer.send(7, b"v"), TypeError),
    (lambda producer, topic: producer.send("", b"v"), ValueError),
    (lambda producer, topic: producer.send(topic, b"v", partition="1"), TypeError),
    (lambda producer, topic: producer.send(topic, b"v", timestamp=-1), ValueError),
    (lambda producer, topic: producer.send(topic, b"v", timestamp="now"), TypeError),
    (lambda producer, topic: producer.send(topic, b"v", headers=[("h", "text")]), TypeError),
    (lambda producer, topic: producer.send(topic, b"v", headers=[(b"h", b"v")]), TypeError),
    (lambda producer, topic: producer.send(ProducerRecord(topic, b"v"), key=b"k"), TypeError),
], ids=["topic", "empty topic", "partition", "timestamp", "timestamp type", "header value", "header key", "twice"])
def test_send_when_an_argument_is_wrong_then_it_raises_and_nothing_is_accepted(
        cluster: Cluster, topic: str, connect: Connect, call: Callable[[KafkaProducer, str], object],
        error: type[Exception]) -> None:
    producer = connect()
    free = free_bytes(producer)
    with pytest.raises(error):
        call(producer, topic)
    assert free_bytes(producer) == free
    assert not cluster.log(topic)
