"""SaslAuthenticate 0-2 on a listener without SASL: 34, the connection stays as it is.

Omits:   SASL itself.

Road:    KafkaApis -> [SaslAuthenticate]
Thread:  handler threads.
Source:  Java KafkaApis.handleSaslAuthenticateRequest (4.1), and its measured answer.
"""

from __future__ import annotations

from pyproducer.broker.apis.api_handler import Api
from pyproducer.broker.apis.services import Answer, Services
from pyproducer.broker.network.request_channel import Request
from pyproducer.common.error_codes import ErrorCode
from pyproducer.protocol.apis import ApiKeys

API = Api(ApiKeys.SASL_AUTHENTICATE, asks=())


def handle(services: Services, request: Request) -> Answer:
    """Answer one SaslAuthenticate request."""
    return error_response(request, ErrorCode.ILLEGAL_SASL_STATE)


def error_response(request: Request, error_code: ErrorCode) -> Answer:
    """Say that the request failed."""
    return {"error_code": error_code, "auth_bytes": b"",
            "error_message": "SaslAuthenticate request received after successful authentication"}
