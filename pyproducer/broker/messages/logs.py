"""OffsetForLeaderEpoch (23), DescribeProducers (61): where a log's epochs end, and who writes to it.

Road:    protocol/apis.py -> [messages] -> Schema
Thread:  constants.
Source:  Apache Kafka common/message/*.json (4.3); KIP-320, KIP-664.
"""

from __future__ import annotations

from pyproducer.protocol.message import array, f, message
from pyproducer.protocol.types import INT16, INT32, INT64, STRING

OFFSET_FOR_LEADER_EPOCH_REQUEST = message(
    "OffsetForLeaderEpochRequest",
    f("replica_id", INT32, "3+", default=-2, ignorable=True),
    array(
        "topics",
        f("topic", STRING),
        array(
            "partitions",
            f("partition", INT32),
            f("current_leader_epoch", INT32, default=-1, ignorable=True),
            f("leader_epoch", INT32),
        ),
    ),
)

OFFSET_FOR_LEADER_EPOCH_RESPONSE = message(
    "OffsetForLeaderEpochResponse",
    f("throttle_time_ms", INT32, default=0, ignorable=True),
    array(
        "topics",
        f("topic", STRING),
        array(
            "partitions",
            f("error_code", INT16),
            f("partition", INT32),
            f("leader_epoch", INT32, default=-1, ignorable=True),
            f("end_offset", INT64, default=-1),
        ),
    ),
)

DESCRIBE_PRODUCERS_REQUEST = message(
    "DescribeProducersRequest",
    array(
        "topics",
        f("name", STRING),
        array("partition_indexes", INT32),
    ),
)

DESCRIBE_PRODUCERS_RESPONSE = message(
    "DescribeProducersResponse",
    f("throttle_time_ms", INT32, default=0),
    array(
        "topics",
        f("name", STRING),
        array(
            "partitions",
            f("partition_index", INT32),
            f("error_code", INT16),
            f("error_message", STRING, nullable="0+", default=None),
            array(
                "active_producers",
                f("producer_id", INT64),
                f("producer_epoch", INT32),
                f("last_sequence", INT32, default=-1),
                f("last_timestamp", INT64, default=-1),
                f("coordinator_epoch", INT32),
                f("current_txn_start_offset", INT64, default=-1),
            ),
        ),
    ),
)
