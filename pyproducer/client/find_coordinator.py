"""FindCoordinator, as a request and an answer in any version: which broker speaks for a group or a transactional id.

Road:    FindCoordinator (of a producer), CoordinatorClient (of a driver) -> [these] -> any broker
Thread:  pure functions.
Source:  seed 002; Java FindCoordinatorRequest, FindCoordinatorResponse (4.1); KIP-699 (version 4, several keys).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from pyproducer.common.cluster import Node
from pyproducer.common.error_codes import ErrorCode

GROUP, TRANSACTION = 0, 1
"""What a coordinator is asked for: key_type."""

FIRST_VERSION_WITH_KEYS = 4
"""From here on several keys may be asked for at once."""

COORDINATOR_MOVED: Final = frozenset({
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR})
"""Answers of who is no coordinator, or not yet: it is to be found anew."""


class FoundCoordinator(NamedTuple):
    """What an answer says of one key.

    Attributes:
        key: The key.
        error_code: 0, or why there is none.
        node: The coordinator.
        error_message: The broker's words, if it has any.
    """

    key: str
    error_code: int
    node: Node
    error_message: str | None


def find_coordinator_body(version: int, key_type: int, keys: Sequence[str]) -> Mapping[str, Any]:
    """Return the body of a request; before version 4 it has room for one key, the first."""
    if version >= FIRST_VERSION_WITH_KEYS:
        return {"key_type": key_type, "coordinator_keys": list(keys)}
    return {"key_type": key_type, "key": keys[0]}


def found_coordinators(body: Mapping[str, Any], version: int, key: str) -> list[FoundCoordinator]:
    """Return what an answer says of each key.

    Args:
        body: The answer.
        version: Of the request.
        key: The first one that was asked for, which answers before version 4 do not repeat.
    """
    rows = body["coordinators"] if version >= FIRST_VERSION_WITH_KEYS else [body]
    return [FoundCoordinator(row.get("key", key), row["error_code"], Node(row["node_id"], row["host"], row["port"]),
                             row.get("error_message")) for row in rows]
