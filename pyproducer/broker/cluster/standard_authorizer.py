"""Kafka's own rules of who may do what.

    a super user may do everything
    a rule that denies stands above all that allow
    who may read, write, delete or alter something may describe it; who may alter its settings may describe them
    nobody may do anything with what there is no rule for, unless allow.everyone.if.no.acl.found says so
    the host of a rule is an address as Java writes it: 127.0.0.1 however it came in, 0:0:0:0:0:0:0:1 and not ::1

Road:    apis -> [standard authorizer] -> acl store
Thread:  handler threads.
Source:  Java StandardAuthorizer, StandardAuthorizerData, Authorizer.authorizeByResourceType (4.1).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pyproducer.broker.cluster.acl_store import (
    ALL_OPERATIONS,
    WILDCARD,
    AclBinding,
    AclStore,
    PatternType,
    PermissionType,
)
from pyproducer.broker.cluster.authorizer import OPERATION_CODES, RESOURCE_TYPE_CODES, AclOperation, ResourceType
from pyproducer.broker.cluster.config import BrokerConfig
from pyproducer.broker.request.request_context import RequestContext

EVERYBODY = "User:*"
_IMPLIED_BY: Mapping[AclOperation, frozenset[int]] = {
    AclOperation.DESCRIBE: frozenset(OPERATION_CODES[operation] for operation in (
        AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER)),
    AclOperation.DESCRIBE_CONFIGS: frozenset((OPERATION_CODES[AclOperation.ALTER_CONFIGS],)),
}


class StandardAuthorizer:
    """Answers what APIs ask; see Authorizer.

    Args:
        config: The settings super.users and allow.everyone.if.no.acl.found.
        acls: The rules.
    """

    def __init__(self, config: BrokerConfig, acls: AclStore) -> None:
        self.acls = acls
        self._super_users = frozenset(filter(None, map(str.strip, config.text("super.users").split(";"))))
        self._allows_without_rules = config.switch("allow.everyone.if.no.acl.found")

    def __call__(self, context: RequestContext, operation: AclOperation, resource_type: ResourceType,
                 name: str) -> bool:
        """Return whether the one who sent a request may do this."""
        principal = str(context.principal)
        if principal in self._super_users:
            return True
        host = context.client_host
        is_there_a_rule = is_allowed = False
        for acl in self._of_type(resource_type):
            if not acl.is_about(name):
                continue
            is_there_a_rule = True
            if _is_meant(acl, principal, host, operation):
                if acl.permission_type == PermissionType.DENY:
                    return False
                is_allowed = True
        return is_allowed or (self._allows_without_rules and not is_there_a_rule)

    def authorize_by_resource_type(self, context: RequestContext, operation: AclOperation,
                                   resource_type: ResourceType) -> bool:
        """Return whether the one who sent a request may do this with some resource of a type, be there one or not."""
        # Any name shows whether super.users, a rule for all names, or having no rules, allows it.
        if self(context, operation, resource_type, "hardcode"):
            return True
        principal, host = str(context.principal), context.client_host
        own = [acl for acl in self._of_type(resource_type) if acl.principal in (principal, EVERYBODY)
               and acl.host in (host, WILDCARD) and acl.operation in (OPERATION_CODES[operation], ALL_OPERATIONS)]
        denied = [acl for acl in own if acl.permission_type == PermissionType.DENY]
        if any(acl.resource_name == WILDCARD and acl.pattern_type == PatternType.LITERAL for acl in denied):
            return False
        return any(not any(_covers(other, acl) for other in denied) for acl in own
                   if acl.permission_type == PermissionType.ALLOW)

    def _of_type(self, resource_type: ResourceType) -> Iterator[AclBinding]:
        code = RESOURCE_TYPE_CODES[resource_type]
        return (acl for acl in self.acls if acl.resource_type == code)


def _is_meant(acl: AclBinding, principal: str, host: str, operation: AclOperation) -> bool:
    if acl.principal not in (principal, EVERYBODY) or acl.host not in (host, WILDCARD):
        return False
    if acl.operation in (OPERATION_CODES[operation], ALL_OPERATIONS):
        return True
    return acl.permission_type == PermissionType.ALLOW and acl.operation in _IMPLIED_BY.get(operation, ())


def _covers(denying: AclBinding, allowing: AclBinding) -> bool:
    """Whether a rule denies all that another one allows."""
    if denying.pattern_type == PatternType.PREFIXED:
        return allowing.resource_name.startswith(denying.resource_name)
    return allowing.pattern_type == PatternType.LITERAL and allowing.resource_name == denying.resource_name
