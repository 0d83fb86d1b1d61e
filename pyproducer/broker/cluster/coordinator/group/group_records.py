"""The group coordinator's records in __consumer_offsets, as Kafka writes them.

Road:    group coordinator -> [group records] -> coordinator log; read back at start
Thread:  pure functions.
Shape:   key: INT16 kind (1 offset, 2 group), then the message in version 0; value: INT16 version, then the message.
         A null value deletes. Values are written in version 3, which every Kafka since 2.1 reads; others are read.
Source:  Java GroupCoordinatorRecordHelpers, GroupCoordinatorRecordSerde (4.1).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from pyproducer.broker.cluster.coordinator.coordinator_log import KeyValue
from pyproducer.broker.cluster.coordinator.group.classic_group import ClassicGroup
from pyproducer.broker.cluster.coordinator.group.member import Member
from pyproducer.broker.cluster.coordinator.group.offsets import CommittedOffset
from pyproducer.broker.cluster.coordinator.group.state import GroupState
from pyproducer.broker.messages.group_records import (
    GROUP_METADATA_KEY,
    GROUP_METADATA_VALUE,
    OFFSET_COMMIT_KEY,
    OFFSET_COMMIT_VALUE,
)
from pyproducer.common.cluster import TopicPartition
from pyproducer.protocol.buffer import Buffer, ByteReader, ByteWriter
from pyproducer.protocol.message import Message
from pyproducer.protocol.schema import Struct
from pyproducer.protocol.types import INT16

# Kind 0 is an offset too: a key of the oldest version.
OFFSET_KINDS = (0, 1)
GROUP_KIND = 2
_VALUE_VERSION = 3
_FLEXIBLE_FROM = 4


class OffsetKey(NamedTuple):
    """A record holds an offset of this group."""

    group_id: str
    topic_partition: TopicPartition


class GroupKey(NamedTuple):
    """A record holds this group."""

    group_id: str


def offset_record(group_id: str, topic_partition: TopicPartition, offset: CommittedOffset | None) -> KeyValue:
    """Return the record of a committed offset; None deletes it."""
    key = _encoded(OFFSET_KINDS[-1], OFFSET_COMMIT_KEY, 0, {
        "group": group_id, "topic": topic_partition.topic, "partition": topic_partition.partition})
    if offset is None:
        return key, None
    return key, _encoded(_VALUE_VERSION, OFFSET_COMMIT_VALUE, _VALUE_VERSION, {
        "offset": offset.offset, "leader_epoch": offset.leader_epoch, "metadata": offset.metadata,
        "commit_timestamp": offset.commit_timestamp_ms})


def group_tombstone(group_id: str) -> KeyValue:
    """Return the record that deletes a group."""
    return _encoded(GROUP_KIND, GROUP_METADATA_KEY, 0, {"group": group_id}), None


def group_record(group: ClassicGroup, *, timestamp_ms: int) -> KeyValue:
    """Return the record of a group: its generation, and its members with what they are assigned."""
    key, _ = group_tombstone(group.group_id)
    has_members = bool(group.members)
    value = _encoded(_VALUE_VERSION, GROUP_METADATA_VALUE, _VALUE_VERSION, {
        "protocol_type": group.protocol_type or "", "generation": group.generation_id,
        "protocol": group.protocol_name if has_members else None, "leader": group.leader_id if has_members else None,
        "current_state_timestamp": timestamp_ms,
        "members": [{
            "member_id": member.member_id, "group_instance_id": member.group_instance_id,
            "client_id": member.client_id, "client_host": member.client_host,
            "rebalance_timeout": member.rebalance_timeout_ms, "session_timeout": member.session_timeout_ms,
            "subscription": member.metadata(group.protocol_name), "assignment": member.assignment,
        } for member in group.members.values()]})
    return key, value


def parse_key(key: Buffer) -> OffsetKey | GroupKey | None:
    """Return what a record is about; None for kinds that classic groups do not have."""
    reader = ByteReader(key)
    kind = INT16.read(reader)
    if kind in OFFSET_KINDS:
        data = OFFSET_COMMIT_KEY.schema(0, flexible=False).read(reader)
        return OffsetKey(data["group"], TopicPartition(data["topic"], data["partition"]))
    if kind == GROUP_KIND:
        return GroupKey(GROUP_METADATA_KEY.schema(0, flexible=False).read(reader)["group"])
    return None


def parse_offset(value: Buffer, *, record_offset: int) -> CommittedOffset:
    """Read the value of an offset's record."""
    data = _decoded(OFFSET_COMMIT_VALUE, value)
    return CommittedOffset(data["offset"], data.get("leader_epoch", -1), data["metadata"], data["commit_timestamp"],
                           record_offset)


def parse_group(group_id: str, value: Buffer) -> ClassicGroup:
    """Read the value of a group's record: a stable group, or an empty one."""
    data = _decoded(GROUP_METADATA_VALUE, value)
    group = ClassicGroup(group_id)
    group.generation_id = data["generation"]
    for entry in data["members"]:
        session_timeout_ms = entry["session_timeout"]
        rebalance_timeout_ms = entry.get("rebalance_timeout", -1)
        group.add(Member(
            entry["member_id"], entry.get("group_instance_id"), entry["client_id"], entry["client_host"],
            session_timeout_ms if rebalance_timeout_ms < 0 else rebalance_timeout_ms, session_timeout_ms,
            ((data["protocol"] or "", bytes(entry["subscription"])),), bytes(entry["assignment"])),
            data["protocol_type"])
    group.protocol_type = data["protocol_type"] or None
    saved_at_ms = data.get("current_state_timestamp", -1)
    group.saved_at_ms = None if saved_at_ms < 0 else saved_at_ms
    if group.members:
        group.protocol_name = data["protocol"]
        group.leader_id = data["leader"]
        for state in (GroupState.PREPARING_REBALANCE, GroupState.COMPLETING_REBALANCE, GroupState.STABLE):
            group.transition_to(state)
    return group


def _encoded(prefix: int, message: Message, version: int, values: Mapping[str, Any]) -> bytes:
    writer = ByteWriter()
    INT16.write(writer, prefix)
    message.schema(version, flexible=version >= _FLEXIBLE_FROM).write(writer, values)
    return writer.to_bytes()


def _decoded(message: Message, value: Buffer) -> Struct:
    reader = ByteReader(value)
    version = INT16.read(reader)
    return message.schema(version, flexible=version >= _FLEXIBLE_FROM).read(reader)
