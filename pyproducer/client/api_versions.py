"""ApiVersions: the first request on every connection, what to make of its answer, and which versions each node has.

A broker that does not know the version we sent answers in the layout of version 0 with error 35 and, from 2.4 on, tells
its highest version of ApiVersions. We ask again with a strictly lower version, so this ends after a few steps with
every peer, also one that answers 35 for ever.

Road:    Connections (a connection is ready for its first request) -> [ApiVersions] -> NetworkClient.send
Thread:  the sender thread; `finalized_features` may be read by any (one reference, replaced as a whole).
Source:  Java NodeApiVersions, ApiVersions, NetworkClient.handleApiVersionsResponse (4.1); KIP-35, KIP-511, KIP-584.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from pyproducer.common.error_codes import ErrorCode
from pyproducer.common.errors import UnsupportedVersionError
from pyproducer.common.version import __version__
from pyproducer.protocol.apis import ApiKeys


class VersionRange(NamedTuple):
    """Lowest and highest version, both included."""

    min_version: int
    max_version: int

    def __str__(self) -> str:
        return f"{self.min_version} to {self.max_version}"


class FinalizedFeatures(NamedTuple):
    """The feature levels that the cluster agreed on; epoch -1 when the broker told none."""

    epoch: int
    levels: Mapping[str, int]

    def level_of(self, name: str) -> int:
        """Return the level of a feature, 0 when it is not finalized ("transaction.version" 2 is Transactions V2)."""
        return int(self.levels.get(name, 0))


NO_FINALIZED_FEATURES = FinalizedFeatures(-1, {})


class NodeApiVersions:
    """What one node said that it supports.

    Args:
        ranges: Version ranges by API id, including APIs that we do not know.
        finalized_features: Feature levels with their epoch.
        name: The node, for messages.

    Attributes:
        usable: What `latest_usable_version` has found so far, by its arguments. Written here only.
    """

    def __init__(self, ranges: Mapping[int, VersionRange], *,
                 finalized_features: FinalizedFeatures = NO_FINALIZED_FEATURES, name: str = "the broker") -> None:
        self.ranges: dict[int, VersionRange] = dict(ranges)
        self.finalized_features = finalized_features
        self.name = name
        self.usable: dict[tuple[int, int | None], int] = {}

    @classmethod
    def from_response(cls, body: Mapping[str, Any], *, name: str = "the broker") -> NodeApiVersions:
        """Read an ApiVersions response that has no error.

        Which features are supported says less than which are finalized: those of minimum 0 are missing there below v4
        (KAFKA-17011).
        """
        ranges = {int(row["api_key"]): VersionRange(row["min_version"], row["max_version"]) for row in body["api_keys"]}
        levels = {row["name"]: int(row["max_version_level"]) for row in body.get("finalized_features") or ()}
        epoch = int(body.get("finalized_features_epoch", -1))
        return cls(ranges, finalized_features=FinalizedFeatures(epoch, levels), name=name)

    def latest_usable_version(self, api_key: ApiKeys, max_version: int | None = None) -> int:
        """Return the highest version that both ends know.

        Args:
            api_key: The API.
            max_version: The caller's own ceiling, if it has one; it may lie above the table's.

        Raises:
            UnsupportedVersionError: There is none; the message names both ranges. Not sent.
        """
        version = self.usable.get((api_key, max_version))
        if version is None:
            version = self.usable[api_key, max_version] = self._negotiate(api_key, max_version)
        return version

    def _negotiate(self, api_key: ApiKeys, max_version: int | None) -> int:
        lowest, highest = api_key.client_range
        if max_version is not None:  # also above what is sent of itself: a version that is not stable is asked for
            highest = min(api_key.latest_version, max_version)
        theirs = self.ranges.get(int(api_key))
        if theirs is None:
            raise UnsupportedVersionError(f"{self.name} does not support {api_key.name}; we need version {lowest} to "
                                          f"{highest} of it")
        version = min(highest, theirs.max_version)
        if version < max(lowest, theirs.min_version):
            raise UnsupportedVersionError(f"{self.name} supports {api_key.name} in version {theirs}, we in version "
                                          f"{lowest} to {highest}: there is no version in common")
        return version


class ApiVersions:
    """What every connected node supports, and the newest finalized features seen.

    Features belong to the cluster: the answer with the highest epoch is kept, whoever gave it, also when its
    connection ends.
    """

    def __init__(self) -> None:
        self._nodes: dict[int, NodeApiVersions] = {}
        self.finalized_features: FinalizedFeatures = NO_FINALIZED_FEATURES

    def get(self, node_id: int) -> NodeApiVersions | None:
        """Return what a node supports, or None while it is not known."""
        return self._nodes.get(node_id)

    def update(self, node_id: int, versions: NodeApiVersions) -> None:
        """Keep a node's answer."""
        self._nodes[node_id] = versions
        if versions.finalized_features.epoch >= self.finalized_features.epoch:
            self.finalized_features = versions.finalized_features

    def remove(self, node_id: int) -> None:
        """Forget a node: after a reconnect it may run another release."""
        self._nodes.pop(node_id, None)

    def negotiate(self, node_id: int, api_key: ApiKeys, max_version: int | None = None) -> int | None:
        """Return the version to use with a node, or None while its versions are not known.

        Raises:
            UnsupportedVersionError: The node and we have no version in common. Not sent.
        """
        versions = self._nodes.get(node_id)
        if versions is None:
            return None
        return versions.usable.get((api_key, max_version)) or versions.latest_usable_version(api_key, max_version)


CLIENT_SOFTWARE_NAME = "pyproducer"
LATEST_VERSION = ApiKeys.API_VERSIONS.client_range[1]


def software_version(version: str) -> str:
    """Return a version in the characters that brokers accept: letters, digits, dots, dashes (else error 42)."""
    return re.sub(r"[^a-zA-Z0-9\-.]+", "-", version).strip("-.") or "0"


CLIENT_SOFTWARE_VERSION = software_version(__version__)


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
