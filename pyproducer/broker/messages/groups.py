"""JoinGroup (11), Heartbeat (12), LeaveGroup (13), SyncGroup (14), OffsetCommit (8): members of classic groups.

Static members have a group_instance_id (KIP-345); LeaveGroup 3 removes several members at once; OffsetCommit 10 names
topics by id (KIP-848).

Road:    protocol/apis.py -> [messages] -> Schema
Thread:  constants.
Source:  Apache Kafka common/message/*.json (4.3).
"""

from __future__ import annotations

from pyproducer.protocol.message import array, f, message
from pyproducer.protocol.types import BOOLEAN, BYTES, INT16, INT32, INT64, STRING, UUID

JOIN_GROUP_REQUEST = message(
    "JoinGroupRequest",
    f("group_id", STRING),
    f("session_timeout_ms", INT32),
    f("rebalance_timeout_ms", INT32, "1+", default=-1, ignorable=True),
    f("member_id", STRING),
    f("group_instance_id", STRING, "5+", nullable="5+", default=None),
    f("protocol_type", STRING),
    array(
        "protocols",
        f("name", STRING),
        f("metadata", BYTES),
    ),
    f("reason", STRING, "8+", nullable="8+", default=None, ignorable=True),
)

JOIN_GROUP_RESPONSE = message(
    "JoinGroupResponse",
    f("throttle_time_ms", INT32, "2+", default=0, ignorable=True),
    f("error_code", INT16),
    f("generation_id", INT32, default=-1),
    f("protocol_type", STRING, "7+", nullable="7+", default=None, ignorable=True),
    f("protocol_name", STRING, nullable="7+"),
    f("leader", STRING),
    f("skip_assignment", BOOLEAN, "9+", default=False),
    f("member_id", STRING),
    array(
        "members",
        f("member_id", STRING),
        f("group_instance_id", STRING, "5+", nullable="5+", default=None, ignorable=True),
        f("metadata", BYTES),
    ),
)

HEARTBEAT_REQUEST = message(
    "HeartbeatRequest",
    f("group_id", STRING),
    f("generation_id", INT32),
    f("member_id", STRING),
    f("group_instance_id", STRING, "3+", nullable="3+", default=None),
)

HEARTBEAT_RESPONSE = message(
    "HeartbeatResponse",
    f("throttle_time_ms", INT32, "1+", default=0, ignorable=True),
    f("error_code", INT16),
)

LEAVE_GROUP_REQUEST = message(
    "LeaveGroupRequest",
    f("group_id", STRING),
    f("member_id", STRING, "0-2"),
    array(
        "members",
        f("member_id", STRING),
        f("group_instance_id", STRING, nullable="3+", default=None),
        f("reason", STRING, "5+", nullable="5+", default=None, ignorable=True),
        versions="3+",
    ),
)

LEAVE_GROUP_RESPONSE = message(
    "LeaveGroupResponse",
    f("throttle_time_ms", INT32, "1+", default=0, ignorable=True),
    f("error_code", INT16),
    array(
        "members",
        f("member_id", STRING),
        f("group_instance_id", STRING, nullable="3+"),
        f("error_code", INT16),
        versions="3+",
    ),
)

SYNC_GROUP_REQUEST = message(
    "SyncGroupRequest",
    f("group_id", STRING),
    f("generation_id", INT32),
    f("member_id", STRING),
    f("group_instance_id", STRING, "3+", nullable="3+", default=None),
    f("protocol_type", STRING, "5+", nullable="5+", default=None, ignorable=True),
    f("protocol_name", STRING, "5+", nullable="5+", default=None, ignorable=True),
    array(
        "assignments",
        f("member_id", STRING),
        f("assignment", BYTES),
    ),
)

SYNC_GROUP_RESPONSE = message(
    "SyncGroupResponse",
    f("throttle_time_ms", INT32, "1+", default=0, ignorable=True),
    f("error_code", INT16),
    f("protocol_type", STRING, "5+", nullable="5+", default=None, ignorable=True),
    f("protocol_name", STRING, "5+", nullable="5+", default=None, ignorable=True),
    f("assignment", BYTES),
)

OFFSET_COMMIT_REQUEST = message(
    "OffsetCommitRequest",
    f("group_id", STRING),
    f("generation_id_or_member_epoch", INT32, default=-1, ignorable=True),
    f("member_id", STRING, ignorable=True),
    f("group_instance_id", STRING, "7+", nullable="7+", default=None),
    f("retention_time_ms", INT64, "2-4", default=-1, ignorable=True),
    array(
        "topics",
        f("name", STRING, "0-9", ignorable=True),
        f("topic_id", UUID, "10+", ignorable=True),
        array(
            "partitions",
            f("partition_index", INT32),
            f("committed_offset", INT64),
            f("committed_leader_epoch", INT32, "6+", default=-1, ignorable=True),
            f("committed_metadata", STRING, nullable="0+"),
        ),
    ),
)

OFFSET_COMMIT_RESPONSE = message(
    "OffsetCommitResponse",
    f("throttle_time_ms", INT32, "3+", default=0, ignorable=True),
    array(
        "topics",
        f("name", STRING, "0-9", ignorable=True),
        f("topic_id", UUID, "10+", ignorable=True),
        array(
            "partitions",
            f("partition_index", INT32),
            f("error_code", INT16),
        ),
    ),
)
