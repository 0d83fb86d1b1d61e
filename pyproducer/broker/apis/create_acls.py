"""CreateAcls 1-3: rules of who may do what.

Does:    rules for StandardAuthorizer, kept in the data directory, for all brokers; 42 for a rule that cannot be one, -1
         for one with what only filters may have, as in Java, 54 without that authorizer, 31 without the permission.
         What is wrong with one rule changes nothing for others.
Omits:   delegation tokens and users as resources: rules for them are kept and have no effect.

Road:    KafkaApis -> [CreateAcls] -> acl store
Thread:  handler threads.
Source:  Java AclApis.handleCreateAcls, AclControlManager.validateNewAcl (4.1).
"""

from __future__ import annotations

from collections.abc import Sequence

from pyproducer.broker.apis.api_handler import Api, Question
from pyproducer.broker.apis.services import Answer, Services
from pyproducer.broker.apis.unexpected import unexpected
from pyproducer.broker.cluster.acl_store import ANY, AclBinding, PatternType, PermissionType
from pyproducer.broker.cluster.authorizer import CLUSTER_NAME, RESOURCE_TYPE_CODES, AclOperation, ResourceType
from pyproducer.broker.cluster.standard_authorizer import StandardAuthorizer
from pyproducer.broker.network.request_channel import Request
from pyproducer.common.error_codes import ErrorCode
from pyproducer.protocol.apis import ApiKeys
from pyproducer.protocol.schema import Struct

API = Api(ApiKeys.CREATE_ACLS, asks=(Question(AclOperation.ALTER, ResourceType.CLUSTER),))
_Result = tuple[ErrorCode, str | None]
# Java AclOperation and ResourceType: the greatest numbers that mean something.
_LAST_OPERATION = 15
_LAST_RESOURCE_TYPE = 7


def handle(services: Services, request: Request) -> Answer:
    """Answer one CreateAcls request."""
    if not services.authorize_cluster(request, AclOperation.ALTER):
        return error_response(request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    authorizer = services.cluster.authorizer
    creations = request.body(ApiKeys.CREATE_ACLS).data["creations"]
    if not isinstance(authorizer, StandardAuthorizer):
        return _answer([(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")] * len(creations))
    acls = [_binding(creation) for creation in creations]
    faults = [_fault(acl) for acl in acls]
    outcome: _Result = (ErrorCode.NONE, "")
    good = [acl for acl, fault in zip(acls, faults, strict=True) if fault is None]
    if good:
        try:
            authorizer.acls.add(good)
        except OSError as error:
            outcome = unexpected(request, "rules", error), None
    return _answer([outcome if fault is None else fault for fault in faults])


def error_response(request: Request, error_code: ErrorCode) -> Answer:
    """Say that the whole request failed."""
    creations = request.body(ApiKeys.CREATE_ACLS).data["creations"]
    return _answer([(error_code, error_code.sentence)] * len(creations))


def _answer(results: Sequence[_Result]) -> Answer:
    return {"throttle_time_ms": 0, "results": [
        {"error_code": error_code, "error_message": message} for error_code, message in results]}


def _binding(creation: Struct) -> AclBinding:
    return AclBinding(creation["resource_type"], creation["resource_name"], creation["resource_pattern_type"],
                      creation["principal"], creation["host"], creation["operation"], creation["permission_type"])


def _fault(acl: AclBinding) -> _Result | None:
    """Return why a rule cannot be one, or None."""
    if not (ANY < acl.resource_type <= _LAST_RESOURCE_TYPE and ANY < acl.operation <= _LAST_OPERATION
            and acl.pattern_type in (PatternType.LITERAL, PatternType.PREFIXED)
            and acl.permission_type in (PermissionType.DENY, PermissionType.ALLOW)):
        return ErrorCode.UNKNOWN_SERVER_ERROR, None
    why = None
    if not acl.resource_name:
        why = "Invalid empty resource name"
    elif acl.resource_type == RESOURCE_TYPE_CODES[ResourceType.CLUSTER] and acl.resource_name != CLUSTER_NAME:
        why = f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}"
    elif ":" not in acl.principal:
        why = (f"Could not parse principal from `{acl.principal}` (no colon is present separating the principal type "
               "from the principal name)")
    return None if why is None else (ErrorCode.INVALID_REQUEST, why)
