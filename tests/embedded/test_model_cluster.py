"""The model broker of tests/simulation beside ours with several nodes: leaders that move, topics made anew.

What one node can show is in test_wire_model.py, which Apache Kafka passes, too.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any

import pytest

from pyproducer.broker import EmbeddedBroker
from pyproducer.protocol.apis import ApiKeys
from pyproducer.protocol.header import parse_response
from pyproducer.protocol.schema import Struct
from pyproducer.record.batch_writer import build_batch
from tests.simulation.model_broker import ModelCluster, ModelParameters
from tests.support.raw_client import RawClient, request_bytes

TOPIC = "orders"
NODES = PARTITIONS = 3
STEPS = 150


class Clusters:
    """Ours and the model, node N of ours beside node N - 1 of the model."""

    def __init__(self, broker: EmbeddedBroker, stack: ExitStack, seed: int) -> None:
        self.random = random.Random(seed)
        self._broker = broker
        addresses = (server.rsplit(":", 1) for server in broker.bootstrap_servers.split(","))
        self._clients = [stack.enter_context(RawClient((host, int(port)))) for host, port in addresses]
        self._model = ModelCluster(node_count=NODES, topics={TOPIC: PARTITIONS}, parameters=ModelParameters())
        self._correlation_ids = itertools.count(1)
        self._sequences: dict[int, int] = {}
        self.told: list[tuple[Any, ...]] = []
        theirs, ours = self.ask(0, ApiKeys.INIT_PRODUCER_ID, 4, {
            "transactional_id": None, "transaction_timeout_ms": 60_000})
        self._producer_ids = theirs["producer_id"], ours["producer_id"]

    def ask(self, node: int, api_key: ApiKeys, version: int, theirs: Mapping[str, Any],
            ours: Mapping[str, Any] | None = None) -> tuple[Struct, Struct]:
        """Return the answer of our node and of the model's."""
        payload = self._model.handle(node, request_bytes(api_key, version, theirs if ours is None else ours,
                                                         correlation_id=next(self._correlation_ids)), 0)
        assert payload
        return self._clients[node].request(api_key, version, theirs), parse_response(api_key, version, payload)[1]

    def move_leader(self) -> None:
        partition, node = self.random.randrange(PARTITIONS), self.random.randrange(NODES)
        if self._model.partition(TOPIC, partition).leader_id != node:
            self._broker.move_leader(TOPIC, partition, node + 1)
            self._model.move_leader(TOPIC, partition, node)

    def place_leaders(self) -> None:
        """Let both begin alike."""
        for partition in range(PARTITIONS):
            for node in ((partition + 1) % NODES, partition % NODES):
                self._broker.move_leader(TOPIC, partition, node + 1)
                self._model.move_leader(TOPIC, partition, node)
            leader = self._broker.leader_of(TOPIC, partition)
            assert leader is not None
            assert leader[0] == partition % NODES + 1
            self._model.partition(TOPIC, partition).leader_epoch = leader[1]

    def recreate_topic(self) -> None:
        """Delete the topic and make it anew; numbers begin again, as a client's do that sees the new id."""
        with RawClient(("127.0.0.1", self._broker.port)) as client:
            deleted = client.request(ApiKeys.DELETE_TOPICS, 5, {"topic_names": [TOPIC], "timeout_ms": 30_000})
            assert deleted["responses"][0]["error_code"] == 0
        assert self._broker.create_topic(TOPIC, PARTITIONS)
        self._model.recreate_topic(TOPIC)
        self._sequences.clear()
        self.place_leaders()

    def metadata(self) -> list[Any]:
        """Return both topic ids; compare what else is told."""
        answers = self.ask(self.random.randrange(NODES), ApiKeys.METADATA, 12, {"topics": [{"name": TOPIC}]})
        seen = [(sorted(row["node_id"] + 1 - is_theirs for row in answer["brokers"]), sorted(
            (row["partition_index"], row["error_code"], row["leader_id"] + 1 - is_theirs, row["leader_epoch"])
            for row in answer["topics"][0]["partitions"])) for is_theirs, answer in enumerate(reversed(answers))]
        assert seen[0] == seen[1]
        return [answer["topics"][0]["topic_id"] for answer in answers]

    def produce(self) -> None:
        version, node, partition = self.random.randint(9, 13), self.random.randrange(NODES), self.random.randrange(
            PARTITIONS)
        sequence, count = self._sequences.get(partition, 0), self.random.randint(1, 3)
        bodies = []
        for topic_id, producer_id in zip(self.metadata(), self._producer_ids, strict=True):
            records = bytes(build_batch([(1_700_000_000_000, None, b"%d" % (sequence + index), ())
                                         for index in range(count)], producer_id=producer_id, producer_epoch=0,
                                        base_sequence=sequence))
            bodies.append({"acks": -1, "timeout_ms": 5000, "topic_data": [
                {**({"name": TOPIC} if version < 13 else {"topic_id": topic_id}),
                 "partition_data": [{"index": partition, "records": records}]}]})
        told = []
        for is_ours, answer in enumerate(self.ask(node, ApiKeys.PRODUCE, version, *bodies)):
            row = answer["responses"][0]["partition_responses"][0]
            leader = row["current_leader"] if version >= 10 else {"leader_id": -1, "leader_epoch": -1}
            nodes = [end_point["node_id"] + is_ours for end_point in answer["node_endpoints"]] if version >= 10 else []
            leader_id = leader["leader_id"] + is_ours if leader["leader_id"] >= 0 else -1
            told.append((row["error_code"], row["base_offset"], leader_id, leader["leader_epoch"], nodes))
        assert told[0] == told[1]
        if told[0][0] == 0:
            self._sequences[partition] = sequence + count
        self.told.append(told[0])


@pytest.mark.parametrize("seed", range(3))
def test_model_when_leaders_move_and_topics_are_made_anew_then_it_answers_as_our_broker(
        start_broker: Callable[..., EmbeddedBroker], seed: int) -> None:
    with ExitStack() as stack:
        clusters = Clusters(start_broker(brokers=NODES, topics={TOPIC: PARTITIONS}), stack, seed)
        clusters.place_leaders()
        for _ in range(STEPS):
            clusters.random.choices([clusters.produce, clusters.move_leader, clusters.recreate_topic], [20, 5, 1])[0]()
    codes = [told[0] for told in clusters.told]
    assert set(codes) == {0, 6}
    assert any(leader_id > 0 for _, _, leader_id, _, _ in clusters.told)
