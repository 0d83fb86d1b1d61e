"""DeleteAcls 1-3: takes back the rules that filters mean, and tells which these were.

Does:    54 without StandardAuthorizer, 31 without the permission. Where the disk is full no rule is taken back, and
         only filters that mean some have an error.

Road:    KafkaApis -> [DeleteAcls] -> acl store
Thread:  handler threads.
Source:  Java AclApis.handleDeleteAcls, AclControlManager.deleteAcls (4.1).
"""

from __future__ import annotations

from collections.abc import Sequence

from pyproducer.broker.apis.api_handler import Api, Question
from pyproducer.broker.apis.describe_acls import acl_filter
from pyproducer.broker.apis.services import Answer, Services
from pyproducer.broker.apis.unexpected import unexpected
from pyproducer.broker.cluster.acl_store import AclBinding
from pyproducer.broker.cluster.authorizer import AclOperation, ResourceType
from pyproducer.broker.cluster.standard_authorizer import StandardAuthorizer
from pyproducer.broker.network.request_channel import Request
from pyproducer.common.error_codes import ErrorCode
from pyproducer.protocol.apis import ApiKeys

API = Api(ApiKeys.DELETE_ACLS, asks=(Question(AclOperation.ALTER, ResourceType.CLUSTER),))
_Result = tuple[ErrorCode, str | None, Sequence[AclBinding]]


def handle(services: Services, request: Request) -> Answer:
    """Answer one DeleteAcls request."""
    if not services.authorize_cluster(request, AclOperation.ALTER):
        return error_response(request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    authorizer = services.cluster.authorizer
    filters = [acl_filter(part) for part in request.body(ApiKeys.DELETE_ACLS).data["filters"]]
    if not isinstance(authorizer, StandardAuthorizer):
        return _answer([(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.", ())] * len(filters))
    found = [list(filter(asked.matches, authorizer.acls)) for asked in filters]
    if any(found):
        try:
            authorizer.acls.remove(acl for acls in found for acl in acls)
        except OSError as error:
            failed = unexpected(request, "rules", error)
            return _answer([(failed if acls else ErrorCode.NONE, None, ()) for acls in found])
    return _answer([(ErrorCode.NONE, None, acls) for acls in found])


def error_response(request: Request, error_code: ErrorCode) -> Answer:
    """Say that the whole request failed."""
    filters = request.body(ApiKeys.DELETE_ACLS).data["filters"]
    return _answer([(error_code, error_code.sentence, ())] * len(filters))


def _answer(results: Sequence[_Result]) -> Answer:
    return {"throttle_time_ms": 0, "filter_results": [
        {"error_code": error_code, "error_message": message, "matching_acls": [
            {"error_code": 0, "error_message": None, **acl._asdict()} for acl in acls]}
        for error_code, message, acls in results]}
