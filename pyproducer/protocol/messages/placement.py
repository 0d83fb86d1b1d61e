"""Where partitions lie and who leads them.

AlterReplicaLogDirs (key 34), DescribeLogDirs (35), ElectLeaders (43), AlterPartitionReassignments (45), DescribeQuorum
(55).

Road:    protocol/apis.py -> [messages] -> Schema
Thread:  constants.
Source:  Apache Kafka common/message/*.json (4.3); KIP-113, KIP-183, KIP-455, KIP-460, KIP-595, KIP-827.
"""

from __future__ import annotations

from pyproducer.protocol.message import array, f, message
from pyproducer.protocol.types import BOOLEAN, INT8, INT16, INT32, INT64, STRING, UINT16, UUID

ALTER_REPLICA_LOG_DIRS_REQUEST = message(
    "AlterReplicaLogDirsRequest",
    array(
        "dirs",
        f("path", STRING),
        array(
            "topics",
            f("name", STRING),
            array("partitions", INT32),
        ),
    ),
)

ALTER_REPLICA_LOG_DIRS_RESPONSE = message(
    "AlterReplicaLogDirsResponse",
    f("throttle_time_ms", INT32, default=0),
    array(
        "results",
        f("topic_name", STRING),
        array(
            "partitions",
            f("partition_index", INT32),
            f("error_code", INT16),
        ),
    ),
)

DESCRIBE_LOG_DIRS_REQUEST = message(
    "DescribeLogDirsRequest",
    array(
        "topics",
        f("topic", STRING),
        array("partitions", INT32),
        nullable="0+",
    ),
)

DESCRIBE_LOG_DIRS_RESPONSE = message(
    "DescribeLogDirsResponse",
    f("throttle_time_ms", INT32, default=0),
    f("error_code", INT16, "3+", ignorable=True),
    array(
        "results",
        f("error_code", INT16),
        f("log_dir", STRING),
        array(
            "topics",
            f("name", STRING),
            array(
                "partitions",
                f("partition_index", INT32),
                f("partition_size", INT64),
                f("offset_lag", INT64),
                f("is_future_key", BOOLEAN),
            ),
        ),
        f("total_bytes", INT64, "4+", default=-1, ignorable=True),
        f("usable_bytes", INT64, "4+", default=-1, ignorable=True),
        f("is_cordoned", BOOLEAN, "5+", default=False, ignorable=True),
    ),
)

ELECT_LEADERS_REQUEST = message(
    "ElectLeadersRequest",
    f("election_type", INT8, "1+"),
    array(
        "topic_partitions",
        f("topic", STRING),
        array("partitions", INT32),
        nullable="0+",
    ),
    f("timeout_ms", INT32, default=60000),
)

ELECT_LEADERS_RESPONSE = message(
    "ElectLeadersResponse",
    f("throttle_time_ms", INT32, default=0),
    f("error_code", INT16, "1+"),
    array(
        "replica_election_results",
        f("topic", STRING),
        array(
            "partition_result",
            f("partition_id", INT32),
            f("error_code", INT16),
            f("error_message", STRING, nullable="0+"),
        ),
    ),
)

ALTER_PARTITION_REASSIGNMENTS_REQUEST = message(
    "AlterPartitionReassignmentsRequest",
    f("timeout_ms", INT32, default=60000),
    f("allow_replication_factor_change", BOOLEAN, "1+", default=True),
    array(
        "topics",
        f("name", STRING),
        array(
            "partitions",
            f("partition_index", INT32),
            array("replicas", INT32, nullable="0+", default=None),
        ),
    ),
)

ALTER_PARTITION_REASSIGNMENTS_RESPONSE = message(
    "AlterPartitionReassignmentsResponse",
    f("throttle_time_ms", INT32, default=0),
    f("allow_replication_factor_change", BOOLEAN, "1+", default=True, ignorable=True),
    f("error_code", INT16),
    f("error_message", STRING, nullable="0+"),
    array(
        "responses",
        f("name", STRING),
        array(
            "partitions",
            f("partition_index", INT32),
            f("error_code", INT16),
            f("error_message", STRING, nullable="0+"),
        ),
    ),
)

DESCRIBE_QUORUM_REQUEST = message(
    "DescribeQuorumRequest",
    array(
        "topics",
        f("topic_name", STRING),
        array("partitions", f("partition_index", INT32)),
    ),
)

_REPLICA_STATE = (
    f("replica_id", INT32),
    f("replica_directory_id", UUID, "2+"),
    f("log_end_offset", INT64),
    f("last_fetch_timestamp", INT64, "1+", default=-1, ignorable=True),
    f("last_caught_up_timestamp", INT64, "1+", default=-1, ignorable=True),
)

DESCRIBE_QUORUM_RESPONSE = message(
    "DescribeQuorumResponse",
    f("error_code", INT16),
    f("error_message", STRING, "2+", nullable="2+", ignorable=True),
    array(
        "topics",
        f("topic_name", STRING),
        array(
            "partitions",
            f("partition_index", INT32),
            f("error_code", INT16),
            f("error_message", STRING, "2+", nullable="2+", ignorable=True),
            f("leader_id", INT32),
            f("leader_epoch", INT32),
            f("high_watermark", INT64),
            array("current_voters", *_REPLICA_STATE),
            array("observers", *_REPLICA_STATE),
        ),
    ),
    array(
        "nodes",
        f("node_id", INT32),
        array(
            "listeners",
            f("name", STRING),
            f("host", STRING),
            f("port", UINT16),
        ),
        versions="2+",
    ),
)
