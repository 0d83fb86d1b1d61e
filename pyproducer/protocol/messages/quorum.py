"""DescribeQuorum (key 55): who votes on metadata, who leads them and how far each has come.

Road:    protocol/apis.py -> [messages] -> Schema
Thread:  constants.
Source:  Apache Kafka common/message/*.json (4.3); KIP-595.
"""

from __future__ import annotations

from pyproducer.protocol.message import array, f, message
from pyproducer.protocol.types import INT16, INT32, INT64, STRING, UINT16, UUID

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
