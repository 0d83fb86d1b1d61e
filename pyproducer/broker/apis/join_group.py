"""JoinGroup 0-9: become a member of a classic group, or stay one through a rebalance.

Does:    a member id that must be known from version 4 on (79 with the id to use); static members, who keep their place
         over a restart (82 fences the one before); 23 protocols that do not fit, 24 no group, 25 no such member, 26
         session timeout out of bounds, 81 group full; the first rebalance of a group may wait for more members
         (group.initial.rebalance.delay.ms, none here); skip_assignment from version 9 on.
Omits:   the consumer protocol of KIP-848 (ConsumerGroupHeartbeat): clients fall back to this one.

Road:    KafkaApis -> [JoinGroup] -> group coordinator
Thread:  handler threads; answered on the thread of whoever completes the rebalance, or the timer's.
Source:  Java KafkaApis.handleJoinGroupRequest, GroupCoordinatorService.joinGroup (4.1).
"""

from __future__ import annotations

from pyproducer.broker.apis.api_handler import Api, Question
from pyproducer.broker.apis.services import Answer, Outcome, Services
from pyproducer.broker.cluster.authorizer import AclOperation, ResourceType
from pyproducer.broker.cluster.coordinator.group.member import JoinAnswer, JoinRequest
from pyproducer.broker.network.request_channel import Request
from pyproducer.common.error_codes import ErrorCode
from pyproducer.protocol.apis import ApiKeys

API = Api(ApiKeys.JOIN_GROUP, asks=(Question(AclOperation.READ, ResourceType.GROUP),))
_KNOWN_MEMBER_ID_FROM = 4
_NULL_PROTOCOL_FROM = 7
_SKIP_ASSIGNMENT_FROM = 9


def handle(services: Services, request: Request) -> Answer:
    """Answer one JoinGroup request, later."""
    data = request.body(ApiKeys.JOIN_GROUP).data
    version = request.header.api_version
    group_id = data["group_id"]
    if not services.authorize(request, AclOperation.READ, ResourceType.GROUP, group_id):
        return _body(JoinAnswer(ErrorCode.GROUP_AUTHORIZATION_FAILED, ""), version)
    coordinator = services.cluster.group_coordinator
    if group_id:
        error_code = coordinator.check(group_id, services.node_id)
        if error_code is not ErrorCode.NONE:
            return _body(JoinAnswer(error_code, data["member_id"]), version)
    session_timeout_ms = data["session_timeout_ms"]
    rebalance_timeout_ms = data.get("rebalance_timeout_ms", -1)
    coordinator.join(JoinRequest(
        group_id=group_id, member_id=data["member_id"], group_instance_id=data.get("group_instance_id"),
        client_id=request.header.client_id or "", client_host=f"/{request.context.client_host}",
        session_timeout_ms=session_timeout_ms,
        rebalance_timeout_ms=session_timeout_ms if rebalance_timeout_ms < 0 else rebalance_timeout_ms,
        protocol_type=data["protocol_type"],
        protocols=tuple((protocol["name"], bytes(protocol["metadata"])) for protocol in data["protocols"]),
        requires_known_member_id=version >= _KNOWN_MEMBER_ID_FROM,
        supports_skipping_assignment=version >= _SKIP_ASSIGNMENT_FROM,
    ), lambda answer: services.respond(request, _body(answer, version)))
    return Outcome.LATER


def error_response(request: Request, error_code: ErrorCode) -> Answer:
    """Say that the whole request failed."""
    return _body(JoinAnswer(error_code, ""), request.header.api_version)


def _body(answer: JoinAnswer, version: int) -> Answer:
    protocol_name = answer.protocol_name
    return {
        "throttle_time_ms": 0, "error_code": answer.error_code, "generation_id": answer.generation_id,
        "protocol_type": answer.protocol_type,
        "protocol_name": "" if protocol_name is None and version < _NULL_PROTOCOL_FROM else protocol_name,
        "leader": answer.leader, "skip_assignment": answer.skip_assignment, "member_id": answer.member_id,
        "members": [member._asdict() for member in answer.members]}
