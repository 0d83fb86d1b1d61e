"""The versions that a broker says it has and answers, where a test wants others than its own.

Road:    set_api_versions -> [overrides] -> ApiVersions, the check before a request's body is read
Thread:  any; tables are replaced, never changed.
Source:  ours; what an Apache Kafka of that release answers.
"""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, Mapping

from pyproducer.broker.control.api_versions_by_release import VersionRange, api_versions_of

Versions = Mapping[int, "VersionRange | None"]
"""API number to its versions; None means that there is no such API."""


class ApiVersionOverrides:
    """What the nodes of a cluster pretend to be; nothing at first.

    Attributes:
        is_active: Whether any node pretends.
    """

    def __init__(self) -> None:
        self.is_active: bool = False
        self._by_node: dict[int | None, Versions] = {}
        self._release_by_node: dict[int | None, str] = {}

    def set(self, versions: str | Versions | None, node_id: int | None) -> None:
        """Make one node, or all, answer other versions; None for its own again.

        Args:
            versions: A release ("2.8"), which names nearly all APIs, or some APIs with their versions.
            node_id: Which node; None for all that have nothing of their own.

        Raises:
            ConfigError: Not a known release.
        """
        by_node, releases = dict(self._by_node), dict(self._release_by_node)
        by_node.pop(node_id, None)
        releases.pop(node_id, None)
        if isinstance(versions, str):
            by_node[node_id] = api_versions_of(versions)
            releases[node_id] = versions
        elif versions is not None:
            by_node[node_id] = dict(versions)
        self._by_node, self._release_by_node = by_node, releases
        self.is_active = bool(by_node)

    def of(self, node_id: int) -> Versions:
        """Return what a node pretends: empty when it does not."""
        found = self._by_node.get(node_id)
        return self._by_node.get(None, {}) if found is None else found

    def release_of(self, node_id: int) -> str | None:
        """Return the release that a node pretends to be, or None."""
        return self._release_by_node.get(node_id if node_id in self._by_node else None)

    def allows(self, node_id: int, api_id: int, api_version: int) -> bool:
        """Return whether a node that pretends would answer this version."""
        own = (0, api_version)
        versions = self.of(node_id).get(api_id, own)
        return versions is not None and versions[0] <= api_version <= versions[1]


class AdvertisedApis(Mapping[int, VersionRange]):
    """What ApiVersions tells: the broker's own versions, narrowed by a release, or as a test says.

    A release names versions that we may not have: then what both have is told. What a test names is told as it is.
    """

    def __init__(self, node_id: int, own: Mapping[int, VersionRange], overrides: ApiVersionOverrides) -> None:
        self._node_id = node_id
        self._own = own
        self._overrides = overrides

    def _current(self) -> Mapping[int, VersionRange]:
        overrides = self._overrides
        if not overrides.is_active:
            return self._own
        pretended = overrides.of(self._node_id)
        is_release = overrides.release_of(self._node_id) is not None
        told: dict[int, VersionRange] = {}
        for api_id, own in self._own.items():
            other = pretended.get(api_id, own)
            if other is not None and is_release:
                other = (max(own[0], other[0]), min(own[1], other[1]))
            if other is not None and other[0] <= other[1]:
                told[api_id] = other
        if not is_release:  # what the broker speaks and does not advertise by itself: telemetry
            told.update((api_id, other) for api_id, other in pretended.items()
                        if other is not None and api_id not in self._own)
        return told

    def __getitem__(self, api_id: int) -> VersionRange:
        return self._current()[api_id]

    def items(self) -> ItemsView[int, VersionRange]:
        """Return all of one moment."""
        return self._current().items()

    def __iter__(self) -> Iterator[int]:
        return iter(self._current())

    def __len__(self) -> int:
        return len(self._current())
