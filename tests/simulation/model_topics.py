"""The state of the model's cluster: which nodes live, which topics there are, who leads what; and what changes it.

Thread:  pure; whoever steps the model. No time, no randomness: every change is somebody's call.
Source:  ours; leader epochs grow by one with each election, as in Kafka, and a topic that is made anew has a new id.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple
from uuid import UUID

from tests.simulation.model_log import NO_LEADER, ModelPartition, StoredBatch

LogKey = tuple[str, UUID, int]
"""Topic, its id, partition."""

_FIRST_TOPIC_ID = 0x4D4F_4445_4C00_4000_8000_0000_0000_0001
ZERO_ID = UUID(int=0)


class TopicView(NamedTuple):
    """A topic as Metadata tells it: (leader or -1, leader epoch) by partition."""

    topic_id: UUID
    leaders: tuple[tuple[int, int], ...]


class ClusterView(NamedTuple):
    """What a node may know of the cluster: the nodes that live, and the topics. It never changes."""

    nodes: tuple[int, ...]
    topics: Mapping[str, TopicView]


class ClusterState:
    """Nodes, topics and logs, and the operations on them.

    Args:
        node_count: The nodes are 0, 1, ...; all of them live at first.
        topics: Partition counts by name. Partition p of the n-th topic is led by node (p + n) % node_count.

    Attributes:
        logs: The stored batches of every partition that there ever was, those of deleted topics included.
        views: What `snapshot` kept, in order.
        amnesia: (log, producer id) where a producer was forgotten or fenced: a batch that was stored before and is sent
            again after it, in a new epoch or not, is stored twice, in Kafka too.
    """

    def __init__(self, *, node_count: int, topics: Mapping[str, int]) -> None:
        if node_count < 1:
            raise ValueError(f"a cluster of {node_count} nodes")
        self.nodes = tuple(range(node_count))
        self.logs: dict[LogKey, list[StoredBatch]] = {}
        self.views: list[ClusterView] = []
        self.amnesia: set[tuple[LogKey, int]] = set()
        self.topics: dict[str, list[ModelPartition]] = {}
        self._topic_by_id: dict[UUID, list[ModelPartition]] = {}
        self._alive = set(self.nodes)
        self._topics_made = 0
        self._view: ClusterView | None = None
        for name, partition_count in topics.items():
            self.create_topic(name, partition_count)

    # ---- looks

    def is_alive(self, node_id: int) -> bool:
        """Whether a node can be spoken to."""
        return node_id in self._alive

    def partition(self, topic: str, index: int) -> ModelPartition:
        """Return a partition of a topic that there is now.

        Raises:
            KeyError: There is no such topic.
            IndexError: It has no such partition.
        """
        if index < 0:
            raise IndexError(index)
        return self.topics[topic][index]

    def topic_id(self, topic: str) -> UUID:
        """Return the id that a topic has now."""
        return self.topics[topic][0].topic_id

    def log(self, topic: str, index: int) -> list[StoredBatch]:
        """Return the stored batches of a partition that there is now."""
        return self.partition(topic, index).batches

    def view(self) -> ClusterView:
        """Return the cluster as it is now; the same object until something changes."""
        view = self._view
        if view is None:
            view = self._view = ClusterView(tuple(sorted(self._alive)), {
                name: TopicView(partitions[0].topic_id, tuple(
                    (partition.leader_id, partition.leader_epoch) for partition in partitions))
                for name, partitions in self.topics.items()})
        return view

    def snapshot(self) -> ClusterView:
        """Keep the cluster as it is now in `views`, for a node that lags; return it."""
        view = self.view()
        if not self.views or self.views[-1] is not view:
            self.views.append(view)
        return view

    # ---- nodes and leaders

    def move_leader(self, topic: str, index: int, node_id: int) -> None:
        """Let a living node, or the same one once more, lead a partition, in the next leader epoch.

        Raises:
            ValueError: The node does not live.
        """
        if node_id not in self._alive:
            raise ValueError(f"node {node_id} does not live and cannot lead {topic}-{index}")
        self._elect(self.partition(topic, index), node_id)

    def stop_node(self, node_id: int) -> None:
        """Let a node die; the living one after it leads its partitions, nobody if none is left."""
        self._alive.remove(node_id)
        self._view = None
        successor = self._next_alive(node_id)
        for partitions in self.topics.values():
            for partition in partitions:
                if partition.leader_id == node_id:
                    self._elect(partition, successor)

    def start_node(self, node_id: int) -> None:
        """Let a node live again; it leads what nobody leads and gets nothing else back."""
        if node_id not in self.nodes or node_id in self._alive:
            raise ValueError(f"node {node_id} is not one that can be started")
        self._alive.add(node_id)
        self._view = None
        for partitions in self.topics.values():
            for partition in partitions:
                if partition.leader_id == NO_LEADER:
                    self._elect(partition, node_id)

    # ---- topics

    def create_topic(self, name: str, partition_count: int) -> UUID:
        """Make a topic, and return its id.

        Raises:
            ValueError: There is one, or no partition was asked for.
        """
        if name in self.topics or partition_count < 1:
            raise ValueError(f"topic {name} of {partition_count} partitions")
        topic_id = UUID(int=_FIRST_TOPIC_ID + self._topics_made)
        partitions = self.topics[name] = self._topic_by_id[topic_id] = []
        self._grow(name, topic_id, partitions, partition_count, self._topics_made)
        self._topics_made += 1
        return topic_id

    def delete_topic(self, name: str) -> None:
        """Delete a topic; what was stored stays in `logs`."""
        partitions = self.topics.pop(name)
        del self._topic_by_id[partitions[0].topic_id]
        self._view = None

    def recreate_topic(self, name: str) -> UUID:
        """Delete a topic and make it anew, as large, with a new id, empty logs and no producers; return the id."""
        partition_count = len(self.topics[name])
        self.delete_topic(name)
        return self.create_topic(name, partition_count)

    def add_partitions(self, name: str, partition_count: int) -> None:
        """Give a topic more partitions, so that it has `partition_count`.

        Raises:
            ValueError: It has as many already.
        """
        partitions = self.topics[name]
        if partition_count <= len(partitions):
            raise ValueError(f"topic {name} has {len(partitions)} partitions, {partition_count} are not more")
        self._grow(name, partitions[0].topic_id, partitions, partition_count, 0)

    def delete_records(self, topic: str, index: int, before_offset: int) -> None:
        """Let the log of a partition begin later, as retention does; who wrote what is gone stays known, as since 2.4.

        Raises:
            ValueError: It begins there or later already, or ends before.
        """
        partition = self.partition(topic, index)
        if not partition.start_offset < before_offset <= partition.end_offset:
            raise ValueError(f"{topic}-{index} has {partition.start_offset} to {partition.end_offset}, and cannot "
                             f"begin at {before_offset}")
        partition.start_offset = before_offset

    # ---- producers

    def forget_producer(self, topic: str, index: int, producer_id: int, node_id: int | None = None) -> bool:
        """Forget a producer in one partition; return whether it was known.

        Args:
            topic: The topic.
            index: The partition.
            producer_id: Whom.
            node_id: Which replica alone forgets; None lets all of them, as after producer.id.expiration.ms.
        """
        partition = self.partition(topic, index)
        if not partition.forget(producer_id, node_id):
            return False
        self.amnesia.add(((topic, partition.topic_id, index), producer_id))
        return True

    def restart_replicas(self, topic: str, index: int) -> None:
        """Let all replicas of a partition have restarted: they remember the last batch of each producer, not five.

        After a clean stop and after a crash alike. Who leads does not change here.
        """
        self.partition(topic, index).restart()

    def expire_producers(self, now_ms: int, expiration_ms: int) -> int:
        """Forget every producer whose last batch in a partition is so old; return how many.

        Old by the batch's newest timestamp, which is the producer's and not the broker's clock: who writes the past is
        forgotten at once. In a topic of the broker's time it is that of the append.

        Source: Kafka ProducerStateManager.isProducerExpired (4.1), with producer.id.expiration.ms.
        """
        return sum(self.forget_producer(topic, partition.index, producer_id)
                   for topic, partitions in self.topics.items() for partition in partitions
                   for producer_id, state in list(partition.known_to(partition.leader_id).items())
                   if now_ms - state.last_timestamp >= expiration_ms)

    def fence_producer(self, topic: str, index: int, producer_id: int) -> int:
        """Let a producer's next epoch begin in one partition without it: what it sends in its own is 47 from now on.

        Returns:
            The epoch.
        """
        partition = self.partition(topic, index)
        state = partition.producers.get(producer_id)
        epoch = 1 if state is None else state.epoch + 1
        partition.fence(producer_id, epoch)
        self.amnesia.add(((topic, partition.topic_id, index), producer_id))
        return epoch

    # ---- inside

    def _grow(self, name: str, topic_id: UUID, partitions: list[ModelPartition], partition_count: int,
              first_leader: int) -> None:
        for index in range(len(partitions), partition_count):
            node_id = self.nodes[(first_leader + index) % len(self.nodes)]
            leader_id = node_id if node_id in self._alive else self._next_alive(node_id)
            partition = ModelPartition(name, topic_id, index, leader_id)
            partitions.append(partition)
            self.logs[name, topic_id, index] = partition.batches
        self._view = None

    def _elect(self, partition: ModelPartition, node_id: int) -> None:
        partition.leader_id = node_id
        partition.leader_epoch += 1
        self._view = None

    def _next_alive(self, node_id: int) -> int:
        count = len(self.nodes)
        return next((candidate for candidate in ((node_id + step) % count for step in range(1, count))
                     if candidate in self._alive), NO_LEADER)
