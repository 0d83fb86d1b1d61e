"""DescribeAcls (29), CreateAcls (30), DeleteAcls (31): who may do what.

Road:    protocol/apis.py -> [messages] -> Schema
Thread:  constants.
Source:  Apache Kafka common/message/*.json (4.3).
"""

from __future__ import annotations

from pyproducer.protocol.message import array, f, message
from pyproducer.protocol.types import INT8, INT16, INT32, STRING

_LITERAL = 3

_FILTER = (
    f("resource_type_filter", INT8),
    f("resource_name_filter", STRING, nullable="0+"),
    f("pattern_type_filter", INT8, "1+", default=_LITERAL),
    f("principal_filter", STRING, nullable="0+"),
    f("host_filter", STRING, nullable="0+"),
    f("operation", INT8),
    f("permission_type", INT8),
)

DESCRIBE_ACLS_REQUEST = message("DescribeAclsRequest", *_FILTER)

DESCRIBE_ACLS_RESPONSE = message(
    "DescribeAclsResponse",
    f("throttle_time_ms", INT32),
    f("error_code", INT16),
    f("error_message", STRING, nullable="0+"),
    array(
        "resources",
        f("resource_type", INT8),
        f("resource_name", STRING),
        f("pattern_type", INT8, "1+", default=_LITERAL),
        array(
            "acls",
            f("principal", STRING),
            f("host", STRING),
            f("operation", INT8),
            f("permission_type", INT8),
        ),
    ),
)

CREATE_ACLS_REQUEST = message(
    "CreateAclsRequest",
    array(
        "creations",
        f("resource_type", INT8),
        f("resource_name", STRING),
        f("resource_pattern_type", INT8, "1+", default=_LITERAL),
        f("principal", STRING),
        f("host", STRING),
        f("operation", INT8),
        f("permission_type", INT8),
    ),
)

CREATE_ACLS_RESPONSE = message(
    "CreateAclsResponse",
    f("throttle_time_ms", INT32),
    array(
        "results",
        f("error_code", INT16),
        f("error_message", STRING, nullable="0+"),
    ),
)

DELETE_ACLS_REQUEST = message("DeleteAclsRequest", array("filters", *_FILTER))

DELETE_ACLS_RESPONSE = message(
    "DeleteAclsResponse",
    f("throttle_time_ms", INT32),
    array(
        "filter_results",
        f("error_code", INT16),
        f("error_message", STRING, nullable="0+"),
        array(
            "matching_acls",
            f("error_code", INT16),
            f("error_message", STRING, nullable="0+"),
            f("resource_type", INT8),
            f("resource_name", STRING),
            f("pattern_type", INT8, "1+", default=_LITERAL),
            f("principal", STRING),
            f("host", STRING),
            f("operation", INT8),
            f("permission_type", INT8),
        ),
    ),
)
