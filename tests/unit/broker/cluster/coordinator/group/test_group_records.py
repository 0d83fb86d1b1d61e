from __future__ import annotations

from pyproducer.broker.cluster.coordinator.group.classic_group import ClassicGroup
from pyproducer.broker.cluster.coordinator.group.group_records import (
    GroupKey,
    OffsetKey,
    group_record,
    group_tombstone,
    offset_record,
    parse_group,
    parse_key,
    parse_offset,
)
from pyproducer.broker.cluster.coordinator.group.member import Member
from pyproducer.broker.cluster.coordinator.group.offsets import CommittedOffset
from pyproducer.broker.cluster.coordinator.group.state import GroupState
from pyproducer.common.cluster import TopicPartition

ORDERS = TopicPartition("orders", 3)


def test_an_offset_has_kafkas_bytes() -> None:
    key, value = offset_record("g", ORDERS, CommittedOffset(5, 2, "note", 1000))
    assert key.hex() == "0001" "000167" "00066f7264657273" "00000003"
    assert value is not None
    assert value.hex() == "0003" "0000000000000005" "00000002" "00046e6f7465" "00000000000003e8"
    assert parse_key(key) == OffsetKey("g", ORDERS)
    assert parse_offset(value, record_offset=9) == CommittedOffset(5, 2, "note", 1000, 9)


def test_no_value_deletes() -> None:
    key, _ = offset_record("g", ORDERS, CommittedOffset(5))
    assert offset_record("g", ORDERS, None) == (key, None)
    assert group_tombstone("g")[1] is None
    assert parse_key(group_tombstone("g")[0]) == GroupKey("g")


def test_older_values_are_read() -> None:
    version_1 = bytes.fromhex("0001" "0000000000000005" "00046e6f7465" "00000000000003e8" "00000000000007d0")
    assert parse_offset(version_1, record_offset=0) == CommittedOffset(5, -1, "note", 1000, 0)
    version_4 = bytes.fromhex("0004" "0000000000000005" "00000002" "056e6f7465" "00000000000003e8" "00")
    assert parse_offset(version_4, record_offset=0) == CommittedOffset(5, 2, "note", 1000, 0)


def test_kinds_of_other_protocols_are_passed_over() -> None:
    assert parse_key(bytes.fromhex("0003" "000167")) is None


def test_a_group_comes_back_as_it_was() -> None:
    group = ClassicGroup("g")
    for name, instance_id in (("one", None), ("two", "i")):
        group.add(Member(name, instance_id, "client", "/127.0.0.1", 5000, 1000, (("range", name.encode()),),
                         b"for " + name.encode()), "consumer")
    for state in (GroupState.PREPARING_REBALANCE, GroupState.COMPLETING_REBALANCE, GroupState.STABLE):
        group.transition_to(state)
    group.generation_id, group.protocol_name, group.saved_at_ms = 7, "range", 1000
    key, value = group_record(group, timestamp_ms=1000)
    assert value is not None
    assert parse_key(key) == GroupKey("g")
    again = parse_group("g", value)
    assert vars(again) == vars(group)


def test_an_empty_group_comes_back_empty() -> None:
    group = ClassicGroup("g")
    group.generation_id = 3
    _, value = group_record(group, timestamp_ms=1000)
    assert value is not None
    again = parse_group("g", value)
    assert (again.state, again.generation_id, again.protocol_type) == (GroupState.EMPTY, 3, None)
