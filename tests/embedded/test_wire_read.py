"""Metadata, ListOffsets and Fetch as they were measured on Apache Kafka 4.1.

The same tests run against it with KAFKA_REFERENCE=host:port.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from crc32c import crc32c

from pyproducer.protocol.apis import ApiKeys
from pyproducer.protocol.schema import Struct
from pyproducer.record.batch_reader import read_batches
from pyproducer.record.batch_writer import build_batch
from tests.embedded.conftest import WireTarget
from tests.support.patience import GIVE_UP_S
from tests.support.raw_client import (
    RawClient,
    fetch_body,
    fetched,
    list_offsets_body,
    metadata_body,
    produce_body,
    produced,
)
from tests.support.raw_transactions import RawTransactions

NO_ID = uuid.UUID(int=0)
START_MS = 1_700_000_000_000


def fill(wire: WireTarget, topic: str, count: int = 5, *, compression: str = "none") -> None:
    """Append `count` batches of two records, a second apart."""
    with wire.connect() as client:
        for number in range(count):
            at = START_MS + 2000 * number
            records = build_batch([(at, b"k", b"v" * 50, ()), (at + 1000, b"k", b"v" * 50, ())],
                                  compression=compression)
            answer = produced(client.request(ApiKeys.PRODUCE, 9, produce_body(topic, 0, bytes(records))))
            assert answer["error_code"] == 0


# ---- Metadata

@pytest.mark.parametrize("version", range(14))
def test_metadata_describes_a_topic_in_every_version(wire: WireTarget, topic: str, version: int) -> None:
    with wire.connect() as client:
        answer = client.request(ApiKeys.METADATA, version, metadata_body(topic))
    (found,) = answer["topics"]
    assert (found["error_code"], found["name"]) == (0, topic)
    assert sorted(partition["partition_index"] for partition in found["partitions"]) == [0, 1, 2]
    (broker,) = answer["brokers"]
    assert (broker["host"], broker["port"]) == wire.address
    for partition in found["partitions"]:
        assert partition["leader_id"] == broker["node_id"]
        assert partition["isr_nodes"] == partition["replica_nodes"] == [broker["node_id"]]
        assert partition.get("leader_epoch", 0) == 0
    if version >= 1:
        assert answer["controller_id"] == broker["node_id"]
    if version >= 2:
        assert len(answer["cluster_id"]) == 22


def test_metadata_0_with_no_topics_means_all_and_later_none(wire: WireTarget, topic: str) -> None:
    with wire.connect() as client:
        assert topic in {found["name"] for found in client.request(ApiKeys.METADATA, 0, metadata_body())["topics"]}
        assert client.request(ApiKeys.METADATA, 1, metadata_body())["topics"] == []
        everything = client.request(ApiKeys.METADATA, 12, {"topics": None})["topics"]
    assert topic in {found["name"] for found in everything}


def await_created(client: RawClient, version: int, topic: str) -> dict[str, Any]:
    """Ask for a topic until it is there, and return what is told of it."""
    deadline = time.monotonic() + GIVE_UP_S
    while True:
        (found,) = client.request(ApiKeys.METADATA, version, metadata_body(topic))["topics"]
        if found["error_code"] == 0 and found["partitions"]:
            return dict(found)
        assert found["error_code"] in (3, 5)
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.parametrize("version", range(4))
def test_metadata_of_an_unknown_topic_when_the_version_cannot_ask_for_it_then_it_is_created(
        wire: WireTarget, topic_name: str, version: int) -> None:
    with wire.connect() as client:
        await_created(client, version, topic_name)


def test_metadata_of_an_unknown_topic_creates_it_only_when_asked_to(wire: WireTarget, topic_name: str) -> None:
    with wire.connect() as client:
        body = metadata_body(topic_name, allow_auto_topic_creation=False)
        (found,) = client.request(ApiKeys.METADATA, 12, body)["topics"]
        assert (found["error_code"], found["topic_id"].int) == (3, 0)
        assert await_created(client, 12, topic_name)["topic_id"].int != 0


@pytest.mark.parametrize("name", ["a/b", "", "..", "x" * 250])
def test_metadata_of_an_invalid_name_is_17(wire: WireTarget, name: str) -> None:
    with wire.connect() as client:
        (found,) = client.request(ApiKeys.METADATA, 12, metadata_body(name))["topics"]
    assert (found["error_code"], found["name"], found["partitions"]) == (17, name, [])


def test_metadata_of_a_name_that_collides_with_a_topics_is_3_and_creates_nothing(
        wire: WireTarget, topic_name: str) -> None:
    """CreateTopics says 17 of it; here the broker's log has the reason."""
    with wire.connect() as client:
        await_created(client, 12, f"{topic_name}.of.dots")
        for version in (4, 12):
            (found,) = client.request(ApiKeys.METADATA, version, metadata_body(f"{topic_name}.of_dots"))["topics"]
            assert (found["error_code"], found["partitions"]) == (3, [])
        await_created(client, 12, f"{topic_name}.other")  # whatever was created behind an answer is there by now
        (found,) = client.request(ApiKeys.METADATA, 12, metadata_body(f"{topic_name}.of_dots"))["topics"]
    assert found["error_code"] == 3


def test_metadata_finds_topics_by_id_from_12(wire: WireTarget, topic: str) -> None:
    with wire.connect() as client:
        topic_id = client.request(ApiKeys.METADATA, 12, metadata_body(topic))["topics"][0]["topic_id"]
        by_id = client.request(ApiKeys.METADATA, 12, {"topics": [{"topic_id": topic_id, "name": None}]})["topics"][0]
        unknown = client.request(ApiKeys.METADATA, 12, {"topics": [{"topic_id": uuid.UUID(int=1), "name": None}]})
        too_early = client.request(ApiKeys.METADATA, 10, {"topics": [{"topic_id": topic_id, "name": None}]})
        neither = client.request(ApiKeys.METADATA, 12, {"topics": [{"topic_id": uuid.UUID(int=0), "name": None}]})
    assert (by_id["error_code"], by_id["name"]) == (0, topic)
    assert (unknown["topics"][0]["error_code"], unknown["topics"][0]["name"]) == (100, None)
    assert too_early["topics"][0]["error_code"] == 42
    assert neither["topics"][0]["error_code"] == -1


def test_metadata_passes_over_names_where_a_request_has_ids(wire: WireTarget, topic: str) -> None:
    with wire.connect() as client:
        topic_id = client.request(ApiKeys.METADATA, 12, metadata_body(topic))["topics"][0]["topic_id"]
        both = client.request(ApiKeys.METADATA, 12, {"topics": [
            {"topic_id": NO_ID, "name": "another"}, {"topic_id": topic_id, "name": None}]})
    assert [(found["name"], found["topic_id"]) for found in both["topics"]] == [(topic, topic_id)]


def test_metadata_answers_a_repeated_name_once(wire: WireTarget, topic: str) -> None:
    with wire.connect() as client:
        answer = client.request(ApiKeys.METADATA, 13, metadata_body(topic, topic))
    assert len(answer["topics"]) == 1
    assert answer["error_code"] == 0


@pytest.mark.parametrize("version", [8, 9, 10, 11, 12, 13])
def test_metadata_tells_the_authorized_operations_only_when_asked_to(
        wire: WireTarget, topic: str, version: int) -> None:
    unknown = -2**31
    with wire.connect() as client:
        for asks in (True, False):
            answer = client.request(ApiKeys.METADATA, version, metadata_body(
                topic, "no-such-topic", "no name!", allow_auto_topic_creation=False,
                include_topic_authorized_operations=asks,
                **({"include_cluster_authorized_operations": asks} if version <= 10 else {})))
            assert {one["topic_authorized_operations"] for one in answer["topics"]} == {3576 if asks else unknown}
            assert answer.get("cluster_authorized_operations", 8096 if asks else unknown) == (
                8096 if asks else unknown)


def test_describe_cluster_names_the_broker_and_the_controller(wire: WireTarget) -> None:
    with wire.connect() as client:
        for version in (0, 1, 2):
            answer = client.request(ApiKeys.DESCRIBE_CLUSTER, version, {"include_cluster_authorized_operations": False,
                                                                        **({"include_fenced_brokers": False}
                                                                           if version == 2 else {})})
            (broker,) = answer["brokers"]
            assert (answer["error_code"], broker["host"], broker["port"]) == (0, *wire.address)
            assert answer["controller_id"] == broker["broker_id"]


# ---- ListOffsets

def list_offsets(client: RawClient, version: int, topic: str, timestamp: int, *,
                 isolation_level: int = 0) -> tuple[int, int, int]:
    fields = {name: value for name, value, since in (("isolation_level", isolation_level, 2), ("timeout_ms", 0, 10))
              if version >= since}
    body = list_offsets_body(topic, 0, timestamp, **fields)
    (found,) = client.request(ApiKeys.LIST_OFFSETS, version, body)["topics"][0]["partitions"]
    return found["error_code"], found["timestamp"], found["offset"]


@pytest.mark.parametrize(("timestamp", "since", "expected"), [
    (-1, 1, (0, -1, 10)),
    (-2, 1, (0, -1, 0)),
    (-3, 7, (0, START_MS + 9000, 9)),
    (-4, 8, (0, -1, 0)),
    (-5, 9, (0, -1, -1)),
    (-6, 99, (0, 0, 0)),
    (0, 1, (0, START_MS, 0)),
    (START_MS + 3000, 1, (0, START_MS + 3000, 3)),
    (START_MS + 3001, 1, (0, START_MS + 4000, 4)),
    (1 << 62, 1, (0, -1, -1)),
])
def test_list_offsets_finds(wire: WireTarget, topic: str, timestamp: int, since: int,
                            expected: tuple[int, int, int]) -> None:
    fill(wire, topic)
    with wire.connect() as client:
        for version in range(1, 11):
            found = list_offsets(client, version, topic, timestamp)
            assert found == (expected if version >= since else (35, -1, -1)), version


def test_list_offsets_looks_into_compressed_batches(wire: WireTarget, topic: str) -> None:
    fill(wire, topic, compression="lz4")
    with wire.connect() as client:
        assert list_offsets(client, 7, topic, START_MS + 4500) == (0, START_MS + 5000, 5)


@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_list_offsets_by_time_when_the_log_begins_inside_a_batch_then_nothing_before_that_is_found(
        wire: WireTarget, topic: str, compression: str) -> None:
    """A consumer that sought there was told that the offset is out of range."""
    times = [*range(START_MS, START_MS + 100, 10)]
    with wire.connect() as client:
        for batch in (times, [START_MS + 200, START_MS + 150]):
            records = build_batch([(at, b"k", b"v", ()) for at in batch], compression=compression)
            assert produced(client.request(ApiKeys.PRODUCE, 9, produce_body(topic, 0, records)))["error_code"] == 0

        def found(*since: int) -> list[tuple[int, int]]:
            answers = [list_offsets(client, 7, topic, START_MS + at) for at in since]
            assert all(code == 0 for code, _, _ in answers)
            return [(timestamp - START_MS, offset) for _, timestamp, offset in answers]

        def delete_before(offset: int) -> None:
            answer = client.request(ApiKeys.DELETE_RECORDS, 2, {"timeout_ms": 5000, "topics": [
                {"name": topic, "partitions": [{"partition_index": 0, "offset": offset}]}]})
            assert answer["topics"][0]["partitions"][0]["error_code"] == 0

        assert found(0, 35, 90, 91, 160) == [(0, 0), (40, 4), (90, 9), (200, 10), (200, 10)]
        delete_before(4)
        assert found(0, 35, 41, 90, 91) == [(40, 4), (40, 4), (50, 5), (90, 9), (200, 10)]
        delete_before(11)
        assert found(0, 90, 150) == [(150, 11)] * 3
        assert list_offsets(client, 7, topic, START_MS + 151) == (0, -1, -1)
        assert list_offsets(client, 7, topic, -3) == (0, START_MS + 200, 10), "Kafka does not look at the start here"


def test_list_offsets_when_a_transaction_is_open_then_who_reads_committed_finds_nothing_of_it_or_behind_it(
        wire: WireTarget, topic: str, begin: Callable[..., RawTransactions]) -> None:
    """A consumer that sought there, by time or to the end, was behind what it may read."""
    fill(wire, topic, 1)
    transaction = begin()
    transaction.add_partitions({topic: [0]})
    assert transaction.produce(topic, 0, 0) == (0, 2)
    later_ms = int(time.time() * 1000) + 3_600_000
    with wire.connect() as client:
        late = build_batch([(later_ms, b"k", b"v", ())])
        assert produced(client.request(ApiKeys.PRODUCE, 9, produce_body(topic, 0, late)))["base_offset"] == 3

        def found(committed: int) -> list[int]:
            return [list_offsets(client, 7, topic, at, isolation_level=committed)[2]
                    for at in (-1, -2, -3, START_MS + 1, START_MS + 1001, later_ms)]

        assert found(committed=0) == [4, 0, 3, 1, 2, 3]
        assert found(committed=1) == [2, 0, -1, 1, -1, -1]
        assert transaction.end(commit=True) == 0
        deadline = time.monotonic() + GIVE_UP_S
        while found(committed=1) != [5, 0, 3, 1, 2, 3]:  # the marker is written behind the answer
            assert time.monotonic() < deadline, found(committed=1)
            time.sleep(0.05)


@pytest.mark.parametrize("version", [1, 4, 10])
def test_list_offsets_of_what_is_named_twice_is_42_once(wire: WireTarget, topic: str, version: int) -> None:
    def asked(*partitions: int) -> list[dict[str, int]]:
        return [{"partition_index": partition, "timestamp": -1} for partition in partitions]

    fields = {name: 0 for name, since in (("isolation_level", 2), ("timeout_ms", 10)) if version >= since}
    with wire.connect() as client:
        answer = client.request(ApiKeys.LIST_OFFSETS, version, {"replica_id": -1, **fields, "topics": [
            {"name": topic, "partitions": asked(0, 1, 0)}, {"name": "no-such-topic", "partitions": asked(5, 5)},
            {"name": topic, "partitions": asked(2, 1)}]})
    found = [(one["name"], partition["partition_index"], partition["error_code"], partition["offset"])
             for one in answer["topics"] for partition in one["partitions"]]
    assert sorted(found) == sorted([(topic, 0, 42, -1), (topic, 1, 42, -1), (topic, 2, 0, 0),
                                    ("no-such-topic", 5, 42, -1)])


@pytest.mark.parametrize("isolation_level", [-1, 2, 7])
def test_list_offsets_with_an_unknown_isolation_level_is_an_error(
        wire: WireTarget, topic: str, isolation_level: int) -> None:
    with wire.connect() as client:
        answer = client.request(ApiKeys.LIST_OFFSETS, 7, list_offsets_body(
            topic, 0, -1, isolation_level=isolation_level))
    (found,) = answer["topics"][0]["partitions"]
    assert (found["error_code"], found["offset"]) == (-1, -1)


@pytest.mark.parametrize("compression", ["none", "gzip"])
@pytest.mark.parametrize("claimed", [START_MS + 900, START_MS, -1])
def test_largest_timestamp_of_a_batch_is_that_of_its_records_whatever_the_producer_says(
        wire: WireTarget, topic: str, compression: str, claimed: int) -> None:
    records = bytearray(build_batch([(START_MS + at, b"k", b"v", ()) for at in (0, 7, 3)], compression=compression))
    records[35:43] = claimed.to_bytes(8, "big", signed=True)
    records[17:21] = crc32c(records[21:]).to_bytes(4, "big")
    with wire.connect() as client:
        answer = produced(client.request(ApiKeys.PRODUCE, 9, produce_body(topic, 0, bytes(records))))
        assert answer["error_code"] == 0
        (stored,) = read_batches(fetched(client.request(ApiKeys.FETCH, 12, fetch_body(12, topic, 0, 0)))["records"])
        assert (stored.max_timestamp, stored.is_valid()) == (START_MS + 7, True)
        assert list_offsets(client, 7, topic, START_MS + 5) == (0, START_MS + 7, 1)
        assert list_offsets(client, 7, topic, START_MS + 8) == (0, -1, -1)
        assert list_offsets(client, 7, topic, -3) == (0, START_MS + 7, 1)


def test_list_offsets_of_an_unknown_topic_is_3(wire: WireTarget) -> None:
    with wire.connect() as client:
        assert list_offsets(client, 7, "no-such-topic", -1)[0] == 3


# ---- Fetch

def offsets(answer: Struct) -> list[int]:
    return [record.offset for batch in read_batches(fetched(answer)["records"]) for record in batch]


@pytest.mark.parametrize("version", range(4, 13))
def test_fetch_reads_in_every_version_with_names(wire: WireTarget, topic: str, version: int) -> None:
    fill(wire, topic)
    with wire.connect() as client:
        answer = client.request(ApiKeys.FETCH, version, fetch_body(version, topic, 0, 0))
    partition = fetched(answer)
    assert (partition["error_code"], partition["high_watermark"], partition["last_stable_offset"]) == (0, 10, 10)
    assert partition["aborted_transactions"] is None
    assert partition.get("log_start_offset", 0) == 0
    assert offsets(answer) == list(range(10))
    assert answer.get("session_id", 0) == 0


@pytest.mark.parametrize("version", range(13, 19))
def test_fetch_reads_in_every_version_with_ids(wire: WireTarget, topic: str, version: int) -> None:
    fill(wire, topic)
    with wire.connect() as client:
        topic_id = client.request(ApiKeys.METADATA, 12, metadata_body(topic))["topics"][0]["topic_id"]
        answer = client.request(ApiKeys.FETCH, version, fetch_body(version, topic_id, 0, 3))
        unknown = client.request(ApiKeys.FETCH, version, fetch_body(version, uuid.UUID(int=1), 0, 3))
    assert offsets(answer) == list(range(2, 10)), "the batch that holds offset 3 starts at 2"
    assert fetched(unknown)["error_code"] == 100


@pytest.mark.parametrize(("name", "partition", "offset", "code"), [
    (None, 0, 99, 1), (None, 0, -1, 1), (None, 77, 0, 3), ("no-such-topic", 0, 0, 3)])
def test_fetch_error(wire: WireTarget, topic: str, name: str | None, partition: int, offset: int, code: int) -> None:
    with wire.connect() as client:
        found = fetched(client.request(ApiKeys.FETCH, 12, fetch_body(12, name or topic, partition, offset,
                                                                     max_wait_ms=5000)))
    assert (found["error_code"], found["high_watermark"], found["log_start_offset"]) == (code, -1, -1)
    assert not found["records"]


def test_fetch_gives_one_whole_batch_even_above_the_limits(wire: WireTarget, topic: str) -> None:
    fill(wire, topic)
    with wire.connect() as client:
        answer = client.request(ApiKeys.FETCH, 12, fetch_body(12, topic, 0, 4, max_bytes=1, partition_max_bytes=1))
    assert offsets(answer) == [4, 5]


def test_fetch_stops_before_the_limit(wire: WireTarget, topic: str) -> None:
    fill(wire, topic)
    with wire.connect() as client:
        size = len(fetched(client.request(ApiKeys.FETCH, 12, fetch_body(12, topic, 0, 0)))["records"])
        answer = client.request(ApiKeys.FETCH, 12, fetch_body(12, topic, 0, 0, partition_max_bytes=size - 1))
    assert offsets(answer) == list(range(8))


# ---- Fetch: one limit for all partitions (KIP-74)

BATCH = bytes(build_batch([(START_MS, b"k", b"v" * 500, ())]))


def fill_partitions(wire: WireTarget, topic: str, *counts: int) -> None:
    """Append as many batches of one size to the partitions from 0 on."""
    with wire.connect() as client:
        for partition, count in enumerate(counts):
            for _ in range(count):
                answer = produced(client.request(ApiKeys.PRODUCE, 9, produce_body(topic, partition, BATCH)))
                assert answer["error_code"] == 0


def fetched_counts(client: RawClient, topic: str, *, max_bytes: int, partition_max_bytes: int = 1 << 20,
                   offsets: tuple[int, ...] = (0, 0, 0)) -> list[int]:
    """Fetch from all partitions at once; return how many whole batches each gave."""
    body = fetch_body(12, topic, 0, 0, max_bytes=max_bytes)
    body["topics"][0]["partitions"] = [
        {"partition": partition, "fetch_offset": offset, "partition_max_bytes": partition_max_bytes}
        for partition, offset in enumerate(offsets)]
    answer = client.request(ApiKeys.FETCH, 12, body)
    partitions = answer["responses"][0]["partitions"]
    assert [(entry["partition_index"], entry["error_code"]) for entry in partitions] == [
        (partition, 0) for partition in range(len(offsets))]
    return [len(entry["records"] or b"") // len(BATCH) for entry in partitions]


@pytest.mark.parametrize(("batches", "expected"), [
    (1, [1, 0, 0]), (3, [3, 0, 0]), (4, [3, 1, 0]), (6, [3, 3, 0]), (8, [3, 3, 2]), (9, [3, 3, 3]),
    (100, [3, 3, 3])])
def test_fetch_when_max_bytes_are_used_up_then_the_later_partitions_get_what_is_left(
        wire: WireTarget, topic: str, batches: int, expected: list[int]) -> None:
    """With the limit applied to each partition alone, a fetch of many partitions gave many times what was asked."""
    fill_partitions(wire, topic, 3, 3, 3)
    with wire.connect() as client:
        assert fetched_counts(client, topic, max_bytes=batches * len(BATCH)) == expected
        assert fetched_counts(client, topic, max_bytes=(batches + 1) * len(BATCH) - 1) == expected, "not a part more"


def test_fetch_when_the_first_batch_alone_is_above_max_bytes_then_it_is_the_only_one(
        wire: WireTarget, topic: str) -> None:
    fill_partitions(wire, topic, 3, 3, 3)
    with wire.connect() as client:
        for max_bytes in (0, 1, len(BATCH) - 1):
            assert fetched_counts(client, topic, max_bytes=max_bytes) == [1, 0, 0]
            assert fetched_counts(client, topic, max_bytes=max_bytes, offsets=(3, 0, 0)) == [0, 1, 0]
            assert fetched_counts(client, topic, max_bytes=max_bytes, offsets=(3, 3, 2)) == [0, 0, 1]


def test_fetch_when_partitions_have_limits_of_their_own_then_both_limits_hold(wire: WireTarget, topic: str) -> None:
    fill_partitions(wire, topic, 3, 3, 3)
    size = len(BATCH)
    with wire.connect() as client:
        assert fetched_counts(client, topic, max_bytes=100 * size, partition_max_bytes=2 * size) == [2, 2, 2]
        assert fetched_counts(client, topic, max_bytes=5 * size, partition_max_bytes=2 * size) == [2, 2, 1]
        assert fetched_counts(client, topic, max_bytes=100 * size, partition_max_bytes=size - 1) == [1, 0, 0], (
            "one batch above its limit, and only the first")


def test_fetch_at_the_end_waits_for_the_next_record(wire: WireTarget, topic: str) -> None:
    with wire.connect() as client:
        client.send_request(ApiKeys.FETCH, 12, fetch_body(12, topic, 0, 0, max_wait_ms=600_000))
        assert client.is_silent(for_s=0.2)
        fill(wire, topic, 1)
        _, answer = client.receive_response(ApiKeys.FETCH, 12)  # gives up long before the fetch does
    assert offsets(answer) == [0, 1]


def test_fetch_at_the_end_gives_up_after_its_wait(wire: WireTarget, topic: str) -> None:
    with wire.connect() as client:
        begin = time.monotonic()
        answer = client.request(ApiKeys.FETCH, 12, fetch_body(12, topic, 0, 0, max_wait_ms=300))
        assert time.monotonic() - begin > 0.28
    assert offsets(answer) == []


@pytest.mark.parametrize("isolation_level", [-1, 2, 7])
@pytest.mark.parametrize("version", [4, 6, 7, 12, 13])
def test_fetch_with_an_unknown_isolation_level_is_an_error(
        wire: WireTarget, topic: str, version: int, isolation_level: int) -> None:
    fill(wire, topic)
    with wire.connect() as client:
        topic_id = client.request(ApiKeys.METADATA, 12, metadata_body(topic))["topics"][0]["topic_id"]
        answer = client.request(ApiKeys.FETCH, version, fetch_body(
            version, topic_id if version >= 13 else topic, 0, 0, isolation_level=isolation_level))
    assert answer.get("error_code", -1) == -1
    assert [[partition["error_code"] for partition in one["partitions"]] for one in answer["responses"]] == (
        [] if version >= 13 else [[-1]])


@pytest.mark.parametrize("version", [4, 12])
def test_fetch_with_a_negative_size_is_an_error_where_there_is_something_to_read(
        wire: WireTarget, topic: str, version: int) -> None:
    fill(wire, topic)

    def codes(offset: int, **fields: int) -> tuple[int, int, int]:
        answer = fetched(client.request(ApiKeys.FETCH, version, fetch_body(version, topic, 0, offset, **fields)))
        return answer["error_code"], answer["high_watermark"], len(answer["records"])

    with wire.connect() as client:
        for offset, expected in ((0, (-1, -1, 0)), (9, (-1, -1, 0)), (10, (0, 10, 0)), (11, (1, -1, 0))):
            assert codes(offset, partition_max_bytes=-1) == expected
            assert codes(offset, max_bytes=-5) == expected
        assert codes(0, partition_max_bytes=0)[0] == 0
        body = fetch_body(version, topic, 0, 0)
        body["topics"][0]["partitions"] = [
            {"partition": index, "fetch_offset": 0, "partition_max_bytes": size}
            for index, size in ((0, 1 << 20), (9, -1))]
        answer = client.request(ApiKeys.FETCH, version, body)
    found = {partition["partition_index"]: partition["error_code"]
             for one in answer["responses"] for partition in one["partitions"]}
    assert found == {0: 0, 9: 3}


@pytest.mark.parametrize("version", [12, 13])
def test_fetch_of_what_is_named_twice_is_answered_once_as_it_was_named_last(
        wire: WireTarget, topic: str, version: int) -> None:
    fill(wire, topic)
    with wire.connect() as client:
        topic_id = client.request(ApiKeys.METADATA, 12, metadata_body(topic))["topics"][0]["topic_id"]

        def asked(*partitions: tuple[int, int]) -> dict[str, object]:
            return {"topic_id" if version >= 13 else "topic": topic_id if version >= 13 else topic, "partitions": [
                {"partition": index, "fetch_offset": offset, "partition_max_bytes": 1 << 20}
                for index, offset in partitions]}

        def found(*topics: dict[str, object]) -> list[tuple[int, int, int]]:
            answer = client.request(ApiKeys.FETCH, version, {**fetch_body(version, topic_id, 0, 0), "topics": topics})
            return [(partition["partition_index"], partition["error_code"], next(
                (batch.base_offset for batch in read_batches(partition["records"])), -1))
                    for one in answer["responses"] for partition in one["partitions"]]

        assert found(asked((0, 0), (1, 0), (0, 4))) == [(0, 0, 4), (1, 0, -1)]
        assert found(asked((0, 0)), asked((1, 0), (0, 4))) == [(0, 0, 4), (1, 0, -1)]
        assert found(asked()) == []


def test_fetch_of_an_unknown_session_is_70_without_topics(wire: WireTarget, topic: str) -> None:
    with wire.connect() as client:
        answer = client.request(ApiKeys.FETCH, 12, fetch_body(12, topic, 0, 0, session_id=1234, session_epoch=5))
    assert (answer["error_code"], answer["session_id"], answer["responses"]) == (70, 0, [])


def test_fetch_with_another_leader_epoch_is_fenced(wire: WireTarget, topic: str) -> None:
    body = fetch_body(12, topic, 0, 0)
    body["topics"][0]["partitions"][0]["current_leader_epoch"] = 9
    with wire.connect() as client:
        assert fetched(client.request(ApiKeys.FETCH, 12, body))["error_code"] == 75


# ---- topics

def create(client: RawClient, version: int, name: str, **fields: object) -> Struct:
    (found,) = client.request(ApiKeys.CREATE_TOPICS, version, {"timeout_ms": 5000, "topics": [
        {"name": name, "num_partitions": 2, "replication_factor": 1, "assignments": [], "configs": [], **fields},
    ]})["topics"]
    return found


@pytest.mark.parametrize("version", range(2, 8))
def test_create_topics_in_every_version(wire: WireTarget, topic_name: str, version: int) -> None:
    with wire.connect() as client:
        made = create(client, version, topic_name)
        again = create(client, version, topic_name)
    assert made["error_code"] == 0
    assert again["error_code"] == 36
    if version >= 5:
        assert (made["num_partitions"], made["replication_factor"]) == (2, 1)
        assert {"name": "max.message.bytes", "value": "1048588", "read_only": False, "config_source": 5,
                "is_sensitive": False} in made["configs"]
    if version >= 7:
        assert made["topic_id"].int != 0


@pytest.mark.parametrize(("fields", "code"), [
    ({"num_partitions": 0}, 37), ({"num_partitions": -2}, 37), ({"replication_factor": 0}, 38),
    ({"replication_factor": 3}, 38), ({"configs": [{"name": "no.such.thing", "value": "1"}]}, 40),
    ({"configs": [{"name": "max.message.bytes", "value": "many"}]}, 40),
    ({"num_partitions": -1, "replication_factor": -1, "assignments": [{"partition_index": 1, "broker_ids": [1]}]}, 39),
    ({"assignments": [{"partition_index": 0, "broker_ids": [1]}]}, 42),
])
def test_create_topics_refuses(wire: WireTarget, topic_name: str, fields: dict[str, object], code: int) -> None:
    with wire.connect() as client:
        refused = create(client, 7, topic_name, **fields)
        unknown = client.request(ApiKeys.METADATA, 12, metadata_body(topic_name, allow_auto_topic_creation=False))
    assert refused["error_code"] == code
    assert refused["error_message"]
    assert unknown["topics"][0]["error_code"] == 3


def test_create_topics_only_validates_when_asked_to(wire: WireTarget, topic_name: str) -> None:
    body = {"timeout_ms": 5000, "validate_only": True, "topics": [
        {"name": topic_name, "num_partitions": -1, "replication_factor": -1, "assignments": [], "configs": []}]}
    with wire.connect() as client:
        assert client.request(ApiKeys.CREATE_TOPICS, 7, body)["topics"][0]["error_code"] == 0
        unknown = client.request(ApiKeys.METADATA, 12, metadata_body(topic_name, allow_auto_topic_creation=False))
    assert unknown["topics"][0]["error_code"] == 3


@pytest.mark.parametrize("version", range(1, 7))
def test_delete_topics_in_every_version(wire: WireTarget, topic: str, version: int) -> None:
    def body(name: str) -> dict[str, object]:
        named = {"topics": [{"name": name, "topic_id": NO_ID}]} if version >= 6 else {"topic_names": [name]}
        return {"timeout_ms": 5000, **named}

    with wire.connect() as client:
        assert client.request(ApiKeys.DELETE_TOPICS, version, body(topic))["responses"][0]["error_code"] == 0
        # Apache Kafka answers before its own metadata have heard of it, which is a moment on a busy machine.
        deadline = time.monotonic() + GIVE_UP_S
        while client.request(ApiKeys.METADATA, 12, metadata_body(topic, allow_auto_topic_creation=False)
                             )["topics"][0]["error_code"] != 3:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert client.request(ApiKeys.DELETE_TOPICS, version, body(topic))["responses"][0]["error_code"] == 3


def test_delete_topics_of_what_is_named_twice_is_42_and_it_stays(wire: WireTarget, topic: str) -> None:
    with wire.connect() as client:
        topic_id = client.request(ApiKeys.METADATA, 12, metadata_body(topic))["topics"][0]["topic_id"]
        unknown_id = uuid.UUID(int=5)

        def delete(version: int, *named: tuple[str | None, uuid.UUID]) -> list[tuple[object, ...]]:
            fields = {"topics": [{"name": name, "topic_id": given} for name, given in named]} if version >= 6 else {
                "topic_names": [name for name, _ in named]}
            answer = client.request(ApiKeys.DELETE_TOPICS, version, {"timeout_ms": 5000, **fields})
            return sorted(((one["name"], one.get("topic_id", NO_ID), one["error_code"], one.get("error_message"))
                           for one in answer["responses"]), key=str)

        for version in (1, 5, 6):
            message = "Duplicate topic name." if version >= 5 else None
            assert delete(version, (topic, NO_ID), ("no-such-topic", NO_ID), (topic, NO_ID),
                          ("no-such-topic", NO_ID)) == sorted(
                [(topic, NO_ID, 42, message), ("no-such-topic", NO_ID, 42, message)], key=str)
        assert delete(6, (None, topic_id), (None, topic_id)) == [(None, topic_id, 42, "Duplicate topic id.")]
        assert delete(6, (None, topic_id), (topic, NO_ID)) == [
            (topic, topic_id, 42, "The provided topic name maps to an ID that was already supplied.")]
        neither, both = "Neither topic name nor id were specified.", "You may not specify both topic name and topic id."
        assert delete(6, (None, unknown_id), (None, unknown_id), (None, NO_ID), (None, NO_ID), ("a", unknown_id),
                      ("a", unknown_id)) == sorted(
            [(None, unknown_id, 42, "Duplicate topic id."), (None, NO_ID, 42, neither), (None, NO_ID, 42, neither),
             ("a", unknown_id, 42, both), ("a", unknown_id, 42, both)], key=str)
        found = client.request(ApiKeys.METADATA, 12, metadata_body(topic, allow_auto_topic_creation=False))
        assert found["topics"][0]["topic_id"] == topic_id
