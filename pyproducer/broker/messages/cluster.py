"""DescribeCluster (60), DescribeTopicPartitions (75): what Metadata tells, apart.

Road:    protocol/apis.py -> [messages] -> Schema
Thread:  constants.
Source:  Apache Kafka common/message/*.json (4.3).
"""

from __future__ import annotations

from pyproducer.protocol.message import array, f, message, obj
from pyproducer.protocol.types import BOOLEAN, INT8, INT16, INT32, STRING, UUID

DESCRIBE_CLUSTER_REQUEST = message(
    "DescribeClusterRequest",
    f("include_cluster_authorized_operations", BOOLEAN, default=False),
    f("endpoint_type", INT8, "1+", default=1),
    f("include_fenced_brokers", BOOLEAN, "2+", default=False),
)

DESCRIBE_CLUSTER_RESPONSE = message(
    "DescribeClusterResponse",
    f("throttle_time_ms", INT32, default=0),
    f("error_code", INT16),
    f("error_message", STRING, nullable="0+", default=None),
    f("endpoint_type", INT8, "1+", default=1),
    f("cluster_id", STRING),
    f("controller_id", INT32, default=-1),
    array(
        "brokers",
        f("broker_id", INT32),
        f("host", STRING),
        f("port", INT32),
        f("rack", STRING, nullable="0+", default=None),
        f("is_fenced", BOOLEAN, "2+"),
    ),
    f("cluster_authorized_operations", INT32, default=-(2**31)),
)

DESCRIBE_TOPIC_PARTITIONS_REQUEST = message(
    "DescribeTopicPartitionsRequest",
    array(
        "topics",
        f("name", STRING),
    ),
    f("response_partition_limit", INT32, default=2000),
    obj(
        "cursor",
        f("topic_name", STRING),
        f("partition_index", INT32),
        nullable="0+",
        default=None,
    ),
)

DESCRIBE_TOPIC_PARTITIONS_RESPONSE = message(
    "DescribeTopicPartitionsResponse",
    f("throttle_time_ms", INT32, default=0, ignorable=True),
    array(
        "topics",
        f("error_code", INT16),
        f("name", STRING, nullable="0+"),
        f("topic_id", UUID, ignorable=True),
        f("is_internal", BOOLEAN, default=False, ignorable=True),
        array(
            "partitions",
            f("error_code", INT16),
            f("partition_index", INT32),
            f("leader_id", INT32),
            f("leader_epoch", INT32, default=-1, ignorable=True),
            array("replica_nodes", INT32),
            array("isr_nodes", INT32),
            array("eligible_leader_replicas", INT32, nullable="0+", default=None),
            array("last_known_elr", INT32, nullable="0+", default=None),
            array("offline_replicas", INT32, default=[], ignorable=True),
        ),
        f("topic_authorized_operations", INT32, default=-(2**31)),
    ),
    obj(
        "next_cursor",
        f("topic_name", STRING),
        f("partition_index", INT32),
        nullable="0+",
        default=None,
    ),
)
