"""ListGroups 0-5: the groups that this broker coordinates.

Does:    filters by state (from version 4 on) and type (from version 5 on; all groups here are classic), whatever their
         case.

Road:    KafkaApis -> [ListGroups] -> group coordinator
Thread:  handler threads.
Source:  Java KafkaApis.handleListGroupsRequest, GroupMetadataManager.listGroups (4.1).
"""

from __future__ import annotations

from pyproducer.broker.apis.api_handler import Api, Question
from pyproducer.broker.apis.services import Answer, Services
from pyproducer.broker.cluster.authorizer import AclOperation, ResourceType
from pyproducer.broker.network.request_channel import Request
from pyproducer.common.error_codes import ErrorCode
from pyproducer.protocol.apis import ApiKeys

API = Api(ApiKeys.LIST_GROUPS, asks=(
    Question(AclOperation.DESCRIBE, ResourceType.CLUSTER), Question(AclOperation.DESCRIBE, ResourceType.GROUP)))
GROUP_TYPE = "classic"


def handle(services: Services, request: Request) -> Answer:
    """Answer one ListGroups request."""
    data = request.body(ApiKeys.LIST_GROUPS).data
    states = {state.lower() for state in data.get("states_filter", ())}
    types = {group_type.lower() for group_type in data.get("types_filter", ())}
    coordinator = services.cluster.group_coordinator
    may_see_all = services.authorize_cluster(request, AclOperation.DESCRIBE)
    groups = []
    for group in coordinator.list_groups():
        if coordinator.check(group.group_id, services.node_id) is not ErrorCode.NONE:
            continue
        if (states and group.state.value.lower() not in states) or (types and GROUP_TYPE not in types):
            continue
        if may_see_all or services.authorize(request, AclOperation.DESCRIBE, ResourceType.GROUP, group.group_id):
            groups.append({"group_id": group.group_id, "protocol_type": group.protocol_type,
                           "group_state": group.state.value, "group_type": GROUP_TYPE})
    return {"throttle_time_ms": 0, "error_code": 0, "groups": groups}


def error_response(request: Request, error_code: ErrorCode) -> Answer:
    """Say that the whole request failed."""
    return {"throttle_time_ms": 0, "error_code": error_code, "groups": []}
