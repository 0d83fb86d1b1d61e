"""AlterConfigs (33), IncrementalAlterConfigs (44), ListConfigResources (74): settings altered.

Version 0 of ListConfigResources is ListClientMetricsResources.

Road:    protocol/apis.py -> [messages] -> Schema
Thread:  constants.
Source:  Apache Kafka common/message/*.json (4.3); KIP-339, KIP-714, KIP-1142.
"""

from __future__ import annotations

from pyproducer.protocol.message import array, f, message
from pyproducer.protocol.types import BOOLEAN, INT8, INT16, INT32, STRING

_ALTERED = (
    f("throttle_time_ms", INT32, default=0),
    array(
        "responses",
        f("error_code", INT16),
        f("error_message", STRING, nullable="0+"),
        f("resource_type", INT8),
        f("resource_name", STRING),
    ),
)

ALTER_CONFIGS_REQUEST = message(
    "AlterConfigsRequest",
    array(
        "resources",
        f("resource_type", INT8),
        f("resource_name", STRING),
        array(
            "configs",
            f("name", STRING),
            f("value", STRING, nullable="0+"),
        ),
    ),
    f("validate_only", BOOLEAN),
)

ALTER_CONFIGS_RESPONSE = message("AlterConfigsResponse", *_ALTERED)

INCREMENTAL_ALTER_CONFIGS_REQUEST = message(
    "IncrementalAlterConfigsRequest",
    array(
        "resources",
        f("resource_type", INT8),
        f("resource_name", STRING),
        array(
            "configs",
            f("name", STRING),
            f("config_operation", INT8),
            f("value", STRING, nullable="0+"),
        ),
    ),
    f("validate_only", BOOLEAN),
)

INCREMENTAL_ALTER_CONFIGS_RESPONSE = message("IncrementalAlterConfigsResponse", *_ALTERED)

LIST_CONFIG_RESOURCES_REQUEST = message(
    "ListConfigResourcesRequest",
    array("resource_types", INT8, versions="1+"),
)

LIST_CONFIG_RESOURCES_RESPONSE = message(
    "ListConfigResourcesResponse",
    f("throttle_time_ms", INT32, default=0),
    f("error_code", INT16),
    array(
        "config_resources",
        f("resource_name", STRING),
        f("resource_type", INT8, "1+", default=16, ignorable=True),
    ),
)
