"""DescribeAcls 1-3: the rules that a filter means.

Does:    all of StandardAuthorizer, with authorizer.class.name; 54 without it, 31 without the permission.
Omits:   delegation tokens and users as resources: no rule for them has an effect.

Road:    KafkaApis -> [DescribeAcls] -> acl store
Thread:  handler threads.
Source:  Java AclApis.handleDescribeAcls (4.1).
"""

from __future__ import annotations

from pyproducer.broker.apis.api_handler import Api, Question
from pyproducer.broker.apis.services import Answer, Services
from pyproducer.broker.cluster.acl_store import AclBinding, AclFilter
from pyproducer.broker.cluster.authorizer import AclOperation, ResourceType
from pyproducer.broker.cluster.standard_authorizer import StandardAuthorizer
from pyproducer.broker.network.request_channel import Request
from pyproducer.common.error_codes import ErrorCode
from pyproducer.protocol.apis import ApiKeys
from pyproducer.protocol.schema import Struct

API = Api(ApiKeys.DESCRIBE_ACLS, asks=(Question(AclOperation.DESCRIBE, ResourceType.CLUSTER),))


def handle(services: Services, request: Request) -> Answer:
    """Answer one DescribeAcls request."""
    if not services.authorize_cluster(request, AclOperation.DESCRIBE):
        return error_response(request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    authorizer = services.cluster.authorizer
    if not isinstance(authorizer, StandardAuthorizer):
        return _answer(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured on the broker", {})
    asked = acl_filter(request.body(ApiKeys.DESCRIBE_ACLS).data)
    found: dict[tuple[int, str, int], list[AclBinding]] = {}
    for acl in filter(asked.matches, authorizer.acls):
        found.setdefault(acl[:3], []).append(acl)
    return _answer(ErrorCode.NONE, "", found)


def error_response(_request: Request, error_code: ErrorCode) -> Answer:
    """Say that the whole request failed."""
    return _answer(error_code, error_code.sentence, {})


def acl_filter(data: Struct) -> AclFilter:
    """Return the filter that a request, or a part of one, holds."""
    return AclFilter(data["resource_type_filter"], data["resource_name_filter"], data["pattern_type_filter"],
                     data["principal_filter"], data["host_filter"], data["operation"], data["permission_type"])


def _answer(error_code: ErrorCode, message: str,
            found: dict[tuple[int, str, int], list[AclBinding]]) -> Answer:
    return {"throttle_time_ms": 0, "error_code": error_code, "error_message": message, "resources": [
        {"resource_type": kind, "resource_name": name, "pattern_type": pattern, "acls": [
            {"principal": acl.principal, "host": acl.host, "operation": acl.operation,
             "permission_type": acl.permission_type} for acl in acls]}
        for (kind, name, pattern), acls in found.items()]}
