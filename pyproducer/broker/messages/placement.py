"""DescribeLogDirs (35), ElectLeaders (43), AlterPartitionReassignments (45).

Where partitions lie and who leads them.

Road:    protocol/apis.py -> [messages] -> Schema
Thread:  constants.
Source:  Apache Kafka common/message/*.json (4.3); KIP-113, KIP-183, KIP-455, KIP-460, KIP-827.
"""

from __future__ import annotations

from pyproducer.protocol.message import array, f, message
from pyproducer.protocol.types import BOOLEAN, INT8, INT16, INT32, INT64, STRING

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
