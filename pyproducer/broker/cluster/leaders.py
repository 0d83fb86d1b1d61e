"""Who leads which partition, and who has it: changes, in a new leader epoch where the leader is another one.

Road:    Nodes, apis -> [leaders] -> cluster file, partition, its log -> fetches that wait
Thread:  any; a change takes the store's lock.
Source:  Java ReplicationControlManager (4.1). What is decided is in replicas.py.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from pyproducer.broker.cluster.cluster_file import TopicEntry
from pyproducer.broker.cluster.cluster_store import ClusterStore
from pyproducer.broker.cluster.delayed_operation import DelayedFetches
from pyproducer.broker.cluster.living_brokers import LivingBrokers
from pyproducer.broker.cluster.partition import Partition
from pyproducer.broker.cluster.replicas import NO_LEADER, Change, Leadership, judged, led_by, reassigned, stalled
from pyproducer.broker.cluster.topic_table import TopicTable
from pyproducer.common.cluster import TopicPartition
from pyproducer.common.errors import ConfigError

_logger = logging.getLogger(__name__)
_Decide = Callable[[Partition], Change]


class Leaders:
    """Changes them.

    Args:
        store: Keeps epochs and replicas.
        topics: Has the partitions.
        brokers: Who lives.
        delayed_fetches: Those at a broker that does not lead any more are answered.
    """

    def __init__(self, store: ClusterStore, topics: TopicTable, brokers: LivingBrokers,
                 delayed_fetches: DelayedFetches) -> None:
        self._store = store
        self._topics = topics
        self._brokers = brokers
        self._delayed_fetches = delayed_fetches

    def change_leaders(self, leader_ids: Mapping[TopicPartition, int]) -> None:
        """Begin a new leader epoch for some partitions, led by these brokers or by NO_LEADER.

        Where it is NO_LEADER nobody is elected, until somebody is named here.

        Raises:
            ConfigError: There is no such partition; nothing was changed.
            OSError: The cluster file could not be written; nothing was changed.
        """
        def decide(partition: Partition) -> Change:
            leader_id = leader_ids[partition.topic_partition]
            leadership, replicas = partition.leadership, partition.replicas
            if leader_id == NO_LEADER:
                return Change(Leadership(NO_LEADER, leadership.leader_epoch + 1), replicas)
            return led_by(leader_id, leadership, replicas, living=self._brokers, log_end=partition.log.log_end_offset)

        with self._store.lock:
            found = [self._partition(topic_partition) for topic_partition in leader_ids]
            changed = self._change(found, decide)
            for partition in found:
                partition.is_vacant = leader_ids[partition.topic_partition] == NO_LEADER
        self._wake(changed)

    def reassign(self, replicas: Mapping[TopicPartition, Sequence[int]]) -> None:
        """Let other brokers have some partitions; the leader stays where it is among them.

        Raises:
            ConfigError: There is no such partition; nothing was changed.
            OSError: The cluster file could not be written; nothing was changed.
        """
        with self._store.lock:
            changed = self._change(
                [self._partition(topic_partition) for topic_partition in replicas],
                lambda partition: reassigned(replicas[partition.topic_partition], partition.leadership,
                                             partition.replicas, living=self._brokers,
                                             log_end=partition.log.log_end_offset))
        self._wake(changed)

    def stall(self, node_id: int, topic_partitions: Iterable[TopicPartition], *, is_stalled: bool) -> None:
        """Let a follower of some partitions fetch no more, or again.

        Raises:
            ConfigError: There is no such partition; nothing was changed.
        """
        with self._store.lock:
            changed = self._change(
                [self._partition(topic_partition) for topic_partition in topic_partitions],
                lambda partition: stalled(node_id, partition.leadership, partition.replicas, is_stalled=is_stalled,
                                          living=self._brokers, log_end=partition.log.log_end_offset))
        self._wake(changed)

    def elect(self, topics: Iterable[str] | None = None) -> None:
        """Look at partitions anew, after a broker came or went, or their settings changed: leaders, and who is in sync.

        Args:
            topics: Of these topics; None for all.

        Raises:
            OSError: The cluster file could not be written; nothing was changed.
        """
        def decide(partition: Partition) -> Change:
            if partition.is_vacant:
                return Change(partition.leadership, partition.replicas)
            return judged(partition.leadership, partition.replicas, living=self._brokers,
                          log_end=partition.log.log_end_offset,
                          allows_unclean=partition.config.allows_unclean_election and not partition.is_internal)

        with self._store.lock:
            found = [topic for topic in self._topics.values() if topics is None or topic.name in topics]
            changed = self._change([partition for topic in found for partition in topic.partitions], decide)
        self._wake(changed)

    # ---- under the store's lock

    def _partition(self, topic_partition: TopicPartition) -> Partition:
        partition = self._topics.partition(*topic_partition)
        if partition is None:
            raise ConfigError("partition", str(topic_partition), "there is no such partition")
        return partition

    def _change(self, partitions: Iterable[Partition], decide: _Decide) -> list[Partition]:
        """Decide, write what is kept, cut what is lost, and let everybody see it; return those with another leader."""
        changes = {partition: change for partition in partitions
                   if (change := decide(partition))[:2] != (partition.leadership, partition.replicas)}
        entries: dict[str, TopicEntry] = {}
        for partition, change in changes.items():
            topic, index = partition.topic_partition
            kept = entries.get(topic) or self._store.content.topics[topic]
            if (kept.leader_epochs[index], kept.replicas[index]) == (
                    change.leadership.leader_epoch, change.replicas.assigned):
                continue
            if topic not in entries:
                entries[topic] = kept = replace(kept, leader_epochs=list(kept.leader_epochs),
                                                replicas=list(kept.replicas))
            kept.leader_epochs[index] = change.leadership.leader_epoch
            kept.replicas[index] = change.replicas.assigned
        if entries:
            self._store.save_topics(entries)
        for partition, change in changes.items():
            if change.truncate_to is not None:
                _cut(partition, change.leadership.leader_id, change.truncate_to)
            partition.replicas = change.replicas
            partition.leadership = change.leadership
            partition.is_vacant &= change.leadership.leader_id == NO_LEADER
        return list(changes)

    def _wake(self, partitions: Iterable[Partition]) -> None:
        for partition in partitions:
            self._delayed_fetches.check_and_complete(partition.topic_partition)


def _cut(partition: Partition, leader_id: int, offset: int) -> None:
    """Let go what a leader has not that was out of sync. The change is written: it is made where that fails, too."""
    try:
        lost = partition.log.truncate_to(offset)
    except (ConfigError, OSError) as error:
        _logger.error("%s is led by broker %d, which was not in sync, and its log could not be cut: %s",
                      partition.topic_partition, leader_id, error)
    else:
        _logger.warning("%s is led by broker %d, which was not in sync: %d records are lost",
                        partition.topic_partition, leader_id, lost)
