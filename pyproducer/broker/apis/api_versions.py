"""ApiVersions 0-4: which APIs this broker answers.

Does:    a version that nobody knows is answered as version 0 with error 35 and the one entry (18, 0, 4), and the
         connection stays usable; a client software name or version with odd characters gets 42 and no entries.
Omits:   supported and finalized features (there is no transaction.version yet); zk_migration_ready.

Road:    KafkaApis -> [ApiVersions]
Thread:  handler threads.
Source:  Java KafkaApis.handleApiVersionsRequest, ApiVersionsRequest.isValid (4.1).
"""

from __future__ import annotations

import re

from pyproducer.broker.request_channel import Request
from pyproducer.broker.services import Answer, Services
from pyproducer.common.error_codes import ErrorCode
from pyproducer.protocol.apis import ApiKeys
from pyproducer.protocol.request import ApiVersionsRequest

_FIRST_FLEXIBLE_VERSION = 3
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def handle(services: Services, request: Request) -> Answer:
    """Answer one ApiVersions request."""
    data = request.body(ApiVersionsRequest).data
    if request.context.is_unsupported_api_versions_request:
        first, last = services.advertised_apis[ApiKeys.API_VERSIONS]
        if last < _FIRST_FLEXIBLE_VERSION:  # before KIP-511 the answer did not say what is supported
            return error_response(request, ErrorCode.UNSUPPORTED_VERSION)
        return {"error_code": ErrorCode.UNSUPPORTED_VERSION, "api_keys": [
            {"api_key": int(ApiKeys.API_VERSIONS), "min_version": first, "max_version": last}]}
    if request.header.api_version >= 3 and not (_SOFTWARE.fullmatch(data["client_software_name"])
                                                and _SOFTWARE.fullmatch(data["client_software_version"])):
        return error_response(request, ErrorCode.INVALID_REQUEST)
    return {"error_code": 0, "throttle_time_ms": 0, "api_keys": [
        {"api_key": api_id, "min_version": first, "max_version": last}
        for api_id, (first, last) in sorted(services.advertised_apis.items())]}


def error_response(request: Request, error_code: ErrorCode) -> Answer:
    """Say that the whole request failed."""
    return {"error_code": error_code, "throttle_time_ms": 0, "api_keys": []}
