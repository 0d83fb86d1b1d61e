"""ApiVersions 0-4: which APIs this broker answers.

Does:    a version that nobody knows is answered as version 0 with error 35 and one entry, its own, and the
         connection stays usable; a client software name or version with odd characters gets 42 and no entries.
         The feature transaction.version is told, at the level of that setting, while its APIs are (a broker that
         pretends to be an older release has no such feature); to version 3 not that it may be zero, as Kafka does
         (KAFKA-17011).
Omits:   other features; zk_migration_ready.

Road:    KafkaApis -> [ApiVersions]
Thread:  handler threads.
Source:  Java KafkaApis.handleApiVersionsRequest, ApiVersionsRequest.isValid (4.1).
"""

from __future__ import annotations

import re
from typing import Any

from pyproducer.broker.apis.api_handler import Api
from pyproducer.broker.apis.services import Answer, Services
from pyproducer.broker.network.request_channel import Request
from pyproducer.common.error_codes import ErrorCode
from pyproducer.protocol.apis import ApiKeys

API = Api(ApiKeys.API_VERSIONS, asks=())
_FIRST_FLEXIBLE_VERSION = 3
_ZERO_FEATURES_FROM = 4
_FEATURE = "transaction.version"
_HIGHEST_LEVEL = 2
_TRANSACTIONS_V2_END_TXN = 5
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def handle(services: Services, request: Request) -> Answer:
    """Answer one ApiVersions request."""
    data = request.body(ApiKeys.API_VERSIONS).data
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
        for api_id, (first, last) in sorted(services.advertised_apis.items())],
        **_features(services, request.header.api_version)}


def error_response(request: Request, error_code: ErrorCode) -> Answer:
    """Say that the whole request failed."""
    return {"error_code": error_code, "throttle_time_ms": 0, "api_keys": []}


def _features(services: Services, version: int) -> dict[str, Any]:
    """Return what tells clients whether they may speak Transactions V2."""
    _, last_end_txn = services.advertised_apis.get(ApiKeys.END_TXN, (0, 0))
    if version < _FIRST_FLEXIBLE_VERSION or last_end_txn < _TRANSACTIONS_V2_END_TXN:
        return {}
    level = services.config.number("transaction.version")
    return {
        "supported_features": [] if version < _ZERO_FEATURES_FROM else [
            {"name": _FEATURE, "min_version": 0, "max_version": _HIGHEST_LEVEL}],
        "finalized_features_epoch": 0,
        "finalized_features": [] if level == 0 else [
            {"name": _FEATURE, "max_version_level": level, "min_version_level": level}]}
