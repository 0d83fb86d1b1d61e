"""FindCoordinator (key 10): the broker in charge of a group (type 0) or a transactional id (type 1).

Version 4 asks for several keys at once (KIP-699); before it, the one answer stands at the top level.

Road:    protocol/apis.py -> [messages] -> Schema
Thread:  constants.
Source:  Apache Kafka common/message/FindCoordinator{Request,Response}.json (4.3).
"""

from __future__ import annotations

from pyproducer.protocol.message import array, f, message
from pyproducer.protocol.types import INT8, INT16, INT32, STRING

FIND_COORDINATOR_REQUEST = message(
    "FindCoordinatorRequest",
    f("key", STRING, "0-3"),
    f("key_type", INT8, "1+", default=0),
    array("coordinator_keys", STRING, versions="4+"),
)

FIND_COORDINATOR_RESPONSE = message(
    "FindCoordinatorResponse",
    f("throttle_time_ms", INT32, "1+", default=0, ignorable=True),
    f("error_code", INT16, "0-3"),
    f("error_message", STRING, "1-3", nullable="1-3", ignorable=True),
    f("node_id", INT32, "0-3"),
    f("host", STRING, "0-3"),
    f("port", INT32, "0-3"),
    array(
        "coordinators",
        f("key", STRING),
        f("node_id", INT32),
        f("host", STRING),
        f("port", INT32),
        f("error_code", INT16),
        f("error_message", STRING, nullable="4+", ignorable=True),
        versions="4+",
    ),
)
