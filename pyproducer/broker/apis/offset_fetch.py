"""OffsetFetch 1-9: how far groups have read.

Does:    null topics ask for all; what was never committed is -1 without an error, for unknown groups too; with
         require_stable, partitions that an open transaction will move are 88; several groups from version 8 on; 44 for
         what would make the answer too large.
Omits:   member ids and epochs (from version 9 on), which only KIP-848 groups check.

Road:    KafkaApis -> [OffsetFetch] -> group coordinator
Thread:  handler threads.
Source:  Java KafkaApis.handleOffsetFetchRequest, OffsetMetadataManager.fetchOffsets (4.1), and measured answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyproducer.broker.apis.answer_size import AnswerSize
from pyproducer.broker.apis.api_handler import Api, Question
from pyproducer.broker.apis.services import Answer, Services
from pyproducer.broker.apis.unexpected import unexpected
from pyproducer.broker.cluster.authorizer import AclOperation, ResourceType
from pyproducer.broker.cluster.coordinator.group.offsets import CommittedOffset
from pyproducer.broker.network.request_channel import Request
from pyproducer.common.cluster import TopicPartition
from pyproducer.common.error_codes import ErrorCode
from pyproducer.protocol.apis import ApiKeys
from pyproducer.protocol.schema import Struct

API = Api(ApiKeys.OFFSET_FETCH, asks=(
    Question(AclOperation.DESCRIBE, ResourceType.GROUP), Question(AclOperation.DESCRIBE, ResourceType.TOPIC)))
_GROUP_ERROR_FROM = 2
_SEVERAL_FROM = 8
_NEVER = CommittedOffset(-1)


def handle(services: Services, request: Request) -> Answer:
    """Answer one OffsetFetch request."""
    data = request.body(ApiKeys.OFFSET_FETCH).data
    require_stable = bool(data.get("require_stable", False))
    if request.header.api_version >= _SEVERAL_FROM:
        groups = []
        size = AnswerSize()
        for group in data["groups"]:
            group_id, topics = group["group_id"], []
            try:
                error_code = ErrorCode.POLICY_VIOLATION if size.is_full else _group_fault(services, request, group_id)
                if error_code is ErrorCode.NONE:
                    topics = _offsets(services, request, group_id, group["topics"], require_stable=require_stable)
            except Exception as error:
                error_code = unexpected(request, f"group {group_id}", error)
            size.add(sum(len(topic["partitions"]) for topic in topics))
            groups.append({"group_id": group_id, "error_code": error_code, "topics": topics})
        return {"throttle_time_ms": 0, "groups": groups}
    error_code = _group_fault(services, request, data["group_id"])
    if error_code is not ErrorCode.NONE:
        return error_response(request, error_code)
    topics = _offsets(services, request, data["group_id"], data["topics"], require_stable=require_stable)
    return {"throttle_time_ms": 0, "error_code": 0, "topics": topics}


def error_response(request: Request, error_code: ErrorCode) -> Answer:
    """Say that the whole request failed; in version 1 only partitions can say so."""
    data = request.body(ApiKeys.OFFSET_FETCH).data
    version = request.header.api_version
    if version >= _SEVERAL_FROM:
        return {"throttle_time_ms": 0, "groups": [
            {"group_id": group["group_id"], "error_code": error_code, "topics": []} for group in data["groups"]]}
    topics = [] if version >= _GROUP_ERROR_FROM else [
        {"name": topic["name"], "partitions": [_partition(index, _NEVER, error_code)
                                               for index in topic["partition_indexes"]]}
        for topic in data["topics"]]
    return {"throttle_time_ms": 0, "error_code": error_code, "topics": topics}


def _group_fault(services: Services, request: Request, group_id: str) -> ErrorCode:
    if not services.authorize(request, AclOperation.DESCRIBE, ResourceType.GROUP, group_id):
        return ErrorCode.GROUP_AUTHORIZATION_FAILED
    return services.cluster.group_coordinator.check(group_id, services.node_id)


def _offsets(services: Services, request: Request, group_id: str, topics: Sequence[Struct] | None, *,
             require_stable: bool) -> list[dict[str, Any]]:
    committed, pending = services.cluster.group_coordinator.fetch_offsets(group_id)
    if topics is None:
        indexes: dict[str, list[int]] = {}
        for topic_partition in committed:
            indexes.setdefault(topic_partition.topic, []).append(topic_partition.partition)
        asked = list(indexes.items())
    else:
        asked = [(topic["name"], topic["partition_indexes"]) for topic in topics]
    answers = []
    for name, partition_indexes in asked:
        if not services.authorize_topic(request, AclOperation.DESCRIBE, name):
            if topics is not None:  # among all topics it is left out
                answers.append({"name": name, "partitions": [
                    _partition(index, _NEVER, ErrorCode.TOPIC_AUTHORIZATION_FAILED) for index in partition_indexes]})
            continue
        partitions = []
        for index in partition_indexes:
            topic_partition = TopicPartition(name, index)
            if require_stable and topic_partition in pending:
                partitions.append(_partition(index, _NEVER, ErrorCode.UNSTABLE_OFFSET_COMMIT))
            else:
                partitions.append(_partition(index, committed.get(topic_partition, _NEVER), ErrorCode.NONE))
        answers.append({"name": name, "partitions": partitions})
    return answers


def _partition(index: int, committed: CommittedOffset, error_code: ErrorCode) -> dict[str, Any]:
    return {"partition_index": index, "committed_offset": committed.offset,
            "committed_leader_epoch": committed.leader_epoch, "metadata": committed.metadata,
            "error_code": error_code}
