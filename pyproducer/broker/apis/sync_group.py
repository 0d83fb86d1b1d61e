"""SyncGroup 0-5: the leader brings the assignments, everybody gets his.

Does:    22 another generation, 23 the protocol is not the group's, 25 no such member, 27 the group is rebalancing
         again, 82 fenced; a member of a stable group gets its assignment again.

Road:    KafkaApis -> [SyncGroup] -> group coordinator
Thread:  handler threads; answered on the thread of the leader's request, or of what ends the generation.
Source:  Java KafkaApis.handleSyncGroupRequest, GroupCoordinatorService.syncGroup (4.1).
"""

from __future__ import annotations

from pyproducer.broker.apis.api_handler import Api, Question
from pyproducer.broker.apis.services import Answer, Outcome, Services
from pyproducer.broker.cluster.authorizer import AclOperation, ResourceType
from pyproducer.broker.cluster.coordinator.group.member import SyncAnswer, SyncRequest
from pyproducer.broker.network.request_channel import Request
from pyproducer.common.error_codes import ErrorCode
from pyproducer.protocol.apis import ApiKeys

API = Api(ApiKeys.SYNC_GROUP, asks=(Question(AclOperation.READ, ResourceType.GROUP),))
_PROTOCOL_FROM = 5


def handle(services: Services, request: Request) -> Answer:
    """Answer one SyncGroup request, later."""
    data = request.body(ApiKeys.SYNC_GROUP).data
    group_id = data["group_id"]
    protocol_type, protocol_name = data.get("protocol_type"), data.get("protocol_name")
    if request.header.api_version >= _PROTOCOL_FROM and None in (protocol_type, protocol_name):
        return error_response(request, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if not services.authorize(request, AclOperation.READ, ResourceType.GROUP, group_id):
        return error_response(request, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    coordinator = services.cluster.group_coordinator
    if group_id:
        error_code = coordinator.check(group_id, services.node_id)
        if error_code is not ErrorCode.NONE:
            return error_response(request, error_code)
    coordinator.sync(SyncRequest(
        group_id, data["generation_id"], data["member_id"], data.get("group_instance_id"), protocol_type,
        protocol_name,
        {assignment["member_id"]: bytes(assignment["assignment"]) for assignment in data["assignments"]},
    ), lambda answer: services.respond(request, _body(answer)))
    return Outcome.LATER


def error_response(request: Request, error_code: ErrorCode) -> Answer:
    """Say that the whole request failed."""
    return _body(SyncAnswer(error_code))


def _body(answer: SyncAnswer) -> Answer:
    return {"throttle_time_ms": 0, **answer._asdict()}
