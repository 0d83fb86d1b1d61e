"""Transactions on three nodes of Apache Kafka, of which one after the other is killed; and from topic to topic."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from pyproducer.testing import read_topic
from tests.support import killed_transactions, passing_on
from tests.support.java_reader import read_committed as read_by_java
from tests.support.kafka_cluster import KafkaCluster
from tests.support.kafka_server import KafkaServer
from tests.support.log_checker import read_committed

pytest.importorskip("confluent_kafka")
pytest.importorskip("kafka")

SEED = 11


def test_cluster_when_a_node_does_not_start_then_that_is_said_and_nothing_stays(
        monkeypatch: pytest.MonkeyPatch) -> None:
    """The node's thread had the error, and the test the rest of a cluster."""
    def start(node: KafkaServer) -> KafkaServer:
        if node is cluster.nodes[1]:
            raise RuntimeError("it ended at start")
        return node

    monkeypatch.setattr(KafkaServer, "start", start)
    cluster = KafkaCluster(2)
    with pytest.raises(RuntimeError, match="it ended at start"):
        cluster.__enter__()
    assert not any(node.folder.exists() for node in cluster.nodes)


class NodesDie(threading.Thread):
    """Kills one node after the other, and starts it again."""

    def __init__(self, cluster: KafkaCluster) -> None:
        super().__init__(daemon=True)
        self._cluster = cluster
        self.stops = threading.Event()
        self.kills = 0
        self.problem: BaseException | None = None

    def run(self) -> None:
        try:
            while not self.stops.is_set():
                for node in self._cluster.nodes:
                    node.kill()
                    self.kills += 1
                    self.stops.wait(4)
                    node.start()
                    self._cluster.await_replicas()
                    self.stops.wait(2)
        except BaseException as problem:  # the test's own thread tells it
            self.problem = problem


@pytest.mark.soak
@pytest.mark.parametrize("level", [2, 0])
def test_processes_and_nodes_when_they_are_killed_then_each_transaction_is_seen_whole_or_not_at_all(
        topic_name: str, level: int) -> None:
    with KafkaCluster(3, features={"transaction.version": level}) as cluster:
        cluster.create_topic(topic_name, 3)
        nodes_die = NodesDie(cluster)
        nodes_die.start()
        story = killed_transactions.run(cluster.bootstrap_servers, topic_name, topic_name, count=1000, partitions=3,
                                        seed=SEED)
        nodes_die.stops.set()
        nodes_die.join()
        assert nodes_die.problem is None
        print(f"{len(story.fates)} transactions, {story.kills} processes killed, {story.in_doubt} during a commit, "
              f"{nodes_die.kills} times a node")
        seen = [(record.partition, record.value or b"")
                for record in read_committed(cluster.bootstrap_servers, topic_name)]
        killed_transactions.check(story, seen, SEED)
        assert sorted(read_by_java(cluster.bootstrap_servers, topic_name)) == sorted(seen)
        assert nodes_die.kills >= 3


@pytest.mark.soak
@pytest.mark.parametrize("consumer", ["confluent", "kafka-python"])
def test_records_when_who_passes_them_on_is_killed_then_each_is_there_once_and_in_order(
        topic_name: str, consumer: str) -> None:
    settings: dict[str, Any] = {"group.min.session.timeout.ms": 1000}
    with KafkaServer(settings=settings) as server:
        target = f"{topic_name}-out"
        server.create_topic(topic_name, 3)
        server.create_topic(target, 3)

        def read() -> list[tuple[int, bytes]]:
            return [(record.partition, record.value or b"") for record in read_topic(
                server.bootstrap_servers, target, isolation_level="read_committed")]

        story = passing_on.run(server.bootstrap_servers, topic_name, target, read, consumers=[consumer] * 2,
                               partitions=3, seconds=120, kill_every_s=4, per_s=200, seed=SEED, session_ms=1500)
        print(f"{sum(map(len, story.sent))} records, {story.kills} processes killed, {dict(story.told)}")
        passing_on.check(story, read())
        assert story.kills >= 15
