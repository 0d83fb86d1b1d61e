"""SaslHandshake 0-1 on a listener without SASL: 34, the connection stays as it is.

Omits:   SASL itself.

Road:    KafkaApis -> [SaslHandshake]
Thread:  handler threads.
Source:  Java KafkaApis.handleSaslHandshakeRequest (4.1), and its measured answer.
"""

from __future__ import annotations

from pyproducer.broker.apis.api_handler import Api
from pyproducer.broker.apis.services import Answer, Services
from pyproducer.broker.network.request_channel import Request
from pyproducer.common.error_codes import ErrorCode
from pyproducer.protocol.apis import ApiKeys

API = Api(ApiKeys.SASL_HANDSHAKE, asks=())


def handle(services: Services, request: Request) -> Answer:
    """Answer one SaslHandshake request: here it comes after authentication, or where there is none."""
    return error_response(request, ErrorCode.ILLEGAL_SASL_STATE)


def error_response(request: Request, error_code: ErrorCode) -> Answer:
    """Say that the request failed."""
    return {"error_code": error_code, "mechanisms": []}
