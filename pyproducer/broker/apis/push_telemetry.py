"""PushTelemetry 0: a client's metrics, as OpenTelemetry's protocol says them.

Does:    117 for another subscription than the one that was given, 118 above the limit, 76 for a codec that was not
         offered, 42 without an instance id. What is right is kept in the log of requests, if that is on.
Omits:   Kafka's limit of one push in each interval (THROTTLING_QUOTA_EXCEEDED); the metrics are not read.

Road:    KafkaApis -> [PushTelemetry]
Thread:  handler threads.
Source:  KIP-714; Java ClientMetricsManager.processPushTelemetryRequest (4.1).
"""

from __future__ import annotations

import uuid

from pyproducer.broker.apis.api_handler import Api
from pyproducer.broker.apis.get_telemetry_subscriptions import CODECS, MAX_BYTES, SUBSCRIPTION_ID
from pyproducer.broker.apis.services import Answer, Services
from pyproducer.broker.network.request_channel import Request
from pyproducer.common.error_codes import ErrorCode
from pyproducer.protocol.apis import ApiKeys

API = Api(ApiKeys.PUSH_TELEMETRY, asks=())


def handle(services: Services, request: Request) -> Answer:
    """Answer one PushTelemetry request."""
    data = request.body(ApiKeys.PUSH_TELEMETRY).data
    code = ErrorCode.NONE
    if data["client_instance_id"] == uuid.UUID(int=0):
        code = ErrorCode.INVALID_REQUEST
    elif data["subscription_id"] != SUBSCRIPTION_ID:
        code = ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    elif data["compression_type"] not in (0, *CODECS):
        code = ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    elif len(data["metrics"]) > MAX_BYTES:
        code = ErrorCode.TELEMETRY_TOO_LARGE
    return {"throttle_time_ms": 0, "error_code": code}


def error_response(request: Request, error_code: ErrorCode) -> Answer:
    """Say that the whole request failed."""
    return {"throttle_time_ms": 0, "error_code": error_code}
