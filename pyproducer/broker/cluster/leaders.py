"""Who leads which partition: changes, in a new leader epoch each.

Road:    Nodes -> [leaders] -> cluster file, partition -> fetches that wait
Thread:  any; a change takes the store's lock.
Source:  Java ReplicationControlManager, PartitionChangeBuilder (4.1). Differs from Java: nobody is elected; every
         broker has every log, so who is told to lead leads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pyproducer.broker.cluster.cluster_file import TopicEntry
from pyproducer.broker.cluster.cluster_store import ClusterStore
from pyproducer.broker.cluster.delayed_operation import DelayedFetches
from pyproducer.broker.cluster.partition import NO_LEADER, Leadership, Partition
from pyproducer.broker.cluster.topic_table import TopicTable
from pyproducer.common.cluster import TopicPartition
from pyproducer.common.errors import ConfigError


class Leaders:
    """Changes them.

    Args:
        store: Keeps the epochs.
        topics: Has the partitions.
        delayed_fetches: Those at a broker that does not lead any more are answered.
    """

    def __init__(self, store: ClusterStore, topics: TopicTable, delayed_fetches: DelayedFetches) -> None:
        self._store = store
        self._topics = topics
        self._delayed_fetches = delayed_fetches

    def change_leaders(self, leader_ids: Mapping[TopicPartition, int]) -> None:
        """Begin a new leader epoch for some partitions, led by these brokers or by NO_LEADER.

        Raises:
            ConfigError: There is no such partition; nothing was changed.
            OSError: The cluster file could not be written; nothing was changed.
        """
        store = self._store
        with store.lock:
            partitions: dict[Partition, Leadership] = {}
            for topic_partition, leader_id in leader_ids.items():
                partition = self._topics.partition(*topic_partition)
                if partition is None:
                    raise ConfigError("partition", str(topic_partition), "there is no such partition")
                partitions[partition] = Leadership(leader_id, partition.leadership.leader_epoch + 1)
            entries: dict[str, TopicEntry] = {}
            for partition, leadership in partitions.items():
                topic, index = partition.topic_partition
                kept = store.content.topics[topic]
                entry = entries.get(topic) or replace(kept, leader_epochs=list(kept.leader_epochs))
                entry.leader_epochs[index] = leadership.leader_epoch
                entries[topic] = entry
            if entries:
                store.save_topics(entries)
            for partition, leadership in partitions.items():
                partition.leadership = leadership
                if leadership.leader_id != NO_LEADER:
                    partition.last_leader_id = leadership.leader_id
        for partition in partitions:
            self._delayed_fetches.check_and_complete(partition.topic_partition)
