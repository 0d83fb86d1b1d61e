"""ApiVersions (key 18): which APIs and versions the broker has; always the first request.

A broker that does not know the version answers error 35 in the layout of version 0, and the response header is always
version 0: both are handled in protocol/header.py. Finalized features decide about transactions V2 (KIP-890).

Road:    protocol/apis.py -> [messages] -> Schema
Thread:  constants.
Source:  Apache Kafka common/message/ApiVersions{Request,Response}.json (4.3).
"""

from __future__ import annotations

from pyproducer.protocol.message import array, f, message
from pyproducer.protocol.types import BOOLEAN, INT16, INT32, INT64, STRING

API_VERSIONS_REQUEST = message(
    "ApiVersionsRequest",
    f("client_software_name", STRING, "3+", ignorable=True),
    f("client_software_version", STRING, "3+", ignorable=True),
)

API_VERSIONS_RESPONSE = message(
    "ApiVersionsResponse",
    f("error_code", INT16),
    array(
        "api_keys",
        f("api_key", INT16),
        f("min_version", INT16),
        f("max_version", INT16),
    ),
    f("throttle_time_ms", INT32, "1+", default=0, ignorable=True),
    array(
        "supported_features",
        f("name", STRING),
        f("min_version", INT16),
        f("max_version", INT16),
        versions="3+",
        tag=0,
        ignorable=True,
    ),
    f("finalized_features_epoch", INT64, "3+", tag=1, default=-1, ignorable=True),
    array(
        "finalized_features",
        f("name", STRING),
        f("max_version_level", INT16),
        f("min_version_level", INT16),
        versions="3+",
        tag=2,
        ignorable=True,
    ),
    f("zk_migration_ready", BOOLEAN, "3+", tag=3, default=False, ignorable=True),
)
