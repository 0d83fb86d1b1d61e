"""DescribeTopicPartitions 0: topics with their partitions, page by page.

Does:    topics in order of their names, all of them when none is named; at most response_partition_limit partitions
         (one to 2,000) and a cursor for the rest; the authorized operations; 29 without the permission, 3 unknown, 17
         wrong name; 42 for a cursor that makes no sense.

Road:    KafkaApis -> [DescribeTopicPartitions] -> topic table
Thread:  handler threads.
Source:  Java DescribeTopicPartitionsRequestHandler, KRaftMetadataCache.describeTopicResponse (4.1), and its measured
         answers (KIP-966).
"""

from __future__ import annotations

import uuid
from typing import Any

from pyproducer.broker.apis.api_handler import Api, Question
from pyproducer.broker.apis.metadata import describe_partition
from pyproducer.broker.apis.services import Answer, Services
from pyproducer.broker.cluster.authorizer import AclOperation, ResourceType
from pyproducer.broker.network.request_channel import Request
from pyproducer.common.error_codes import ErrorCode
from pyproducer.common.topic_name import topic_name_fault
from pyproducer.protocol.apis import ApiKeys

API = Api(ApiKeys.DESCRIBE_TOPIC_PARTITIONS, asks=(Question(AclOperation.DESCRIBE, ResourceType.TOPIC),))
# Java's max.request.partition.size.limit.
MAX_PARTITIONS = 2000
_ZERO_ID = uuid.UUID(int=0)


def handle(services: Services, request: Request) -> Answer:
    """Answer one DescribeTopicPartitions request."""
    data = request.body(ApiKeys.DESCRIBE_TOPIC_PARTITIONS).data
    cursor = data["cursor"]
    first_name, first_index = ("", 0) if cursor is None else (cursor["topic_name"], cursor["partition_index"])
    asked = {topic["name"] for topic in data["topics"]} or set(services.cluster.topics)
    if cursor is not None and (first_index < 0 or (data["topics"] and first_name not in asked)):
        return error_response(request, ErrorCode.INVALID_REQUEST)
    left = max(min(data["response_partition_limit"], MAX_PARTITIONS), 1)
    topics: list[dict[str, Any]] = []
    denied: list[dict[str, Any]] = []
    next_cursor = None
    for name in sorted(name for name in asked if name >= first_name):
        if not services.authorize_topic(request, AclOperation.DESCRIBE, name):
            if data["topics"]:  # among all topics it is left out
                denied.append(_error(name, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
            continue
        if left <= 0:
            next_cursor = {"topic_name": name, "partition_index": 0}
            break
        begin = first_index if name == first_name else 0
        topic, partition_count = _topic(services, name, begin, left)
        topics.append({**topic, "topic_authorized_operations": services.authorized_operations(
            request, ResourceType.TOPIC, name)})
        left -= len(topic["partitions"])
        if begin + len(topic["partitions"]) < partition_count:
            next_cursor = {"topic_name": name, "partition_index": begin + len(topic["partitions"])}
            break
    return {"throttle_time_ms": 0, "topics": [*topics, *denied], "next_cursor": next_cursor}


def error_response(request: Request, error_code: ErrorCode) -> Answer:
    """Say that the whole request failed."""
    return {"throttle_time_ms": 0, "next_cursor": None, "topics": [
        _error(topic["name"], error_code)
        for topic in request.body(ApiKeys.DESCRIBE_TOPIC_PARTITIONS).data["topics"]]}


def _error(name: str, error_code: ErrorCode) -> dict[str, Any]:
    return {"error_code": error_code, "name": name, "topic_id": _ZERO_ID, "partitions": []}


def _topic(services: Services, name: str, begin: int, limit: int) -> tuple[dict[str, Any], int]:
    """Return one topic with some of its partitions, and how many it has."""
    found = services.cluster.topics.find(name)
    if found is None:
        error_code = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if topic_name_fault(name) is None
                      else ErrorCode.INVALID_TOPIC_EXCEPTION)
        return _error(name, error_code), 0
    partitions = [{**describe_partition(services, partition), "eligible_leader_replicas": [], "last_known_elr": []}
                  for partition in found.partitions[begin:begin + limit]]
    return {"error_code": 0, "name": name, "topic_id": found.topic_id, "is_internal": found.is_internal,
            "partitions": partitions}, len(found.partitions)
