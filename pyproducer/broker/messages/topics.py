"""CreateTopics (19), DeleteTopics (20), DeleteRecords (21), CreatePartitions (37), ListPartitionReassignments (46).

num_partitions and replication_factor of -1 mean the broker's defaults (KIP-464). DeleteTopics 6 deletes by id too.

Road:    protocol/apis.py -> [messages] -> Schema
Thread:  constants.
Source:  Apache Kafka common/message/*.json (4.3).
"""

from __future__ import annotations

from pyproducer.protocol.message import array, f, message
from pyproducer.protocol.types import BOOLEAN, INT8, INT16, INT32, INT64, STRING, UUID

CREATE_TOPICS_REQUEST = message(
    "CreateTopicsRequest",
    array(
        "topics",
        f("name", STRING),
        f("num_partitions", INT32),
        f("replication_factor", INT16),
        array(
            "assignments",
            f("partition_index", INT32),
            array("broker_ids", INT32),
            default=[],
        ),
        array(
            "configs",
            f("name", STRING),
            f("value", STRING, nullable="0+"),
            default=[],
        ),
    ),
    f("timeout_ms", INT32, default=60000),
    f("validate_only", BOOLEAN, default=False),
)

CREATE_TOPICS_RESPONSE = message(
    "CreateTopicsResponse",
    f("throttle_time_ms", INT32, default=0, ignorable=True),
    array(
        "topics",
        f("name", STRING),
        f("topic_id", UUID, "7+", ignorable=True),
        f("error_code", INT16),
        f("error_message", STRING, nullable="0+", ignorable=True),
        f("topic_config_error_code", INT16, "5+", tag=0, ignorable=True),
        f("num_partitions", INT32, "5+", default=-1, ignorable=True),
        f("replication_factor", INT16, "5+", default=-1, ignorable=True),
        array(
            "configs",
            f("name", STRING),
            f("value", STRING, nullable="5+"),
            f("read_only", BOOLEAN),
            f("config_source", INT8, default=-1, ignorable=True),
            f("is_sensitive", BOOLEAN),
            versions="5+",
            nullable="5+",
            default=[],
            ignorable=True,
        ),
    ),
)

DELETE_TOPICS_REQUEST = message(
    "DeleteTopicsRequest",
    array(
        "topics",
        f("name", STRING, nullable="6+", default=None),
        f("topic_id", UUID),
        versions="6+",
    ),
    array("topic_names", STRING, versions="0-5", default=[], ignorable=True),
    f("timeout_ms", INT32),
)

DELETE_TOPICS_RESPONSE = message(
    "DeleteTopicsResponse",
    f("throttle_time_ms", INT32, default=0, ignorable=True),
    array(
        "responses",
        f("name", STRING, nullable="6+"),
        f("topic_id", UUID, "6+", ignorable=True),
        f("error_code", INT16),
        f("error_message", STRING, "5+", nullable="5+", default=None, ignorable=True),
    ),
)

DELETE_RECORDS_REQUEST = message(
    "DeleteRecordsRequest",
    array(
        "topics",
        f("name", STRING),
        array(
            "partitions",
            f("partition_index", INT32),
            f("offset", INT64),
        ),
    ),
    f("timeout_ms", INT32),
)

DELETE_RECORDS_RESPONSE = message(
    "DeleteRecordsResponse",
    f("throttle_time_ms", INT32, default=0),
    array(
        "topics",
        f("name", STRING),
        array(
            "partitions",
            f("partition_index", INT32),
            f("low_watermark", INT64),
            f("error_code", INT16),
        ),
    ),
)

CREATE_PARTITIONS_REQUEST = message(
    "CreatePartitionsRequest",
    array(
        "topics",
        f("name", STRING),
        f("count", INT32),
        array(
            "assignments",
            array("broker_ids", INT32),
            nullable="0+",
        ),
    ),
    f("timeout_ms", INT32),
    f("validate_only", BOOLEAN),
)

CREATE_PARTITIONS_RESPONSE = message(
    "CreatePartitionsResponse",
    f("throttle_time_ms", INT32, default=0),
    array(
        "results",
        f("name", STRING),
        f("error_code", INT16),
        f("error_message", STRING, nullable="0+", default=None),
    ),
)

LIST_PARTITION_REASSIGNMENTS_REQUEST = message(
    "ListPartitionReassignmentsRequest",
    f("timeout_ms", INT32, default=60000),
    array(
        "topics",
        f("name", STRING),
        array("partition_indexes", INT32),
        nullable="0+",
        default=None,
    ),
)

LIST_PARTITION_REASSIGNMENTS_RESPONSE = message(
    "ListPartitionReassignmentsResponse",
    f("throttle_time_ms", INT32, default=0),
    f("error_code", INT16),
    f("error_message", STRING, nullable="0+"),
    array(
        "topics",
        f("name", STRING),
        array(
            "partitions",
            f("partition_index", INT32),
            array("replicas", INT32),
            array("adding_replicas", INT32),
            array("removing_replicas", INT32),
        ),
    ),
)
