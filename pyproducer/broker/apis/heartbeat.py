"""Heartbeat 0-4: a member is alive, and learns of a rebalance.

Does:    22 another generation, 24 no group, 25 no such member, 27 a rebalance has begun: join again, 82 fenced.

Road:    KafkaApis -> [Heartbeat] -> group coordinator
Thread:  handler threads.
Source:  Java KafkaApis.handleHeartbeatRequest, GroupCoordinatorService.heartbeat (4.1).
"""

from __future__ import annotations

from pyproducer.broker.apis.api_handler import Api, Question
from pyproducer.broker.apis.services import Answer, Services
from pyproducer.broker.cluster.authorizer import AclOperation, ResourceType
from pyproducer.broker.network.request_channel import Request
from pyproducer.common.error_codes import ErrorCode
from pyproducer.protocol.apis import ApiKeys

API = Api(ApiKeys.HEARTBEAT, asks=(Question(AclOperation.READ, ResourceType.GROUP),))


def handle(services: Services, request: Request) -> Answer:
    """Answer one Heartbeat request."""
    data = request.body(ApiKeys.HEARTBEAT).data
    group_id = data["group_id"]
    if not services.authorize(request, AclOperation.READ, ResourceType.GROUP, group_id):
        return error_response(request, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if not group_id:
        return error_response(request, ErrorCode.INVALID_GROUP_ID)
    coordinator = services.cluster.group_coordinator
    error_code = coordinator.check(group_id, services.node_id)
    if error_code is ErrorCode.NONE:
        error_code = coordinator.heartbeat(group_id, data["member_id"], data.get("group_instance_id"),
                                           data["generation_id"])
    return error_response(request, error_code)


def error_response(request: Request, error_code: ErrorCode) -> Answer:
    """Answer with one code."""
    return {"throttle_time_ms": 0, "error_code": error_code}
