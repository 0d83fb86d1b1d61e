"""What all brokers of one cluster share: nodes, topics, partitions, producer ids, and what waits.

Road:    apis -> [cluster state] -> partition -> log
Thread:  any. Changes take one lock and replace the tables; reading takes none and sees one table or the next.
Source:  Java MetadataCache, ReplicaManager, ReplicationControlManager and ProducerIdControlManager in one (4.1):
         brokers of a cluster run in one process, so there is nothing to replicate.
"""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from pyproducer.broker.api_version_overrides import ApiVersionOverrides
from pyproducer.broker.authorizer import Authorizer, allow_everything
from pyproducer.broker.cluster_file import FILE_NAME as CLUSTER_FILE
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
from pyproducer.broker.storage.damage import damaged
from pyproducer.broker.storage.log import Log
from pyproducer.broker.storage.offset_checkpoint import END_OFFSETS_FILE, START_OFFSETS_FILE, OffsetCheckpoint
from pyproducer.broker.storage.segment import segment_file_name
from pyproducer.broker.timer import Timer
from pyproducer.broker.topic_config import TopicConfig, asked_topic_config, topic_config
from pyproducer.broker.topic_name import INTERNAL_TOPICS
from pyproducer.common.clock import Clock
from pyproducer.common.cluster import TopicPartition
from pyproducer.common.errors import ConfigError

_logger = logging.getLogger(__name__)
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

    Raises:
        ConfigError: Something in the data directory is damaged, or another broker uses it.
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
        # One topic is made, grown or deleted at a time, so that each directory has one owner; taken before _lock.
        self._life_lock = threading.Lock()
        self._lock = threading.Lock()  # guards every change below, and the cluster file
        self._topics: dict[str, TopicState] = {}
        self._topics_by_id: dict[uuid.UUID, TopicState] = {}
        self._brokers: dict[int, BrokerInfo] = {}
        self._is_closed = False
        try:
            self.start_offsets = OffsetCheckpoint(data_dir, START_OFFSETS_FILE)
            if not self.data_dir.was_clean:  # then they tell nothing
                (data_dir / END_OFFSETS_FILE).unlink(missing_ok=True)
            self._end_offsets = OffsetCheckpoint(data_dir, END_OFFSETS_FILE)
            self._file = read_cluster_file(data_dir)
            config.alter(self._file.dynamic_config())
            self._next_producer_id = self._file.next_producer_id
            self.data_dir.remove_deleted()
            for name, entry in self._file.topics.items():
                self._enter(self._open_topic(name, entry))
            if not (data_dir / CLUSTER_FILE).exists():  # else a full disk would keep the broker from starting
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
        config = asked_topic_config(configs, self.config)
        with self._life_lock, self._lock:
            if name in self._topics:
                return None
            self.start_offsets.forget(name)  # when there was no space to do so as another of this name was deleted
            entry = TopicEntry(uuid.uuid4(), [0] * partition_count, dict(config.overrides))
            topic = self._open_topic(name, entry, is_new=True)
            try:
                self._save(topics={**self._file.topics, name: entry})
            except BaseException:
                _discard(topic.partitions)
                raise
            self._enter(topic)
            return topic

    def create_partitions(self, name: str, partition_count: int) -> bool:
        """Give a topic more partitions; return False when it is gone or has as many already."""
        with self._life_lock, self._lock:
            topic = self._topics.get(name)
            if topic is None or len(topic.partitions) >= partition_count:
                return False
            entry = self._file.topics[name]
            leader_epochs = [*entry.leader_epochs, *[0] * (partition_count - len(topic.partitions))]
            partitions = self._open_partitions(name, leader_epochs, topic.config, first=len(topic.partitions),
                                               is_new=True)
            try:
                self._save_topics({name: replace(entry, leader_epochs=leader_epochs)})
            except BaseException:
                _discard(partitions)
                raise
            topic.partitions = (*topic.partitions, *partitions)
        return True

    def alter_topic_configs(self, name: str, configs: Mapping[str, str]) -> bool:
        """Replace a topic's own settings, for appends and checks that begin from now on; False when it is gone.

        Raises:
            ConfigError: A setting is unknown or wrong; nothing was changed.
        """
        config = asked_topic_config(configs, self.config)
        with self._lock:
            topic = self._topics.get(name)
            if topic is None:
                return False
            self._save_topics({name: replace(self._file.topics[name], configs=dict(config.overrides))})
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
            altered = {**self._file.broker_configs, broker: dict(configs)}
            self.config.alter(replace(self._file, broker_configs=altered).dynamic_config())
            try:
                self._save(broker_configs=altered)
            except BaseException:
                self.config.alter(self._file.dynamic_config())
                raise
            for topic in self._topics.values():
                topic.configure(topic_config(topic.config.overrides, self.config))

    def delete_topic(self, name: str, topic_id: uuid.UUID | None = None) -> bool:
        """Delete a topic and its files; return whether it existed.

        Another one of the same name may be made as soon as this one has left the tables, and before its files are
        gone: so its directories leave their names first, and nobody removes what has the name of a topic.

        Args:
            name: Its name.
            topic_id: Its id; another topic that has the name meanwhile is left alone.

        Raises:
            OSError: The cluster file could not be written; nothing was changed.
        """
        with self._life_lock:
            with self._lock:
                topic = self._topics.get(name)
                if topic is None or topic_id not in (None, topic.topic_id):
                    return False
                self._save(topics={key: entry for key, entry in self._file.topics.items() if key != name})
                self._topics = {key: value for key, value in self._topics.items() if key != name}
                self._topics_by_id = {state.topic_id: state for state in self._topics.values()}
                try:
                    self.start_offsets.forget(name)
                except OSError as error:  # done again before another topic gets the name
                    _logger.warning("Where %s begins could not be forgotten: %s", name, error)
            for partition in topic.partitions:
                partition.log.set_aside(self.data_dir.deleted_directory(partition.topic_partition))
            try:
                self.group_coordinator.on_topic_deleted(name)
            except OSError:  # in memory they are forgotten
                _logger.exception("Error while writing that groups have no offsets in %s any more", name)
        for partition in topic.partitions:
            partition.log.delete()
            self.delayed_fetches.check_and_complete(partition.topic_partition)
        return True

    def checkpoint_start(self, partition: Partition, offset: int) -> None:
        """Write where the log of a partition begins from now on, if its topic was not deleted meanwhile."""
        with self._lock:
            if self.partition(*partition.topic_partition) is partition:
                self.start_offsets.put(partition.topic_partition, offset)

    def change_leaders(self, leader_ids: Mapping[TopicPartition, int]) -> None:
        """Begin a new leader epoch for some partitions, led by these brokers or by NO_LEADER.

        Fetches that wait at a broker that does not lead any more are answered.

        Raises:
            ConfigError: There is no such partition; nothing was changed.
        """
        with self._lock:
            partitions: dict[Partition, Leadership] = {}
            for topic_partition, leader_id in leader_ids.items():
                partition = self.partition(*topic_partition)
                if partition is None:
                    raise ConfigError("partition", str(topic_partition), "there is no such partition")
                partitions[partition] = Leadership(leader_id, partition.leadership.leader_epoch + 1)
            entries: dict[str, TopicEntry] = {}
            for partition, leadership in partitions.items():
                topic, index = partition.topic_partition
                entry = entries.get(topic) or replace(self._file.topics[topic], leader_epochs=list(
                    self._file.topics[topic].leader_epochs))
                entry.leader_epochs[index] = leadership.leader_epoch
                entries[topic] = entry
            if entries:
                self._save_topics(entries)
            for partition, leadership in partitions.items():
                partition.leadership = leadership
                if leadership.leader_id != NO_LEADER:
                    partition.last_leader_id = leadership.leader_id
        for partition in partitions:
            self.delayed_fetches.check_and_complete(partition.topic_partition)

    # ---- producer ids

    def next_producer_id(self) -> int:
        """Return a producer id that nobody has had in this data directory."""
        with self._lock:
            producer_id = self._next_producer_id
            if producer_id >= self._file.next_producer_id:
                self._save(next_producer_id=producer_id + PRODUCER_ID_BLOCK_SIZE)
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
        if self._is_closed:
            return
        self._is_closed = True
        self.log_manager.stop()
        self.timer.stop()
        is_clean = self._close_logs()
        if is_clean:
            try:
                self._end_offsets.replace({partition.topic_partition: partition.log.log_end_offset
                                           for topic in self._topics.values() for partition in topic.partitions})
            except OSError as error:
                is_clean = False
                _logger.warning("Where the logs end was not written, so the next start looks at each: %s", error)
        self.data_dir.close(clean=is_clean)

    def _close_logs(self) -> bool:
        """Close all logs; return whether all of them end with their last batch."""
        are_whole = [partition.log.close() for topic in self._topics.values() for partition in topic.partitions]
        return all(are_whole)

    def _save(self, **changes: Any) -> None:
        """Write the cluster file with some of its fields changed.

        Raises:
            OSError: It cannot be written; nothing has changed.
        """
        changed = replace(self._file, **changes)
        write_cluster_file(self.data_dir.path, changed)
        self._file = changed

    def _save_topics(self, entries: Mapping[str, TopicEntry]) -> None:
        self._save(topics={**self._file.topics, **entries})

    def _enter(self, topic: TopicState) -> None:
        self._topics = {**self._topics, topic.name: topic}
        self._topics_by_id = {**self._topics_by_id, topic.topic_id: topic}

    def _open_topic(self, name: str, entry: TopicEntry, *, is_new: bool = False) -> TopicState:
        """Open the logs of a topic; on failure none of them is left open."""
        config = topic_config(entry.configs, self.config)
        return TopicState(name, entry.topic_id, config, tuple(
            self._open_partitions(name, entry.leader_epochs, config, is_new=is_new)))

    def _open_partitions(self, name: str, leader_epochs: list[int], config: TopicConfig, *,
                         first: int = 0, is_new: bool) -> list[Partition]:
        """Open the logs of the partitions from `first` on; on failure none of them is left open."""
        node_ids = tuple(sorted(self._brokers)) or self.node_ids  # before the brokers start, all count as living
        partitions: list[Partition] = []
        try:
            for index, leader_epoch in enumerate(leader_epochs[first:], first):
                topic_partition = TopicPartition(name, index)
                directory = self.data_dir.log_directory(topic_partition)
                if is_new:
                    self.data_dir.make_room(topic_partition)
                elif not any(directory.glob("*.log")):  # they are made before the topic is entered, and never all go
                    raise damaged(directory / segment_file_name(0, ".log"),
                                  "neither this file nor any other segment of the log is there")
                log = Log(directory, config.log, log_start_offset=self.start_offsets.get(topic_partition) or 0,
                          log_end_offset=None if is_new else self._end_offsets.get(topic_partition))
                leadership = Leadership(node_ids[index % len(node_ids)], leader_epoch)
                partitions.append(Partition(topic_partition, leadership, log, config))
        except BaseException:
            if is_new:
                _discard(partitions)
            else:
                for partition in partitions:
                    partition.log.close()
            raise
        return partitions


def _discard(partitions: Iterable[Partition]) -> None:
    """Remove the logs of partitions that nobody has seen."""
    for partition in partitions:
        partition.log.close()
        partition.log.delete()
