"""Several nodes of Apache Kafka, each broker and controller, with replicas; any may be killed while the others go on.

No import of pytest.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType

from tests.support.kafka_server import KafkaServer, new_cluster_id
from tests.support.patience import GIVE_UP_S


class KafkaCluster:
    """A cluster of so many nodes. A context manager.

    Args:
        count: How many.
        settings: More broker settings.
        features: Feature levels, such as transaction.version.
    """

    def __init__(self, count: int = 3, *, settings: Mapping[str, object] | None = None,
                 features: Mapping[str, int] | None = None) -> None:
        cluster_id = new_cluster_id()
        self._topics: set[str] = set()  # those that create_topic made
        self.nodes = [KafkaServer(cluster_id=cluster_id, features=features) for _ in range(count)]
        voters = ",".join(f"{number}@{node.controller_address}" for number, node in enumerate(self.nodes, 1))
        for number, node in enumerate(self.nodes, 1):
            node.also_set({
                "node.id": number, "controller.quorum.voters": voters, "default.replication.factor": count,
                "min.insync.replicas": 2, "offsets.topic.replication.factor": count,
                "transaction.state.log.replication.factor": count, "transaction.state.log.min.isr": 2,
                "offsets.topic.num.partitions": count, "transaction.state.log.num.partitions": count,
                "replica.lag.time.max.ms": 5000, **(settings or {})})

    @property
    def bootstrap_servers(self) -> str:
        """All of them."""
        return ",".join(node.bootstrap_servers for node in self.nodes)

    def __enter__(self) -> KafkaCluster:
        try:
            with ThreadPoolExecutor(len(self.nodes)) as pool:  # none is ready without the others
                list(pool.map(KafkaServer.start, self.nodes))
            return self
        except BaseException:
            self.stop()
            raise

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.stop()

    def stop(self) -> None:
        """End all nodes."""
        for node in self.nodes:
            node.stop()

    def create_topic(self, name: str, partitions: int) -> None:
        """Create a topic with a replica on each node."""
        from confluent_kafka.admin import AdminClient, NewTopic

        admin = AdminClient({"bootstrap.servers": self.bootstrap_servers, "log_level": 0})
        topic = NewTopic(name, num_partitions=partitions, replication_factor=len(self.nodes))
        admin.create_topics([topic], request_timeout=GIVE_UP_S)[name].result(timeout=GIVE_UP_S)
        self._topics.add(name)
        self.await_replicas()

    def await_replicas(self) -> None:
        """Wait until every replica of every topic is in sync; a broker that knows none yet is not believed."""
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient

        admin = AdminClient({"bootstrap.servers": self.bootstrap_servers, "log_level": 0})
        deadline = time.monotonic() + GIVE_UP_S
        while time.monotonic() < deadline:
            try:
                topics = admin.list_topics(timeout=GIVE_UP_S).topics
            except KafkaException:
                continue
            known = [partition for topic in topics.values() for partition in topic.partitions.values()]
            if topics.keys() >= self._topics and all(
                    len(partition.isrs) == len(partition.replicas) and partition.leader > 0 for partition in known):
                return
            time.sleep(0.2)
        raise TimeoutError(f"not all replicas are in sync after {GIVE_UP_S} s")
