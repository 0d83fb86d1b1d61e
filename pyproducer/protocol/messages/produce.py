"""Produce (key 0): record batches to partition leaders.

acks=0 has no response. Version 13 names topics by id. The response's tags tell a producer who leads now (KIP-951)
and its record_errors which records of a batch were refused (KIP-467).

Road:    protocol/apis.py -> [messages] -> Schema
Thread:  constants.
Source:  Apache Kafka common/message/Produce{Request,Response}.json (4.3).
"""

from __future__ import annotations

from pyproducer.protocol.message import array, f, message, obj
from pyproducer.protocol.types import INT16, INT32, INT64, RECORDS, STRING, UUID

PRODUCE_REQUEST = message(
    "ProduceRequest",
    f("transactional_id", STRING, nullable="3+", default=None),
    f("acks", INT16),
    f("timeout_ms", INT32),
    array(
        "topic_data",
        f("name", STRING, "0-12", ignorable=True),
        f("topic_id", UUID, "13+", ignorable=True),
        array(
            "partition_data",
            f("index", INT32),
            f("records", RECORDS, nullable="0+"),
        ),
    ),
)

PRODUCE_RESPONSE = message(
    "ProduceResponse",
    array(
        "responses",
        f("name", STRING, "0-12", ignorable=True),
        f("topic_id", UUID, "13+", ignorable=True),
        array(
            "partition_responses",
            f("index", INT32),
            f("error_code", INT16),
            f("base_offset", INT64),
            f("log_append_time_ms", INT64, default=-1, ignorable=True),
            f("log_start_offset", INT64, "5+", default=-1, ignorable=True),
            array(
                "record_errors",
                f("batch_index", INT32),
                f("batch_index_error_message", STRING, nullable="8+", default=None),
                versions="8+",
                default=[],
                ignorable=True,
            ),
            f("error_message", STRING, "8+", nullable="8+", default=None, ignorable=True),
            obj(
                "current_leader",
                f("leader_id", INT32, default=-1),
                f("leader_epoch", INT32, default=-1),
                versions="10+",
                tag=0,
            ),
        ),
    ),
    f("throttle_time_ms", INT32, default=0, ignorable=True),
    array(
        "node_endpoints",
        f("node_id", INT32),
        f("host", STRING),
        f("port", INT32),
        f("rack", STRING, nullable="10+", default=None),
        versions="10+",
        tag=0,
    ),
)
