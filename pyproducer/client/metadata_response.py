"""From a Metadata response and what was known before to the next snapshot of the cluster.

Road:    Metadata response -> [merge] -> ProducerMetadata -> Cluster
Thread:  pure.
Source:  Java Metadata.handleMetadataResponse, updateLatestMetadata, MetadataSnapshot.mergeWith (4.1); KIP-320 (leader
         epochs), KIP-516 (topic ids), KIP-951 (leaders told by Produce responses).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

from pyproducer.common.cluster import Cluster, Node, PartitionInfo, TopicPartition
from pyproducer.common.error_codes import ERRORS, ErrorCode
from pyproducer.common.errors import RemoteProtocolError

ZERO_UUID = UUID(int=0)
# Brokers before 2.4 (Metadata v9) report stale epochs while a partition is being reassigned, so an older epoch from
# them does not mean older metadata (KAFKA-9212). Java relies on epochs from v9 on, and so do we.
FIRST_VERSION_WITH_RELIABLE_EPOCHS = 9
# Callers and compiled code keep tables by index, so that one number in an answer would decide over gigabytes. No cluster
# comes near it: Kafka's own limit is far below a million partitions in all.
MAX_PARTITION = 999_999
_NO_NODE_PORT = -1


@dataclass
class Merged:
    """The outcome of a merge. `leader_epochs` is a new table; nothing that was passed in is changed."""

    cluster: Cluster
    leader_epochs: dict[TopicPartition, int]
    topic_errors: dict[str, ErrorCode] = field(default_factory=dict)
    # A topic or partition has an error that another look may cure.
    needs_refresh: bool = False
    # Something newer than before was learned; asking again soon is worth it.
    made_progress: bool = False
    topics_answered: set[str] = field(default_factory=set)


def merge_response(response: Mapping[str, Any], api_version: int, *, previous: Cluster,
                   leader_epochs: Mapping[TopicPartition, int], topic_errors: Mapping[str, ErrorCode],
                   retain: Callable[[str], bool], is_partial: bool) -> Merged:
    """Build the next snapshot.

    Args:
        response: A Metadata response without a top-level error.
        api_version: Its version.
        previous: The snapshot so far.
        leader_epochs: The highest leader epoch seen of each partition.
        topic_errors: The error of each topic that had one.
        retain: Whether a topic is still wanted.
        is_partial: Whether only new topics were asked for; then the others are kept as they are.

    Raises:
        RemoteProtocolError: A partition has an index that no partition has. Nothing was taken in.
    """
    nodes = {row["node_id"]: Node(row["node_id"], row["host"], row["port"], row.get("rack"))
             for row in response["brokers"]}
    merge = _Merge(api_version, nodes, previous, dict(leader_epochs))
    for topic in response["topics"]:
        name = topic["name"]
        if name is None:  # Possible from v12 on for a topic asked by id; we ask by name.
            continue
        merge.topics_answered.add(name)
        if retain(name):
            merge.add_topic(name, topic)
    if is_partial:
        merge.keep_others(retain, topic_errors)
    cluster = Cluster(
        cluster_id=response.get("cluster_id"), nodes=nodes.values(), partitions=merge.partitions,
        controller=nodes.get(response.get("controller_id", -1)), topic_ids=merge.topic_ids,
        internal_topics=merge.internal_topics,
        invalid_topics=[name for name, code in merge.errors.items() if code is ErrorCode.INVALID_TOPIC_EXCEPTION],
        unauthorized_topics=[name for name, code in merge.errors.items()
                             if code is ErrorCode.TOPIC_AUTHORIZATION_FAILED])
    epochs = {topic_partition: epoch for topic_partition, epoch in merge.epochs.items()
              if retain(topic_partition.topic)}
    return Merged(cluster, epochs, merge.errors, merge.needs_refresh, merge.made_progress, merge.topics_answered)


class _Merge:
    """The state of one merge."""

    def __init__(self, api_version: int, nodes: dict[int, Node], previous: Cluster,
                 epochs: dict[TopicPartition, int]) -> None:
        self.nodes = nodes
        self.previous = previous
        self.epochs = epochs
        self.reliable_epochs = api_version >= FIRST_VERSION_WITH_RELIABLE_EPOCHS
        self.partitions: list[PartitionInfo] = []
        self.topic_ids: dict[str, UUID] = {}
        self.internal_topics: set[str] = set()
        self.errors: dict[str, ErrorCode] = {}
        self.topics_answered: set[str] = set()
        self.needs_refresh = False
        self.made_progress = False

    def add_topic(self, name: str, topic: Mapping[str, Any]) -> None:
        code = topic["error_code"]
        if code != ErrorCode.NONE:
            self.errors[name] = ErrorCode.of(code)
            self._note_error(code)
            return
        if topic.get("is_internal"):
            self.internal_topics.add(name)
        topic_id = topic.get("topic_id", ZERO_UUID)
        recreated = False
        if topic_id != ZERO_UUID:
            self.topic_ids[name] = topic_id
            # None before: the id may have been lost between deletion and re-creation; its epochs count as new.
            recreated = topic_id != self.previous.topic_id(name)
        for row in topic["partitions"]:
            if not 0 <= row["partition_index"] <= MAX_PARTITION:
                raise RemoteProtocolError(
                    f"the Metadata answer tells of partition {row['partition_index']} of topic {name!r}: a partition's "
                    f"index must be from 0 to {MAX_PARTITION}")
            # A partition with an error is taken in as well, to catch new epochs.
            info = self._partition(name, row, recreated)
            if info is not None:
                self.partitions.append(info)
            self._note_error(row["error_code"])

    def _note_error(self, code: int) -> None:
        row = ERRORS.get(code)
        if row is not None and row.refresh_metadata:
            self.needs_refresh = True

    def _partition(self, topic: str, row: Mapping[str, Any], recreated: bool) -> PartitionInfo | None:
        topic_partition = TopicPartition(topic, row["partition_index"])
        epoch = row.get("leader_epoch", -1)
        if not self.reliable_epochs or epoch < 0:
            self.epochs.pop(topic_partition, None)
            self.made_progress = True
            return self._info(topic_partition, row, -1)
        known = self.epochs.get(topic_partition)
        if known is not None and not recreated and epoch < known:
            # A broker that lags behind must not bring an old leader back.
            cached = self.previous.partition(topic_partition)
            return None if cached is None else self._remap(cached)
        if known is None or recreated or epoch > known:
            self.made_progress = True
        self.epochs[topic_partition] = epoch
        return self._info(topic_partition, row, epoch)

    def _info(self, topic_partition: TopicPartition, row: Mapping[str, Any], epoch: int) -> PartitionInfo:
        return PartitionInfo(topic_partition.topic, topic_partition.partition, self.nodes.get(row["leader_id"]),
                             self._nodes(row["replica_nodes"]), self._nodes(row["isr_nodes"]),
                             self._nodes(row.get("offline_replicas") or ()), epoch)

    def _nodes(self, node_ids: Iterable[int]) -> tuple[Node, ...]:
        return tuple(self.nodes.get(node_id) or Node(node_id, "", _NO_NODE_PORT) for node_id in node_ids)

    def _remap(self, info: PartitionInfo) -> PartitionInfo:
        """Return a partition that is kept, with the addresses of the new nodes."""
        leader = None if info.leader is None else self.nodes.get(info.leader.node_id)
        return info if leader == info.leader else replace(info, leader=leader)

    def keep_others(self, retain: Callable[[str], bool], topic_errors: Mapping[str, ErrorCode]) -> None:
        for name in self.previous.topics - self.topics_answered:
            if not retain(name):
                continue
            self.partitions.extend(self._remap(info) for info in self.previous.partitions_for_topic(name))
            topic_id = self.previous.topic_id(name)
            if topic_id is not None:
                self.topic_ids[name] = topic_id
            if name in self.previous.internal_topics:
                self.internal_topics.add(name)
        for name, code in topic_errors.items():
            if name not in self.topics_answered and retain(name):
                self.errors[name] = code


def with_leaders(cluster: Cluster, leaders: Mapping[TopicPartition, tuple[int, int]],
                 leader_epochs: dict[TopicPartition, int], new_nodes: Iterable[Node]
                 ) -> tuple[Cluster, set[TopicPartition]]:
    """Return a snapshot with newer leaders, and which partitions were updated; changes `leader_epochs` for those.

    Left out are partitions that are not known, leaders that no node belongs to, and epochs that are not newer.

    Source: Java Metadata.updatePartitionLeadership (4.1), KIP-951.
    """
    nodes = dict(cluster.nodes)
    nodes.update((node.node_id, node) for node in new_nodes)
    changed: dict[tuple[str, int], PartitionInfo] = {}
    updated: set[TopicPartition] = set()
    for topic_partition, (leader_id, epoch) in leaders.items():
        info = cluster.partition(topic_partition)
        leader = nodes.get(leader_id)
        known_epoch = max(leader_epochs.get(topic_partition, -1), -1 if info is None else info.leader_epoch)
        if info is None or leader is None or leader_id < 0 or epoch <= known_epoch:
            continue
        changed[info.topic, info.partition] = replace(info, leader=leader, leader_epoch=epoch)
        leader_epochs[topic_partition] = epoch
        updated.add(topic_partition)
    if not updated:
        return cluster, updated
    return _copy(cluster, nodes.values(), lambda info: changed.get((info.topic, info.partition), info)), updated


def without_leaders(cluster: Cluster, nodes: Iterable[Node]) -> Cluster:
    """Return a snapshot with the same partitions, led by nobody, and other nodes."""
    return _copy(cluster, nodes, lambda info: replace(info, leader=None, leader_epoch=-1))


def _copy(cluster: Cluster, nodes: Iterable[Node], change: Callable[[PartitionInfo], PartitionInfo]) -> Cluster:
    return Cluster(
        cluster_id=cluster.cluster_id, nodes=nodes, controller=cluster.controller,
        partitions=[change(info) for topic in cluster.topics for info in cluster.partitions_for_topic(topic)],
        topic_ids=cluster.topic_ids(), internal_topics=cluster.internal_topics,
        invalid_topics=cluster.invalid_topics, unauthorized_topics=cluster.unauthorized_topics)
