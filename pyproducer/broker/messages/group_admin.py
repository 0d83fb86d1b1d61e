"""DescribeGroups (15), ListGroups (16), DeleteGroups (42): looking at consumer groups from outside.

Road:    protocol/apis.py -> [messages] -> Schema
Thread:  constants.
Source:  Apache Kafka common/message/*.json (4.3).
"""

from __future__ import annotations

from pyproducer.protocol.message import array, f, message
from pyproducer.protocol.types import BOOLEAN, BYTES, INT16, INT32, STRING

DESCRIBE_GROUPS_REQUEST = message(
    "DescribeGroupsRequest",
    array("groups", STRING),
    f("include_authorized_operations", BOOLEAN, "3+"),
)

DESCRIBE_GROUPS_RESPONSE = message(
    "DescribeGroupsResponse",
    f("throttle_time_ms", INT32, "1+", default=0, ignorable=True),
    array(
        "groups",
        f("error_code", INT16),
        f("error_message", STRING, "6+", nullable="6+", default=None),
        f("group_id", STRING),
        f("group_state", STRING),
        f("protocol_type", STRING),
        f("protocol_data", STRING),
        array(
            "members",
            f("member_id", STRING),
            f("group_instance_id", STRING, "4+", nullable="4+", default=None, ignorable=True),
            f("client_id", STRING),
            f("client_host", STRING),
            f("member_metadata", BYTES),
            f("member_assignment", BYTES),
        ),
        f("authorized_operations", INT32, "3+", default=-(2**31)),
    ),
)

LIST_GROUPS_REQUEST = message(
    "ListGroupsRequest",
    array("states_filter", STRING, versions="4+"),
    array("types_filter", STRING, versions="5+"),
)

LIST_GROUPS_RESPONSE = message(
    "ListGroupsResponse",
    f("throttle_time_ms", INT32, "1+", default=0, ignorable=True),
    f("error_code", INT16),
    array(
        "groups",
        f("group_id", STRING),
        f("protocol_type", STRING),
        f("group_state", STRING, "4+", ignorable=True),
        f("group_type", STRING, "5+", ignorable=True),
    ),
)

DELETE_GROUPS_REQUEST = message(
    "DeleteGroupsRequest",
    array("groups_names", STRING),
)

DELETE_GROUPS_RESPONSE = message(
    "DeleteGroupsResponse",
    f("throttle_time_ms", INT32, default=0),
    array(
        "results",
        f("group_id", STRING),
        f("error_code", INT16),
    ),
)
