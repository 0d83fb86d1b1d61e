"""OffsetForLeaderEpoch 2-4: where an epoch ends, for clients that look whether their records are still the log's.

Does:    the largest epoch not above the one asked for and the offset of the next one, the end of the log for the
         newest; -1 and -1 for an epoch that is not known yet; 74 and 75 by the client's current epoch,
         3 unknown, 6 not the leader, 29 without the permission.

Road:    KafkaApis -> [OffsetForLeaderEpoch] -> leader epochs
Thread:  handler threads.
Source:  Java ReplicaManager.lastOffsetForLeaderEpoch, Partition.lastOffsetForLeaderEpoch (4.1), and measured answers.
"""

from __future__ import annotations

from typing import Any

from pyproducer.broker.apis.api_handler import Api, Question
from pyproducer.broker.apis.services import Answer, Services
from pyproducer.broker.apis.unexpected import unexpected
from pyproducer.broker.cluster.authorizer import AclOperation, ResourceType
from pyproducer.broker.network.request_channel import Request
from pyproducer.broker.storage.leader_epochs import NO_EPOCH, NO_OFFSET, EpochEntry
from pyproducer.common.error_codes import ErrorCode
from pyproducer.protocol.apis import ApiKeys
from pyproducer.protocol.schema import Struct

API = Api(ApiKeys.OFFSET_FOR_LEADER_EPOCH, asks=(
    Question(AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER),
    Question(AclOperation.DESCRIBE, ResourceType.TOPIC)))
_NOTHING = EpochEntry(NO_EPOCH, NO_OFFSET)


def handle(services: Services, request: Request) -> Answer:
    """Answer one OffsetForLeaderEpoch request."""
    may_ask_all = services.authorize_cluster(request, AclOperation.CLUSTER_ACTION)
    topics = []
    for topic in request.body(ApiKeys.OFFSET_FOR_LEADER_EPOCH).data["topics"]:
        name = topic["topic"]
        is_allowed = may_ask_all or services.authorize_topic(request, AclOperation.DESCRIBE, name)
        topics.append({"topic": name, "partitions": [
            _answer(services, request, name, asked) if is_allowed
            else _partition(asked, ErrorCode.TOPIC_AUTHORIZATION_FAILED, _NOTHING) for asked in topic["partitions"]]})
    return {"throttle_time_ms": 0, "topics": topics}


def error_response(request: Request, error_code: ErrorCode) -> Answer:
    """Say that the whole request failed."""
    return {"throttle_time_ms": 0, "topics": [
        {"topic": topic["topic"], "partitions": [_partition(asked, error_code, _NOTHING)
                                                 for asked in topic["partitions"]]}
        for topic in request.body(ApiKeys.OFFSET_FOR_LEADER_EPOCH).data["topics"]]}


def _answer(services: Services, request: Request, topic: str, asked: Struct) -> dict[str, Any]:
    try:
        return _end_offset(services, topic, asked)
    except Exception as error:
        return _partition(asked, unexpected(request, f"{topic}-{asked['partition']}", error), _NOTHING)


def _end_offset(services: Services, topic: str, asked: Struct) -> dict[str, Any]:
    partition = services.cluster.topics.partition(topic, asked["partition"])
    if partition is None:
        return _partition(asked, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, _NOTHING)
    error_code = partition.check_leader(services.node_id, asked["current_leader_epoch"])
    if error_code is not ErrorCode.NONE:
        return _partition(asked, error_code, _NOTHING)
    found = partition.log.end_offset_for_epoch(asked["leader_epoch"], partition.leadership.leader_epoch)
    return _partition(asked, ErrorCode.NONE, found)


def _partition(asked: Struct, error_code: ErrorCode, found: EpochEntry) -> dict[str, Any]:
    return {"error_code": error_code, "partition": asked["partition"], "leader_epoch": found.epoch,
            "end_offset": found.start_offset}
