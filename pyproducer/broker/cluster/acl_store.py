"""Rules that say who may do what, as admin clients write them, and where they are kept.

Road:    CreateAcls, DeleteAcls, DescribeAcls -> [acl store] -> cluster file; asked by standard authorizer
Thread:  any; a change takes the store's lock, a question takes none.
Shape:   types, operations and permissions are Kafka's numbers; a principal is "User:name", or "User:*" for everybody.
Source:  Java AclBinding, ResourcePatternFilter, AccessControlEntryFilter, AclControlManager (4.1).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import IntEnum
from typing import NamedTuple

from pyproducer.broker.cluster.cluster_store import ClusterStore

WILDCARD = "*"
"""As the name of a resource all of its type, as a host every one."""
ANY = 1
"""In a filter: of whatever type, operation or permission."""
ALL_OPERATIONS = 2
"""In a rule: whatever is done."""


class PatternType(IntEnum):
    """How the name of a rule means resources. ANY and MATCH stand in filters only."""

    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class PermissionType(IntEnum):
    """What a rule says."""

    DENY = 2
    ALLOW = 3


class AclBinding(NamedTuple):
    """One rule.

    Attributes:
        resource_type: Of what.
        resource_name: Its name, the beginning of its name, or WILDCARD.
        pattern_type: Which of these.
        principal: Who.
        host: From which address, or WILDCARD.
        operation: Does what, or ALL_OPERATIONS.
        permission_type: May or must not.
    """

    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission_type: int

    def is_about(self, name: str) -> bool:
        """Whether the rule is about the resource of this name, if it is of the rule's type."""
        if self.pattern_type == PatternType.PREFIXED:
            return name.startswith(self.resource_name)
        return self.resource_name in (name, WILDCARD)


class AclFilter(NamedTuple):
    """Which rules are meant; None and ANY stand for all."""

    resource_type: int
    resource_name: str | None
    pattern_type: int
    principal: str | None
    host: str | None
    operation: int
    permission_type: int

    def matches(self, acl: AclBinding) -> bool:
        """Whether a rule is meant."""
        return (self.resource_type in (ANY, acl.resource_type)
                and self.pattern_type in (PatternType.ANY, PatternType.MATCH, acl.pattern_type)
                and (self.resource_name is None or self._means_name(self.resource_name, acl))
                and self.principal in (None, acl.principal) and self.host in (None, acl.host)
                and self.operation in (ANY, acl.operation) and self.permission_type in (ANY, acl.permission_type))

    def _means_name(self, name: str, acl: AclBinding) -> bool:
        return acl.is_about(name) if self.pattern_type == PatternType.MATCH else name == acl.resource_name


class AclStore:
    """The rules of one cluster, in the order in which they were made.

    Args:
        store: Where they are kept.
    """

    def __init__(self, store: ClusterStore) -> None:
        self._store = store

    def __iter__(self) -> Iterator[AclBinding]:
        return (AclBinding(*entry) for entry in self._store.content.acls)

    def add(self, acls: Iterable[AclBinding]) -> None:
        """Add rules; those that are there already stay as they are.

        Raises:
            OSError: The cluster file could not be written; nothing was changed.
        """
        with self._store.lock:
            self._store.save(acls=tuple(dict.fromkeys((*self._store.content.acls, *map(tuple, acls)))))

    def remove(self, acls: Iterable[AclBinding]) -> None:
        """Remove rules; for those that are not there it has no effect.

        Raises:
            OSError: The cluster file could not be written; nothing was changed.
        """
        gone = set(map(tuple, acls))
        with self._store.lock:
            self._store.save(acls=tuple(entry for entry in self._store.content.acls if entry not in gone))
