"""GetTelemetrySubscriptions 0: which metrics this broker wants of a client: all of them, each second.

Does:    gives an instance id to whoever has none, and keeps that of others; takes zstd, lz4, gzip and snappy; wants
         deltas, as Kafka does.
Omits:   subscriptions (Kafka's config resources of type client-metrics): everybody is asked for everything. Not
         advertised, as Kafka without a receiver: `set_api_versions` does, and `requests("PushTelemetry")` has what
         came.

Road:    KafkaApis -> [GetTelemetrySubscriptions]
Thread:  handler threads.
Source:  KIP-714; Java ClientMetricsManager.processGetTelemetrySubscriptionRequest (4.1).
"""

from __future__ import annotations

import uuid

from pyproducer.broker.apis.api_handler import Api
from pyproducer.broker.apis.services import Answer, Services
from pyproducer.broker.network.request_channel import Request
from pyproducer.common.error_codes import ErrorCode
from pyproducer.protocol.apis import ApiKeys

API = Api(ApiKeys.GET_TELEMETRY_SUBSCRIPTIONS, asks=())

SUBSCRIPTION_ID = 714
PUSH_INTERVAL_MS = 1000
MAX_BYTES = 1_048_576  # Kafka's telemetry.max.bytes
CODECS = (4, 3, 1, 2)
_NO_ID = uuid.UUID(int=0)
_ALL = "*"


def handle(services: Services, request: Request) -> Answer:
    """Answer one GetTelemetrySubscriptions request."""
    asked: uuid.UUID = request.body(ApiKeys.GET_TELEMETRY_SUBSCRIPTIONS).data["client_instance_id"]
    return {"throttle_time_ms": 0, "error_code": 0, "client_instance_id": uuid.uuid4() if asked == _NO_ID else asked,
            "subscription_id": SUBSCRIPTION_ID, "accepted_compression_types": list(CODECS),
            "push_interval_ms": PUSH_INTERVAL_MS, "telemetry_max_bytes": MAX_BYTES, "delta_temporality": True,
            "requested_metrics": [_ALL]}


def error_response(request: Request, error_code: ErrorCode) -> Answer:
    """Say that the whole request failed."""
    return {"throttle_time_ms": 0, "error_code": error_code, "client_instance_id": _NO_ID, "subscription_id": 0,
            "accepted_compression_types": [], "push_interval_ms": PUSH_INTERVAL_MS, "telemetry_max_bytes": 0,
            "delta_temporality": False, "requested_metrics": []}
