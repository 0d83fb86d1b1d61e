"""GetTelemetrySubscriptions (key 71), PushTelemetry (72): client metrics for the broker.

Used only when the broker advertises them.

Road:    protocol/apis.py -> [messages] -> Schema
Thread:  constants.
Source:  Apache Kafka common/message/*.json (4.3); KIP-714.
"""

from __future__ import annotations

from pyproducer.protocol.message import array, f, message
from pyproducer.protocol.types import BOOLEAN, BYTES, INT8, INT16, INT32, STRING, UUID

GET_TELEMETRY_SUBSCRIPTIONS_REQUEST = message(
    "GetTelemetrySubscriptionsRequest",
    f("client_instance_id", UUID),
)

GET_TELEMETRY_SUBSCRIPTIONS_RESPONSE = message(
    "GetTelemetrySubscriptionsResponse",
    f("throttle_time_ms", INT32, default=0),
    f("error_code", INT16),
    f("client_instance_id", UUID),
    f("subscription_id", INT32),
    array("accepted_compression_types", INT8),
    f("push_interval_ms", INT32),
    f("telemetry_max_bytes", INT32),
    f("delta_temporality", BOOLEAN),
    array("requested_metrics", STRING),
)

PUSH_TELEMETRY_REQUEST = message(
    "PushTelemetryRequest",
    f("client_instance_id", UUID),
    f("subscription_id", INT32),
    f("terminating", BOOLEAN),
    f("compression_type", INT8),
    f("metrics", BYTES),
)

PUSH_TELEMETRY_RESPONSE = message(
    "PushTelemetryResponse",
    f("throttle_time_ms", INT32, default=0),
    f("error_code", INT16),
)
