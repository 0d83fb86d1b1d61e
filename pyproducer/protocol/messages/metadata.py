"""Metadata (key 3): who is there and who leads what.

Metadata version 0 has no way to ask for no topics: an empty array means all; later a null array means all.
Topic ids begin with version 10; asking by id alone works from version 12. The top-level error of version 13 asks the
client to go back to its bootstrap list (KIP-1102).

Road:    protocol/apis.py -> [messages] -> Schema
Thread:  constants.
Source:  Apache Kafka common/message/*.json (4.3).
"""

from __future__ import annotations

from pyproducer.protocol.message import array, f, message
from pyproducer.protocol.types import BOOLEAN, INT16, INT32, STRING, UUID, ZERO_UUID

METADATA_REQUEST = message(
    "MetadataRequest",
    array(
        "topics",
        f("topic_id", UUID, "10+", default=ZERO_UUID, ignorable=True),
        f("name", STRING, nullable="10+"),
        nullable="1+",
    ),
    f("allow_auto_topic_creation", BOOLEAN, "4+", default=True),
    f("include_cluster_authorized_operations", BOOLEAN, "8-10", default=False),
    f("include_topic_authorized_operations", BOOLEAN, "8+", default=False),
)

METADATA_RESPONSE = message(
    "MetadataResponse",
    f("throttle_time_ms", INT32, "3+", default=0, ignorable=True),
    array(
        "brokers",
        f("node_id", INT32),
        f("host", STRING),
        f("port", INT32),
        f("rack", STRING, "1+", nullable="1+", default=None, ignorable=True),
    ),
    f("cluster_id", STRING, "2+", nullable="2+", default=None, ignorable=True),
    f("controller_id", INT32, "1+", default=-1, ignorable=True),
    array(
        "topics",
        f("error_code", INT16),
        f("name", STRING, nullable="12+"),
        f("topic_id", UUID, "10+", ignorable=True),
        f("is_internal", BOOLEAN, "1+", default=False, ignorable=True),
        array(
            "partitions",
            f("error_code", INT16),
            f("partition_index", INT32),
            f("leader_id", INT32),
            f("leader_epoch", INT32, "7+", default=-1, ignorable=True),
            array("replica_nodes", INT32),
            array("isr_nodes", INT32),
            array("offline_replicas", INT32, versions="5+", default=[], ignorable=True),
        ),
        f("topic_authorized_operations", INT32, "8+", default=-(2**31)),
    ),
    f("cluster_authorized_operations", INT32, "8-10", default=-(2**31)),
    f("error_code", INT16, "13+", default=0, ignorable=True),
)
