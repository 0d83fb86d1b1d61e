"""Produce as it was measured on Apache Kafka 4.1: codes, offsets, which answers tell the log start offset.

The same tests run against it with KAFKA_REFERENCE=host:port.
"""

from __future__ import annotations

import gzip
import struct
import time
from collections.abc import Callable
from typing import Any

import crc32c
import lz4.frame
import pytest

from pyproducer.protocol.apis import ApiKeys
from pyproducer.protocol.schema import Struct
from pyproducer.record.batch_writer import build_batch
from tests.embedded.conftest import WireTarget
from tests.support.raw_client import RawClient, metadata_body, produce_body, produced

VERSION = 9


def now_ms() -> int:
    return int(time.time() * 1000)


def batch(count: int = 3, *, value: bytes = b"value", timestamp: int | None = None, compression: str = "none",
          **fields: Any) -> bytearray:
    at = now_ms() if timestamp is None else timestamp
    return bytearray(build_batch([(at, b"key-%d" % number, value, ()) for number in range(count)],
                                 compression=compression, **fields))


def with_crc(data: bytearray) -> bytearray:
    struct.pack_into(">I", data, 17, crc32c.crc32c(bytes(data[21:])))
    return data


def patched(form: str, offset: int, *values: int) -> Callable[[bytearray], bytearray]:
    def patch(data: bytearray) -> bytearray:
        struct.pack_into(form, data, offset, *values)
        return with_crc(data)
    return patch


def with_payload(codec_id: int, payload: bytes) -> bytearray:
    """A batch of three records whose records section is `payload`."""
    data = batch()[:61] + payload
    struct.pack_into(">i", data, 8, len(data) - 12)
    struct.pack_into(">h", data, 21, codec_id)
    return with_crc(data)


def produce(client: RawClient, topic: str, records: bytes | bytearray | None, *, acks: int = -1,
            version: int = VERSION, partition: int = 0) -> Struct:
    body = produce_body(topic, partition, None if records is None else bytes(records), acks=acks)
    return produced(client.request(ApiKeys.PRODUCE, version, body))


def summary(answer: Struct) -> tuple[int, int, int]:
    return answer["error_code"], answer["base_offset"], answer.get("log_start_offset", -1)


@pytest.mark.parametrize("version", [*range(3, 13)])
def test_produce_appends_in_every_version_with_names(wire: WireTarget, topic: str, version: int) -> None:
    with wire.connect() as client:
        first = produce(client, topic, batch(), version=version)
        second = produce(client, topic, batch(), version=version, acks=1)
    assert (first["error_code"], first["base_offset"]) == (0, 0)
    assert (second["error_code"], second["base_offset"], second["log_append_time_ms"]) == (0, 3, -1)


def test_produce_13_names_topics_by_id(wire: WireTarget, topic: str) -> None:
    with wire.connect() as client:
        topic_id = client.request(ApiKeys.METADATA, 12, metadata_body(topic))["topics"][0]["topic_id"]

        def ask(asked_id: Any, partition: int) -> Struct:
            return client.request(ApiKeys.PRODUCE, 13, {"acks": -1, "timeout_ms": 5000, "topic_data": [
                {"topic_id": asked_id, "partition_data": [{"index": partition, "records": bytes(batch())}]}]})

        good = ask(topic_id, 0)
        unknown = ask(type(topic_id)(int=1), 0)
        no_partition = ask(topic_id, 77)
    assert good["responses"][0]["topic_id"] == topic_id
    assert produced(good)["error_code"] == 0
    assert produced(unknown)["error_code"] == 100
    assert produced(no_partition)["error_code"] == 3


@pytest.mark.parametrize("acks", [2, -2])
def test_produce_with_other_acks_is_refused_with_21(wire: WireTarget, topic: str, acks: int) -> None:
    with wire.connect() as client:
        assert summary(produce(client, topic, batch(), acks=acks)) == (21, -1, -1)


@pytest.mark.parametrize(("name", "partition"), [("no-such-topic", 0), ("bad/name", 0), (None, 77)])
def test_produce_to_what_is_not_there_is_3(wire: WireTarget, topic: str, name: str | None, partition: int) -> None:
    with wire.connect() as client:
        assert summary(produce(client, name or topic, batch(), partition=partition)) == (3, -1, -1)


def test_produce_with_other_acks_to_what_is_not_there_is_3(wire: WireTarget, topic: str) -> None:
    """Kafka looks for the partition first, and tells each partition its own error."""
    with wire.connect() as client:
        body = produce_body(topic, 0, bytes(batch()), acks=2)
        body["topic_data"][0]["partition_data"].append({"index": 77, "records": bytes(batch())})
        (found,) = client.request(ApiKeys.PRODUCE, VERSION, body)["responses"]
    assert {row["index"]: row["error_code"] for row in found["partition_responses"]} == {0: 21, 77: 3}


@pytest.mark.parametrize("partitions", [(77, 0), (0, 77)])
def test_produce_with_acks_0_when_any_partition_failed_then_the_connection_is_closed(
        wire: WireTarget, topic: str, partitions: tuple[int, int]) -> None:
    """There is no answer that could say so; what could be stored is stored."""
    body = produce_body(topic, 0, None, acks=0)
    body["topic_data"][0]["partition_data"] = [
        {"index": partition, "records": bytes(batch())} for partition in partitions]
    with wire.connect() as client:
        client.send_request(ApiKeys.PRODUCE, VERSION, body)
        assert client.is_closed()
    wire.await_end_offset(3, topic)


def spoiled_crc(data: bytearray) -> bytearray:
    data[-1] ^= 0xFF
    return data


# What is done to a batch of three records, the code, and the log start offset in the answer.
REFUSALS: dict[str, tuple[Callable[[bytearray], bytes | bytearray], int, int]] = {
    "bad CRC": (spoiled_crc, 2, -1),
    "empty": (lambda data: b"", 87, -1),
    "two batches": (lambda data: data + data, 87, -1),
    "control batch": (patched(">h", 21, 0x20), 87, 0),
    "magic 1": (lambda data: data[:16] + b"\x01" + data[17:], 87, -1),
    "record count": (patched(">i", 57, 4), 87, 0),
    "last offset delta": (patched(">i", 23, 5), 87, 0),
    "delta and count": (patched(">i", 23, 7, ), 87, 0),
    "base offset": (patched(">q", 0, 55), 87, 0),
    "codec 5": (patched(">h", 21, 5), -1, 0),
    "codec 7": (patched(">h", 21, 7), -1, 0),
    "truncated": (lambda data: data[:-10], 87, -1),
    "gzip garbage": (lambda data: with_payload(1, b"garbage" * 5), -1, 0),
    "linked lz4": (lambda data: with_payload(3, lz4.frame.compress(bytes(180_000), block_linked=True)), -1, 0),
    "producer id without sequence": (lambda data: batch(producer_id=5, producer_epoch=0, base_sequence=-1), 87, 0),
    "too large": (lambda data: batch(1, value=bytes(1_100_000)), 10, -1),
    "transactional": (patched(">h", 21, 0x10), 53, -1),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_produce_refuses(wire: WireTarget, topic: str, case: str) -> None:
    change, code, log_start_offset = REFUSALS[case]
    with wire.connect() as client:
        answer = produce(client, topic, change(batch()))
        assert summary(answer) == (code, -1, log_start_offset)
        assert answer["error_message"] is None
        assert answer["record_errors"] == []
        assert produce(client, topic, batch())["base_offset"] == 0, "the connection or the log suffered"


@pytest.mark.parametrize(("change", "message"), [
    (lambda data: data[:16] + b"\x03" + data[17:], "Invalid magic found in record: 3"),
    (patched(">i", 8, 10), "Record size 10 is less than the minimum record overhead (14)"),
], ids=["magic 3", "short length"])
def test_produce_refuses_with_a_message(wire: WireTarget, topic: str, change: Callable[[bytearray], bytearray],
                                        message: str) -> None:
    with wire.connect() as client:
        answer = produce(client, topic, change(batch()))
    assert summary(answer) == (2, -1, -1)
    assert answer["error_message"] == message


@pytest.mark.parametrize("compression", ["gzip", "snappy", "lz4", "zstd"])
def test_produce_accepts_every_codec(wire: WireTarget, topic: str, compression: str) -> None:
    with wire.connect() as client:
        assert summary(produce(client, topic, batch(compression=compression))) == (0, 0, 0)


def test_produce_accepts_plain_gzip_of_another_writer(wire: WireTarget, topic: str) -> None:
    with wire.connect() as client:
        assert produce(client, topic, with_payload(1, gzip.compress(bytes(batch()[61:]))))["error_code"] == 0


def test_produce_3_refuses_zstd_with_76(wire: WireTarget, topic: str) -> None:
    with wire.connect() as client:
        assert produce(client, topic, batch(compression="zstd"), version=3)["error_code"] == 76


def test_produce_of_the_far_future_names_each_record(wire: WireTarget, topic: str) -> None:
    far = now_ms() + 10_000_000_000
    with wire.connect() as client:
        answer = produce(client, topic, batch(timestamp=far))
    assert summary(answer) == (32, -1, 0)
    assert answer["error_message"] == "One or more records have been rejected due to invalid timestamp"
    assert [error["batch_index"] for error in answer["record_errors"]] == [0, 1, 2]
    assert answer["record_errors"][1]["batch_index_error_message"].startswith(
        f"Timestamp {far} of message with offset 1 is out of range. The timestamp should be within [-")


def test_produce_without_timestamp_and_with_the_wrong_type_is_accepted(wire: WireTarget, topic: str) -> None:
    with wire.connect() as client:
        assert produce(client, topic, batch(timestamp=-1))["error_code"] == 0
        assert produce(client, topic, batch(timestamp_type=1))["error_code"] == 0


def test_produce_with_log_append_time_tells_the_brokers_time(wire: WireTarget, topic_name: str) -> None:
    wire.create_topic(topic_name, 1, {"message.timestamp.type": "LogAppendTime"})
    with wire.connect() as client:
        answer = produce(client, topic_name, batch(timestamp=5))
    assert answer["error_code"] == 0
    assert abs(answer["log_append_time_ms"] - now_ms()) < 60_000


@pytest.mark.parametrize(("compression", "kind"), [("none", "DefaultRecord"), ("gzip", "PartialDefaultRecord")])
def test_produce_with_the_brokers_timestamp_type_where_it_stamps_is_refused(
        wire: WireTarget, topic_name: str, compression: str, kind: str) -> None:
    wire.create_topic(topic_name, 1, {"message.timestamp.type": "LogAppendTime"})
    with wire.connect() as client:
        answer = produce(client, topic_name, batch(2, timestamp=5, compression=compression, timestamp_type=1))
        assert wire.end_offset(topic_name) == 0
    assert (*summary(answer), answer["error_message"]) == (
        32, -1, 0, "One or more records have been rejected due to invalid timestamp")
    assert [(error["batch_index"], error["batch_index_error_message"]) for error in answer["record_errors"]] == [
        (number, f"Invalid timestamp type in message {kind}(offset={number}, timestamp=5, key=5 bytes, value=5 bytes). "
                 "Producer should not set timestamp type to LogAppendTime.") for number in range(2)]


@pytest.mark.parametrize("version", [3, 9, 13])
def test_produce_to_what_is_named_twice_stores_the_last_and_answers_once(
        wire: WireTarget, topic: str, version: int) -> None:
    with wire.connect() as client:
        topic_id = client.request(ApiKeys.METADATA, 12, metadata_body(topic))["topics"][0]["topic_id"]

        def send(*topics: list[tuple[int, int]], acks: int = -1) -> list[tuple[int, int, int]]:
            key = {"topic_id": topic_id} if version >= 13 else {"name": topic}
            answer = client.request(ApiKeys.PRODUCE, version, {"acks": acks, "timeout_ms": 5000, "topic_data": [
                {**key, "partition_data": [{"index": index, "records": bytes(batch(count))} for index, count in asked]}
                for asked in topics]})
            return sorted((partition["index"], partition["error_code"], partition["base_offset"])
                          for one in answer["responses"] for partition in one["partition_responses"])

        assert send([(0, 1), (1, 1), (0, 3)]) == [(0, 0, 0), (1, 0, 0)]
        assert send([(0, 1)], [(1, 2), (0, 2)]) == [(0, 0, 3), (1, 0, 1)]
        assert send([(9, 1), (9, 1)]) == [(9, 3, -1)]
        assert send([(0, 1), (0, 1)], acks=7) == [(0, 21, -1)]
        assert send([]) == []
        assert send([], [(0, 1)], []) == [(0, 0, 5)]
    assert (wire.end_offset(topic), wire.end_offset(topic, 1)) == (6, 3)


def test_produce_respects_the_topics_max_message_bytes(wire: WireTarget, topic_name: str) -> None:
    wire.create_topic(topic_name, 1, {"max.message.bytes": "500"})
    with wire.connect() as client:
        assert produce(client, topic_name, batch(1, value=bytes(300)))["error_code"] == 0
        assert produce(client, topic_name, batch(1, value=bytes(600)))["error_code"] == 10


def test_produce_answers_each_partition_by_itself(wire: WireTarget, topic: str) -> None:
    body = produce_body(topic, 0, bytes(batch()))
    body["topic_data"][0]["partition_data"] += [{"index": 77, "records": bytes(batch())},
                                                {"index": 1, "records": bytes(batch(2))}]
    with wire.connect() as client:
        answers = client.request(ApiKeys.PRODUCE, VERSION, body)["responses"][0]["partition_responses"]
    found = {answer["index"]: (answer["error_code"], answer["base_offset"]) for answer in answers}
    assert found == {0: (0, 0), 77: (3, -1), 1: (0, 0)}
