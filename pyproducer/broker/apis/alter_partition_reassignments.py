"""AlterPartitionReassignments 0-1: other brokers are to have a partition.

Does:    they have it from then on; who leads goes on if it is among them, else the first that lives leads; at once, so
         that there is nothing to cancel (85); 3 unknown, 39 no, unknown or repeated brokers, 38 where the number of
         replicas may not change; 31 without the permission.

Road:    KafkaApis -> [AlterPartitionReassignments] -> cluster state
Thread:  handler threads.
Source:  Java ReplicationControlManager.alterPartitionReassignments (4.1), and its measured answers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from pyproducer.broker.apis.api_handler import Api, Question
from pyproducer.broker.apis.services import Answer, Services
from pyproducer.broker.apis.unexpected import message_of, unexpected
from pyproducer.broker.cluster.authorizer import AclOperation, ResourceType
from pyproducer.broker.network.request_channel import Request
from pyproducer.common.cluster import TopicPartition
from pyproducer.common.error_codes import ErrorCode
from pyproducer.protocol.apis import ApiKeys
from pyproducer.protocol.schema import Struct

API = Api(ApiKeys.ALTER_PARTITION_REASSIGNMENTS, asks=(Question(AclOperation.ALTER, ResourceType.CLUSTER),))

_ASSIGNMENT = "The manual partition assignment includes"

Outcome = tuple[ErrorCode, str | None]


def handle(services: Services, request: Request) -> Answer:
    """Answer one AlterPartitionReassignments request."""
    if not services.authorize_cluster(request, AclOperation.ALTER):
        return error_response(request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    data = request.body(ApiKeys.ALTER_PARTITION_REASSIGNMENTS).data
    may_change = data.get("allow_replication_factor_change", True)
    moves: dict[TopicPartition, Sequence[int]] = {}

    def outcome(name: str, asked: Struct) -> Outcome:
        try:
            return _move(services, moves, TopicPartition(name, asked["partition_index"]), asked["replicas"],
                         may_change=may_change)
        except Exception as error:
            code = unexpected(request, f"{name}-{asked['partition_index']}", error)
            return code, message_of(code, error)

    responses = _responses(data, outcome)
    try:
        services.cluster.leaders.reassign(moves)  # all with one write, however many there are
    except Exception as error:
        code = unexpected(request, ", ".join(map(str, moves)), error)
        for topic in responses:
            for partition in topic["partitions"]:
                if TopicPartition(topic["name"], partition["partition_index"]) in moves and not partition["error_code"]:
                    partition.update(error_code=code, error_message=message_of(code, error))
    return {"throttle_time_ms": 0, "allow_replication_factor_change": may_change, "error_code": 0,
            "error_message": None, "responses": responses}


def error_response(request: Request, error_code: ErrorCode) -> Answer:
    """Say that the whole request failed."""
    message = error_code.sentence
    return {"throttle_time_ms": 0, "error_code": error_code, "error_message": message, "responses": _responses(
        request.body(ApiKeys.ALTER_PARTITION_REASSIGNMENTS).data, lambda _name, _asked: (error_code, message))}


def _move(services: Services, moves: dict[TopicPartition, Sequence[int]], topic_partition: TopicPartition,
          replicas: Sequence[int] | None, *, may_change: bool) -> Outcome:
    """Enter one partition into what is to be moved, or say why not; of a partition named twice the last counts."""
    cluster = services.cluster
    name, index = topic_partition
    if cluster.topics.find(name) is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find a topic named {name}."
    partition = cluster.topics.partition(name, index)
    if partition is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find partition {name}:{index}."
    if replicas is None:
        return ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, None
    fault = _fault(replicas, cluster.topic_life.registered)
    if fault is not None:
        return ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"{_ASSIGNMENT} {fault}"
    present = len(partition.replicas.assigned)
    if len(replicas) != present and not may_change:
        return (ErrorCode.INVALID_REPLICATION_FACTOR,
                f"The replication factor is changed from {present} to {len(replicas)}")
    moves[topic_partition] = replicas
    return ErrorCode.NONE, None


def _fault(replicas: Sequence[int], brokers: Collection[int]) -> str | None:
    if not replicas:
        return "an empty replica list."
    before = None
    for broker_id in sorted(replicas):
        if broker_id not in brokers:
            return f"broker {broker_id}, but no such broker is registered."
        if broker_id == before:
            return f"the broker {broker_id} more than once."
        before = broker_id
    return None


def _responses(data: Struct, outcome: Callable[[str, Struct], Outcome]) -> list[dict[str, Any]]:
    responses = []
    for topic in data["topics"]:
        partitions = []
        for asked in topic["partitions"]:
            error_code, message = outcome(topic["name"], asked)
            partitions.append({"partition_index": asked["partition_index"], "error_code": error_code,
                               "error_message": message})
        responses.append({"name": topic["name"], "partitions": partitions})
    return responses
