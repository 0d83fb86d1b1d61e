"""The model broker of tests/simulation beside a broker: the same requests, drawn at random, get the same answers.

So the model is true to what it models; the same tests run against Apache Kafka with KAFKA_REFERENCE=host:port.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping
from typing import Any
from uuid import UUID

import pytest

from pyproducer.protocol.apis import ApiKeys
from pyproducer.protocol.header import parse_response
from pyproducer.protocol.schema import Struct
from pyproducer.record.batch_writer import build_batch
from tests.embedded.conftest import WireTarget
from tests.simulation.model_broker import CLOSE_CONNECTION, ModelCluster, ModelParameters
from tests.simulation.model_topics import ZERO_ID
from tests.support.raw_client import RawClient, request_bytes

PARTITIONS = 3
STEPS = 200
FIRST_TIMESTAMP_MS = 1_700_000_000_000
MAX_MESSAGE_BYTES = 1_048_588  # Kafka's default
MAX_SEQUENCE = 2**31 - 1
NO_SUCH_ID = UUID(int=7)
# How a batch follows those before, and how often. The first two are right, the third is a retry.
WAYS = {"next": 10, "new epoch": 1, "repeated": 4, "gap": 2, "overlap": 2, "part": 2, "new epoch, not from 0": 1,
        "old epoch": 2}


class Pair:
    """A topic of a broker and the model's of the same name, asked the same in turn.

    Names of topics are the same on both sides; their ids, and producers' ids, are each side's own.
    """

    def __init__(self, client: RawClient, topic: str, seed: int) -> None:
        self.random = random.Random(seed)
        self.topic = topic
        self._client = client
        self._model = ModelCluster(node_count=1, topics={topic: PARTITIONS}, parameters=ModelParameters(
            max_message_bytes=MAX_MESSAGE_BYTES))
        self._correlation_ids = itertools.count(1)
        self.producers: list[tuple[int, int]] = []  # the broker's id, the model's
        # What was tried: (producer, partition) to the batches, newest last, each (epoch, sequence, count).
        self.tried: dict[tuple[int, int], list[tuple[int, int, int]]] = {}
        self.codes: set[int] = set()

    def ask(self, api_key: ApiKeys, version: int, theirs: Mapping[str, Any],
            ours: Mapping[str, Any] | None = None) -> tuple[Struct, Struct]:
        """Return the broker's answer and the model's."""
        body = theirs if ours is None else ours
        payload = self._model.handle(0, request_bytes(api_key, version, body, correlation_id=next(
            self._correlation_ids)), 0)
        assert payload
        return self._client.request(api_key, version, theirs), parse_response(api_key, version, payload)[1]

    def topic_ids(self) -> tuple[UUID, UUID]:
        theirs, ours = self.ask(ApiKeys.METADATA, 12, {"topics": [{"name": self.topic}]})
        return theirs["topics"][0]["topic_id"], ours["topics"][0]["topic_id"]

    def end_offsets(self) -> list[int]:
        return [self._model.partition(self.topic, partition).end_offset for partition in range(PARTITIONS)]

    # ---- steps

    def init_producer_id(self) -> None:
        version = self.random.randrange(6)
        bodies: list[dict[str, Any]] = [{"transactional_id": None, "transaction_timeout_ms": 60_000} for _ in range(2)]
        if version >= 3 and self.producers and self.random.random() < 0.5:
            known = self.random.choice(self.producers)
            for body, producer_id in zip(bodies, known, strict=True):
                body.update(producer_id=producer_id, producer_epoch=3)
        theirs, ours = self.ask(ApiKeys.INIT_PRODUCER_ID, version, *bodies)
        assert theirs["error_code"] == ours["error_code"] == 0
        assert theirs["producer_epoch"] == ours["producer_epoch"]
        self.producers.append((theirs["producer_id"], ours["producer_id"]))

    def metadata(self) -> None:
        version = self.random.randrange(14)
        names = self.random.sample([self.topic, "a/b", "..", "x" * 250], self.random.randint(1, 4))
        if version >= 4:
            names.append(f"{self.topic}-that-is-not-there")
        topics: list[list[dict[str, Any]]] = [[{"name": name} for name in names] for _ in range(2)]
        if version >= 12 and self.random.random() < 0.5:
            # By name or by id: Kafka passes over the names of a request that has ids.
            topics = [[{"name": None, "topic_id": topic_id}, {"name": None, "topic_id": NO_SUCH_ID}]
                      for topic_id in self.topic_ids()]
        told = [{(topic["name"], topic["error_code"], topic.get("topic_id", ZERO_ID) == ZERO_ID): sorted(
            (row["partition_index"], row["error_code"], row.get("leader_epoch"), row["leader_id"] >= 0,
             len(row["replica_nodes"]), len(row["isr_nodes"]), len(row.get("offline_replicas", ())))
            for row in topic["partitions"]) for topic in answer["topics"]}
            for answer in self.ask(ApiKeys.METADATA, version, *({
                "topics": side, **({"allow_auto_topic_creation": False} if version >= 4 else {})} for side in topics))]
        assert told[0] == told[1]

    def produce(self) -> None:
        version = self.random.randint(3, 13)
        partitions = self.random.sample(range(PARTITIONS + 1), self.random.randint(1, PARTITIONS))
        rows: tuple[list[dict[str, Any]], list[dict[str, Any]]] = ([], [])
        for partition in partitions:
            for side, records in zip(rows, self._batches(partition), strict=True):
                side.append({"index": partition, "records": records})
        bodies = []
        for topic_id, side in zip(self.topic_ids(), rows, strict=True):
            topic: dict[str, Any] = {"name": self.topic} if version < 13 else {"topic_id": topic_id}
            stranger: dict[str, Any] = {"name": "not-there"} if version < 13 else {"topic_id": NO_SUCH_ID}
            bodies.append({"acks": -1, "timeout_ms": 5000, "topic_data": [
                {**topic, "partition_data": side},
                {**stranger, "partition_data": [{"index": 0, "records": rows[0][0]["records"] if side is rows[0] else (
                    rows[1][0]["records"])}]}]})
        theirs, ours = (self._told(answer, version) for answer in self.ask(ApiKeys.PRODUCE, version, *bodies))
        assert theirs == ours
        self.codes.update(row[1] for row in theirs)

    def _told(self, answer: Struct, version: int) -> list[tuple[Any, ...]]:
        """Return the answer's rows in the order of the topics' partitions, the unknown topic's last."""
        key = "name" if version < 13 else "topic_id"
        strangers = ("not-there", NO_SUCH_ID)
        assert answer["throttle_time_ms"] == 0
        return sorted((topic[key] in strangers, row["error_code"], row["index"], row["base_offset"],
                       row["log_append_time_ms"]) for topic in answer["responses"]
                      for row in topic["partition_responses"])

    def _batches(self, partition: int) -> tuple[bytes, bytes]:
        """Return a batch for the broker and for the model: right, repeated, or wrong in one of many ways."""
        draw = self.random
        if not self.producers or draw.random() < 0.1:
            count = draw.randint(1, 4)
            records = build_batch([(FIRST_TIMESTAMP_MS + index, None, b"plain", ()) for index in range(count)],
                                  compression=draw.choice(["none", "gzip"]))
            return bytes(records), bytes(records)
        producer = draw.choice(range(len(self.producers))[-2:])
        tried = self.tried.setdefault((producer, partition), [])
        epoch, sequence, count = tried[-1] if tried else (
            0, draw.choice([0, 0, 5, MAX_SEQUENCE - 3, MAX_SEQUENCE]), draw.randint(1, 4))
        way = draw.choices(list(WAYS), list(WAYS.values()))[0] if tried else "next"
        if tried and way != "part":
            sequence = (sequence + count) & MAX_SEQUENCE
            count = draw.randint(1, 4)
        if way == "repeated":
            epoch, sequence, count = draw.choice(tried[-7:])
        elif way == "gap":
            sequence = (sequence + draw.randint(1, 3)) & MAX_SEQUENCE
        elif way == "overlap":
            sequence = (sequence - draw.randint(1, 3)) & MAX_SEQUENCE
        elif way == "part":
            count = max(1, count - 1)
        elif way == "new epoch":
            epoch, sequence = epoch + 1, 0
        elif way == "new epoch, not from 0":
            epoch, sequence = epoch + 1, 4
        elif way == "old epoch" and epoch:
            epoch -= 1
        if way in ("next", "new epoch"):
            tried.append((epoch, sequence, count))
        # What a number stands for never changes.
        values = [(sequence + index) & MAX_SEQUENCE for index in range(count)]
        padding = b"." * MAX_MESSAGE_BYTES if values[0] % 11 == 10 else b""
        theirs, ours = (bytes(build_batch(
            [(FIRST_TIMESTAMP_MS + value % 1000, b"key", b"%d-%d%s" % (epoch, value, padding), ()) for value in values],
            producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence))
            for producer_id in self.producers[producer])
        return theirs, ours


@pytest.mark.parametrize("seed", range(8))
def test_model_when_it_gets_the_same_random_requests_then_it_answers_the_same(
        wire: WireTarget, topic: str, seed: int) -> None:
    with wire.connect() as client:
        pair = Pair(client, topic, seed)
        pair.init_producer_id()
        for _ in range(STEPS):
            pair.random.choices([pair.produce, pair.metadata, pair.init_producer_id], [20, 3, 1])[0]()
    assert pair.codes == {0, 3, 10, 45, 47, 100}
    assert [wire.end_offset(topic, partition) for partition in range(PARTITIONS)] == pair.end_offsets()


def test_model_when_a_batch_is_too_large_then_it_answers_the_same(wire: WireTarget, topic: str) -> None:
    with wire.connect() as client:
        pair = Pair(client, topic, 0)
        empty = len(build_batch([(FIRST_TIMESTAMP_MS, None, b"x" * 1_000_000, ())]))
        for excess, code in ((0, 0), (1, 10)):
            records = bytes(build_batch([
                (FIRST_TIMESTAMP_MS, None, b"x" * (1_000_000 + MAX_MESSAGE_BYTES - empty + excess), ())]))
            assert len(records) == MAX_MESSAGE_BYTES + excess
            theirs, ours = pair.ask(ApiKeys.PRODUCE, 9, {"acks": 1, "timeout_ms": 5000, "topic_data": [
                {"name": topic, "partition_data": [{"index": 0, "records": records}]}]})
            for answer in (theirs, ours):
                assert answer["responses"][0]["partition_responses"][0]["error_code"] == code


def test_model_when_nobody_waits_for_answers_then_it_keeps_silent_or_ends_the_connection(
        wire: WireTarget, topic: str) -> None:
    model = ModelCluster(node_count=1, topics={topic: PARTITIONS}, parameters=ModelParameters())
    records = bytes(build_batch([(FIRST_TIMESTAMP_MS, None, b"v", ())]))
    with wire.connect() as client:
        for partition in (0, PARTITIONS):
            frame = request_bytes(ApiKeys.PRODUCE, 9, {"acks": 0, "timeout_ms": 5000, "topic_data": [
                {"name": topic, "partition_data": [{"index": partition, "records": records}]}]})
            client.send_frame(frame)
            if partition == 0:
                assert model.handle(0, frame, 0) is None
                client.request(ApiKeys.METADATA, 9, {"topics": []})
            else:
                assert model.handle(0, frame, 0) is CLOSE_CONNECTION
                assert client.is_closed()
    wire.await_end_offset(1, topic)
    assert len(model.log(topic, 0)) == 1
