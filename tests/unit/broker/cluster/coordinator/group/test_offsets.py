from __future__ import annotations

from pyproducer.broker.cluster.coordinator.group.offsets import CommittedOffset, GroupOffsets
from pyproducer.common.cluster import TopicPartition

ONE, TWO = TopicPartition("orders", 0), TopicPartition("orders", 1)


def at(offset: int, record_offset: int) -> CommittedOffset:
    return CommittedOffset(offset, record_offset=record_offset)


def test_staged_offsets_count_when_their_transaction_is_committed() -> None:
    offsets = GroupOffsets()
    offsets.commit("g", {ONE: at(1, 0)})
    offsets.stage("g", 7, {ONE: at(2, 1), TWO: at(3, 2)})
    assert offsets.committed("g") == {ONE: at(1, 0)}
    assert offsets.pending_partitions("g") == {ONE, TWO}
    assert offsets.complete(7, True) == ["g"]
    assert offsets.committed("g") == {ONE: at(2, 1), TWO: at(3, 2)}
    assert offsets.pending_partitions("g") == set()


def test_staged_offsets_are_forgotten_when_it_is_aborted() -> None:
    offsets = GroupOffsets()
    offsets.stage("g", 7, {ONE: at(2, 1)})
    assert offsets.complete(7, False) == ["g"]
    assert offsets.committed("g") == {}
    assert offsets.complete(7, True) == [], "it has ended"


def test_a_later_commit_stands() -> None:
    offsets = GroupOffsets()
    offsets.stage("g", 7, {ONE: at(2, 1)})
    offsets.commit("g", {ONE: at(9, 2)})
    offsets.complete(7, True)
    assert offsets.committed("g") == {ONE: at(9, 2)}


def test_a_marker_speaks_for_the_groups_of_its_partition() -> None:
    offsets = GroupOffsets()
    offsets.stage("g", 7, {ONE: at(2, 1)})
    offsets.stage("h", 7, {ONE: at(3, 1)})
    assert offsets.complete(7, True, covers=lambda group_id: group_id == "g") == ["g"]
    assert offsets.committed("h") == {}
    assert offsets.pending_partitions("h") == {ONE}


def test_groups_and_topics_can_be_removed() -> None:
    offsets = GroupOffsets()
    other = TopicPartition("other", 0)
    offsets.commit("g", {ONE: at(1, 0), other: at(1, 1)})
    offsets.commit("h", {ONE: at(1, 2)})
    offsets.stage("g", 7, {TWO: at(2, 1)})
    offsets.stage("g", 8, {other: at(3, 4)})
    assert offsets.remove_topic("orders") == [("g", ONE), ("g", TWO), ("h", ONE)]
    assert offsets.pending_partitions("g") == {other}
    assert offsets.remove_group("g") == [other]
    assert offsets.pending_partitions("g") == set()
    offsets.complete(7, True)
    offsets.complete(8, True)
    assert offsets.committed("g") == {}


def test_an_offset_that_is_forgotten_is_not_committed_by_a_transaction() -> None:
    offsets = GroupOffsets()
    offsets.commit("g", {ONE: at(1, 0)})
    for producer_id in (7, 8):
        offsets.stage("g", producer_id, {ONE: at(2, 1), TWO: at(3, 2)})
    offsets.stage("h", 7, {ONE: at(4, 3)})
    assert sorted(offsets.partitions("g")) == [ONE, TWO]
    offsets.forget("g", ONE)
    assert offsets.partitions("g") == [TWO]
    offsets.complete(7, True)
    offsets.complete(8, True)
    assert offsets.committed("g") == {TWO: at(3, 2)}
    assert offsets.committed("h") == {ONE: at(4, 3)}
