"""What all brokers of one cluster share: nodes, topics, partitions, producer ids, and what waits.

Road:    apis -> [cluster state] -> partition -> log
Thread:  any. Changes take one lock and replace the tables; reading takes none and sees one table or the next.
Source:  Java MetadataCache, ReplicaManager, ReplicationControlManager and ProducerIdControlManager in one (4.1):
         brokers of a cluster run in one process, so there is nothing to replicate.
"""

from __future__ import annotations

import shutil
import threading
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from pyproducer.broker.api_version_overrides import ApiVersionOverrides
from pyproducer.broker.authorizer import Authorizer, allow_everything
from pyproducer.broker.cluster_file import TopicEntry, read_cluster_file, write_cluster_file
from pyproducer.broker.config import BrokerConfig
from pyproducer.broker.coordinator.group.coordinator import GroupCoordinator
from pyproducer.broker.coordinator.internal_topics import InternalTopics
from pyproducer.broker.coordinator.transaction.coordinator import TransactionCoordinator
from pyproducer.broker.data_dir import DataDir
from pyproducer.broker.delayed_operation import DelayedOperationPurgatory
from pyproducer.broker.fault_rules import FaultRules
from pyproducer.broker.listener import EndPoint
from pyproducer.broker.log_manager import LogManager
from pyproducer.broker.observations import RequestLog
from pyproducer.broker.partition import NO_LEADER, Leadership, Partition
from pyproducer.broker.storage.log import Log
from pyproducer.broker.storage.start_offsets import StartOffsets
from pyproducer.broker.timer import Timer
from pyproducer.broker.topic_config import TopicConfig, topic_config
from pyproducer.broker.topic_name import INTERNAL_TOPICS
from pyproducer.common.clock import Clock
from pyproducer.common.cluster import TopicPartition
from pyproducer.common.errors import ConfigError

# Java ProducerIdsBlock.PRODUCER_ID_BLOCK_SIZE: ids are reserved on disk in blocks, and the rest of a block is lost
# when the broker stops.
PRODUCER_ID_BLOCK_SIZE = 1000


class BrokerInfo(NamedTuple):
    """One broker as clients see it; `end_points` by listener name, with the ports that are really used."""

    node_id: int
    end_points: Mapping[str, EndPoint]
    rack: str | None


class TopicState:
    """One topic. `partitions` is replaced, never changed."""

    def __init__(self, name: str, topic_id: uuid.UUID, config: TopicConfig, partitions: tuple[Partition, ...]) -> None:
        self.name = name
        self.topic_id = topic_id
        self.config = config
        self.partitions = partitions
        self.is_internal = name in INTERNAL_TOPICS

    def configure(self, config: TopicConfig) -> None:
        """Replace the settings, of the partitions and their logs too."""
        self.config = config
        for partition in self.partitions:
            partition.config = config
            partition.log.config = config.log


class ClusterState:
    """The state of one cluster, over one data directory.

    Args:
        data_dir: Where everything is kept; may hold what an earlier broker left.
        config: The settings of all brokers.
        clock: The clocks.
        node_ids: The brokers that there will be; leaders are spread over them.
    """

    def __init__(self, data_dir: Path, config: BrokerConfig, clock: Clock, *, node_ids: tuple[int, ...] = (1,)) -> None:
        self.config = config
        self.node_ids = node_ids
        self.clock = clock
        self.data_dir = DataDir(data_dir)
        self.timer = Timer(clock, name="kafka-expiration-reaper")
        self.delayed_fetches: DelayedOperationPurgatory[TopicPartition] = DelayedOperationPurgatory(self.timer)
        self.authorizer: Authorizer = allow_everything
        self.internal_topics = InternalTopics(self)
        # What tests script and look at; nothing of it costs anything until it is used.
        self.api_versions = ApiVersionOverrides()
        self.fault_rules = FaultRules()
        self.request_log: RequestLog | None = None
        self.group_coordinator = GroupCoordinator(self)
        self.transactions = TransactionCoordinator(self)
        self.log_manager = LogManager(self)
        self._lock = threading.Lock()  # guards every change below, and the cluster file
        self._topics: dict[str, TopicState] = {}
        self._topics_by_id: dict[uuid.UUID, TopicState] = {}
        self._brokers: dict[int, BrokerInfo] = {}
        try:
            self.start_offsets = StartOffsets(data_dir)
            self._file = read_cluster_file(data_dir)
            config.alter(self._file.dynamic_config())
            self._next_producer_id = self._file.next_producer_id
            for name, entry in self._file.topics.items():
                self._enter(self._open_topic(name, entry))
            write_cluster_file(data_dir, self._file)
        except BaseException:
            self._close_logs()
            self.data_dir.close(clean=False)
            raise
        self.data_dir.opened()

    @property
    def cluster_id(self) -> str:
        """Kafka's cluster id."""
        return self._file.cluster_id

    # ---- nodes

    def register_broker(self, broker: BrokerInfo) -> None:
        """Make a broker known, with the ports it listens on."""
        with self._lock:
            self._brokers = {**self._brokers, broker.node_id: broker}

    def unregister_broker(self, node_id: int) -> None:
        """Forget a broker that stops; its partitions stay its own, and have no living leader."""
        with self._lock:
            self._brokers = {key: value for key, value in self._brokers.items() if key != node_id}

    @property
    def brokers(self) -> Mapping[int, BrokerInfo]:
        """The living brokers by id."""
        return self._brokers

    @property
    def controller_id(self) -> int:
        """The broker that admin clients turn to: the living one with the smallest id."""
        return min(self._brokers, default=-1)

    # ---- topics

    @property
    def topics(self) -> Mapping[str, TopicState]:
        """All topics by name."""
        return self._topics

    def topic(self, name: str) -> TopicState | None:
        """Return a topic, or None."""
        return self._topics.get(name)

    def topic_by_id(self, topic_id: uuid.UUID) -> TopicState | None:
        """Return a topic by its id, or None."""
        return self._topics_by_id.get(topic_id)

    def partition(self, topic: str, index: int) -> Partition | None:
        """Return a partition, or None."""
        state = self._topics.get(topic)
        if state is None or not 0 <= index < len(state.partitions):
            return None
        return state.partitions[index]

    def create_topic(self, name: str, partition_count: int, configs: Mapping[str, str | None]) -> TopicState | None:
        """Create a topic with leaders spread over the living brokers; None when it exists already.

        Raises:
            ConfigError: A setting of the topic is unknown or wrong; nothing was created.
        """
        config = topic_config(configs, self.config)
        with self._lock:
            if name in self._topics:
                return None
            entry = TopicEntry(uuid.uuid4(), [0] * partition_count, dict(config.overrides))
            topic = self._open_topic(name, entry)
            self._file.topics[name] = entry
            write_cluster_file(self.data_dir.path, self._file)
            self._enter(topic)
            return topic

    def create_partitions(self, name: str, partition_count: int) -> bool:
        """Give a topic more partitions; return False when it is gone or has as many already."""
        with self._lock:
            topic = self._topics.get(name)
            if topic is None or len(topic.partitions) >= partition_count:
                return False
            entry = self._file.topics[name]
            leader_epochs = [*entry.leader_epochs, *[0] * (partition_count - len(topic.partitions))]
            partitions = self._open_partitions(name, leader_epochs, topic.config, first=len(topic.partitions))
            entry.leader_epochs = leader_epochs
            write_cluster_file(self.data_dir.path, self._file)
            topic.partitions = (*topic.partitions, *partitions)
        return True

    def alter_topic_configs(self, name: str, configs: Mapping[str, str]) -> bool:
        """Replace a topic's own settings, for appends and checks that begin from now on; False when it is gone.

        Raises:
            ConfigError: A setting is unknown or wrong; nothing was changed.
        """
        config = topic_config(configs, self.config)
        with self._lock:
            topic = self._topics.get(name)
            if topic is None:
                return False
            self._file.topics[name].configs = dict(config.overrides)
            write_cluster_file(self.data_dir.path, self._file)
            topic.configure(config)
        return True

    @property
    def dynamic_configs(self) -> Mapping[str, Mapping[str, str]]:
        """What was altered at runtime, by broker id and by "" for all brokers."""
        return self._file.broker_configs

    def broker_configs(self, broker: str) -> Mapping[str, str]:
        """Return what was altered at runtime for one broker, by its id, or for all of them, by ""."""
        return self._file.broker_configs.get(broker, {})

    def alter_broker_configs(self, broker: str, configs: Mapping[str, str]) -> None:
        """Replace the settings altered at runtime for one broker, or for all of them with "".

        Raises:
            ConfigError: A setting cannot be altered or is wrong; nothing was changed.
        """
        with self._lock:
            before = self._file.broker_configs
            self._file.broker_configs = {**before, broker: dict(configs)}
            try:
                self.config.alter(self._file.dynamic_config())
            except ConfigError:
                self._file.broker_configs = before
                raise
            write_cluster_file(self.data_dir.path, self._file)
            for topic in self._topics.values():
                topic.configure(topic_config(topic.config.overrides, self.config))

    def delete_topic(self, name: str) -> bool:
        """Delete a topic and its files; return whether it existed."""
        with self._lock:
            topic = self._topics.get(name)
            if topic is None:
                return False
            self._topics = {key: value for key, value in self._topics.items() if key != name}
            self._topics_by_id = {state.topic_id: state for state in self._topics.values()}
            self.start_offsets.forget(name)
            del self._file.topics[name]
            write_cluster_file(self.data_dir.path, self._file)
        for partition in topic.partitions:
            partition.log.delete()
            self.delayed_fetches.check_and_complete(partition.topic_partition)
        self.group_coordinator.on_topic_deleted(name)
        return True

    def change_leaders(self, leader_ids: Mapping[TopicPartition, int]) -> None:
        """Begin a new leader epoch for some partitions, led by these brokers or by NO_LEADER.

        Fetches that wait at a broker that does not lead any more are answered.

        Raises:
            ConfigError: There is no such partition; nothing was changed.
        """
        with self._lock:
            partitions = {}
            for topic_partition, leader_id in leader_ids.items():
                partition = self.partition(*topic_partition)
                if partition is None:
                    raise ConfigError("partition", str(topic_partition), "there is no such partition")
                partitions[partition] = leader_id
            for partition, leader_id in partitions.items():
                topic, index = partition.topic_partition
                leader_epoch = partition.leadership.leader_epoch + 1
                self._file.topics[topic].leader_epochs[index] = leader_epoch
                partition.leadership = Leadership(leader_id, leader_epoch)
                if leader_id != NO_LEADER:
                    partition.last_leader_id = leader_id
            if partitions:
                write_cluster_file(self.data_dir.path, self._file)
        for partition in partitions:
            self.delayed_fetches.check_and_complete(partition.topic_partition)

    # ---- producer ids

    def next_producer_id(self) -> int:
        """Return a producer id that nobody has had in this data directory."""
        with self._lock:
            producer_id = self._next_producer_id
            if producer_id >= self._file.next_producer_id:
                self._file.next_producer_id = producer_id + PRODUCER_ID_BLOCK_SIZE
                write_cluster_file(self.data_dir.path, self._file)
            self._next_producer_id = producer_id + 1
            return producer_id

    # ---- life

    def start(self) -> None:
        """Start the timer, and read what the coordinators had."""
        self.timer.start()
        self.log_manager.start()
        self.group_coordinator.load()
        self.transactions.load()

    def close(self) -> None:
        """Stop the timer, close every log, give the directory back; harmless when closed. No handler may be running."""
        self.log_manager.stop()
        self.timer.stop()
        self._close_logs()
        self.data_dir.close(clean=True)

    def _close_logs(self) -> None:
        for topic in self._topics.values():
            for partition in topic.partitions:
                partition.log.close()

    def _enter(self, topic: TopicState) -> None:
        self._topics = {**self._topics, topic.name: topic}
        self._topics_by_id = {**self._topics_by_id, topic.topic_id: topic}

    def _open_topic(self, name: str, entry: TopicEntry) -> TopicState:
        """Open the logs of a topic; on failure none of them is left open."""
        config = topic_config(entry.configs, self.config)
        return TopicState(name, entry.topic_id, config, tuple(self._open_partitions(name, entry.leader_epochs, config)))

    def _open_partitions(self, name: str, leader_epochs: list[int], config: TopicConfig, *,
                         first: int = 0) -> list[Partition]:
        """Open the logs of the partitions from `first` on; on failure none of them is left open."""
        node_ids = tuple(sorted(self._brokers)) or self.node_ids  # before the brokers start, all count as living
        known_count = len(self._file.topics[name].leader_epochs) if name in self._file.topics else 0
        partitions: list[Partition] = []
        try:
            for index, leader_epoch in enumerate(leader_epochs[first:], first):
                topic_partition = TopicPartition(name, index)
                directory = self.data_dir.path / str(topic_partition)
                if index >= known_count:
                    # Left by a broker that died between making the logs and entering the topic, or while deleting.
                    shutil.rmtree(directory, ignore_errors=True)
                log = Log(directory, config.log, log_start_offset=self.start_offsets.get(topic_partition))
                leadership = Leadership(node_ids[index % len(node_ids)], leader_epoch)
                partitions.append(Partition(topic_partition, leadership, log, config))
        except BaseException:
            for partition in partitions:
                partition.log.close()
                if partition.topic_partition.partition >= known_count:
                    shutil.rmtree(partition.log.directory, ignore_errors=True)
            raise
        return partitions
