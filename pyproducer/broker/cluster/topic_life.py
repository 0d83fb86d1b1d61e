"""How topics are made, grown, configured and deleted, and made again under the same name: the one owner of all that.

    create   logs on disk -> cluster file -> table: nobody finds a topic whose file or logs are not there
    delete   cluster file -> table -> directories lose their names -> groups forget it -> files are removed

Another topic may get the name as soon as the old one has left the tables, and before its files are gone: so its
directories leave their names first, and nobody removes what has the name of a topic. Two of one name are told apart
by their ids.

Road:    CreateTopics, Metadata, DeleteTopics, internal topics -> [topic life] -> data dir, logs, cluster file, table
Thread:  any. `_life_lock` first, then the store's, then those of groups and logs (docs/design.md).
Source:  Java ReplicationControlManager, LogManager.asyncDelete, ReplicaManager.applyDelta (4.1).
"""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from pyproducer.broker.cluster.cluster_file import TopicEntry
from pyproducer.broker.cluster.cluster_store import ClusterStore
from pyproducer.broker.cluster.config import BrokerConfig
from pyproducer.broker.cluster.data_dir import DataDir
from pyproducer.broker.cluster.delayed_operation import DelayedFetches
from pyproducer.broker.cluster.living_brokers import LivingBrokers
from pyproducer.broker.cluster.partition import Leadership, Partition
from pyproducer.broker.cluster.topic_config import TopicConfig, asked_topic_config, topic_config
from pyproducer.broker.cluster.topic_table import TopicState, TopicTable
from pyproducer.broker.storage.damage import damaged
from pyproducer.broker.storage.log import Log
from pyproducer.broker.storage.offset_checkpoint import END_OFFSETS_FILE, START_OFFSETS_FILE, OffsetCheckpoint
from pyproducer.broker.storage.segment import segment_file_name
from pyproducer.common.cluster import TopicPartition

_logger = logging.getLogger(__name__)


class TopicLife:
    """Owns the topics of a cluster, from the first start to the last stop.

    Args:
        data_dir: Where the logs lie.
        store: Keeps what topics there are.
        topics: The table that everybody reads; nobody else writes it.
        brokers: Leaders of new partitions are spread over them.
        config: The defaults of topics.
        node_ids: The brokers that there will be; until one lives, all count as living.
        delayed_fetches: Those that wait for a topic that is deleted are answered.
        on_deleted: Told of a topic that has left the table, before its name is free.

    Attributes:
        start_offsets: Where logs begin whose first records were deleted.

    Raises:
        ConfigError: A checkpoint is damaged.
    """

    def __init__(self, data_dir: DataDir, store: ClusterStore, topics: TopicTable, brokers: LivingBrokers,
                 config: BrokerConfig, *, node_ids: tuple[int, ...], delayed_fetches: DelayedFetches,
                 on_deleted: Callable[[str], None]) -> None:
        self._data_dir = data_dir
        self._store = store
        self._topics = topics
        self._brokers = brokers
        self._config = config
        self._node_ids = node_ids
        self._delayed_fetches = delayed_fetches
        self._on_deleted = on_deleted
        # One topic is made, grown or deleted at a time, so that each directory has one owner; before the store's lock.
        self._life_lock = threading.Lock()
        self.start_offsets: OffsetCheckpoint = OffsetCheckpoint(data_dir.path, START_OFFSETS_FILE)
        if not data_dir.was_clean:  # then they tell nothing
            (data_dir.path / END_OFFSETS_FILE).unlink(missing_ok=True)
        self._end_offsets = OffsetCheckpoint(data_dir.path, END_OFFSETS_FILE)

    # ---- start and stop

    def open_all(self) -> None:
        """Open the logs of all topics; on failure none of them is left open.

        Raises:
            ConfigError: Something in the data directory is damaged.
        """
        self._data_dir.remove_deleted()
        try:
            for name, entry in self._store.content.topics.items():
                self._topics.enter(self._open_topic(name, entry))
        except BaseException:
            self._close_logs()
            raise

    def close_all(self) -> bool:
        """Close all logs, and write where they end; return whether the next start can rely on that."""
        if not self._close_logs():
            return False
        try:
            self._end_offsets.replace({partition.topic_partition: partition.log.log_end_offset
                                       for topic in self._topics.values() for partition in topic.partitions})
        except OSError as error:
            _logger.warning("Where the logs end was not written, so the next start looks at each: %s", error)
            return False
        return True

    def _close_logs(self) -> bool:
        """Close all logs; return whether all of them end with their last batch."""
        are_whole = [partition.log.close() for topic in self._topics.values() for partition in topic.partitions]
        return all(are_whole)

    # ---- changes

    def create_topic(self, name: str, partition_count: int, configs: Mapping[str, str | None]) -> TopicState | None:
        """Create a topic with leaders spread over the living brokers; None when it exists already.

        Raises:
            ConfigError: A setting of the topic is unknown or wrong; nothing was created.
            OSError: Its files could not be made; nothing was created.
        """
        config = asked_topic_config(configs, self._config)
        with self._life_lock, self._store.lock:
            if name in self._topics:
                return None
            self.start_offsets.forget(name)  # when there was no space to do so as another of this name was deleted
            entry = TopicEntry(uuid.uuid4(), [0] * partition_count, dict(config.overrides))
            topic = self._open_topic(name, entry, is_new=True)
            try:
                self._store.save_topics({name: entry})
            except BaseException:
                _discard(topic.partitions)
                raise
            self._topics.enter(topic)
            return topic

    def create_partitions(self, name: str, partition_count: int) -> bool:
        """Give a topic more partitions; return False when it is gone or has as many already.

        Raises:
            OSError: Their files could not be made; nothing was changed.
        """
        with self._life_lock, self._store.lock:
            topic = self._topics.find(name)
            if topic is None or len(topic.partitions) >= partition_count:
                return False
            entry = self._store.content.topics[name]
            leader_epochs = [*entry.leader_epochs, *[0] * (partition_count - len(topic.partitions))]
            partitions = self._open_partitions(name, leader_epochs, topic.config, first=len(topic.partitions),
                                               is_new=True)
            try:
                self._store.save_topics({name: replace(entry, leader_epochs=leader_epochs)})
            except BaseException:
                _discard(partitions)
                raise
            topic.partitions = (*topic.partitions, *partitions)
        return True

    def alter_topic_configs(self, name: str, configs: Mapping[str, str]) -> bool:
        """Replace a topic's own settings, for appends and checks that begin from now on; False when it is gone.

        Raises:
            ConfigError: A setting is unknown or wrong; nothing was changed.
            OSError: The cluster file could not be written; nothing was changed.
        """
        config = asked_topic_config(configs, self._config)
        with self._store.lock:
            topic = self._topics.find(name)
            if topic is None:
                return False
            self._store.save_topics({name: replace(self._store.content.topics[name], configs=dict(config.overrides))})
            topic.configure(config)
        return True

    def delete_topic(self, name: str, topic_id: uuid.UUID | None = None) -> bool:
        """Delete a topic and its files; return whether it existed.

        Args:
            name: Its name.
            topic_id: Its id; another topic that has the name meanwhile is left alone.

        Raises:
            OSError: The cluster file could not be written; nothing was changed.
        """
        with self._life_lock:
            with self._store.lock:
                topic = self._topics.find(name)
                if topic is None or topic_id not in (None, topic.topic_id):
                    return False
                self._store.save(topics={
                    key: entry for key, entry in self._store.content.topics.items() if key != name})
                self._topics.remove(name)
                try:
                    self.start_offsets.forget(name)
                except OSError as error:  # done again before another topic gets the name
                    _logger.warning("Where %s begins could not be forgotten: %s", name, error)
            for partition in topic.partitions:
                partition.log.set_aside(self._data_dir.deleted_directory(partition.topic_partition))
            try:
                self._on_deleted(name)
            except OSError:  # in memory they are forgotten
                _logger.exception("Error while writing that groups have no offsets in %s any more", name)
        for partition in topic.partitions:
            partition.log.delete()
            self._delayed_fetches.check_and_complete(partition.topic_partition)
        return True

    def checkpoint_start(self, partition: Partition, offset: int) -> None:
        """Write where the log of a partition begins from now on, if its topic was not deleted meanwhile."""
        with self._store.lock:
            if self._topics.partition(*partition.topic_partition) is partition:
                self.start_offsets.put(partition.topic_partition, offset)

    # ---- logs

    def _open_topic(self, name: str, entry: TopicEntry, *, is_new: bool = False) -> TopicState:
        """Open the logs of a topic; on failure none of them is left open."""
        config = topic_config(entry.configs, self._config)
        return TopicState(name, entry.topic_id, config, tuple(
            self._open_partitions(name, entry.leader_epochs, config, is_new=is_new)))

    def _open_partitions(self, name: str, leader_epochs: list[int], config: TopicConfig, *,
                         first: int = 0, is_new: bool) -> list[Partition]:
        """Open the logs of the partitions from `first` on; on failure none of them is left open."""
        node_ids = tuple(sorted(self._brokers)) or self._node_ids
        partitions: list[Partition] = []
        try:
            for index, leader_epoch in enumerate(leader_epochs[first:], first):
                topic_partition = TopicPartition(name, index)
                directory = self._data_dir.log_directory(topic_partition)
                if is_new:
                    self._data_dir.make_room(topic_partition)
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
