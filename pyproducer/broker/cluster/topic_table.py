"""Which topics there are now, by name and by id, with their partitions.

Road:    apis, coordinators -> [topic table] -> partition; written by topic life
Thread:  any. The tables are replaced, never changed: reading takes no lock and sees one table or the next.
Source:  Java MetadataCache (4.1).
"""

from __future__ import annotations

import uuid
from collections.abc import ItemsView, Iterator, Mapping, ValuesView

from pyproducer.broker.cluster.partition import Partition
from pyproducer.broker.cluster.topic_config import TopicConfig
from pyproducer.broker.cluster.topic_name import INTERNAL_TOPICS


class TopicState:
    """One topic. `partitions` is replaced, never changed."""

    def __init__(self, name: str, topic_id: uuid.UUID, config: TopicConfig, partitions: tuple[Partition, ...]) -> None:
        self.name = name
        self.topic_id = topic_id
        self.config: TopicConfig = config
        self.partitions = partitions
        self.is_internal: bool = name in INTERNAL_TOPICS

    def configure(self, config: TopicConfig) -> None:
        """Replace the settings, of the partitions and their logs too."""
        self.config = config
        for partition in self.partitions:
            partition.config = config
            partition.log.config = config.log


class TopicTable(Mapping[str, TopicState]):
    """All topics by name; what is iterated over is the table of one moment."""

    def __init__(self) -> None:
        self._by_name: dict[str, TopicState] = {}
        self._by_id: dict[uuid.UUID, TopicState] = {}

    def __getitem__(self, name: str) -> TopicState:
        return self._by_name[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self._by_name)

    def items(self) -> ItemsView[str, TopicState]:
        """Return names and topics of one moment."""
        return self._by_name.items()

    def values(self) -> ValuesView[TopicState]:
        """Return the topics of one moment."""
        return self._by_name.values()

    def find(self, name: str) -> TopicState | None:
        """Return a topic, or None."""
        return self._by_name.get(name)

    def find_by_id(self, topic_id: uuid.UUID) -> TopicState | None:
        """Return a topic by its id, or None."""
        return self._by_id.get(topic_id)

    def partition(self, topic: str, index: int) -> Partition | None:
        """Return a partition, or None."""
        state = self._by_name.get(topic)
        if state is None or not 0 <= index < len(state.partitions):
            return None
        return state.partitions[index]

    # ---- topic life's, under the store's lock

    def enter(self, topic: TopicState) -> None:
        """Let a topic be found."""
        self._by_name = {**self._by_name, topic.name: topic}
        self._by_id = {**self._by_id, topic.topic_id: topic}

    def remove(self, name: str) -> None:
        """Let a topic be found no more."""
        self._by_name = {key: topic for key, topic in self._by_name.items() if key != name}
        self._by_id = {topic.topic_id: topic for topic in self._by_name.values()}
