"""Fetch (key 1): record batches from partition leaders.

Version 13 names topics by id; sessions (KIP-227) begin with version 7. Tags carry the cluster id and replica state,
which only brokers send, and where the leader is now (KIP-951).

Road:    protocol/apis.py -> [messages] -> Schema
Thread:  constants.
Source:  Apache Kafka common/message/Fetch{Request,Response}.json (4.3).
"""

from __future__ import annotations

from pyproducer.protocol.message import array, f, message, obj
from pyproducer.protocol.types import INT8, INT16, INT32, INT64, RECORDS, STRING, UUID

FETCH_REQUEST = message(
    "FetchRequest",
    f("cluster_id", STRING, "12+", nullable="12+", tag=0, default=None, ignorable=True),
    f("replica_id", INT32, "0-14", default=-1),
    obj(
        "replica_state",
        f("replica_id", INT32, default=-1),
        f("replica_epoch", INT64, default=-1),
        versions="15+",
        tag=1,
    ),
    f("max_wait_ms", INT32),
    f("min_bytes", INT32),
    f("max_bytes", INT32, default=2**31 - 1, ignorable=True),
    f("isolation_level", INT8, default=0, ignorable=True),
    f("session_id", INT32, "7+", default=0, ignorable=True),
    f("session_epoch", INT32, "7+", default=-1, ignorable=True),
    array(
        "topics",
        f("topic", STRING, "0-12", ignorable=True),
        f("topic_id", UUID, "13+", ignorable=True),
        array(
            "partitions",
            f("partition", INT32),
            f("current_leader_epoch", INT32, "9+", default=-1, ignorable=True),
            f("fetch_offset", INT64),
            f("last_fetched_epoch", INT32, "12+", default=-1),
            f("log_start_offset", INT64, "5+", default=-1, ignorable=True),
            f("partition_max_bytes", INT32),
            f("replica_directory_id", UUID, "17+", tag=0, ignorable=True),
            f("high_watermark", INT64, "18+", tag=1, default=2**63 - 1, ignorable=True),
        ),
    ),
    array(
        "forgotten_topics_data",
        f("topic", STRING, "7-12", ignorable=True),
        f("topic_id", UUID, "13+", ignorable=True),
        array("partitions", INT32),
        versions="7+",
    ),
    f("rack_id", STRING, "11+", default="", ignorable=True),
)

FETCH_RESPONSE = message(
    "FetchResponse",
    f("throttle_time_ms", INT32, default=0, ignorable=True),
    f("error_code", INT16, "7+", ignorable=True),
    f("session_id", INT32, "7+", default=0),
    array(
        "responses",
        f("topic", STRING, "0-12", ignorable=True),
        f("topic_id", UUID, "13+", ignorable=True),
        array(
            "partitions",
            f("partition_index", INT32),
            f("error_code", INT16),
            f("high_watermark", INT64),
            f("last_stable_offset", INT64, default=-1, ignorable=True),
            f("log_start_offset", INT64, "5+", default=-1, ignorable=True),
            obj(
                "diverging_epoch",
                f("epoch", INT32, default=-1),
                f("end_offset", INT64, default=-1),
                versions="12+",
                tag=0,
            ),
            obj(
                "current_leader",
                f("leader_id", INT32, default=-1),
                f("leader_epoch", INT32, default=-1),
                versions="12+",
                tag=1,
            ),
            obj(
                "snapshot_id",
                f("end_offset", INT64, default=-1),
                f("epoch", INT32, default=-1),
                versions="12+",
                tag=2,
            ),
            array(
                "aborted_transactions",
                f("producer_id", INT64),
                f("first_offset", INT64),
                nullable="4+",
                default=[],
                ignorable=True,
            ),
            f("preferred_read_replica", INT32, "11+", default=-1),
            f("records", RECORDS, nullable="0+"),
        ),
    ),
    array(
        "node_endpoints",
        f("node_id", INT32),
        f("host", STRING),
        f("port", INT32),
        f("rack", STRING, nullable="16+", default=None),
        versions="16+",
        tag=0,
    ),
)
