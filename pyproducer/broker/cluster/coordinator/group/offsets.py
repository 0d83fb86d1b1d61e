"""How far each group has read, and what open transactions will add to that.

Road:    OffsetCommit, TxnOffsetCommit, markers -> [offsets] -> OffsetFetch
Thread:  under the group coordinator's lock.
Source:  Java OffsetMetadataManager, OffsetAndMetadata (4.1).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from pyproducer.common.cluster import TopicPartition


class CommittedOffset(NamedTuple):
    """An offset as a group committed it; `record_offset` is its place in __consumer_offsets."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    commit_timestamp_ms: int = -1
    record_offset: int = -1


Offsets = Mapping[TopicPartition, CommittedOffset]
_NOTHING: Offsets = {}


def _every_group(_group_id: str) -> bool:
    return True


class GroupOffsets:
    """The offsets of all groups."""

    def __init__(self) -> None:
        self._committed: dict[str, dict[TopicPartition, CommittedOffset]] = {}
        # producer id -> group -> what its open transaction would commit
        self._pending: dict[int, dict[str, dict[TopicPartition, CommittedOffset]]] = {}

    def committed(self, group_id: str) -> Offsets:
        """Return the offsets of a group."""
        return self._committed.get(group_id, _NOTHING)

    def commit(self, group_id: str, offsets: Offsets) -> None:
        """Take offsets over."""
        self._committed.setdefault(group_id, {}).update(offsets)

    def stage(self, group_id: str, producer_id: int, offsets: Offsets) -> None:
        """Keep offsets until the transaction of a producer ends."""
        self._pending.setdefault(producer_id, {}).setdefault(group_id, {}).update(offsets)

    def complete(self, producer_id: int, committed: bool, *,
                 covers: Callable[[str], bool] = _every_group) -> list[str]:
        """End a producer's transaction: its offsets become the groups', or are forgotten.

        Args:
            producer_id: Whose.
            committed: How it ended.
            covers: Which groups; a marker in one partition of the log speaks for the groups of that partition.

        Returns:
            The groups that were concerned.
        """
        staged = self._pending.get(producer_id, {})
        ended = [group_id for group_id in staged if covers(group_id)]
        for group_id in ended:
            offsets = staged.pop(group_id)
            if not committed:
                continue
            known = self._committed.setdefault(group_id, {})
            for topic_partition, offset in offsets.items():
                existing = known.get(topic_partition)
                # What was committed outside of the transaction after this was staged is newer.
                if existing is None or existing.record_offset < offset.record_offset:
                    known[topic_partition] = offset
        if not staged:
            self._pending.pop(producer_id, None)
        return ended

    def pending_partitions(self, group_id: str) -> set[TopicPartition]:
        """Return the partitions of which an open transaction may still move a group's offset."""
        return {topic_partition for groups in self._pending.values()
                for topic_partition in groups.get(group_id, _NOTHING)}

    def forget(self, group_id: str, topic_partition: TopicPartition) -> None:
        """Remove one offset, and what open transactions would make of it."""
        self._committed.get(group_id, {}).pop(topic_partition, None)
        for groups in self._pending.values():
            groups.get(group_id, {}).pop(topic_partition, None)

    def partitions(self, group_id: str) -> list[TopicPartition]:
        """Return the partitions of which a group has offsets, committed or of open transactions."""
        return list(dict.fromkeys([*self.committed(group_id), *self.pending_partitions(group_id)]))

    def remove_group(self, group_id: str) -> list[TopicPartition]:
        """Remove a group's offsets, those of open transactions too; return the partitions of which there were any."""
        found = self.partitions(group_id)
        for groups in self._pending.values():
            groups.pop(group_id, None)
        self._committed.pop(group_id, None)
        return found

    def remove_topic(self, topic: str) -> list[tuple[str, TopicPartition]]:
        """Remove all groups' offsets of a topic, those of open transactions too; return what was there."""
        group_ids = dict.fromkeys(group_id for groups in (self._committed, *self._pending.values())
                                  for group_id in groups)
        found = [(group_id, topic_partition) for group_id in group_ids
                 for topic_partition in self.partitions(group_id) if topic_partition.topic == topic]
        for group_id, topic_partition in found:
            self.forget(group_id, topic_partition)
        return found
