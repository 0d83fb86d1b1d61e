"""From a Metadata response and what was known before to the next snapshot of the cluster.

Road:    Metadata response -> [merge] -> ProducerMetadata -> Cluster
Thread:  pure.
Source:  Java Metadata.handleMetadataResponse, updateLatestMetadata, MetadataSnapshot.mergeWith (4.1); KIP-320 (leader
         epochs), KIP-516 (topic ids), KIP-951 (leaders told by Produce responses).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple
from uuid import UUID

from pyproducer.common.cluster import Cluster, Node, PartitionInfo, PartitionTable, TopicPartition
from pyproducer.common.error_codes import ErrorCode
from pyproducer.common.errors import RemoteProtocolError

ZERO_UUID = UUID(int=0)
# Brokers before 2.4 (Metadata v9) report stale epochs while a partition is being reassigned, so an older epoch from
# them does not mean older metadata (KAFKA-9212). Java relies on epochs from v9 on, and so do we.
FIRST_VERSION_WITH_RELIABLE_EPOCHS = 9
# Callers and compiled code keep tables by index, so one number in an answer would decide over gigabytes. No cluster
# comes near it: Kafka's own limit is far below a million partitions in all.
HIGHEST_PARTITION = 999_999
# So many answers in a row that tell an older leader epoch of a topic without id are believed. A broker that lags is
# contradicted by another meanwhile, as the nodes are asked in turns; and if not, the next answer mends it. franz-go has
# that number, too.
MOST_STEPS_BACK = 5
_NO_NODE_PORT = -1
_NOTHING = PartitionTable(())


class Merged(NamedTuple):
    """The outcome of a merge; nothing that was passed in is changed."""

    cluster: Cluster
    topic_errors: dict[str, ErrorCode]
    # A topic or partition has an error that another look may cure.
    needs_refresh: bool
    # Something newer than before was learned; asking again soon is worth it.
    made_progress: bool
    topics_answered: set[str]
    # How many answers in a row told of an older epoch, by topic and partition.
    steps_back: dict[tuple[str, int], int]


def merge_response(response: Mapping[str, Any], api_version: int, *, previous: Cluster,
                   topic_errors: Mapping[str, ErrorCode], retain: Callable[[str], bool], is_partial: bool,
                   is_new_start: bool, steps_back: Mapping[tuple[str, int], int] | None = None) -> Merged:
    """Build the next snapshot.

    A broker may lag behind the others, so an answer never takes away what is known already: an older leader epoch does
    not bring an old leader back, and a partition that the answer leaves out stays. Only a topic with another id is
    another topic.

    Where a cluster has no topic ids nothing else tells that a topic was deleted and created again, and its epochs begin
    at 0: there an older epoch is believed that MOST_STEPS_BACK answers in a row tell. Differs from Java, which asks the
    old leader until the process ends (KAFKA-12257, mended by topic ids alone).

    Args:
        response: A Metadata response without a top-level error.
        api_version: Its version.
        previous: The snapshot so far.
        topic_errors: The error of each topic that had one.
        retain: Whether a topic is still wanted; others in the answer are passed over.
        is_partial: Whether only new topics were asked for; then the others are kept as they are.
        is_new_start: Whether the bootstrap addresses were asked again: another cluster may answer, whose epochs are
            lower, and whose topics are others where there are no ids to tell.
        steps_back: What the merge before had under this name.

    Raises:
        RemoteProtocolError: A partition has an index that no partition has. Nothing was taken in.
    """
    # Equal nodes stay the same objects, so that partitions compare fast.
    nodes = {node.node_id: node for node in map(_known_or_new(previous), response["brokers"])}
    merge = _Merge(api_version, nodes, previous, is_new_start=is_new_start, steps_before=steps_back or {})
    for topic in response["topics"]:
        name = topic["name"]
        if name is None or not retain(name):  # None is possible from v12 on for a topic asked by id; we ask by name.
            continue
        merge.topics_answered.add(name)
        merge.add_topic(name, topic)
    if is_partial:
        merge.keep_others(retain, topic_errors)
    cluster = Cluster(
        cluster_id=response.get("cluster_id"), nodes=nodes.values(), tables=merge.tables,
        controller=nodes.get(response.get("controller_id", -1)), topic_ids=merge.topic_ids,
        internal_topics=merge.internal_topics,
        invalid_topics=[name for name, code in merge.errors.items() if code is ErrorCode.INVALID_TOPIC_EXCEPTION],
        unauthorized_topics=[name for name, code in merge.errors.items()
                             if code is ErrorCode.TOPIC_AUTHORIZATION_FAILED],
        answer_count=previous.answer_count + (not is_partial))
    return Merged(cluster, merge.errors, merge.needs_refresh, merge.made_progress, merge.topics_answered,
                  merge.steps_back)


def _known_or_new(previous: Cluster) -> Callable[[Mapping[str, Any]], Node]:
    def node_of(row: Mapping[str, Any]) -> Node:
        node = Node(row["node_id"], row["host"], row["port"], row.get("rack"))
        known = previous.nodes.get(node.node_id)
        return known if known == node else node
    return node_of


class _Merge:
    """The state of one merge."""

    def __init__(self, api_version: int, nodes: dict[int, Node], previous: Cluster, *, is_new_start: bool,
                 steps_before: Mapping[tuple[str, int], int]) -> None:
        self.nodes = nodes
        self.previous = previous
        self.is_new_start = is_new_start
        self.steps_back: dict[tuple[str, int], int] = {}
        self._steps_before = steps_before
        self.has_same_nodes = nodes == previous.nodes
        self.reliable_epochs = api_version >= FIRST_VERSION_WITH_RELIABLE_EPOCHS
        self.tables: dict[str, PartitionTable] = {}
        self.topic_ids: dict[str, UUID] = {}
        self.internal_topics: set[str] = set()
        self.errors: dict[str, ErrorCode] = {}
        self.topics_answered: set[str] = set()
        self.needs_refresh = False
        self.made_progress = False
        self._replica_sets: dict[tuple[int, ...], tuple[Node, ...]] = {}  # few, and many partitions share each

    def add_topic(self, name: str, topic: Mapping[str, Any]) -> None:
        code = topic["error_code"]
        if code != ErrorCode.NONE:
            self.errors[name] = ErrorCode.of(code)
            self._note_error(code)
            return
        if topic.get("is_internal"):
            self.internal_topics.add(name)
        known = self.previous.table(name)
        topic_id = topic.get("topic_id", ZERO_UUID)
        if topic_id != ZERO_UUID:
            self.topic_ids[name] = topic_id
        if name not in self.topic_ids or known.topic_id is None:
            is_another = self.is_new_start  # No ids tell: the same topic, as long as it is the same cluster.
        else:
            is_another = topic_id != known.topic_id
        if is_another:
            known = _NOTHING
        topic_id = self.topic_ids.get(name, known.topic_id)
        infos = self._partitions(name, topic["partitions"], known)
        if infos is not None or topic_id != known.topic_id:
            known = PartitionTable((known.by_index if infos is None else infos).values(), topic_id)
        if known.count:
            self.tables[name] = known

    def _partitions(self, topic: str, rows: Iterable[Mapping[str, Any]],
                    known: PartitionTable) -> dict[int, PartitionInfo] | None:
        """Return the partitions of a topic by index, or None when all are as they were."""
        infos: dict[int, PartitionInfo] = {}
        known_infos, nodes = known.by_index, self.nodes
        is_same = self.has_same_nodes
        for row in rows:
            # A partition with an error is taken in as well, to catch new epochs.
            index, code = row["partition_index"], row["error_code"]
            if not 0 <= index <= HIGHEST_PARTITION:
                raise RemoteProtocolError(
                    f"the Metadata answer tells of partition {index} of topic {topic!r}: a partition's index must be "
                    f"from 0 to {HIGHEST_PARTITION}")
            if code:
                self._note_error(code)
            epoch = row.get("leader_epoch", -1) if self.reliable_epochs else -1
            info = known_infos.get(index)
            if epoch < 0 or info is None or epoch > info.leader_epoch:
                self.made_progress = True
            elif epoch < info.leader_epoch and not self.is_new_start and not (
                    known.topic_id is None and self._is_believed(topic, index)):
                # A broker that lags behind must not bring an old leader back.
                infos[index] = self._remap(info)
                continue
            leader = nodes.get(row["leader_id"])
            replicas = self._nodes(row["replica_nodes"])
            in_sync = self._nodes(row["isr_nodes"])
            offline = self._nodes(row.get("offline_replicas") or ())
            if (info is None or info.leader is not leader or info.leader_epoch != epoch or info.replicas != replicas
                    or info.in_sync_replicas != in_sync or info.offline_replicas != offline):
                info = PartitionInfo(topic, index, leader, replicas, in_sync, offline, epoch)
                is_same = False
            infos[index] = info
        if is_same:
            return None
        if len(infos) < len(known_infos) or infos.keys() != known_infos.keys():
            for index, info in known_infos.items():
                if index not in infos:
                    infos[index] = self._remap(info)
        return infos

    def _is_believed(self, topic: str, index: int) -> bool:
        """Whether enough answers in a row, this one included, told of an older epoch of a partition."""
        count = self._steps_before.get((topic, index), 0) + 1
        if count >= MOST_STEPS_BACK:
            self.made_progress = True
            return True
        self.steps_back[topic, index] = count
        return False

    def _note_error(self, code: int) -> None:
        row = ErrorCode.known(code)
        if row is not None and row.exception.refresh_metadata:
            self.needs_refresh = True

    def _nodes(self, node_ids: Iterable[int]) -> tuple[Node, ...]:
        key = tuple(node_ids)
        found = self._replica_sets.get(key)
        if found is None:
            found = self._replica_sets[key] = tuple(
                self.nodes.get(node_id) or Node(node_id, "", _NO_NODE_PORT) for node_id in key)
        return found

    def _remap(self, info: PartitionInfo) -> PartitionInfo:
        """Return a partition that is kept, with the addresses of the new nodes."""
        leader = None if info.leader is None else self.nodes.get(info.leader.node_id)
        return info if leader == info.leader else info._replace(leader=leader)

    def keep_others(self, retain: Callable[[str], bool], topic_errors: Mapping[str, ErrorCode]) -> None:
        for name in self.previous.topics - self.topics_answered:
            if not retain(name):
                continue
            self.steps_back.update(steps for steps in self._steps_before.items() if steps[0][0] == name)
            table = self.previous.table(name)
            self.tables[name] = table if self.has_same_nodes else PartitionTable(
                map(self._remap, table.in_order), table.topic_id)
            topic_id = self.previous.topic_id(name)
            if topic_id is not None:
                self.topic_ids[name] = topic_id
            if name in self.previous.internal_topics:
                self.internal_topics.add(name)
        for name, code in topic_errors.items():
            if name not in self.topics_answered and retain(name):
                self.errors[name] = code


def with_leaders(cluster: Cluster, leaders: Mapping[TopicPartition, tuple[int, int]],
                 new_nodes: Iterable[Node]) -> tuple[Cluster, set[TopicPartition]]:
    """Return a snapshot with newer leaders, and which partitions were updated.

    Left out are partitions that are not known, leaders that no node belongs to, and epochs that are not newer.

    Source: Java Metadata.updatePartitionLeadership (4.1), KIP-951.
    """
    nodes = dict(cluster.nodes)
    nodes.update((node.node_id, node) for node in new_nodes)
    changed: dict[str, dict[int, PartitionInfo]] = {}
    updated: set[TopicPartition] = set()
    for topic_partition, (leader_id, epoch) in leaders.items():
        topic, index = topic_partition
        info = cluster.partition(topic_partition)
        leader = nodes.get(leader_id)
        if info is None or leader is None or leader_id < 0 or epoch <= info.leader_epoch:
            continue
        infos = changed.setdefault(topic, dict(cluster.table(topic).by_index))
        infos[index] = info._replace(leader=leader, leader_epoch=epoch)
        updated.add(topic_partition)
    if not updated:
        return cluster, updated
    return _copy(cluster, nodes.values(), {
        topic: PartitionTable(infos.values(), cluster.table(topic).topic_id)
        for topic, infos in changed.items()}), updated


def without_leaders(cluster: Cluster, nodes: Iterable[Node]) -> Cluster:
    """Return a snapshot with the same partitions, led by nobody, and other nodes."""
    return _copy(cluster, nodes, {
        topic: PartitionTable((info._replace(leader=None, leader_epoch=-1) for info in table.in_order), table.topic_id)
        for topic, table in ((topic, cluster.table(topic)) for topic in cluster.topics)})


def _copy(cluster: Cluster, nodes: Iterable[Node], changed: Mapping[str, PartitionTable]) -> Cluster:
    return Cluster(
        cluster_id=cluster.cluster_id, nodes=nodes, controller=cluster.controller,
        tables={topic: changed.get(topic) or cluster.table(topic) for topic in cluster.topics},
        topic_ids=cluster.ids_by_topic, internal_topics=cluster.internal_topics,
        invalid_topics=cluster.invalid_topics, unauthorized_topics=cluster.unauthorized_topics,
        answer_count=cluster.answer_count)
