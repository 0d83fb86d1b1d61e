"""OffsetCommit 2-9: a group, or somebody for it, says how far it has read.

Does:    a member's commits are checked (22 another generation, 25 no such member, 27 rebalancing, 69 no such group,
         from version 9 on, 82 fenced); without member and generation (-1) they are taken for groups that have no
         members; 3 no such partition, 12 metadata too long (offset.metadata.max.bytes), both for the partition alone.
Omits:   retention_time_ms of versions 2-4 is passed over: offsets.retention.minutes counts for all offsets.

Road:    KafkaApis -> [OffsetCommit] -> group coordinator -> __consumer_offsets
Thread:  handler threads.
Source:  Java KafkaApis.handleOffsetCommitRequest, OffsetMetadataManager.commitOffset (4.1).
"""

from __future__ import annotations

from typing import Any

from pyproducer.broker.apis.api_handler import Api, Question
from pyproducer.broker.apis.services import Answer, Services
from pyproducer.broker.cluster.authorizer import AclOperation, ResourceType
from pyproducer.broker.cluster.coordinator.group.offsets import CommittedOffset
from pyproducer.broker.network.request_channel import Request
from pyproducer.common.cluster import TopicPartition
from pyproducer.common.error_codes import ErrorCode
from pyproducer.protocol.apis import ApiKeys

API = Api(ApiKeys.OFFSET_COMMIT, asks=(
    Question(AclOperation.READ, ResourceType.GROUP), Question(AclOperation.READ, ResourceType.TOPIC)))
# From this version on a member is told that its group is not there.
_GROUP_ID_NOT_FOUND_FROM = 9


def handle(services: Services, request: Request) -> Answer:
    """Answer one OffsetCommit request."""
    data = request.body(ApiKeys.OFFSET_COMMIT).data
    group_id = data["group_id"]
    if not services.authorize(request, AclOperation.READ, ResourceType.GROUP, group_id):
        return error_response(request, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    coordinator = services.cluster.group_coordinator
    error_code = coordinator.check(group_id, services.node_id)
    if error_code is not ErrorCode.NONE:
        return error_response(request, error_code)
    longest_bytes = services.config.number("offset.metadata.max.bytes")
    timestamp_ms = services.clock.timestamp_ms()
    offsets: dict[TopicPartition, CommittedOffset] = {}
    topics: list[dict[str, Any]] = []
    accepted: list[dict[str, Any]] = []  # answers whose code is the whole commit's
    for topic in data["topics"]:
        answers = []
        is_allowed = services.authorize_topic(request, AclOperation.READ, topic["name"])
        for partition in topic["partitions"]:
            index = partition["partition_index"]
            metadata = partition["committed_metadata"] or ""
            answer: dict[str, Any] = {"partition_index": index, "error_code": ErrorCode.NONE}
            if not is_allowed:
                answer["error_code"] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            elif services.cluster.topics.partition(topic["name"], index) is None:
                answer["error_code"] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            elif len(metadata) > longest_bytes:
                answer["error_code"] = ErrorCode.OFFSET_METADATA_TOO_LARGE
            else:
                offsets[TopicPartition(topic["name"], index)] = CommittedOffset(
                    partition["committed_offset"], partition.get("committed_leader_epoch", -1), metadata, timestamp_ms)
                accepted.append(answer)
            answers.append(answer)
        topics.append({"name": topic["name"], "partitions": answers})
    if offsets:  # as Kafka: of nothing the coordinator is not told
        error_code = coordinator.commit_offsets(
            group_id, data["member_id"], data.get("group_instance_id"), data["generation_id_or_member_epoch"], offsets,
            without_group=(ErrorCode.GROUP_ID_NOT_FOUND if request.header.api_version >= _GROUP_ID_NOT_FOUND_FROM
                           else ErrorCode.ILLEGAL_GENERATION))
        for answer in accepted:
            answer["error_code"] = error_code
    return {"throttle_time_ms": 0, "topics": topics}


def error_response(request: Request, error_code: ErrorCode) -> Answer:
    """Say that the whole request failed: every partition has the code."""
    return {"throttle_time_ms": 0, "topics": [
        {"name": topic["name"], "partitions": [
            {"partition_index": partition["partition_index"], "error_code": error_code}
            for partition in topic["partitions"]]}
        for topic in request.body(ApiKeys.OFFSET_COMMIT).data["topics"]]}
