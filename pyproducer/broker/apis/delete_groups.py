"""DeleteGroups 0-2: groups without members go, with their offsets.

Does:    68 the group has members, 69 there is no such group.

Road:    KafkaApis -> [DeleteGroups] -> group coordinator -> tombstones in __consumer_offsets
Thread:  handler threads.
Source:  Java KafkaApis.handleDeleteGroupsRequest, GroupCoordinatorShard.deleteGroups (4.1).
"""

from __future__ import annotations

from pyproducer.broker.apis.api_handler import Api, Question
from pyproducer.broker.apis.services import Answer, Services
from pyproducer.broker.apis.unexpected import unexpected
from pyproducer.broker.cluster.authorizer import AclOperation, ResourceType
from pyproducer.broker.network.request_channel import Request
from pyproducer.common.error_codes import ErrorCode
from pyproducer.protocol.apis import ApiKeys

API = Api(ApiKeys.DELETE_GROUPS, asks=(Question(AclOperation.DELETE, ResourceType.GROUP),))


def handle(services: Services, request: Request) -> Answer:
    """Answer one DeleteGroups request."""
    return {"throttle_time_ms": 0, "results": [
        {"group_id": group_id, "error_code": _delete(services, request, group_id)}
        for group_id in dict.fromkeys(request.body(ApiKeys.DELETE_GROUPS).data["groups_names"])]}


def error_response(request: Request, error_code: ErrorCode) -> Answer:
    """Say that the whole request failed."""
    return {"throttle_time_ms": 0, "results": [
        {"group_id": group_id, "error_code": error_code}
        for group_id in request.body(ApiKeys.DELETE_GROUPS).data["groups_names"]]}


def _delete(services: Services, request: Request, group_id: str) -> ErrorCode:
    if not services.authorize(request, AclOperation.DELETE, ResourceType.GROUP, group_id):
        return ErrorCode.GROUP_AUTHORIZATION_FAILED
    coordinator = services.cluster.group_coordinator
    error_code = coordinator.check(group_id, services.node_id)
    if error_code is not ErrorCode.NONE:
        return error_code
    try:
        return coordinator.delete(group_id)
    except Exception as error:
        return unexpected(request, f"group {group_id}", error)
