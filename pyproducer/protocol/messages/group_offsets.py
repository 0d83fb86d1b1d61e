"""OffsetFetch (key 9): how far consumer groups have read.

Version 8 asks for several groups (KIP-709); version 10 names topics by id (KIP-848).

Road:    protocol/apis.py -> [messages] -> Schema
Thread:  constants.
Source:  Apache Kafka common/message/*.json (4.3).
"""

from __future__ import annotations

from pyproducer.protocol.message import array, f, message
from pyproducer.protocol.types import BOOLEAN, INT16, INT32, INT64, STRING, UUID

OFFSET_FETCH_REQUEST = message(
    "OffsetFetchRequest",
    f("group_id", STRING, "0-7"),
    array(
        "topics",
        f("name", STRING),
        array("partition_indexes", INT32),
        versions="0-7",
        nullable="2-7",
    ),
    array(
        "groups",
        f("group_id", STRING),
        f("member_id", STRING, "9+", nullable="9+", default=None, ignorable=True),
        f("member_epoch", INT32, "9+", default=-1, ignorable=True),
        array(
            "topics",
            f("name", STRING, "8-9", ignorable=True),
            f("topic_id", UUID, "10+", ignorable=True),
            array("partition_indexes", INT32),
            nullable="8+",
        ),
        versions="8+",
    ),
    f("require_stable", BOOLEAN, "7+", default=False),
)

OFFSET_FETCH_RESPONSE = message(
    "OffsetFetchResponse",
    f("throttle_time_ms", INT32, "3+", default=0, ignorable=True),
    array(
        "topics",
        f("name", STRING),
        array(
            "partitions",
            f("partition_index", INT32),
            f("committed_offset", INT64),
            f("committed_leader_epoch", INT32, "5-7", default=-1, ignorable=True),
            f("metadata", STRING, nullable="0-7"),
            f("error_code", INT16),
        ),
        versions="0-7",
    ),
    f("error_code", INT16, "2-7", default=0, ignorable=True),
    array(
        "groups",
        f("group_id", STRING),
        array(
            "topics",
            f("name", STRING, "8-9", ignorable=True),
            f("topic_id", UUID, "10+", ignorable=True),
            array(
                "partitions",
                f("partition_index", INT32),
                f("committed_offset", INT64),
                f("committed_leader_epoch", INT32, default=-1, ignorable=True),
                f("metadata", STRING, nullable="8+"),
                f("error_code", INT16),
            ),
        ),
        f("error_code", INT16, default=0),
        versions="8+",
    ),
)
