"""TxnOffsetCommit 0-5: offsets of a group that count when a transaction is committed.

Does:    the group's partition must be in the transaction (48, from version 4 on 120), with version 5 it is taken in
         here (Transactions V2); members are checked as by OffsetCommit from version 3 on; 3 no such partition, 12
         metadata too long, both for the partition alone; 24 no group, 16 another broker's, 15 where Produce would say
         19; 47 an old epoch, 49 another producer.
Omits:   nothing known.

Road:    KafkaApis -> [TxnOffsetCommit] -> append guard -> group coordinator -> __consumer_offsets
Thread:  handler threads.
Source:  Java KafkaApis.handleTxnOffsetCommitRequest, GroupCoordinatorService.commitTransactionalOffsets (4.1), and its
         measured answers.
"""

from __future__ import annotations

from typing import Any

from pyproducer.broker.apis.api_handler import Api, Question
from pyproducer.broker.apis.services import Answer, Services
from pyproducer.broker.cluster.authorizer import AclOperation, ResourceType
from pyproducer.broker.cluster.coordinator.group.offsets import CommittedOffset
from pyproducer.broker.cluster.coordinator.internal_topics import GROUP_METADATA_TOPIC_NAME
from pyproducer.broker.cluster.coordinator.transaction.append_guard import AppendGuard
from pyproducer.broker.network.request_channel import Request
from pyproducer.common.cluster import TopicPartition
from pyproducer.common.error_codes import ErrorCode
from pyproducer.protocol.apis import ApiKeys
from pyproducer.protocol.schema import Struct

API = Api(ApiKeys.TXN_OFFSET_COMMIT, asks=(
    Question(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID),
    Question(AclOperation.READ, ResourceType.GROUP),
    Question(AclOperation.READ, ResourceType.TOPIC)))
# The Produce versions that are as old as ours: Transactions V2 came with 5 and 12, TRANSACTION_ABORTABLE with 4 and 11.
_PRODUCE_VERSIONS = {5: 12, 4: 11}
_OLD_PRODUCE_VERSION = 10


def handle(services: Services, request: Request) -> Answer:
    """Answer one TxnOffsetCommit request."""
    data = request.body(ApiKeys.TXN_OFFSET_COMMIT).data
    group_id, transactional_id = data["group_id"], data["transactional_id"]
    if not services.authorize(request, AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id):
        return error_response(request, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if not services.authorize(request, AclOperation.READ, ResourceType.GROUP, group_id):
        return error_response(request, ErrorCode.GROUP_AUTHORIZATION_FAILED)
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
    if offsets:
        error_code = _stage(services, data, offsets, request.header.api_version)
        for answer in accepted:
            answer["error_code"] = error_code
    return {"throttle_time_ms": 0, "topics": topics}


def error_response(request: Request, error_code: ErrorCode) -> Answer:
    """Say that the whole request failed: every partition has the code."""
    return {"throttle_time_ms": 0, "topics": [
        {"name": topic["name"], "partitions": [
            {"partition_index": partition["partition_index"], "error_code": error_code}
            for partition in topic["partitions"]]}
        for topic in request.body(ApiKeys.TXN_OFFSET_COMMIT).data["topics"]]}


def _stage(services: Services, data: Struct, offsets: dict[TopicPartition, CommittedOffset],
           version: int) -> ErrorCode:
    """Write the offsets as a part of the transaction."""
    group_id = data["group_id"]
    groups = services.cluster.group_coordinator
    if not group_id:
        return ErrorCode.INVALID_GROUP_ID
    error_code = groups.check(group_id, services.node_id)
    partition = services.cluster.internal_topics.partition_of(GROUP_METADATA_TOPIC_NAME, group_id)
    if error_code is not ErrorCode.NONE or partition is None:
        return ErrorCode.NOT_COORDINATOR
    producer_id, producer_epoch = data["producer_id"], data["producer_epoch"]
    with AppendGuard(services.cluster.transactions, data["transactional_id"],
                     _PRODUCE_VERSIONS.get(version, _OLD_PRODUCE_VERSION)) as guard:
        fault = guard.check(partition, producer_id, producer_epoch)
        if fault is not None:
            # What a producer of records is to repeat has another name among coordinators.
            return (ErrorCode.COORDINATOR_NOT_AVAILABLE if fault.error_code is ErrorCode.NOT_ENOUGH_REPLICAS
                    else fault.error_code)
        return groups.stage_offsets(group_id, data.get("member_id", ""), data.get("group_instance_id"),
                                    data.get("generation_id", -1), producer_id=producer_id,
                                    producer_epoch=producer_epoch, offsets=offsets)
