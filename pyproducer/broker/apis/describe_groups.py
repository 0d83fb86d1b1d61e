"""DescribeGroups 0-6: a group's state, members and assignments.

Does:    an unknown group is "Dead" without an error before version 6, and 69 from then on; what members say and are
         assigned is shown of stable groups only; authorized operations where they are asked for; 44 for what would make
         the answer too large.

Road:    KafkaApis -> [DescribeGroups] -> group coordinator
Thread:  handler threads.
Source:  Java KafkaApis.handleDescribeGroupsRequest, GroupMetadataManager.describeGroups (4.1).
"""

from __future__ import annotations

from typing import Any

from pyproducer.broker.apis.answer_size import AnswerSize
from pyproducer.broker.apis.api_handler import Api, Question
from pyproducer.broker.apis.services import Answer, Services
from pyproducer.broker.apis.unexpected import unexpected
from pyproducer.broker.cluster.authorizer import AclOperation, ResourceType
from pyproducer.broker.network.request_channel import Request
from pyproducer.common.error_codes import ErrorCode
from pyproducer.protocol.apis import ApiKeys

API = Api(ApiKeys.DESCRIBE_GROUPS, asks=(Question(AclOperation.DESCRIBE, ResourceType.GROUP),))
_NOT_FOUND_FROM = 6
_NOT_ASKED = -(2**31)


def handle(services: Services, request: Request) -> Answer:
    """Answer one DescribeGroups request."""
    data = request.body(ApiKeys.DESCRIBE_GROUPS).data
    is_asked = data.get("include_authorized_operations", False)
    groups = []
    size = AnswerSize()
    for group_id in data["groups"]:
        groups.append(_fault(group_id, ErrorCode.POLICY_VIOLATION) if size.is_full
                      else _group(services, request, group_id, wants_operations=is_asked))
        size.add(len(groups[-1]["members"]))
    return {"throttle_time_ms": 0, "groups": groups}


def error_response(request: Request, error_code: ErrorCode) -> Answer:
    """Say that the whole request failed."""
    return {"throttle_time_ms": 0, "groups": [
        _fault(group_id, error_code) for group_id in request.body(ApiKeys.DESCRIBE_GROUPS).data["groups"]]}


def _group(services: Services, request: Request, group_id: str, *, wants_operations: bool) -> dict[str, Any]:
    if not services.authorize(request, AclOperation.DESCRIBE, ResourceType.GROUP, group_id):
        return _fault(group_id, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    coordinator = services.cluster.group_coordinator
    error_code = coordinator.check(group_id, services.node_id)
    if error_code is not ErrorCode.NONE:
        return _fault(group_id, error_code)
    try:
        found = coordinator.describe(group_id)
    except Exception as error:
        return _fault(group_id, unexpected(request, f"group {group_id}", error))
    operations = (services.authorized_operations(request, ResourceType.GROUP, group_id) if wants_operations
                  else _NOT_ASKED)
    if found is None:
        answer = _fault(group_id, ErrorCode.NONE)
        answer["group_state"] = "Dead"
        answer["authorized_operations"] = operations
        if request.header.api_version >= _NOT_FOUND_FROM:
            answer["error_code"] = ErrorCode.GROUP_ID_NOT_FOUND
            answer["error_message"] = f"Group {group_id} not found."
        return answer
    return {
        "error_code": 0, "error_message": None, "group_id": group_id, "group_state": found.state.value,
        "protocol_type": found.protocol_type, "protocol_data": found.protocol_name,
        "authorized_operations": operations,
        "members": [{
            "member_id": member.member_id, "group_instance_id": member.group_instance_id,
            "client_id": member.client_id, "client_host": member.client_host,
            "member_metadata": member.metadata, "member_assignment": member.assignment,
        } for member in found.members]}


def _fault(group_id: str, error_code: ErrorCode) -> dict[str, Any]:
    return {"error_code": error_code, "error_message": None, "group_id": group_id, "group_state": "",
            "protocol_type": "", "protocol_data": "", "members": []}
