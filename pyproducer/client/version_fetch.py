"""ApiVersions, the first request on every connection: which version to send, and what to make of the answer.

A broker that does not know the version we sent answers in the layout of version 0 with error 35 and, from 2.4 on, tells
its highest version of ApiVersions. We ask again with a strictly lower version, so this ends after a few steps with
every peer, also one that answers 35 for ever.

Road:    NetworkClient (a connection is ready for its first request) -> [version fetch] -> ApiVersions
Thread:  pure.
Source:  Java NetworkClient.handleApiVersionsResponse (4.1); KIP-35, KIP-511.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib import metadata as distributions
from typing import Any, NamedTuple

from pyproducer.client.api_versions import NodeApiVersions
from pyproducer.common.error_codes import ErrorCode
from pyproducer.common.errors import UnsupportedVersionError
from pyproducer.protocol.apis import ApiKeys

CLIENT_SOFTWARE_NAME = "pyproducer"
LATEST_VERSION = ApiKeys.API_VERSIONS.client_range[1]


def _software_version() -> str:
    """Return our version in the characters that brokers accept: letters, digits, dots, dashes (else error 42)."""
    try:
        version = distributions.version("pyproducer")
    except distributions.PackageNotFoundError:  # Run from a source tree that is not installed.
        version = "0"
    return re.sub(r"[^a-zA-Z0-9\-.]+", "-", version).strip("-.") or "0"


CLIENT_SOFTWARE_VERSION = _software_version()


class VersionFetchResult(NamedTuple):
    """What to do with the connection: exactly one field is not None."""

    versions: NodeApiVersions | None = None
    retry_version: int | None = None
    error: UnsupportedVersionError | None = None


def api_versions_body(version: int) -> Mapping[str, Any]:
    """Return the body of the request."""
    if version < 3:
        return {}
    return {"client_software_name": CLIENT_SOFTWARE_NAME, "client_software_version": CLIENT_SOFTWARE_VERSION}


def read_api_versions(body: Mapping[str, Any], sent_version: int, name: str) -> VersionFetchResult:
    """Decide what an ApiVersions response means.

    Args:
        body: The response, parsed in the layout that its error code told.
        sent_version: Version of the request that it answers.
        name: The node, for messages.
    """
    code = int(body["error_code"])
    if code == ErrorCode.NONE:
        return VersionFetchResult(versions=NodeApiVersions.from_response(body, name=name))
    if code != ErrorCode.UNSUPPORTED_VERSION or sent_version == 0:
        return VersionFetchResult(error=UnsupportedVersionError(
            f"{name} answered ApiVersions v{sent_version} with error {ErrorCode.of(code).name} ({code})"))
    offered = next((int(row["max_version"]) for row in body.get("api_keys") or ()
                    if row["api_key"] == ApiKeys.API_VERSIONS), 0)
    # Strictly lower than what was refused: a peer that names the refused version again must not make us loop.
    return VersionFetchResult(retry_version=offered if 0 <= offered < sent_version else 0)
