"""LeaveGroup 0-5: members go, and the others share their partitions.

Does:    several members at once from version 3 on, each with its own code (25 no such member, 82 fenced) and none for
         the whole; 24 no group; static members may be named by their instance id alone.

Road:    KafkaApis -> [LeaveGroup] -> group coordinator
Thread:  handler threads.
Source:  Java KafkaApis.handleLeaveGroupRequest, LeaveGroupResponse (4.1).
"""

from __future__ import annotations

from pyproducer.broker.apis.api_handler import Api, Question
from pyproducer.broker.apis.services import Answer, Services
from pyproducer.broker.cluster.authorizer import AclOperation, ResourceType
from pyproducer.broker.cluster.coordinator.group.member import LeavingMember
from pyproducer.broker.network.request_channel import Request
from pyproducer.common.error_codes import ErrorCode
from pyproducer.protocol.apis import ApiKeys

API = Api(ApiKeys.LEAVE_GROUP, asks=(Question(AclOperation.READ, ResourceType.GROUP),))
_SEVERAL_FROM = 3


def handle(services: Services, request: Request) -> Answer:
    """Answer one LeaveGroup request."""
    data = request.body(ApiKeys.LEAVE_GROUP).data
    group_id = data["group_id"]
    if not services.authorize(request, AclOperation.READ, ResourceType.GROUP, group_id):
        return error_response(request, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if not group_id:
        return error_response(request, ErrorCode.INVALID_GROUP_ID)
    coordinator = services.cluster.group_coordinator
    error_code = coordinator.check(group_id, services.node_id)
    if error_code is not ErrorCode.NONE:
        return error_response(request, error_code)
    if request.header.api_version < _SEVERAL_FROM:
        (error_code,) = coordinator.leave(group_id, [LeavingMember(data["member_id"], None)])
        return error_response(request, error_code)
    leaving = [LeavingMember(member["member_id"], member["group_instance_id"]) for member in data["members"]]
    codes = coordinator.leave(group_id, leaving)
    return {"throttle_time_ms": 0, "error_code": 0, "members": [
        {"member_id": member_id, "group_instance_id": instance_id, "error_code": code}
        for (member_id, instance_id), code in zip(leaving, codes, strict=True)]}


def error_response(request: Request, error_code: ErrorCode) -> Answer:
    """Answer with one code."""
    return {"throttle_time_ms": 0, "error_code": error_code, "members": []}
