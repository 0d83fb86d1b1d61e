"""What classic consumers put into the opaque bytes of JoinGroup and SyncGroup: subscription and assignment.

On the wire an INT16 version comes first, then the message in that version; never flexible.

Road:    tests and examples that look into a group -> [messages] -> Schema
Thread:  constants.
Source:  Apache Kafka common/message/ConsumerProtocol{Subscription,Assignment}.json (4.3), valid 0-3.
"""

from __future__ import annotations

from pyproducer.protocol.message import array, f, message
from pyproducer.protocol.types import BYTES, INT32, STRING

CONSUMER_PROTOCOL_SUBSCRIPTION = message(
    "ConsumerProtocolSubscription",
    array("topics", STRING),
    f("user_data", BYTES, nullable="0+", default=None),
    array(
        "owned_partitions",
        f("topic", STRING),
        array("partitions", INT32),
        versions="1+",
        default=[],
        ignorable=True,
    ),
    f("generation_id", INT32, "2+", default=-1, ignorable=True),
    f("rack_id", STRING, "3+", nullable="3+", default=None, ignorable=True),
)

CONSUMER_PROTOCOL_ASSIGNMENT = message(
    "ConsumerProtocolAssignment",
    array(
        "assigned_partitions",
        f("topic", STRING),
        array("partitions", INT32),
    ),
    f("user_data", BYTES, nullable="0+", default=None),
)
