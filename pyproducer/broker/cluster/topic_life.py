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
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from pyproducer.broker.cluster.cluster_file import TopicEntry
from pyproducer.broker.cluster.cluster_store import ClusterStore
from pyproducer.broker.cluster.config import BrokerConfig
from pyproducer.broker.cluster.data_dir import DataDir
from pyproducer.broker.cluster.delayed_operation import DelayedFetches
from pyproducer.broker.cluster.leaders import Leaders
from pyproducer.broker.cluster.living_brokers import LivingBrokers
from pyproducer.broker.cluster.partition import Partition
from pyproducer.broker.cluster.replicas import NO_LEADER, Leadership, Replicas, placed
from pyproducer.broker.cluster.topic_config import TopicConfig, asked_topic_config, topic_config
from pyproducer.broker.cluster.topic_table import TopicState, TopicTable
from pyproducer.broker.storage.damage import DamagedLogError
from pyproducer.broker.storage.log import Log
from pyproducer.broker.storage.offset_checkpoint import END_OFFSETS_FILE, START_OFFSETS_FILE, OffsetCheckpoint
from pyproducer.broker.storage.salvage import begin_at, end_offset_told
from pyproducer.broker.storage.segment import segment_file_name
from pyproducer.common.cluster import TopicPartition
from pyproducer.common.errors import ConfigError

_logger = logging.getLogger(__name__)


class TopicLife:
    """Owns the topics of a cluster, from the first start to the last stop.

    Args:
        data_dir: Where the logs lie.
        store: Keeps what topics there are.
        topics: The table that everybody reads; nobody else writes it.
        brokers: Replicas of new partitions are spread over those that live.
        config: The defaults of topics.
        racks: The brokers that there will be, with their racks; until one lives, all count as living.
        delayed_fetches: Those that wait for a topic that is deleted are answered.
        leaders: Looks for some where a topic's settings allow others.
        on_deleted: Told of a topic that has left the table, before its name is free.

    Attributes:
        start_offsets: Where logs begin whose first records were deleted.

    Raises:
        ConfigError: A checkpoint is damaged.
    """

    def __init__(self, data_dir: DataDir, store: ClusterStore, topics: TopicTable, brokers: LivingBrokers,
                 config: BrokerConfig, *, racks: Mapping[int, str | None], delayed_fetches: DelayedFetches,
                 leaders: Leaders, on_deleted: Callable[[str], None]) -> None:
        self._data_dir = data_dir
        self._store = store
        self._topics = topics
        self._brokers = brokers
        self._config = config
        self._racks = racks
        self._delayed_fetches = delayed_fetches
        self._leaders = leaders
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

    @property
    def registered(self) -> tuple[int, ...]:
        """The brokers that may have replicas, living or not."""
        return tuple(sorted({*self._racks, *self._brokers}))

    def place(self, count: int, replication_factor: int, *, first: int = 0) -> list[tuple[int, ...]]:
        """Return the replicas of new partitions, spread over the living brokers and their racks.

        Raises:
            ConfigError: There are not so many brokers.
        """
        registered = self.registered
        if replication_factor > len(registered):
            raise ConfigError("replication.factor", replication_factor,
                              f"only {len(registered)} broker(s) are registered")
        racks = {node_id: self._racks.get(node_id) for node_id in sorted(self._brokers) or registered}
        return placed(count, replication_factor, racks, registered, first=first)

    def create_topic(self, name: str, partition_count: int, configs: Mapping[str, str | None], *,
                     replication_factor: int | None = None,
                     replicas: Sequence[Sequence[int]] | None = None) -> TopicState | None:
        """Create a topic; None when it exists already.

        Args:
            name: Its name.
            partition_count: How many partitions.
            configs: Its own settings.
            replication_factor: How many brokers have each partition; None for default.replication.factor.
            replicas: Which brokers have each partition, where that is chosen; the first that lives leads.

        Raises:
            ConfigError: There are not so many brokers; nothing was created.
            ConfigError: A setting of the topic is unknown or wrong; nothing was created.
            OSError: Its files could not be made; nothing was created.
        """
        config = asked_topic_config(configs, self._config)
        if replicas is None:
            replicas = self.place(
                partition_count, replication_factor or self._config.number("default.replication.factor"))
        with self._life_lock, self._store.lock:
            if name in self._topics:
                return None
            self.start_offsets.forget(name)  # when there was no space to do so as another of this name was deleted
            entry = TopicEntry(uuid.uuid4(), [0] * partition_count, dict(config.overrides), list(map(tuple, replicas)))
            topic = self._open_topic(name, entry, is_new=True)
            try:
                self._store.save_topics({name: entry})
            except BaseException:
                _discard(topic.partitions)
                raise
            self._topics.enter(topic)
            return topic

    def create_partitions(self, name: str, partition_count: int,
                          replicas: Sequence[Sequence[int]] | None = None) -> bool:
        """Give a topic more partitions; return False when it is gone or has as many already.

        Args:
            name: Its name.
            partition_count: How many it is to have.
            replicas: Which brokers have each new one, where that is chosen; else as many as have its first.

        Raises:
            ConfigError: There are not so many brokers any more; nothing was changed.
            OSError: Their files could not be made; nothing was changed.
        """
        with self._life_lock, self._store.lock:
            topic = self._topics.find(name)
            if topic is None or len(topic.partitions) >= partition_count:
                return False
            entry = self._store.content.topics[name]
            present = len(topic.partitions)
            if replicas is None or len(replicas) != partition_count - present:
                replicas = self.place(partition_count - present, len(topic.partitions[0].replicas.assigned),
                                      first=present)
            grown = replace(entry, leader_epochs=[*entry.leader_epochs, *[0] * (partition_count - present)],
                            replicas=[*entry.replicas, *map(tuple, replicas)])
            partitions = self._open_partitions(name, grown, topic.config, first=present, is_new=True)
            try:
                self._store.save_topics({name: grown})
            except BaseException:
                _discard(partitions)
                raise
            topic.partitions = (*topic.partitions, *partitions)
        return True

    def alter_topic_configs(self, name: str, altered: Callable[[Mapping[str, str]], Mapping[str, str]]) -> bool:
        """Replace a topic's own settings, for appends and checks that begin from now on; False when it is gone.

        Args:
            name: Its name.
            altered: Returns those that it is to have of those that it has. Called under the lock, so that nobody alters
                others meanwhile; what it raises is raised here, and nothing was changed.

        Raises:
            ConfigError: A setting is unknown or wrong; nothing was changed.
            OSError: The cluster file could not be written; nothing was changed.
        """
        with self._store.lock:
            topic = self._topics.find(name)
            if topic is None:
                return False
            config = asked_topic_config(altered(topic.config.overrides), self._config)
            self._store.save_topics({name: replace(self._store.content.topics[name], configs=dict(config.overrides))})
            topic.configure(config)
        if config.allows_unclean_election:
            self._leaders.elect((name,))
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
                self._store.save_topics({name: None})
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
            self._open_partitions(name, entry, config, is_new=is_new)))

    def _open_partitions(self, name: str, entry: TopicEntry, config: TopicConfig, *,
                         first: int = 0, is_new: bool) -> list[Partition]:
        """Open the logs of the partitions from `first` on; on failure none of them is left open."""
        registered = self.registered
        living = sorted(self._brokers) or registered
        partitions: list[Partition] = []
        try:
            for index, (leader_epoch, assigned) in enumerate(zip(
                    entry.leader_epochs[first:], entry.replicas[first:], strict=True), first):
                topic_partition = TopicPartition(name, index)
                directory = self._data_dir.log_directory(topic_partition)
                if is_new:
                    self._data_dir.make_room(topic_partition)
                    log = Log(directory, config.log)
                else:
                    log = self._open_log(topic_partition, directory, config)
                if not any(node_id in registered for node_id in assigned):  # of a cluster with other brokers
                    assigned = (living[index % len(living)],)
                isr = tuple(node_id for node_id in assigned if node_id in living)
                leadership = Leadership(isr[0] if isr else NO_LEADER, leader_epoch)
                partitions.append(Partition(topic_partition, leadership, log, config,
                                            Replicas(assigned, isr or assigned[:1])))
        except BaseException:
            if is_new:
                _discard(partitions)
            else:
                for partition in partitions:
                    partition.log.close()
            raise
        return partitions


    def _open_log(self, topic_partition: TopicPartition, directory: Path, config: TopicConfig) -> Log:
        """Open a log that was there before; a damaged one is set aside where that was asked for."""
        start_offset = self.start_offsets.get(topic_partition) or 0
        end_offset = self._end_offsets.get(topic_partition)
        try:
            if not any(directory.glob("*.log")):  # they are made before the topic is entered, and never all go
                raise DamagedLogError(directory / segment_file_name(0, ".log"),
                              "neither this file nor any other segment of the log is there")
            return Log(directory, config.log, log_start_offset=start_offset, log_end_offset=end_offset)
        except DamagedLogError as error:
            if not self._config.switch("salvage.damaged.logs"):
                raise
            end_offset = max(start_offset, end_offset or 0, *map(end_offset_told, (
                directory, *self._data_dir.damaged_directories(topic_partition))))
            aside = self._data_dir.set_damaged_aside(topic_partition)
            begin_at(directory, end_offset)
            _logger.error("%s begins empty at offset %d, and what it had is kept in %s: %s",
                          topic_partition, end_offset, aside, error.what)
            return Log(directory, config.log)


def _discard(partitions: Iterable[Partition]) -> None:
    """Remove the logs of partitions that nobody has seen."""
    for partition in partitions:
        partition.log.close()
        partition.log.delete()
