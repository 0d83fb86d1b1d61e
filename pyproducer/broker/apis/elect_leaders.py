"""ElectLeaders 0-2: who should lead a partition shall lead it.

Does:    preferred elections (type 0): the first replica leads, 84 where it does, 80 where it is not in sync or down;
         unclean ones (type 1): where nobody leads the first living replica does, in sync if there is one, 84 where
         somebody leads, 83 where no replica lives; 3 unknown; of all partitions (null) those that needed none are left
         out; 42 for other kinds; 31 without the permission.

Road:    KafkaApis -> [ElectLeaders] -> cluster state
Thread:  handler threads.
Source:  Java ReplicationControlManager.electLeaders (4.1), and its measured answers.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pyproducer.broker.apis.api_handler import Api, Question
from pyproducer.broker.apis.services import Answer, Services
from pyproducer.broker.apis.unexpected import message_of, unexpected
from pyproducer.broker.cluster.authorizer import AclOperation, ResourceType
from pyproducer.broker.network.request_channel import Request
from pyproducer.common.cluster import TopicPartition
from pyproducer.common.error_codes import ErrorCode
from pyproducer.protocol.apis import ApiKeys

API = Api(ApiKeys.ELECT_LEADERS, asks=(Question(AclOperation.ALTER, ResourceType.CLUSTER),))

_PREFERRED, _UNCLEAN = 0, 1
_KIND_FROM = 1  # version 0 is preferred alone
_NOT_NEEDED = "Leader election not needed for topic partition."
_NOT_AVAILABLE = {
    _PREFERRED: (ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, "The preferred leader was not available."),
    _UNCLEAN: (ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, "Eligible topic partition leaders are not available."),
}

Outcome = tuple[ErrorCode, str | None]


def handle(services: Services, request: Request) -> Answer:
    """Answer one ElectLeaders request."""
    if not services.authorize_cluster(request, AclOperation.ALTER):
        return error_response(request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    data = request.body(ApiKeys.ELECT_LEADERS).data
    kind = data["election_type"] if request.header.api_version >= _KIND_FROM else _PREFERRED
    if kind not in _NOT_AVAILABLE:
        return _failure(request, ErrorCode.INVALID_REQUEST, f"Unknown election type {kind}")
    asked = data["topic_partitions"]
    elected: dict[TopicPartition, int] = {}
    if asked is not None:
        results = [_result(topic["topic"], (
            (index, _outcome(services, request, kind, elected, TopicPartition(topic["topic"], index)))
            for index in topic["partitions"])) for topic in asked]
    else:
        results = [_result(topic.name, (
            (index, outcome) for index in range(len(topic.partitions))
            if (outcome := _outcome(services, request, kind, elected, TopicPartition(topic.name, index)))[0]
            is not ErrorCode.ELECTION_NOT_NEEDED)) for topic in list(services.cluster.topics.values())]
    try:
        services.cluster.leaders.change_leaders(elected)  # all with one write, however many there are
    except Exception as error:
        code = unexpected(request, ", ".join(map(str, elected)), error)
        for result in results:
            for found in result["partition_result"]:
                if TopicPartition(result["topic"], found["partition_id"]) in elected:
                    found.update(error_code=code, error_message=message_of(code, error))
    return {"throttle_time_ms": 0, "error_code": 0, "replica_election_results": results}


def error_response(request: Request, error_code: ErrorCode) -> Answer:
    """Say that the whole request failed."""
    return _failure(request, error_code, error_code.sentence)


def _failure(request: Request, error_code: ErrorCode, message: str) -> dict[str, Any]:
    asked = request.body(ApiKeys.ELECT_LEADERS).data["topic_partitions"] or ()
    return {"throttle_time_ms": 0, "error_code": error_code, "replica_election_results": [
        _result(topic["topic"], ((index, (error_code, message)) for index in topic["partitions"])) for topic in asked]}


def _outcome(services: Services, request: Request, kind: int, elected: dict[TopicPartition, int],
             topic_partition: TopicPartition) -> Outcome:
    try:
        return _elect(services, kind, elected, topic_partition)
    except Exception as error:
        code = unexpected(request, str(topic_partition), error)
        return code, message_of(code, error)


def _elect(services: Services, kind: int, elected: dict[TopicPartition, int],
           topic_partition: TopicPartition) -> Outcome:
    """Enter one partition into those that are to be led again, or say why not."""
    cluster = services.cluster
    if cluster.topics.find(topic_partition.topic) is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {topic_partition.topic}"
    partition = cluster.topics.partition(*topic_partition)
    if partition is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {topic_partition}"
    leader_id = partition.leadership.leader_id
    assigned, isr, *_ = partition.replicas
    living = [node_id for node_id in assigned if node_id in cluster.brokers]
    in_sync = [node_id for node_id in living if node_id in isr]
    if leader_id in living and (kind == _UNCLEAN or leader_id == assigned[0]):
        return ErrorCode.ELECTION_NOT_NEEDED, _NOT_NEEDED
    candidates = in_sync[:1] if kind == _PREFERRED else in_sync or living
    if not candidates or (kind == _PREFERRED and candidates[0] != assigned[0]):
        return _NOT_AVAILABLE[kind]
    elected[topic_partition] = candidates[0]
    return ErrorCode.NONE, None


def _result(topic: str, outcomes: Iterable[tuple[int, Outcome]]) -> dict[str, Any]:
    return {"topic": topic, "partition_result": [
        {"partition_id": index, "error_code": error_code, "error_message": message}
        for index, (error_code, message) in outcomes]}
