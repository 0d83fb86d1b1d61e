"""ListOffsets (key 2): positions in a log.

Timestamps below zero have meanings: -1 latest, -2 earliest, -3 of the largest timestamp (7+), -4 earliest local (8+),
-5 latest tiered (9+).

Road:    protocol/apis.py -> [messages] -> Schema
Thread:  constants.
Source:  Apache Kafka common/message/*.json (4.3).
"""

from __future__ import annotations

from pyproducer.protocol.message import array, f, message
from pyproducer.protocol.types import INT8, INT16, INT32, INT64, STRING

LIST_OFFSETS_REQUEST = message(
    "ListOffsetsRequest",
    f("replica_id", INT32),
    f("isolation_level", INT8, "2+"),
    array(
        "topics",
        f("name", STRING),
        array(
            "partitions",
            f("partition_index", INT32),
            f("current_leader_epoch", INT32, "4+", default=-1, ignorable=True),
            f("timestamp", INT64),
        ),
    ),
    f("timeout_ms", INT32, "10+", ignorable=True),
)

LIST_OFFSETS_RESPONSE = message(
    "ListOffsetsResponse",
    f("throttle_time_ms", INT32, "2+", default=0, ignorable=True),
    array(
        "topics",
        f("name", STRING),
        array(
            "partitions",
            f("partition_index", INT32),
            f("error_code", INT16),
            f("timestamp", INT64, default=-1),
            f("offset", INT64, default=-1),
            f("leader_epoch", INT32, "4+", default=-1),
        ),
    ),
)
