"""DescribeConfigs (key 32): the settings of topics and brokers.

Road:    protocol/apis.py -> [messages] -> Schema
Thread:  constants.
Source:  Apache Kafka common/message/*.json (4.3); KIP-226.
"""

from __future__ import annotations

from pyproducer.protocol.message import array, f, message
from pyproducer.protocol.types import BOOLEAN, INT8, INT16, INT32, STRING

DESCRIBE_CONFIGS_REQUEST = message(
    "DescribeConfigsRequest",
    array(
        "resources",
        f("resource_type", INT8),
        f("resource_name", STRING),
        array("configuration_keys", STRING, nullable="0+"),
    ),
    f("include_synonyms", BOOLEAN, default=False),
    f("include_documentation", BOOLEAN, "3+", default=False),
)

DESCRIBE_CONFIGS_RESPONSE = message(
    "DescribeConfigsResponse",
    f("throttle_time_ms", INT32, default=0),
    array(
        "results",
        f("error_code", INT16),
        f("error_message", STRING, nullable="0+"),
        f("resource_type", INT8),
        f("resource_name", STRING),
        array(
            "configs",
            f("name", STRING),
            f("value", STRING, nullable="0+"),
            f("read_only", BOOLEAN),
            f("config_source", INT8, default=-1, ignorable=True),
            f("is_sensitive", BOOLEAN),
            array(
                "synonyms",
                f("name", STRING),
                f("value", STRING, nullable="0+"),
                f("source", INT8),
                default=[],
                ignorable=True,
            ),
            f("config_type", INT8, "3+", default=0, ignorable=True),
            f("documentation", STRING, "3+", nullable="0+", ignorable=True),
        ),
    ),
)

# Of each resource: which it is, and whether it was altered.
