"""Who may do what: a question that the APIs ask, and that everybody may answer in his own way.

Road:    apis -> [authorizer] -> the user's function
Thread:  handler threads; the function must be quick and thread-safe.
Source:  Java Authorizer, AuthHelper, AclOperation, ResourceType (4.1); without ACLs in the broker.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from pyproducer.protocol.request_context import RequestContext


class AclOperation(Enum):
    """What is asked for."""

    READ = "READ"
    WRITE = "WRITE"
    DESCRIBE = "DESCRIBE"
    DELETE = "DELETE"
    CLUSTER_ACTION = "CLUSTER_ACTION"


class ResourceType(Enum):
    """Of what."""

    TOPIC = "TOPIC"
    GROUP = "GROUP"
    TRANSACTIONAL_ID = "TRANSACTIONAL_ID"
    CLUSTER = "CLUSTER"


Authorizer = Callable[[RequestContext, AclOperation, ResourceType, str], bool]
"""Says whether the one who sent a request may do this operation on the resource of this type and name."""


def allow_everything(_context: RequestContext, _operation: AclOperation, _resource_type: ResourceType,
                     _name: str) -> bool:
    """Let everybody do everything, as Kafka does without an authorizer."""
    return True
