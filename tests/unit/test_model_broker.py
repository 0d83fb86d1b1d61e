"""The model broker of the simulation: its answers, what it calls a bug of the client, and its state."""

from __future__ import annotations

import gzip
import itertools
import struct
from collections.abc import Callable, Mapping
from typing import Any
from uuid import UUID

import crc32c
import pytest

from pyproducer.protocol.apis import ApiKeys
from pyproducer.protocol.header import parse_response
from pyproducer.protocol.schema import Struct
from pyproducer.record.batch_writer import build_batch
from tests.simulation.model_broker import (
    CLOSE_CONNECTION,
    ApiVersionsVerdict,
    ClientBug,
    Interference,
    LeaderHint,
    MetadataVerdict,
    ModelCluster,
    ModelParameters,
    Verdict,
)
from tests.simulation.model_faults import AFTER_APPEND
from tests.simulation.model_log import KAFKA_BEFORE_2_4
from tests.simulation.model_sasl import SASL_AUTHENTICATION_FAILED, ModelListener
from tests.simulation.model_topics import ZERO_ID
from tests.support.raw_client import metadata_body, produce_body, produced, request_bytes

NOW_MS = 5_000
TIMESTAMP_MS = 1_700_000_000_000
MAX_SEQUENCE = 2**31 - 1
XERIAL = b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1)
ANY_ID = UUID(int=7)
INIT_BODY = {"transactional_id": None, "transaction_timeout_ms": 60_000}


class Scripted(Interference):
    """Says what the test put into it, again and again."""

    def __init__(self) -> None:
        self.produce: Verdict | None = None
        self.init: int | None = None
        self.metadata: MetadataVerdict | None = None
        self.versions: ApiVersionsVerdict | None = None
        self.proof: int | None = None
        self.asked: list[tuple[int, str, int, int]] = []

    def on_produce(self, node_id: int, topic: str, partition: int, now_ms: int) -> Verdict | None:
        self.asked.append((node_id, topic, partition, now_ms))
        return self.produce

    def on_init_producer_id(self, node_id: int, now_ms: int) -> int | None:
        return self.init

    def on_proof(self, node_id: int, now_ms: int) -> int | None:
        return self.proof

    def on_metadata(self, node_id: int, now_ms: int) -> MetadataVerdict | None:
        return self.metadata

    def on_api_versions(self, node_id: int, now_ms: int) -> ApiVersionsVerdict | None:
        return self.versions


class Client:
    """Asks the model and reads its answers."""

    def __init__(self, cluster: ModelCluster) -> None:
        self.cluster = cluster
        self.now_ms = NOW_MS
        self._correlation_ids = itertools.count(1)

    def answer(self, api_key: ApiKeys, version: int, body: Mapping[str, Any], *, node_id: int = 0) -> Struct:
        correlation_id = next(self._correlation_ids)
        frame = request_bytes(api_key, version, body, correlation_id=correlation_id)
        payload = self.cluster.handle(node_id, frame, self.now_ms)
        assert payload is not None
        answered, response = parse_response(api_key, version, payload)
        assert answered == correlation_id
        return response

    def produce(self, records: bytes, *, partition: int = 0, node_id: int | None = None, version: int = 9,
                acks: int = -1) -> Struct:
        """Send one batch to the partition's leader; return the partition's row."""
        node_id = self.cluster.partition("t", partition).leader_id if node_id is None else node_id
        return produced(self.answer(ApiKeys.PRODUCE, version, self.body(version, partition, records, acks),
                                    node_id=node_id))

    def body(self, version: int, partition: int, records: bytes, acks: int = -1) -> dict[str, Any]:
        body = produce_body("t", partition, records, acks=acks)
        if version >= 13:
            body["topic_data"][0] = {"topic_id": self.cluster.topic_id("t"),
                                     "partition_data": body["topic_data"][0]["partition_data"]}
        return body

    def producer_id(self) -> int:
        producer_id: int = self.answer(ApiKeys.INIT_PRODUCER_ID, 4, INIT_BODY)["producer_id"]
        return producer_id


def batch(*values: bytes | None, producer_id: int = -1, epoch: int = -1, sequence: int = -1,
          compression: str = "none") -> bytes:
    return bytes(build_batch([(TIMESTAMP_MS + index, b"k", value, ()) for index, value in enumerate(values)],
                             producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence,
                             compression=compression))


@pytest.fixture
def interference() -> Scripted:
    return Scripted()


@pytest.fixture
def cluster(interference: Scripted) -> ModelCluster:
    return ModelCluster(node_count=3, topics={"t": 3, "u": 2}, parameters=ModelParameters(interference=interference))


@pytest.fixture
def client(cluster: ModelCluster) -> Client:
    return Client(cluster)


class Writer:
    """An idempotent producer on partition 0; returns (code, base offset)."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.producer_id = client.producer_id()

    def send(self, sequence: int, count: int = 3, epoch: int = 0) -> tuple[int, int]:
        records = batch(*[b"%d" % number for number in range(count)], producer_id=self.producer_id, epoch=epoch,
                        sequence=sequence)
        row = self.client.produce(records)
        return row["error_code"], row["base_offset"]


@pytest.fixture
def writer(client: Client) -> Writer:
    return Writer(client)


# ---- answers


@pytest.mark.parametrize("version", range(5))
def test_api_versions_when_asked_then_they_are_the_parameters(client: Client, version: int) -> None:
    client.cluster.parameters.produce_version = 8
    client.cluster.parameters.init_producer_id_version = None
    answer = client.answer(ApiKeys.API_VERSIONS, version, {"client_software_name": "x", "client_software_version": "1"}
                           if version >= 3 else {})
    assert {row["api_key"]: (row["min_version"], row["max_version"]) for row in answer["api_keys"]} == {
        0: (0, 8), 3: (0, 13), 18: (0, 4)}


def test_api_versions_when_the_version_is_too_new_then_it_is_35_and_says_which(client: Client) -> None:
    client.cluster.parameters.api_versions_version = 3
    answer = client.answer(ApiKeys.API_VERSIONS, 4, {"client_software_name": "x", "client_software_version": "1"})
    assert answer["error_code"] == 35
    assert [tuple(row.values()) for row in answer["api_keys"]] == [(18, 0, 3)]


@pytest.mark.parametrize("version", range(6))
def test_init_producer_id_when_asked_then_every_answer_has_a_fresh_id(client: Client, version: int) -> None:
    first = client.answer(ApiKeys.INIT_PRODUCER_ID, version, INIT_BODY)
    assert (first["error_code"], first["producer_epoch"]) == (0, 0)
    body = {**INIT_BODY, "producer_id": first["producer_id"], "producer_epoch": 5} if version >= 3 else INIT_BODY
    second = client.answer(ApiKeys.INIT_PRODUCER_ID, version, body)
    assert (second["producer_id"], second["producer_epoch"]) == (first["producer_id"] + 1, 0)


@pytest.mark.parametrize("version", range(14))
def test_metadata_when_all_topics_are_asked_then_all_is_told(client: Client, version: int) -> None:
    client.cluster.move_leader("t", 1, 0)
    answer = client.answer(ApiKeys.METADATA, version, {"topics": [] if version == 0 else None})
    assert [(row["node_id"], row["host"], row["port"]) for row in answer["brokers"]] == [
        (0, "node-0", 9092), (1, "node-1", 9093), (2, "node-2", 9094)]
    assert [topic["name"] for topic in answer["topics"]] == ["t", "u"]
    assert [(row["partition_index"], row["leader_id"], row.get("leader_epoch", None))
            for row in answer["topics"][0]["partitions"]] == [
        (index, leader, epoch if version >= 7 else None) for index, leader, epoch in ((0, 0, 0), (1, 0, 1), (2, 2, 0))]
    if version >= 10:
        assert answer["topics"][0]["topic_id"] == client.cluster.topic_id("t")


def test_metadata_when_topics_are_named_then_each_is_answered_once(client: Client) -> None:
    known, unknown = client.cluster.topic_id("u"), client.cluster.topic_id("t")
    client.cluster.delete_topic("t")
    for topics, told in (
            ([{"name": "u"}, {"name": "nope"}, {"name": "u"}, {"name": "a/b"}], [(0, "u"), (3, "nope"), (17, "a/b")]),
            ([{"name": None, "topic_id": known}, {"name": None, "topic_id": unknown}], [(0, "u"), (100, None)])):
        answer = client.answer(ApiKeys.METADATA, 12, {"topics": topics})
        assert [(topic["error_code"], topic["name"]) for topic in answer["topics"]] == told


def test_metadata_when_topics_are_made_by_asking_then_the_second_answer_has_it(client: Client) -> None:
    client.cluster.parameters.auto_create_partitions = 2
    for may_create, code in ((False, 3), (True, 3), (True, 0)):
        answer = client.answer(ApiKeys.METADATA, 9, {**metadata_body("new"), "allow_auto_topic_creation": may_create})
        assert answer["topics"][0]["error_code"] == code
    assert len(client.cluster.topics["new"]) == 2
    for code in (3, 0):
        topic = client.answer(ApiKeys.METADATA, 3, metadata_body("old"))["topics"][0]
        assert (topic["error_code"], topic["is_internal"]) == (code, False)


def test_metadata_when_the_cluster_is_old_then_topics_have_no_ids(client: Client) -> None:
    client.cluster.parameters.has_topic_ids = False
    answer = client.answer(ApiKeys.METADATA, 11, metadata_body("t"))
    assert answer["topics"][0]["topic_id"] == ZERO_ID


@pytest.mark.parametrize("version", range(3, 14))
def test_produce_when_a_batch_is_good_then_it_is_stored_and_its_offset_told(client: Client, version: int) -> None:
    for offset in (0, 2):
        row = client.produce(batch(b"a", None), version=version)
        assert (row["error_code"], row["base_offset"], row["log_append_time_ms"]) == (0, offset, -1)
    log = client.cluster.log("t", 0)
    assert [(stored.base_offset, stored.values, stored.node_id, stored.now_ms) for stored in log] == [
        (0, [b"a", None], 0, NOW_MS), (2, [b"a", None], 0, NOW_MS)]
    assert client.cluster.logs["t", client.cluster.topic_id("t"), 0] is log


def test_produce_when_acks_is_0_then_nothing_is_answered_and_an_error_closes_the_connection(client: Client) -> None:
    def send(partition: int) -> bytes | None:
        return client.cluster.handle(0, request_bytes(ApiKeys.PRODUCE, 9, produce_body(
            "t", partition, batch(b"a"), acks=0)), NOW_MS)

    assert send(0) is None
    assert len(client.cluster.log("t", 0)) == 1
    assert send(1) == CLOSE_CONNECTION == b""


def test_produce_when_the_node_does_not_lead_then_it_says_who_does(client: Client) -> None:
    client.cluster.move_leader("t", 0, 2)
    answer = client.answer(ApiKeys.PRODUCE, 10, client.body(10, 0, batch(b"a")))
    assert produced(answer)["error_code"] == 6
    assert dict(produced(answer)["current_leader"]) == {"leader_id": 2, "leader_epoch": 1}
    assert [(row["node_id"], row["host"], row["port"]) for row in answer["node_endpoints"]] == [(2, "node-2", 9094)]
    assert client.cluster.log("t", 0) == []
    assert client.produce(batch(b"a"), node_id=0, version=9)["error_code"] == 6
    client.cluster.parameters.hints_leaders = False
    answer = client.answer(ApiKeys.PRODUCE, 10, client.body(10, 0, batch(b"a")))
    assert produced(answer)["current_leader"]["leader_id"] == -1
    assert not answer["node_endpoints"]


def test_produce_when_topic_or_partition_is_unknown_then_3_and_for_an_id_100(client: Client) -> None:
    old = client.body(13, 0, batch(b"a"))
    assert client.produce(batch(b"a"), partition=0, version=12)["error_code"] == 0
    for version in (12, 13):
        answer = client.answer(ApiKeys.PRODUCE, version, client.body(version, 7, batch(b"a")))
        assert produced(answer)["error_code"] == 3
    client.cluster.recreate_topic("t")
    assert produced(client.answer(ApiKeys.PRODUCE, 13, old))["error_code"] == 100
    client.cluster.delete_topic("t")
    assert produced(client.answer(ApiKeys.PRODUCE, 12, produce_body("t", 0, batch(b"a"))))["error_code"] == 3


def test_produce_when_a_batch_is_larger_than_allowed_then_10_and_nothing_is_stored(client: Client) -> None:
    records = batch(b"a" * 100)
    client.cluster.parameters.max_message_bytes = len(records) - 1
    assert client.produce(records)["error_code"] == 10
    assert client.cluster.log("t", 0) == []
    client.cluster.parameters.max_message_bytes = len(records)
    assert client.produce(records)["error_code"] == 0


def test_produce_when_the_topic_keeps_the_brokers_time_then_it_is_told(client: Client) -> None:
    client.cluster.parameters.log_append_time_topics = frozenset({"t"})
    assert client.produce(batch(b"a"))["log_append_time_ms"] == NOW_MS


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_produce_when_records_are_compressed_then_their_values_are_read(client: Client, compression: str) -> None:
    values = [b"x" * 70_000, b"", None, *(b"%d" % number for number in range(300))]
    assert client.produce(batch(*values, compression=compression))["error_code"] == 0
    assert client.cluster.log("t", 0)[0].values == values


def test_produce_when_records_have_headers_then_they_are_read(client: Client) -> None:
    headers = [("trace", b"x" * 100), ("", None), ("\u00e9", b"")]
    records = build_batch([(TIMESTAMP_MS, None, b"a", headers), (TIMESTAMP_MS - 3, b"k" * 200, b"b" * 9000, headers),
                           (TIMESTAMP_MS + 70_000, None, None, ())])
    assert client.produce(bytes(records))["error_code"] == 0
    assert client.cluster.log("t", 0)[0].values == [b"a", b"b" * 9000, None]


@pytest.mark.parametrize("size", [*range(15, 65), 8191, 8192])
def test_produce_when_a_length_takes_one_more_byte_then_it_is_read(client: Client, size: int) -> None:
    part = b"x" * size
    assert client.produce(bytes(build_batch([(TIMESTAMP_MS, part, part, (("h", part),))] * 2)))["error_code"] == 0
    assert client.cluster.log("t", 0)[0].values == [part, part]


def test_produce_when_numbers_are_the_smallest_ones_then_it_is_stored(client: Client) -> None:
    client.cluster.parameters.first_producer_id = 0
    records = build_batch([(0, b"", b"", ())], producer_id=client.producer_id(), producer_epoch=0, base_sequence=0)
    assert client.produce(bytes(records), version=3)["error_code"] == 0
    assert client.produce(batch(b"a" * 99, compression="zstd"), version=7)["error_code"] == 0


def test_stored_batch_when_it_is_told_then_offsets_and_producer_are(client: Client) -> None:
    client.produce(batch(b"a", b"b"))
    client.produce(batch(b"a", b"b"))
    stored = client.cluster.log("t", 0)[1]
    assert stored.next_offset == 4
    assert stored.last_sequence == -1
    assert repr(stored) == "StoredBatch(2..3, producer -1/-1, sequence -1, node 0, at 5000 ms)"


def test_answers_when_counted_then_by_api_and_code(client: Client, writer: Writer) -> None:
    writer.send(0)
    writer.send(9)
    assert client.cluster.answered == {(ApiKeys.INIT_PRODUCER_ID, 0): 1, (ApiKeys.PRODUCE, 0): 1,
                                       (ApiKeys.PRODUCE, 45): 1}


# ---- idempotence


def test_sequence_when_a_batch_is_repeated_then_its_first_offset_is_told(client: Client, writer: Writer) -> None:
    for number in range(6):
        assert writer.send(number * 3) == (0, number * 3)
    for number in range(1, 6):
        assert writer.send(number * 3) == (0, number * 3)
    assert writer.send(0) == (45, -1), "the sixth last batch is forgotten"
    assert len(client.cluster.log("t", 0)) == 6


def test_sequence_when_a_batch_is_repeated_then_the_answer_has_its_timestamp(client: Client, writer: Writer) -> None:
    records = batch(b"a", b"b", producer_id=writer.producer_id, epoch=0, sequence=0)
    assert [client.produce(records)["log_append_time_ms"] for _ in range(2)] == [-1, TIMESTAMP_MS + 1]


def test_sequence_when_the_topic_keeps_the_brokers_time_then_a_repeated_batch_is_told_when_it_was_stored(
        client: Client, writer: Writer) -> None:
    client.cluster.parameters.log_append_time_topics = frozenset({"t"})
    records = batch(b"a", producer_id=writer.producer_id, epoch=0, sequence=0)
    assert client.produce(records)["log_append_time_ms"] == NOW_MS
    client.now_ms += 7
    assert client.produce(records)["log_append_time_ms"] == NOW_MS


def test_sequence_when_it_is_refused_then_the_answer_tells_where_the_log_starts(client: Client, writer: Writer) -> None:
    """By it a producer knows whether its records were deleted; other refusals have -1."""
    writer.send(0, epoch=1)
    for code, records in ((45, batch(b"a", producer_id=writer.producer_id, epoch=1, sequence=9)),
                          (47, batch(b"a", producer_id=writer.producer_id, epoch=0, sequence=0))):
        row = client.produce(records)
        assert (row["error_code"], row["log_start_offset"]) == (code, 0)
    client.cluster.parameters.max_message_bytes = 70
    assert client.produce(batch(b"a" * 70))["log_start_offset"] == -1


def test_sequence_when_the_replicas_restarted_then_only_the_last_batch_is_known(client: Client, writer: Writer) -> None:
    for number in range(3):
        assert writer.send(number * 3) == (0, number * 3)
    client.cluster.restart_replicas("t", 0)
    assert writer.send(0) == (45, -1)
    assert writer.send(3) == (45, -1), "it is in the log, and yet it is 45"
    assert writer.send(6) == (0, 6)
    assert writer.send(9) == (0, 9)
    assert writer.send(6) == (0, 6), "from the restart on there are up to five again"
    assert client.cluster.amnesia == set()


def test_sequence_when_it_does_not_continue_then_45(writer: Writer) -> None:
    assert writer.send(0) == (0, 0)
    assert writer.send(4) == (45, -1)
    assert writer.send(2) == (45, -1)
    assert writer.send(0, count=2) == (45, -1)
    assert writer.send(3) == (0, 3)


def test_sequence_when_the_epoch_is_new_then_it_begins_at_0_and_the_old_one_is_47(writer: Writer) -> None:
    writer.send(0)
    assert writer.send(3, epoch=1) == (45, -1)
    assert writer.send(3) == (0, 3), "a refused batch changes nothing"
    assert writer.send(0, epoch=1) == (0, 6)
    assert writer.send(6) == (47, -1)
    assert writer.send(0, epoch=1) == (0, 6)


def test_sequence_when_it_wraps_then_0_follows_the_largest_one(writer: Writer) -> None:
    assert writer.send(MAX_SEQUENCE - 1) == (0, 0)
    assert writer.send(1) == (0, 3)
    assert writer.send(MAX_SEQUENCE - 1) == (0, 0)
    assert writer.send(3) == (45, -1)


def test_sequence_when_the_batch_ends_at_the_largest_one_then_0_is_next(writer: Writer) -> None:
    assert writer.send(MAX_SEQUENCE - 2) == (0, 0)
    assert writer.send(0) == (0, 3)


def test_sequence_when_the_producer_is_not_known_then_any_number_begins(client: Client, writer: Writer) -> None:
    writer.send(0)
    assert not client.cluster.forget_producer("t", 1, writer.producer_id)
    assert client.cluster.amnesia == set()
    assert client.cluster.forget_producer("t", 0, writer.producer_id)
    assert not client.cluster.forget_producer("t", 0, writer.producer_id)
    assert client.cluster.amnesia == {(("t", client.cluster.topic_id("t"), 0), writer.producer_id)}
    assert writer.send(3) == (0, 3)
    assert writer.send(0) == (45, -1)


def test_sequence_when_the_broker_is_old_then_unknown_producers_are_59_and_old_batches_46(
        client: Client, writer: Writer) -> None:
    client.cluster.parameters.idempotence = KAFKA_BEFORE_2_4
    assert writer.send(3) == (59, -1)
    for number in range(8):
        assert writer.send(number * 3) == (0, number * 3)
    for sequence in (0, 3, 6):
        assert writer.send(sequence) == (46, -1)
    assert writer.send(8) == (45, -1), "half of it is remembered"
    assert writer.send(MAX_SEQUENCE - 2) == (45, -1), "numbers that were never stored"
    assert writer.send(27) == (45, -1)
    client.cluster.forget_producer("t", 0, writer.producer_id)
    assert writer.send(24) == (59, -1)


def test_producer_when_nothing_was_stored_of_it_for_longer_then_it_is_not_known(client: Client, writer: Writer) -> None:
    cluster = client.cluster
    writer.send(0)
    partition = cluster.partition("t", 0)
    for since_ms, expired, code in ((NOW_MS, 0, 45), (NOW_MS - 1, 0, 45), (NOW_MS - 2, 1, 0)):
        partition.producers[writer.producer_id].stored_ms = since_ms
        cluster.parameters.producer_expiration_ms = 1
        assert writer.send(77) == (code, -1 if code else 3)
        assert partition.expired_count == expired
    assert cluster.amnesia == set()


def test_producer_when_an_old_broker_does_not_know_it_then_the_answer_says_where_the_log_begins(
        client: Client, writer: Writer) -> None:
    client.cluster.parameters.idempotence = KAFKA_BEFORE_2_4
    client.cluster.partition("t", 0).start_offset = 7
    records = batch(b"a", producer_id=writer.producer_id, epoch=0, sequence=3)
    row = client.produce(records, version=5)
    assert (row["error_code"], row["log_start_offset"]) == (59, 7)


def test_producer_when_it_is_fenced_then_47_and_the_next_epoch_begins_at_0(client: Client, writer: Writer) -> None:
    writer.send(0)
    assert client.cluster.fence_producer("t", 0, writer.producer_id) == 1
    assert client.cluster.amnesia == {(("t", client.cluster.topic_id("t"), 0), writer.producer_id)}
    assert writer.send(3) == (47, -1)
    assert writer.send(3, epoch=1) == (45, -1)
    assert writer.send(0, epoch=1) == (0, 3)
    with pytest.raises(ValueError, match="has epoch 1"):
        client.cluster.partition("t", 0).fence(writer.producer_id, 1)


def test_producer_when_it_is_fenced_before_it_wrote_then_its_first_epoch_is_47(client: Client, writer: Writer) -> None:
    assert client.cluster.fence_producer("t", 0, writer.producer_id) == 1
    assert writer.send(0) == (47, -1)
    assert writer.send(0, epoch=1) == (0, 0)


def test_partition_when_there_is_none_then_it_is_said(cluster: ModelCluster) -> None:
    for index in (-1, 3):
        with pytest.raises(IndexError):
            cluster.partition("t", index)
    with pytest.raises(ValueError, match="0 nodes"):
        ModelCluster(node_count=0, topics={}, parameters=ModelParameters())
    with pytest.raises(ValueError, match="0 partitions"):
        cluster.create_topic("new", 0)


# ---- interference


@pytest.mark.parametrize("code", [-1, 2, 6, 7, 19, 20, 29, 45, 56, 87, 9999])
@pytest.mark.parametrize("applies", [False, True])
def test_verdict_when_it_has_a_code_then_that_is_answered(client: Client, interference: Scripted, code: int,
                                                           applies: bool) -> None:
    interference.produce = Verdict(code, applies=applies, message="why", record_errors=((0, "this one"),),
                                   throttle_ms=70)
    answer = client.answer(ApiKeys.PRODUCE, 9, produce_body("t", 0, batch(b"a")))
    row = produced(answer)
    assert (row["error_code"], row["base_offset"], row["error_message"]) == (code, 0 if applies else -1, "why")
    assert [tuple(error.values()) for error in row["record_errors"]] == [(0, "this one")]
    assert answer["throttle_time_ms"] == 70
    assert len(client.cluster.log("t", 0)) == applies
    assert interference.asked == [(0, "t", 0, NOW_MS)]
    assert interference.produce.is_lawful == (not applies or code in AFTER_APPEND)


def test_verdict_when_the_model_refuses_the_batch_then_the_model_answers(
        writer: Writer, interference: Scripted) -> None:
    writer.send(0)
    interference.produce = Verdict(7)
    assert writer.send(9) == (45, -1)
    assert writer.send(3) == (7, 3)
    interference.produce = None
    assert writer.send(3) == (0, 3)


def test_verdict_when_it_hints_at_a_leader_then_the_answer_does(client: Client, interference: Scripted) -> None:
    for hint, told, nodes in ((True, (0, 0), [0]), (False, (-1, -1), []), (LeaderHint(2, 9), (2, 9), [2]),
                              (LeaderHint(-1, 9), (-1, -1), [])):
        interference.produce = Verdict(6, applies=False, leader_hint=hint)
        answer = client.answer(ApiKeys.PRODUCE, 12, produce_body("t", 0, batch(b"a")))
        assert tuple(produced(answer)["current_leader"].values()) == told
        assert [row["node_id"] for row in answer["node_endpoints"]] == nodes


def test_verdict_when_it_is_unlawful_then_its_name_says_so(client: Client, interference: Scripted) -> None:
    def rows() -> list[tuple[int, int]]:
        answer = client.answer(ApiKeys.PRODUCE, 9, produce_body("t", 0, batch(b"a")))
        return [(row["index"], row["error_code"]) for row in answer["responses"][0]["partition_responses"]]

    for verdict, told, stored in ((Verdict(unlawful_omitted=True), [], 1),
                                  (Verdict(unlawful_success=True), [(0, 0)], 1),
                                  (Verdict(7, applies=False, unlawful_omitted=True), [], 1),
                                  (Verdict(unlawful_extra_index=2), [(2, 0), (0, 0)], 2)):
        interference.produce = verdict
        assert rows() == told
        assert len(client.cluster.log("t", 0)) == stored
        assert not verdict.is_lawful


def test_init_producer_id_when_it_is_refused_then_no_id_is_given(client: Client, interference: Scripted) -> None:
    first = client.producer_id()
    interference.init = 15
    answer = client.answer(ApiKeys.INIT_PRODUCER_ID, 4, INIT_BODY)
    assert (answer["error_code"], answer["producer_id"], answer["producer_epoch"]) == (15, -1, -1)
    interference.init = None
    assert client.producer_id() == first + 1


def test_metadata_when_the_node_lags_then_it_tells_what_was(client: Client, interference: Scripted) -> None:
    before = client.cluster.snapshot()
    assert client.cluster.snapshot() is before
    assert client.cluster.views == [before]
    old_id = client.cluster.topic_id("t")
    client.cluster.recreate_topic("t")
    client.cluster.add_partitions("u", 4)
    client.cluster.stop_node(2)
    now = client.answer(ApiKeys.METADATA, 12, metadata_body("t", "u"))
    assert [row["node_id"] for row in now["brokers"]] == [0, 1]
    assert [len(topic["partitions"]) for topic in now["topics"]] == [3, 4]
    interference.metadata = MetadataVerdict(view=before)
    lagging = client.answer(ApiKeys.METADATA, 12, metadata_body("t", "u"))
    assert [row["node_id"] for row in lagging["brokers"]] == [0, 1, 2]
    assert [len(topic["partitions"]) for topic in lagging["topics"]] == [3, 2]
    assert lagging["topics"][0]["topic_id"] == old_id != now["topics"][0]["topic_id"]


def test_metadata_when_it_is_interfered_with_then_it_says_less(client: Client, interference: Scripted) -> None:
    interference.metadata = MetadataVerdict(
        topic_errors={"u": 5}, partition_errors={("t", 2): 5}, hidden_partitions={("t", 1)}, hidden_nodes={0},
        throttle_ms=9)
    answer = client.answer(ApiKeys.METADATA, 12, metadata_body("t", "u"))
    assert answer["throttle_time_ms"] == 9
    assert [row["node_id"] for row in answer["brokers"]] == [1, 2]
    topic, other = answer["topics"]
    assert [(row["partition_index"], row["error_code"], row["leader_id"]) for row in topic["partitions"]] == [
        (0, 0, 0), (2, 5, -1)]
    assert (other["error_code"], list(other["partitions"])) == (5, [])
    interference.metadata = MetadataVerdict(partition_counts={"t": 1}, unlawful_omitted_topics={"u"})
    answer = client.answer(ApiKeys.METADATA, 12, metadata_body("t", "u"))
    assert [(topic["name"], len(topic["partitions"])) for topic in answer["topics"]] == [("t", 1)]
    interference.metadata = MetadataVerdict(error_code=129)
    assert client.answer(ApiKeys.METADATA, 13, metadata_body("t"))["error_code"] == 129
    assert client.answer(ApiKeys.METADATA, 12, metadata_body("t"))["topics"][0]["error_code"] == 0


def test_api_versions_when_it_is_interfered_with_then_what_was_announced_once_may_be_used(
        client: Client, interference: Scripted) -> None:
    parameters = client.cluster.parameters
    parameters.produce_version = 9
    with pytest.raises(ClientBug, match="announced 0 to 9"):
        client.produce(batch(b"a"), version=11)
    interference.versions = ApiVersionsVerdict(versions={0: (0, 11), 18: (0, 4)}, throttle_ms=3)
    assert client.answer(ApiKeys.API_VERSIONS, 2, {})["throttle_time_ms"] == 3
    assert client.produce(batch(b"a"), version=11)["error_code"] == 0
    interference.versions = ApiVersionsVerdict(error_code=-1)
    answer = client.answer(ApiKeys.API_VERSIONS, 2, {})
    assert (answer["error_code"], list(answer["api_keys"])) == (-1, [])


def test_api_versions_when_they_are_told_on_a_connection_then_nothing_else_may_be_used_there(
        cluster: ModelCluster, interference: Scripted) -> None:
    interference.versions = ApiVersionsVerdict(versions={3: (0, 8), 18: (0, 4)})
    asks = request_bytes(ApiKeys.API_VERSIONS, 2, {}, correlation_id=1)
    for connection in ("a", None):
        cluster.handle(0, asks, NOW_MS, connection=connection)
    newer = request_bytes(ApiKeys.METADATA, 9, metadata_body("t"), correlation_id=2)
    assert cluster.handle(0, newer, NOW_MS)
    with pytest.raises(ClientBug, match="announced 0 to 8"):
        cluster.handle(0, newer, NOW_MS, connection="a")
    with pytest.raises(ClientBug, match="did not announce"):
        cluster.handle(0, request_bytes(ApiKeys.INIT_PRODUCER_ID, 1, INIT_BODY, correlation_id=3), NOW_MS,
                       connection="a")


# ---- the cluster


def test_node_when_it_stops_then_others_lead_and_it_gets_nothing_back(client: Client) -> None:
    cluster = client.cluster
    client.produce(batch(b"a"))
    cluster.stop_node(0)
    assert not cluster.is_alive(0)
    with pytest.raises(ValueError, match="node 0 does not live"):
        client.produce(batch(b"a"), node_id=0)
    partition = cluster.partition("t", 0)
    assert (partition.leader_id, partition.leader_epoch) == (1, 1)
    assert client.produce(batch(b"b"))["base_offset"] == 1
    cluster.start_node(0)
    assert cluster.is_alive(0)
    assert (partition.leader_id, partition.leader_epoch) == (1, 1)
    with pytest.raises(ValueError, match="started"):
        cluster.start_node(0)


def test_node_when_all_stop_then_nobody_leads_until_one_starts(client: Client) -> None:
    for node_id in (1, 2, 0):
        client.cluster.stop_node(node_id)
    assert {leader for leader, _ in client.cluster.view().topics["t"].leaders} == {-1}
    client.cluster.create_topic("late", 1)
    client.cluster.start_node(2)
    assert {leader for topic in client.cluster.view().topics.values() for leader, _ in topic.leaders} == {2}
    with pytest.raises(ValueError, match="does not live"):
        client.cluster.move_leader("t", 0, 1)


def test_topic_when_it_is_made_anew_then_the_old_log_stays_for_who_checks(client: Client) -> None:
    cluster = client.cluster
    client.produce(batch(b"a"))
    old = cluster.topic_id("t")
    new = cluster.recreate_topic("t")
    assert cluster.topic_id("t") == new != old
    assert client.produce(batch(b"b"))["base_offset"] == 0
    assert [stored.values for stored in cluster.logs["t", old, 0]] == [[b"a"]]
    assert [stored.values for stored in cluster.logs["t", new, 0]] == [[b"b"]]


def test_topic_when_it_gets_partitions_then_they_can_be_written(client: Client) -> None:
    client.cluster.add_partitions("t", 5)
    assert client.produce(batch(b"a"), partition=4)["error_code"] == 0
    with pytest.raises(ValueError, match="not more"):
        client.cluster.add_partitions("t", 5)
    with pytest.raises(ValueError, match="topic t"):
        client.cluster.create_topic("t", 1)


# ---- bugs of the client


def refuses(client: Client, records: bytes, *, version: int = 9, acks: int = -1) -> str:
    with pytest.raises(ClientBug) as caught:
        client.produce(records, version=version, acks=acks)
    assert all(not log for log in client.cluster.logs.values())
    return str(caught.value)


def edited(records: bytes, layout: str, offset: int, value: int, *, mends_crc: bool = True) -> bytes:
    data = bytearray(records)
    struct.pack_into(layout, data, offset, value)
    if mends_crc:
        struct.pack_into(">I", data, 17, crc32c.crc32c(bytes(data[21:])))
    return bytes(data)


@pytest.mark.parametrize(("layout", "offset", "value", "why"), [
    (">q", 0, 55, "base offset 55"),
    (">i", 8, 10, "cut short, or more than one batch"),
    (">i", 12, 0, "partition leader epoch 0"),
    (">b", 16, 1, "magic 1"),
    (">h", 21, 0x08, "attributes 0x8"),
    (">h", 21, 0x10, "attributes 0x10"),
    (">h", 21, 0x20, "attributes 0x20"),
    (">h", 21, 0x80, "attributes 0x80"),
    (">h", 21, 1, "gzip"),
    (">h", 21, 5, "no codec 5"),
    (">i", 23, 2, "last offset delta 2"),
    (">q", 27, -5, "base timestamp -5"),
    (">q", 27, TIMESTAMP_MS + 1, "max timestamp"),
    (">q", 35, TIMESTAMP_MS, "max timestamp"),
    (">q", 43, -2, "producer id -2"),
    (">q", 43, 77, "producer id 77"),
    (">h", 51, 0, "without producer id has epoch 0"),
    (">i", 53, 0, "sequence 0"),
    (">i", 57, 3, "last offset delta 1"),
    (">i", 57, 0, "has 0 records"),
    (">b", 62, 1, "attributes 1"),
    (">b", 61, 40, "says that it has 20 bytes"),
    (">b", 63, 2, "1 ms from the batch's base timestamp"),
    (">b", 64, 2, "offset delta 1"),
    (">b", 65, 3, "key of -2 bytes"),
    (">b", 67, 3, "value of -2 bytes"),
    (">b", 67, 0, "-49 headers"),
    (">b", 61, 18, "its length says"),
])
def test_batch_when_a_field_is_wrong_then_it_is_a_bug(client: Client, layout: str, offset: int, value: int,
                                                       why: str) -> None:
    assert why in refuses(client, edited(batch(b"a", b"b"), layout, offset, value))


def test_batch_when_its_crc_is_wrong_then_it_is_a_bug(client: Client) -> None:
    assert "CRC" in refuses(client, edited(batch(b"a"), ">b", 68, 1, mends_crc=False))


@pytest.mark.parametrize("records", [b"", b"\0" * 60, batch(b"a")[:-1], batch(b"a") * 2])
def test_batch_when_it_is_not_exactly_one_then_it_is_a_bug(client: Client, records: bytes) -> None:
    refuses(client, records)


@pytest.mark.parametrize(("offset", "value", "why"), [
    (67, 1, "a record has -1 headers"),
    (67, 4, "end early"),
    (68, 1, "a header has a key of -1 bytes"),
    (69, -1, "not UTF-8"),
    (70, 3, "has a value of -2 bytes"),
])
def test_header_when_it_is_malformed_then_it_is_a_bug(client: Client, offset: int, value: int, why: str) -> None:
    records = bytes(build_batch([(TIMESTAMP_MS, None, b"", (("h", b"v"),))]))
    assert records[67:] == b"\x02\x02h\x02v"
    assert why in refuses(client, edited(records, ">b", offset, value))


def test_timestamp_when_it_is_negative_then_it_is_a_bug(client: Client) -> None:
    records = bytes(build_batch([(5, None, b"a", ()), (5, None, b"b", ())]))
    delta = len(records) - (len(records) - 61) // 2 + 2
    assert records[delta] == 0
    assert "timestamp -1" in refuses(client, edited(records, ">b", delta, 11))
    assert client.produce(edited(records, ">b", delta, 9))["error_code"] == 0


def test_number_when_it_does_not_end_then_it_is_a_bug(client: Client) -> None:
    records = batch(b"a" * 20)
    assert "too long" in refuses(client, edited(edited(records, ">q", 61, -1), ">h", 69, -1))


@pytest.mark.parametrize(("value", "why"), [
    (b"", "not with the frame"), (XERIAL + b"\0\0\0\3xy", "a block of 3 bytes is announced, 2 are left"),
    (XERIAL + b"\0\0\0\2xy", "codec 2")])
def test_snappy_when_its_frame_is_wrong_then_it_is_a_bug(client: Client, value: bytes, why: str) -> None:
    data = batch(b"a")[:61] + value
    assert why in refuses(client, edited(edited(data, ">i", 8, len(data) - 12), ">h", 21, 2))


@pytest.mark.parametrize(("tail", "why"), [(b"\0", "1 bytes are left"), (b"", "end early")])
def test_batch_when_records_and_count_differ_then_it_is_a_bug(client: Client, tail: bytes, why: str) -> None:
    whole = batch(b"a", b"b")
    records = whole[:61] + whole[61:] + tail if tail else whole[:61 + len(whole[61:]) // 2]
    records = edited(records, ">i", 8, len(records) - 12)
    assert why in refuses(client, records)


@pytest.mark.parametrize(("value", "why"), [(-1, "sequence -1"), (-4, "sequence -4")])
def test_sequence_when_it_is_negative_then_it_is_a_bug(client: Client, writer: Writer, value: int, why: str) -> None:
    records = batch(b"a", producer_id=writer.producer_id, epoch=0, sequence=0)
    assert why in refuses(client, edited(records, ">i", 53, value))
    assert "epoch -1" in refuses(client, edited(records, ">h", 51, -1))


def test_sequence_when_it_stands_for_other_records_then_it_is_a_bug(client: Client, writer: Writer) -> None:
    def send(value: bytes, **fields: Any) -> Struct:
        return client.produce(batch(value, producer_id=writer.producer_id, epoch=0, sequence=0, **fields))

    assert send(b"a")["error_code"] == 0
    assert send(b"a", compression="gzip")["error_code"] == 0
    with pytest.raises(ClientBug, match="other records"):
        send(b"b")


def test_producer_id_when_nobody_gave_it_then_it_is_a_bug(client: Client, writer: Writer) -> None:
    records = batch(b"a", producer_id=writer.producer_id + 1, epoch=0, sequence=0)
    assert "never given" in refuses(client, records)
    client.cluster.parameters.knows_all_producers = False
    assert client.produce(records)["error_code"] == 0


def test_produce_when_an_idempotent_producer_does_not_wait_for_all_then_it_is_a_bug(
        client: Client, writer: Writer) -> None:
    records = batch(b"a", producer_id=writer.producer_id, epoch=0, sequence=0)
    assert "acks=1" in refuses(client, records, acks=1)


def test_zstd_when_the_version_is_too_old_then_it_is_a_bug(client: Client) -> None:
    records = batch(b"a" * 99, compression="zstd")
    assert "zstd in Produce 6" in refuses(client, records, version=6)


def test_lz4_when_blocks_depend_on_each_other_then_it_is_a_bug(client: Client) -> None:
    import lz4.frame

    plain = batch(*[b"%09d" % (number * 7919) for number in range(9000)])
    data = plain[:61] + lz4.frame.compress(plain[61:], block_linked=True)
    data = edited(edited(data, ">i", 8, len(data) - 12), ">h", 21, 3)
    assert "depend on each other" in refuses(client, data)


def test_gzip_when_bytes_are_left_of_it_then_it_is_a_bug(client: Client) -> None:
    plain = batch(b"a")
    data = plain[:61] + gzip.compress(plain[61:])[:-3]
    assert "gzip" in refuses(client, edited(edited(data, ">i", 8, len(data) - 12), ">h", 21, 1))


def change_produce(change: Callable[[dict[str, Any]], None]) -> bytes:
    body = produce_body("t", 0, batch(b"a"))
    change(body)
    return request_bytes(ApiKeys.PRODUCE, 9, body)


def _twice(body: dict[str, Any]) -> None:
    body["topic_data"] *= 2


def _no_batch(body: dict[str, Any]) -> None:
    body["topic_data"] = []


def _negative_index(body: dict[str, Any]) -> None:
    body["topic_data"][0]["partition_data"][0]["index"] = -1


def _no_records(body: dict[str, Any]) -> None:
    body["topic_data"][0]["partition_data"][0]["records"] = None


GOOD_PRODUCE = request_bytes(ApiKeys.PRODUCE, 9, produce_body("t", 0, batch(b"a")))


@pytest.mark.parametrize(("frame", "why"), [
    (b"", "0 bytes"),
    (b"\x00\x00\x00\x09\x00\x00\x00\x01\x00", "cannot be read"),
    (GOOD_PRODUCE + b"\0", "1 bytes are left"),
    (GOOD_PRODUCE[:-1], "cannot be read"),
    (struct.pack(">hhih", 999, 0, 1, -1), "unknown API 999"),
    (struct.pack(">hhih", 10, 0, 1, -1), "did not announce"),
    (struct.pack(">hhih", 0, 2, 1, -1), "Produce 2"),
    (struct.pack(">hhih", 0, 14, 1, -1), "Produce 14"),
    (struct.pack(">hhih", 3, -1, 1, -1), "Metadata -1"),
    (struct.pack(">hhih", 3, 1, -1, -1), "correlation id -1"),
    (struct.pack(">hhih", 3, 1, 1, 400), "client id of 400 bytes"),
    (struct.pack(">hhihb", 3, 1, 1, 1, -1), "cannot be read"),
    (struct.pack(">hhihb", 3, 9, 1, -1, 1), "has 1 tags"),
    (change_produce(_twice), "twice"),
    (change_produce(_no_batch), "has no batch"),
    (change_produce(_negative_index), "t--1"),
    (change_produce(_no_records), "has no records"),
    (change_produce(lambda body: body.update(acks=2)), "acks=2"),
    (change_produce(lambda body: body.update(timeout_ms=-1)), "timeout -1 ms"),
    (change_produce(lambda body: body.update(transactional_id="x")), "transactional id"),
    (request_bytes(ApiKeys.PRODUCE, 13, {"acks": -1, "timeout_ms": 1, "topic_data": [
        {"topic_id": ZERO_ID, "partition_data": []}]}), "id of zeros"),
    (request_bytes(ApiKeys.METADATA, 12, {"topics": [{"name": None}]}), "without a name"),
    (request_bytes(ApiKeys.METADATA, 10, {"topics": [{"name": None}]}), "without a name"),
    (request_bytes(ApiKeys.METADATA, 11, {"topics": [{"name": "t", "topic_id": ANY_ID}]}), "by the id"),
    (request_bytes(ApiKeys.METADATA, 12, {"topics": [{"name": "t", "topic_id": ANY_ID}]}), "by its id, too"),
    (request_bytes(ApiKeys.METADATA, 12, {"topics": [{"name": "t"}, {"name": None, "topic_id": ANY_ID}]}),
     "by ids and by names"),
    (request_bytes(ApiKeys.INIT_PRODUCER_ID, 4, {**INIT_BODY, "transactional_id": "x"}), "transactional id"),
    (request_bytes(ApiKeys.INIT_PRODUCER_ID, 4, {**INIT_BODY, "producer_id": 3}), "the epoch -1"),
    (request_bytes(ApiKeys.INIT_PRODUCER_ID, 4, {**INIT_BODY, "producer_id": 3, "producer_epoch": 0}), "never given"),
    (request_bytes(ApiKeys.API_VERSIONS, 3, {"client_software_name": "-", "client_software_version": "1"}),
     "client_software_name"),
], ids=itertools.count())
def test_request_when_no_correct_client_sends_it_then_it_is_a_bug(client: Client, frame: bytes, why: str) -> None:
    with pytest.raises(ClientBug) as caught:
        client.cluster.handle(0, frame, NOW_MS)
    assert why in str(caught.value)


def test_connection_when_it_is_told_then_its_order_is_checked(cluster: ModelCluster) -> None:
    def send(api_key: ApiKeys, correlation_id: int, connection: str | None) -> None:
        version, body = (2, {}) if api_key is ApiKeys.API_VERSIONS else (9, metadata_body("t"))
        cluster.handle(0, request_bytes(api_key, version, body, correlation_id=correlation_id), NOW_MS,
                       connection=connection)

    with pytest.raises(ClientBug, match="the first request on a connection is Metadata"):
        send(ApiKeys.METADATA, 1, "a")
    send(ApiKeys.API_VERSIONS, 1, "b")
    send(ApiKeys.METADATA, 2, "b")
    send(ApiKeys.METADATA, 2, None)
    for correlation_id in (1, 2):
        with pytest.raises(ClientBug, match=f"the correlation id {correlation_id} follows 2"):
            send(ApiKeys.METADATA, correlation_id, "b")
    send(ApiKeys.API_VERSIONS, 2**31 - 2, "c")
    send(ApiKeys.METADATA, 0, "c")


# ---- who is there

HANDSHAKE: tuple[ApiKeys, int, Mapping[str, Any]] = ApiKeys.SASL_HANDSHAKE, 1, {"mechanism": "PLAIN"}
PROOF: tuple[ApiKeys, int, Mapping[str, Any]] = (
    ApiKeys.SASL_AUTHENTICATE, 2, {"auth_bytes": b"\0alice\0simulated"})
VERSIONS: tuple[ApiKeys, int, Mapping[str, Any]] = ApiKeys.API_VERSIONS, 0, {}
ASKS: tuple[ApiKeys, int, Mapping[str, Any]] = ApiKeys.METADATA, 9, metadata_body("t")
BEGINS: tuple[ApiKeys, int, Mapping[str, Any]] = ApiKeys.API_VERSIONS, 2, {}
SESSION_MS = 3_000


class Visitor:
    """Comes by one connection to a cluster that asks who is there."""

    def __init__(self, cluster: ModelCluster) -> None:
        self.cluster = cluster
        self.now_ms = NOW_MS
        self._next_id = 2**31 - 1 - 7
        self._next_other_id = 0

    def ask(self, request: tuple[ApiKeys, int, Mapping[str, Any]]) -> Struct | bytes | None:
        api_key, version, body = request
        if request in (ASKS, BEGINS):
            correlation_id, self._next_other_id = self._next_other_id, self._next_other_id + 1
        else:
            correlation_id, self._next_id = self._next_id, self._next_id + 1
        frame = request_bytes(api_key, version, body, correlation_id=correlation_id)
        payload = self.cluster.handle(0, frame, self.now_ms, connection="a")
        return payload if not payload else parse_response(api_key, version, payload)[1]


@pytest.fixture
def visitor(cluster: ModelCluster) -> Visitor:
    cluster.parameters.listener = ModelListener(session_lifetime_ms=SESSION_MS)
    return Visitor(cluster)


def test_listener_when_the_proof_is_good_then_the_session_lasts_until_it_ends_or_is_renewed(visitor: Visitor) -> None:
    for request in (VERSIONS, HANDSHAKE):
        answer = visitor.ask(request)
        assert isinstance(answer, Struct)
        assert answer["error_code"] == 0
    proved = visitor.ask(PROOF)
    assert isinstance(proved, Struct)
    assert (proved["error_code"], proved["session_lifetime_ms"]) == (0, SESSION_MS)
    visitor.now_ms += SESSION_MS
    visitor.ask(BEGINS)
    assert isinstance(visitor.ask(ASKS), Struct)
    visitor.now_ms += 1
    assert visitor.ask(ASKS) == CLOSE_CONNECTION
    visitor.ask(HANDSHAKE)
    visitor.ask(PROOF)
    visitor.now_ms += SESSION_MS
    assert isinstance(visitor.ask(ASKS), Struct)


def test_listener_when_it_refuses_then_its_code_is_answered(cluster: ModelCluster, interference: Scripted,
                                                           visitor: Visitor) -> None:
    interference.proof = SASL_AUTHENTICATION_FAILED
    visitor.ask(VERSIONS)
    visitor.ask(HANDSHAKE)
    answer = visitor.ask(PROOF)
    assert isinstance(answer, Struct)
    assert (answer["error_code"], answer["error_message"]) == (SASL_AUTHENTICATION_FAILED, "simulated")
    assert cluster.answered[ApiKeys.SASL_AUTHENTICATE, SASL_AUTHENTICATION_FAILED] == 1


@pytest.mark.parametrize(("requests", "why"), [
    ((HANDSHAKE,), "SaslHandshake comes where ApiVersions must"),
    ((VERSIONS, ASKS), "Metadata comes where SaslHandshake must"),
    ((VERSIONS, HANDSHAKE, ASKS), "Metadata comes where SaslAuthenticate must"),
    ((VERSIONS, HANDSHAKE, PROOF, PROOF), "without a SaslHandshake"),
    ((VERSIONS, HANDSHAKE, PROOF, HANDSHAKE), "given again after 0 ms"),
    ((VERSIONS, (ApiKeys.SASL_HANDSHAKE, 1, {"mechanism": "SCRAM"})), "names 'SCRAM'"),
    ((VERSIONS, HANDSHAKE, (ApiKeys.SASL_AUTHENTICATE, 2, {"auth_bytes": b"x"})), "brings b'x'"),
], ids=itertools.count())
def test_listener_when_no_correct_client_comes_like_that_then_it_is_a_bug(
        visitor: Visitor, requests: tuple[tuple[ApiKeys, int, Mapping[str, Any]], ...], why: str) -> None:
    for request in requests[:-1]:
        assert isinstance(visitor.ask(request), Struct)
    with pytest.raises(ClientBug, match=why):
        visitor.ask(requests[-1])


def test_request_that_authenticates_when_a_network_repeats_it_then_nothing_happens(visitor: Visitor) -> None:
    for api_key, version, body in (HANDSHAKE, PROOF):
        assert visitor.cluster.handle(0, request_bytes(api_key, version, body, correlation_id=2**31 - 3),
                                      NOW_MS) is None


def test_producer_when_one_replica_forgets_it_then_the_others_know_it_and_it_learns_what_comes(
        client: Client, writer: Writer) -> None:
    for sequence in (0, 3, 6):
        assert writer.send(sequence)[0] == 0
    partition = client.cluster.partition("t", 0)
    assert client.cluster.forget_producer("t", 0, writer.producer_id, 1)
    assert not client.cluster.forget_producer("t", 0, writer.producer_id, 1)
    assert len(client.cluster.amnesia) == 1
    assert writer.send(6) == (0, 6), "node 0 leads and knows it"
    client.cluster.move_leader("t", 0, 1)
    assert writer.send(6)[0] == 0
    assert partition.end_offset == 12, "node 1 does not, and stores it again"
    assert list(partition.known_to(1)) == list(partition.known_to(0)) == [writer.producer_id]
    client.cluster.move_leader("t", 0, 2)
    assert writer.send(9) == (0, 12), "both learned what was stored"
    client.cluster.move_leader("t", 0, 1)
    assert writer.send(9) == (0, 12)
    assert client.cluster.forget_producer("t", 0, writer.producer_id)
    assert [list(partition.known_to(node_id)) for node_id in range(3)] == [[], [], []]


def test_sequence_when_it_is_used_twice_and_nobody_blames_it_then_the_old_records_are_told(client: Client) -> None:
    """What Kafka does: acknowledged, and in no log."""
    client.cluster.parameters.blames_reused_numbers = False
    producer_id = client.producer_id()
    for value in (b"a", b"b"):
        row = client.produce(batch(value, producer_id=producer_id, epoch=0, sequence=0))
        assert (row["error_code"], row["base_offset"]) == (0, 0)
    assert [stored.values for stored in client.cluster.log("t", 0)] == [[b"a"]]


def test_refusal_when_it_is_about_numbers_then_it_says_where_the_log_begins(client: Client, writer: Writer) -> None:
    writer.send(0)
    client.cluster.delete_records("t", 0, 3)
    row = client.produce(batch(b"v", producer_id=writer.producer_id, epoch=0, sequence=9))
    assert (row["error_code"], row["log_start_offset"]) == (45, 3)
    assert client.produce(batch(b"v" * 2_000_000))["log_start_offset"] == -1
    assert client.produce(batch(b"v"))["log_start_offset"] == 3
    for before_offset in (3, 9):
        with pytest.raises(ValueError, match="cannot begin"):
            client.cluster.delete_records("t", 0, before_offset)


def test_producers_when_they_are_old_by_their_timestamps_then_they_are_forgotten(
        client: Client, writer: Writer) -> None:
    writer.send(0)
    newest = TIMESTAMP_MS + 2
    assert client.cluster.expire_producers(newest + 999, 1000) == 0
    assert writer.send(0) == (0, 0)
    assert client.cluster.expire_producers(newest + 1000, 1000) == 1
    assert client.cluster.expire_producers(newest + 1000, 1000) == 0
    assert writer.send(3) == (0, 3), "any number begins"
    assert len(client.cluster.amnesia) == 1


def test_producers_when_the_topic_keeps_the_brokers_time_then_they_age_from_their_last_append(
        client: Client, writer: Writer) -> None:
    client.cluster.parameters.log_append_time_topics = frozenset({"t"})
    writer.send(0)
    assert client.cluster.expire_producers(NOW_MS + 999, 1000) == 0
    assert client.cluster.expire_producers(NOW_MS + 1000, 1000) == 1


def test_batch_when_it_names_a_leader_epoch_then_it_is_a_bug_or_taken(client: Client) -> None:
    records = bytearray(batch(b"v"))
    records[12:16] = bytes(4)
    with pytest.raises(ClientBug, match="leader epoch 0"):
        client.produce(bytes(records))
    client.cluster.parameters.takes_leader_epochs = True
    assert client.produce(bytes(records))["error_code"] == 0


def test_stored_batch_when_it_is_compressed_then_its_codec_is_told(client: Client) -> None:
    for codec in ("none", "gzip", "zstd"):
        client.produce(batch(b"v" * 100, compression=codec))
    assert [stored.codec for stored in client.cluster.log("t", 0)] == [0, 1, 4]
