"""The topics in which coordinators keep their state: made on first use, compacted, closed to clients.

Road:    FindCoordinator -> [internal topics] -> topic life
Thread:  any; the creation of a topic is started once.
Source:  Java AutoTopicCreationManager, GroupCoordinatorService.groupMetadataTopicConfigs,
         TransactionStateManager.transactionStateTopicConfigs (4.1).
         Differs from Java: a topic is there when the request that asked for it is answered. Java says
         COORDINATOR_NOT_AVAILABLE first and is ready a moment later; `internal.topic.creation.delay.ms` does that too.
"""

from __future__ import annotations

import threading

from pyproducer.broker.cluster.config import BrokerConfig
from pyproducer.broker.cluster.coordinator.partition_for import partition_for
from pyproducer.broker.cluster.partition import Partition
from pyproducer.broker.cluster.timer import Timer
from pyproducer.broker.cluster.topic_life import TopicLife
from pyproducer.broker.cluster.topic_table import TopicState, TopicTable
from pyproducer.common.error_codes import ErrorCode

GROUP_METADATA_TOPIC_NAME = "__consumer_offsets"
TRANSACTION_STATE_TOPIC_NAME = "__transaction_state"
# topic -> (prefix of its settings, compression.type)
_ROWS = {GROUP_METADATA_TOPIC_NAME: ("offsets.topic", "producer"),
         TRANSACTION_STATE_TOPIC_NAME: ("transaction.state.log", "uncompressed")}


def internal_topic_configs(name: str, config: BrokerConfig) -> dict[str, str | None]:
    """Return the settings that an internal topic is created with."""
    prefix, compression_type = _ROWS[name]
    configs: dict[str, str | None] = {
        "cleanup.policy": "compact", "compression.type": compression_type,
        "segment.bytes": str(config.number(f"{prefix}.segment.bytes"))}
    if name == TRANSACTION_STATE_TOPIC_NAME:
        configs["min.insync.replicas"] = str(config.number(f"{prefix}.min.isr"))
        configs["unclean.leader.election.enable"] = "false"
    return configs


class InternalTopics:
    """Makes the internal topics of a cluster.

    Args:
        config: How many partitions and replicas they have.
        timer: For `internal.topic.creation.delay.ms`.
        topics: Where they are found.
        topic_life: Makes them, where there are as many brokers as replicas.
    """

    def __init__(self, config: BrokerConfig, timer: Timer, topics: TopicTable, topic_life: TopicLife) -> None:
        self._config = config
        self._timer = timer
        self._topics = topics
        self._topic_life = topic_life
        self._lock = threading.Lock()  # guards _ordered
        self._ordered: set[str] = set()  # topics whose creation waits for its time

    def get_or_create(self, name: str) -> TopicState | None:
        """Return an internal topic, which is made when it is missing; None while it cannot be had.

        Args:
            name: GROUP_METADATA_TOPIC_NAME or TRANSACTION_STATE_TOPIC_NAME.
        """
        topic = self._topics.find(name)
        if topic is not None:
            return topic
        prefix, _ = _ROWS[name]
        if self._config.number(f"{prefix}.replication.factor") > len(self._topic_life.registered):
            return None
        delay_ms = self._config.number("internal.topic.creation.delay.ms")
        if not delay_ms:
            return self._create(name)
        with self._lock:
            if name not in self._ordered:
                self._ordered.add(name)
                self._timer.schedule(delay_ms, lambda: self._create_ordered(name))
        return None

    def _create_ordered(self, name: str) -> None:
        try:
            self._create(name)
        finally:  # who asks again orders it again where it failed
            with self._lock:
                self._ordered.discard(name)

    def _create(self, name: str) -> TopicState | None:
        count = self.partition_count(name)
        # None: another thread was faster.
        return self._topic_life.create_topic(
            name, count, internal_topic_configs(name, self._config),
            replication_factor=self._config.number(f"{_ROWS[name][0]}.replication.factor")) or self._topics.find(name)

    def partition_count(self, name: str) -> int:
        """Return how many partitions an internal topic has, or will have."""
        topic = self._topics.find(name)
        return self._config.number(f"{_ROWS[name][0]}.num.partitions") if topic is None else (
            len(topic.partitions))

    def partitions(self, name: str) -> tuple[Partition, ...]:
        """Return all partitions of an internal topic; none when there is no topic."""
        topic = self._topics.find(name)
        return () if topic is None else topic.partitions

    def partition_of(self, name: str, key: str) -> Partition | None:
        """Return the partition that keeps the state of a group or a transactional id; None when there is no topic."""
        return self._topics.partition(name, partition_for(key, self.partition_count(name)))

    def check_coordinator(self, name: str, key: str, node_id: int) -> ErrorCode:
        """Return NONE when `node_id` coordinates `key`, else NOT_COORDINATOR: what every API of a coordinator asks."""
        partition = self.partition_of(name, key)
        if partition is None or partition.leadership.leader_id != node_id:
            return ErrorCode.NOT_COORDINATOR
        return ErrorCode.NONE
