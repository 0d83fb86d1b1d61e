"""What is known of a cluster at one moment: nodes, topics, partitions, leaders.

Road:    metadata -> [cluster] -> partitioner, accumulator, sender
Thread:  immutable; read by any thread without a lock.
Source:  Java org.apache.kafka.common.Cluster, Node, PartitionInfo, TopicPartition (4.1).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from operator import attrgetter
from typing import NamedTuple
from uuid import UUID

from pyproducer.common.printable import LONGEST_NAME, printable

UNKNOWN_PARTITION = -1
"""The index of a partition that is not chosen, in what is told of a record."""


class TopicPartition(NamedTuple):
    """A topic's name and the index of one of its partitions (from 0)."""

    topic: str
    partition: int

    def __str__(self) -> str:
        """Return Kafka's own spelling, `topic-partition`."""
        return f"{self.topic}-{self.partition}"


def address_text(host: str, port: int) -> str:
    """Return `host:port` for messages and logs, an IPv6 literal in brackets; brokers tell names, so it is printable."""
    name = printable(host, LONGEST_NAME)
    return f"[{name}]:{port}" if ":" in name else f"{name}:{port}"


class Node(NamedTuple):
    """One broker: its id and the address of the listener that we use.

    Bootstrap addresses are nodes too, with ids below zero until metadata names the brokers.
    """

    node_id: int
    host: str
    port: int
    rack: str | None = None

    def __str__(self) -> str:
        """Return `host:port (node N)`, the form used in every message."""
        return f"{address_text(self.host, self.port)} (node {self.node_id})"


class PartitionInfo(NamedTuple):
    """One partition: who leads it and who holds copies. `leader` is None while nobody leads."""

    topic: str
    partition: int
    leader: Node | None
    replicas: tuple[Node, ...] = ()
    in_sync_replicas: tuple[Node, ...] = ()
    offline_replicas: tuple[Node, ...] = ()
    leader_epoch: int = -1


class PartitionTable:
    """The partitions of one topic: by index, in order, and those with a leader.

    Indices need not be dense: an answer may leave a partition out that exists. Snapshots share a table as long as
    nothing in it changes, so that a refresh of many partitions costs little.

    Args:
        infos: In any order.
        topic_id: Whose partitions they are, where a broker has ever told: the id tells a topic from another one that
            was created under its name.

    Attributes:
        count: The highest index and one more; 0 only for a topic that is not known.
    """

    __slots__ = ("_led_in", "available", "by_index", "count", "has_gaps", "in_order", "topic_id")

    def __init__(self, infos: Iterable[PartitionInfo], topic_id: UUID | None = None) -> None:
        self.topic_id: UUID | None = topic_id
        self.by_index: dict[int, PartitionInfo] = {info.partition: info for info in infos}
        self.in_order: tuple[PartitionInfo, ...] = tuple(sorted(self.by_index.values(), key=attrgetter("partition")))
        self.available: tuple[PartitionInfo, ...] = tuple(info for info in self.in_order if info.leader is not None)
        self.count: int = self.in_order[-1].partition + 1 if self.in_order else 0
        self.has_gaps: bool = len(self.in_order) < self.count
        # By rack, made when asked for. Two callers may both make one: they are equal.
        self._led_in: dict[str, tuple[PartitionInfo, ...]] = {}

    def led_in(self, rack: str) -> tuple[PartitionInfo, ...]:
        """Return the partitions whose leader is in a rack, by index."""
        found = self._led_in.get(rack)
        if found is None:
            found = tuple(info for info in self.available if info.leader is not None and info.leader.rack == rack)
            self._led_in[rack] = found
        return found


_NO_PARTITIONS = PartitionTable(())


class Cluster:
    """An immutable snapshot of the cluster.

    Partitions of a topic are kept sorted by index. A topic is known when it has at least one partition.

    Args:
        cluster_id: As the brokers tell it.
        nodes: The brokers.
        partitions: The partitions of all topics, in any order.
        controller: The broker that takes admin requests.
        topic_ids: The ids of topics, where brokers tell them.
        internal_topics: Kafka's own.
        invalid_topics: Whose names brokers refuse.
        unauthorized_topics: That we may not describe.
        tables: The partitions of further topics, as another snapshot has them.
        answer_count: See the attribute.

    Attributes:
        answer_count: How many answers about all topics there were, up to this snapshot. Others are made of what a
            broker told of some, or of a leader.
        tables: The partitions of each topic that is known.
        ids_by_topic: The id of each topic of which a broker told one (Metadata from v10 on).
    """

    def __init__(self, *, cluster_id: str | None = None, nodes: Iterable[Node] = (),
                 partitions: Iterable[PartitionInfo] = (), controller: Node | None = None,
                 topic_ids: Mapping[str, UUID] | None = None, internal_topics: Iterable[str] = (),
                 invalid_topics: Iterable[str] = (), unauthorized_topics: Iterable[str] = (),
                 tables: Mapping[str, PartitionTable] | None = None, answer_count: int = 0) -> None:
        self.cluster_id = cluster_id
        self.answer_count = answer_count
        self.nodes: dict[int, Node] = {node.node_id: node for node in nodes}
        self.controller = controller
        self.internal_topics: frozenset[str] = frozenset(internal_topics)
        self.invalid_topics: frozenset[str] = frozenset(invalid_topics)
        self.unauthorized_topics: frozenset[str] = frozenset(unauthorized_topics)
        self.ids_by_topic: dict[str, UUID] = dict(topic_ids or {})
        self._topic_names = {topic_id: topic for topic, topic_id in self.ids_by_topic.items()}
        self.tables: dict[str, PartitionTable] = dict(tables or {})
        by_topic: dict[str, list[PartitionInfo]] = {}
        for info in partitions:
            by_topic.setdefault(info.topic, []).append(info)
        self.tables.update((topic, PartitionTable(infos)) for topic, infos in by_topic.items())

    @property
    def topics(self) -> set[str]:
        """Names of the topics whose partitions are known."""
        return set(self.tables)

    def table(self, topic: str) -> PartitionTable:
        """Return the partitions of a topic in all views; an empty one when the topic is not known."""
        return self.tables.get(topic, _NO_PARTITIONS)

    def partitions_for_topic(self, topic: str) -> tuple[PartitionInfo, ...]:
        """Return all partitions of a topic by index; empty when the topic is not known."""
        return self.tables.get(topic, _NO_PARTITIONS).in_order

    def available_partitions_for_topic(self, topic: str) -> tuple[PartitionInfo, ...]:
        """Return the partitions of a topic that have a leader, by index."""
        return self.tables.get(topic, _NO_PARTITIONS).available

    def partition_count_for_topic(self, topic: str) -> int | None:
        """Return the number of partitions, or None when the topic is not known.

        Differs from Java: it is the highest index and one more, also where a partition between is missing from the
        snapshot. Keys are hashed over this number, and a key must not move because an answer had a gap.
        """
        table = self.tables.get(topic)
        return None if table is None else table.count

    def partition(self, topic_partition: tuple[str, int]) -> PartitionInfo | None:
        """Return one partition, or None when it is not known."""
        topic, partition = topic_partition
        return self.tables.get(topic, _NO_PARTITIONS).by_index.get(partition)

    def leader_for(self, topic_partition: tuple[str, int]) -> Node | None:
        """Return the node that leads a partition, or None when nobody does or it is not known."""
        info = self.partition(topic_partition)
        return None if info is None else info.leader

    def node_by_id(self, node_id: int) -> Node | None:
        """Return a node, or None when no such broker is known."""
        return self.nodes.get(node_id)

    def topic_id(self, topic: str) -> UUID | None:
        """Return a topic's id, or None when the broker told none (Metadata below v10)."""
        return self.ids_by_topic.get(topic)

    def topic_name(self, topic_id: UUID) -> str | None:
        """Return the name that belongs to a topic id, or None when it is not known."""
        return self._topic_names.get(topic_id)

    def topic_ids(self) -> dict[str, UUID]:
        """Return a copy of the table from topic to topic id."""
        return dict(self.ids_by_topic)

    def __repr__(self) -> str:
        return f"Cluster(id={self.cluster_id!r}, nodes={sorted(self.nodes)}, topics={sorted(self.tables)})"
