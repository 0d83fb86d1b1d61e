"""DescribeQuorum 0-2: who keeps the cluster's metadata: the broker that admin clients take for the controller.

Does:    one voter, the controller, and the other brokers as observers, for __cluster_metadata-0 and it alone; 3 for
         whatever else is asked, or beside it; 31 without the permission.
Omits:   a log of metadata: all offsets are 0. Addresses of controllers: they are the brokers.

Road:    KafkaApis -> [DescribeQuorum]
Thread:  handler threads.
Source:  Java KafkaRaftClient.handleDescribeQuorumRequest (4.1), and its measured answers.
"""

from __future__ import annotations

import uuid
from typing import Any

from pyproducer.broker.apis.api_handler import Api, Question
from pyproducer.broker.apis.services import Answer, Services
from pyproducer.broker.cluster.authorizer import AclOperation, ResourceType
from pyproducer.broker.network.request_channel import Request
from pyproducer.common.error_codes import ErrorCode
from pyproducer.protocol.apis import ApiKeys

API = Api(ApiKeys.DESCRIBE_QUORUM, asks=(Question(AclOperation.DESCRIBE, ResourceType.CLUSTER),))

_METADATA = ("__cluster_metadata", [0])
_LEADER_EPOCH = 1
_NOT_HOSTED = "This server does not host this topic-partition."
_NO_ID = uuid.UUID(int=0)


def handle(services: Services, request: Request) -> Answer:
    """Answer one DescribeQuorum request."""
    if not services.authorize_cluster(request, AclOperation.DESCRIBE):
        return error_response(request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    asked = [(topic["topic_name"], [partition["partition_index"] for partition in topic["partitions"]])
             for topic in request.body(ApiKeys.DESCRIBE_QUORUM).data["topics"]]
    if asked != [_METADATA]:
        return _answer(ErrorCode.NONE, "", [(name, [
            {"partition_index": index, "error_code": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "error_message": _NOT_HOSTED,
             "leader_id": 0, "leader_epoch": 0, "high_watermark": 0, "current_voters": [], "observers": []}
            for index in indexes]) for name, indexes in asked], [])
    leader_id, now_ms = services.cluster.brokers.controller_id, services.clock.timestamp_ms()

    def state(node_id: int) -> dict[str, Any]:
        return {"replica_id": node_id, "replica_directory_id": _NO_ID, "log_end_offset": 0,
                "last_fetch_timestamp": now_ms, "last_caught_up_timestamp": now_ms}

    partition = {"partition_index": 0, "error_code": 0, "error_message": "", "leader_id": leader_id,
                 "leader_epoch": _LEADER_EPOCH, "high_watermark": 0, "current_voters": [state(leader_id)],
                 "observers": [state(node_id) for node_id in sorted(services.cluster.brokers) if node_id != leader_id]}
    return _answer(ErrorCode.NONE, "", [(_METADATA[0], [partition])], [{"node_id": leader_id, "listeners": []}])


def error_response(request: Request, error_code: ErrorCode) -> Answer:
    """Say that the whole request failed."""
    return _answer(error_code, error_code.sentence, [], [])


def _answer(error_code: ErrorCode, message: str, topics: list[tuple[str, list[dict[str, Any]]]],
            nodes: list[dict[str, Any]]) -> dict[str, Any]:
    return {"error_code": error_code, "error_message": message, "topics": [
        {"topic_name": name, "partitions": partitions} for name, partitions in topics], "nodes": nodes}
