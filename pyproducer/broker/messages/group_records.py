"""What the group coordinator writes to __consumer_offsets: keys and values of its records.

On disk an INT16 comes first: before a key its kind (1 an offset, 2 a group's metadata), before a value its version.

Road:    broker/cluster/coordinator/group/group_records.py -> [messages] -> Schema
Thread:  constants.
Source:  Apache Kafka common/message/{OffsetCommit,GroupMetadata}{Key,Value}.json of kafka-group-coordinator (4.1).
"""

from __future__ import annotations

from pyproducer.protocol.message import array, f, message
from pyproducer.protocol.types import BYTES, INT32, INT64, STRING, UUID

OFFSET_COMMIT_KEY = message(
    "OffsetCommitKey",
    f("group", STRING),
    f("topic", STRING),
    f("partition", INT32),
)

OFFSET_COMMIT_VALUE = message(
    "OffsetCommitValue",
    f("offset", INT64),
    f("leader_epoch", INT32, "3+", default=-1, ignorable=True),
    f("metadata", STRING),
    f("commit_timestamp", INT64),
    f("expire_timestamp", INT64, "1", default=-1, ignorable=True),
    f("topic_id", UUID, "4+", tag=0, ignorable=True),
)

GROUP_METADATA_KEY = message(
    "GroupMetadataKey",
    f("group", STRING),
)

GROUP_METADATA_VALUE = message(
    "GroupMetadataValue",
    f("protocol_type", STRING),
    f("generation", INT32),
    f("protocol", STRING, nullable="0+"),
    f("leader", STRING, nullable="0+"),
    f("current_state_timestamp", INT64, "2+", default=-1, ignorable=True),
    array(
        "members",
        f("member_id", STRING),
        f("group_instance_id", STRING, "3+", nullable="3+", default=None, ignorable=True),
        f("client_id", STRING),
        f("client_host", STRING),
        f("rebalance_timeout", INT32, "1+", default=-1, ignorable=True),
        f("session_timeout", INT32),
        f("subscription", BYTES),
        f("assignment", BYTES),
    ),
)
