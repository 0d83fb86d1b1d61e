"""Who may do what: a question that the APIs ask, and that everybody may answer in his own way.

Road:    apis -> [authorizer] -> the user's function, or standard authorizer
Thread:  handler threads; the function must be quick and thread-safe.
Source:  Java Authorizer, AuthHelper, AclOperation, ResourceType (4.1).
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from pyproducer.broker.request.request_context import RequestContext


class AclOperation(Enum):
    """What is asked for."""

    READ = "READ"
    WRITE = "WRITE"
    DESCRIBE = "DESCRIBE"
    CREATE = "CREATE"
    DELETE = "DELETE"
    ALTER = "ALTER"
    CLUSTER_ACTION = "CLUSTER_ACTION"
    DESCRIBE_CONFIGS = "DESCRIBE_CONFIGS"
    ALTER_CONFIGS = "ALTER_CONFIGS"
    IDEMPOTENT_WRITE = "IDEMPOTENT_WRITE"


class ResourceType(Enum):
    """Of what."""

    TOPIC = "TOPIC"
    GROUP = "GROUP"
    TRANSACTIONAL_ID = "TRANSACTIONAL_ID"
    CLUSTER = "CLUSTER"


CLUSTER_NAME = "kafka-cluster"
"""The name of the one resource of type CLUSTER."""

# Java AclEntry.supportedOperations and AclOperation.code: what answers tell as a field of bits.
OPERATIONS: dict[ResourceType, tuple[AclOperation, ...]] = {
    ResourceType.TOPIC: (AclOperation.READ, AclOperation.WRITE, AclOperation.CREATE, AclOperation.DESCRIBE,
                         AclOperation.DELETE, AclOperation.ALTER, AclOperation.DESCRIBE_CONFIGS,
                         AclOperation.ALTER_CONFIGS),
    ResourceType.GROUP: (AclOperation.READ, AclOperation.DESCRIBE, AclOperation.DELETE, AclOperation.DESCRIBE_CONFIGS,
                         AclOperation.ALTER_CONFIGS),
    ResourceType.CLUSTER: (AclOperation.CREATE, AclOperation.CLUSTER_ACTION, AclOperation.DESCRIBE_CONFIGS,
                           AclOperation.ALTER_CONFIGS, AclOperation.IDEMPOTENT_WRITE, AclOperation.ALTER,
                           AclOperation.DESCRIBE),
}
OPERATION_CODES = {
    AclOperation.READ: 3, AclOperation.WRITE: 4, AclOperation.CREATE: 5, AclOperation.DELETE: 6, AclOperation.ALTER: 7,
    AclOperation.DESCRIBE: 8, AclOperation.CLUSTER_ACTION: 9, AclOperation.DESCRIBE_CONFIGS: 10,
    AclOperation.ALTER_CONFIGS: 11, AclOperation.IDEMPOTENT_WRITE: 12,
}
RESOURCE_TYPE_CODES = {
    ResourceType.TOPIC: 2, ResourceType.GROUP: 3, ResourceType.CLUSTER: 4, ResourceType.TRANSACTIONAL_ID: 5,
}


Authorizer = Callable[[RequestContext, AclOperation, ResourceType, str], bool]
"""Says whether the one who sent a request may do this operation on the resource of this type and name."""


def allow_everything(_context: RequestContext, _operation: AclOperation, _resource_type: ResourceType,
                     _name: str) -> bool:
    """Let everybody do everything, as Kafka does without an authorizer."""
    return True
