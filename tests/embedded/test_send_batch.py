"""send_batch over the wire: all rows arrive where the result says, and rows that fail say why."""

from __future__ import annotations

import asyncio
import importlib.util
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pyproducer import (
    BatchFuture,
    BatchMetadata,
    BufferExhaustedError,
    IllegalStateError,
    KafkaProducer,
    KafkaTimeoutError,
    ProducerClosedError,
    RecordTooLargeError,
    SerializationError,
    UnknownTopicOrPartitionError,
)
from pyproducer.broker import EmbeddedBroker
from pyproducer.testing import read_topic
from tests.embedded.conftest import WireTarget
from tests.support.kafka_jars import MissingTool
from tests.support.patience import GIVE_UP_S

TOO_LARGE = b"x" * 2_000_000


@pytest.fixture
def arrow() -> Any:
    if importlib.util.find_spec("pyarrow") is None:
        raise MissingTool("the package pyarrow is not installed: pip install -e '.[spark,test]'")
    import pyarrow

    return pyarrow


@pytest.fixture
def producer(wire: WireTarget) -> Iterator[KafkaProducer]:
    with KafkaProducer({"bootstrap.servers": bootstrap(wire)}) as made:
        yield made


def bootstrap(wire: WireTarget) -> str:
    return "{}:{}".format(*wire.address)


def ensure_stored(wire: WireTarget, topic: str, metadata: BatchMetadata, keys: list[bytes | None],
                  values: list[bytes | None]) -> None:
    """Every row is in the log once, at its offset."""
    found = {(record.partition, record.offset): (record.key, record.value)
             for record in read_topic(bootstrap(wire), topic)}
    assert metadata.errors == {}
    assert len(found) == len(values)
    for row, place in enumerate(zip(metadata.partitions, metadata.offsets, strict=True)):
        assert found[place] == (keys[row], values[row]), row


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_arrow_rows_when_memory_holds_a_few_of_them_then_all_are_stored_where_the_result_says(
        wire: WireTarget, topic: str, codec: str, arrow: Any) -> None:
    count = 70_000  # more than 16 bits count
    values: list[bytes | None] = [b"value-%d" % number for number in range(count)]
    keys: list[bytes | None] = [None if number % 7 == 0 else b"key-%d" % (number % 500) for number in range(count)]
    with KafkaProducer({"bootstrap.servers": bootstrap(wire), "compression.type": codec,
                        "buffer.memory": 350_000}) as producer:
        future = producer.send_batch(topic, arrow.array(values, arrow.large_binary()),
                                     keys=arrow.array(keys).dictionary_encode())
        metadata = future.result(GIVE_UP_S)
    ensure_stored(wire, topic, metadata, keys, values)
    for partition in range(3):
        offsets = [offset for place, offset in zip(metadata.partitions, metadata.offsets, strict=True)
                   if place == partition]
        assert offsets == list(range(len(offsets)))  # in the order of the rows


def test_lists_slices_and_chunks_are_stored(wire: WireTarget, topic: str, producer: KafkaProducer, arrow: Any) -> None:
    values: list[bytes | None] = [b"v%d" % number for number in range(3000)]
    keys: list[bytes | None] = [b"k%d" % (number % 9) for number in range(3000)]
    first = producer.send_batch(topic, values[:1000], keys=keys[:1000]).result(GIVE_UP_S)
    second = producer.send_batch(topic, arrow.array(values).slice(1000, 1000),
                                 keys=arrow.chunked_array([keys[1000:1001], [], keys[1001:2000]])).result(GIVE_UP_S)
    third = producer.send_batch(topic, tuple(values[2000:]), keys=arrow.array(keys)[2000:]).result(GIVE_UP_S)
    joined = BatchMetadata(topic, first.offsets + second.offsets + third.offsets,
                           first.partitions + second.partitions + third.partitions,
                           first.timestamps + second.timestamps + third.timestamps, {})
    ensure_stored(wire, topic, joined, keys, values)
    table = joined.to_arrow()
    assert table.column_names == ["partition", "offset", "timestamp"]
    assert table["offset"].to_pylist() == list(joined.offsets)


def test_headers_of_each_row_stay_with_it_beside_chunks_of_values(arrow: Any) -> None:
    headers = [[(f"h{number}", b"%d" % row) for number in range(row % 3)] for row in range(9)]
    values = arrow.chunked_array([[b"0", b"1", b"2", b"3"], [b"4"], [], [b"5", b"6", b"7", b"8"]])
    with EmbeddedBroker(topics={"orders": 1}) as broker:
        with KafkaProducer({"bootstrap.servers": broker.bootstrap_servers}) as producer:
            producer.send_batch("orders", values, headers=headers).result(GIVE_UP_S)
        found = [(record.value, [tuple(header) for header in record.headers]) for record in broker.records("orders")]
    assert found == [(b"%d" % row, told) for row, told in enumerate(headers)]


def test_no_rows_are_done_at_once_and_need_no_broker(arrow: Any) -> None:
    with KafkaProducer({"bootstrap.servers": "127.0.0.1:1"}) as producer:
        for nothing in ([], arrow.array([], arrow.binary()), arrow.chunked_array([], arrow.string())):
            future = producer.send_batch("t", nothing)
            assert future.done()
            assert len(future.result(0)) == 0


def test_rows_with_an_unknown_partition_fail_and_the_others_are_stored(wire: WireTarget, topic: str) -> None:
    with KafkaProducer({"bootstrap.servers": bootstrap(wire), "max.block.ms": 600_000}) as producer:
        metadata = producer.send_batch(topic, [b"a", b"b", b"c"], partitions=[1, 7, None]).result(GIVE_UP_S)
    assert list(metadata.errors) == [1]
    assert isinstance(metadata.errors[1], UnknownTopicOrPartitionError)
    assert [record.value for record in read_topic(bootstrap(wire), topic)] in ([b"a", b"c"], [b"c", b"a"])
    with pytest.raises(UnknownTopicOrPartitionError, match="has no partition 7"):
        metadata.raise_on_error()


def test_an_unreachable_broker_fails_every_row() -> None:
    with KafkaProducer({"bootstrap.servers": "127.0.0.1:1", "max.block.ms": 100}) as producer:
        future = producer.send_batch("t", [b"a", b"b"])
        assert list(future.result(GIVE_UP_S).errors) == [0, 1]
        assert isinstance(future.exception(0), KafkaTimeoutError)


def test_a_row_above_the_limit_is_refused_before_anything_is_accepted(wire: WireTarget, topic: str,
                                                                      producer: KafkaProducer, arrow: Any) -> None:
    for rows in ([b"a", TOO_LARGE], arrow.array([b"a", TOO_LARGE])):
        with pytest.raises(RecordTooLargeError, match=r"Row 1: .* above max\.request\.size = 1048576"):
            producer.send_batch(topic, rows)
    with KafkaProducer({"bootstrap.servers": bootstrap(wire)}, value_serializer="bytes") as serializing, \
            pytest.raises(RecordTooLargeError, match="Row 1: "):
        serializing.send_batch(topic, [b"a", TOO_LARGE])
    producer.flush()
    assert wire.end_offset(topic) == 0
    assert list(read_topic(bootstrap(wire), topic)) == []


@pytest.mark.parametrize(("columns", "expected", "words"), [
    ({"values": [b"a", "text"]}, SerializationError, "values, row 1: The value is a str"),
    ({"values": b"bytes"}, TypeError, "values must be a list or an Arrow array, got bytes"),
    ({"values": 5}, TypeError, "got int"),
    ({"values": [b"a"], "keys": [1]}, SerializationError, "keys, row 0: The key is a int"),
    ({"values": [b"a"], "keys": []}, ValueError, "keys has 0 rows and values has 1"),
    ({"values": [b"a"], "headers": [[("k", "v")]]}, TypeError, "headers, row 0: the value of header 'k'"),
    ({"values": [b"a"], "timestamps": [-1]}, ValueError, "timestamps, row 0: timestamp -1 is out of range"),
    ({"values": [b"a"], "partitions": ["1"]}, TypeError, "partitions, row 0: partition must be int"),
    ({"values": [b"a"], "topic": ""}, ValueError, "topic must not be empty"),
    ({"values": [b"a"], "topic": 5}, TypeError, "topic must be str"),
])
def test_wrong_columns_are_refused_with_their_row(columns: dict[str, Any], expected: type[Exception], words: str,
                                                  producer: KafkaProducer) -> None:
    with pytest.raises(expected, match=words):
        producer.send_batch(**{"topic": "t", **columns})


@pytest.mark.parametrize(("columns", "expected", "words"), [
    (lambda pa: {"values": pa.array([1])}, TypeError, "values must be an Arrow array of binary.* got int64"),
    (lambda pa: {"values": pa.array([b"a"]), "headers": pa.array([["k"]])}, TypeError, "headers must be an Arrow ar"),
    (lambda pa: {"values": pa.array([b"a"]), "headers": pa.array(
        [[{"key": None, "value": b""}]], pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])))},
     TypeError, "headers, row 0: a header's key must be str"),
    (lambda pa: {"values": pa.array([b"a"]), "timestamps": pa.array([-4])}, ValueError, "timestamps, row 0: -4 is out"),
    (lambda pa: {"values": pa.array([b"a"]), "timestamps": pa.array([4.0])}, TypeError, "timestamps must be a list"),
    (lambda pa: {"values": pa.array([b"a"]), "partitions": pa.array([1 << 40])}, ValueError, "partitions, row 0: 1099"),
    (lambda pa: {"values": pa.table({"a": [1]})}, TypeError, "values must be"),
])
def test_wrong_arrow_columns_are_refused_with_their_row(columns: Callable[[Any], dict[str, Any]],
                                                        expected: type[Exception], words: str,
                                                        producer: KafkaProducer, arrow: Any) -> None:
    with pytest.raises(expected, match=words):
        producer.send_batch("t", **columns(arrow))


def test_memory_that_runs_out_keeps_what_was_accepted_and_fails_the_rest(start_broker: Any) -> None:
    broker = start_broker(topics={"t": 2})
    with KafkaProducer({"bootstrap.servers": broker.bootstrap_servers, "buffer.memory": 52_000, "batch.size": 4000,
                        "linger.ms": 60_000, "max.block.ms": 200, "delivery.timeout.ms": 200_000}) as producer:
        producer.partitions_for("t")
        broker.stop()
        future = producer.send_batch("t", [b"%099d" % number for number in range(1000)])
        assert not future.done()
        with pytest.raises(KafkaTimeoutError, match="of 1000 rows for t were not done within 0"):
            future.result(0)
        producer.close(timeout=0)
        errors = future.result(GIVE_UP_S).errors
    kinds = [type(errors[row]) for row in range(1000)]
    refused = kinds.index(BufferExhaustedError)
    assert 300 < refused < 400  # ten batches of 4000 bytes, each with 1200 for itself
    assert set(kinds[:refused]) <= {ProducerClosedError}
    assert kinds.count(BufferExhaustedError) > 600


def test_a_batch_too_large_for_the_topic_is_split_and_rows_keep_their_places(wire: WireTarget, topic_name: str,
                                                                             arrow: Any) -> None:
    topic = wire.create_topic(topic_name, 1, {"max.message.bytes": "2000"})
    values: list[bytes | None] = [b"%0100d" % number for number in range(500)]
    with KafkaProducer({"bootstrap.servers": bootstrap(wire), "batch.size": 20_000, "linger.ms": 50}) as producer:
        batches = [producer.send_batch(topic, arrow.array(values[start:start + 100])) for start in range(0, 400, 100)]
        futures = [producer.send(topic, value) for value in values[400:]]
        offsets = [offset for batch in batches for offset in batch.result(GIVE_UP_S).offsets]
        offsets += [future.result(GIVE_UP_S).offset for future in futures]
        assert producer.metrics()["batch-split-total"] >= 1
    assert offsets == list(range(500))
    assert [record.value for record in read_topic(bootstrap(wire), topic)] == values


def test_a_row_that_no_topic_takes_fails_alone(wire: WireTarget, topic_name: str) -> None:
    topic = wire.create_topic(topic_name, 1, {"max.message.bytes": "2000"})
    with KafkaProducer({"bootstrap.servers": bootstrap(wire)}) as producer:
        metadata = producer.send_batch(topic, [b"a", b"x" * 5000, b"b"]).result(GIVE_UP_S)
    assert list(metadata.errors) == [1]
    assert isinstance(metadata.errors[1], RecordTooLargeError)
    assert metadata.offsets[1] == -1
    assert [record.value for record in read_topic(bootstrap(wire), topic)] == [b"a", b"b"]


def test_done_callbacks_and_await(topic: str, producer: KafkaProducer) -> None:
    called = threading.Event()
    seen: list[BatchFuture] = []

    def on_done(done: BatchFuture) -> None:
        seen.append(done)
        called.set()

    future = producer.send_batch(topic, [b"a"] * 10)
    future.add_done_callback(on_done)
    assert called.wait(GIVE_UP_S)
    assert seen == [future]
    future.add_done_callback(on_done)
    assert seen == [future, future]
    assert future.exception(0) is None
    assert future.cancelled() is False

    async def wait() -> BatchMetadata:
        return await producer.send_batch(topic, [b"b"] * 10)

    assert len(asyncio.run(wait())) == 10


def test_serializers_interceptors_and_partitioners_see_every_row(wire: WireTarget, topic: str) -> None:
    class Interceptor:
        def __init__(self) -> None:
            self.acknowledged = 0

        def on_send(self, record: Any) -> Any:
            return record

        def on_acknowledgement(self, metadata: Any, exception: Any) -> None:
            self.acknowledged += 1

    interceptor = Interceptor()
    with KafkaProducer({"bootstrap.servers": bootstrap(wire), "interceptor.classes": [interceptor],
                        "partitioner.class": lambda topic, key, *_: key % 3},
                       key_serializer="int", value_serializer="json") as producer:
        metadata = producer.send_batch(topic, [{"n": number} for number in range(30)],
                                       keys=list(range(30))).result(GIVE_UP_S)
    assert list(metadata.partitions) == [number % 3 for number in range(30)]
    assert interceptor.acknowledged == 30
    assert sorted(record.value for record in read_topic(bootstrap(wire), topic))[0] == b'{"n":0}'


def test_a_closed_producer_refuses(wire: WireTarget) -> None:
    producer = KafkaProducer({"bootstrap.servers": bootstrap(wire)})
    producer.close()
    with pytest.raises(IllegalStateError):
        producer.send_batch("t", [])


def test_concurrent_calls_and_sends_lose_nothing(topic: str, producer: KafkaProducer, wire: WireTarget,
                                                 arrow: Any) -> None:
    metadata: list[BatchMetadata] = []

    def send_columns(name: bytes) -> None:
        rows = arrow.array([b"%s-%d" % (name, number) for number in range(20_000)])
        metadata.append(producer.send_batch(topic, rows).result(GIVE_UP_S))

    threads = [threading.Thread(target=send_columns, args=(b"thread%d" % number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    futures = [producer.send(topic, b"single-%d" % number) for number in range(20_000)]
    for thread in threads:
        thread.join()
    places = {(future.result(GIVE_UP_S).partition, future.result(0).offset) for future in futures}
    for one in metadata:
        assert one.errors == {}
        places.update(zip(one.partitions, one.offsets, strict=True))
    assert len(places) == 80_000


def test_the_separate_process_broker_takes_a_call(arrow: Any) -> None:
    with EmbeddedBroker(topics={"t": 3}, separate_process=True) as broker, \
            KafkaProducer({"bootstrap.servers": broker.bootstrap_servers}) as producer:
        headers = arrow.array([[{"key": "h", "value": b"1"}], None],
                              arrow.list_(arrow.struct([("key", arrow.string()), ("value", arrow.binary())])))
        producer.send_batch("t", arrow.array(["a", "b"]), headers=headers, timestamps=arrow.array([5, 6]),
                            partitions=arrow.array([0, 2])).result(GIVE_UP_S).raise_on_error()
        found = [(record.value, record.partition, record.timestamp, [tuple(header) for header in record.headers])
                 for record in read_topic(broker.bootstrap_servers, "t")]
    assert sorted(found) == [(b"a", 0, 5, [("h", b"1")]), (b"b", 2, 6, [])]
