"""DeleteRecords 0-2: serve nothing before an offset any more.

Does:    -1 is the high watermark; an offset before the start changes nothing; 1 beyond the high watermark or below -1,
         3 unknown, 6 not the leader, 17 internal topic, 29 without the permission to delete, 44 when cleanup.policy has
         no delete. Kept over a restart; segments that lie wholly before the offset are gone when the answer comes.

Road:    KafkaApis -> [DeleteRecords] -> log, start offsets
Thread:  handler threads.
Source:  Java ReplicaManager.deleteRecords, Partition.deleteRecordsOnLeader (4.1), and its measured answers.
"""

from __future__ import annotations

from typing import Any

from pyproducer.broker.apis.api_handler import Api, Question
from pyproducer.broker.apis.services import Answer, Services
from pyproducer.broker.apis.unexpected import unexpected
from pyproducer.broker.cluster.authorizer import AclOperation, ResourceType
from pyproducer.broker.cluster.topic_name import INTERNAL_TOPICS
from pyproducer.broker.network.request_channel import Request
from pyproducer.common.error_codes import ErrorCode
from pyproducer.protocol.apis import ApiKeys
from pyproducer.protocol.schema import Struct

API = Api(ApiKeys.DELETE_RECORDS, asks=(Question(AclOperation.DELETE, ResourceType.TOPIC),))
_HIGH_WATERMARK = -1
_INVALID_LOW_WATERMARK = -1


def handle(services: Services, request: Request) -> Answer:
    """Answer one DeleteRecords request."""
    topics = []
    named: dict[str, dict[int, Struct]] = {}  # a partition that is named twice counts once, as it is named last
    for topic in request.body(ApiKeys.DELETE_RECORDS).data["topics"]:
        for asked in topic["partitions"]:
            named.setdefault(topic["name"], {})[asked["partition_index"]] = asked
    for name, partitions in named.items():
        answers = []
        is_allowed = services.authorize_topic(request, AclOperation.DELETE, name)
        for asked in partitions.values():
            if not is_allowed:
                answers.append(_answer(asked, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
                continue
            try:
                answers.append(_delete(services, name, asked))
            except Exception as error:
                answers.append(_answer(asked, unexpected(request, f"{name}-{asked['partition_index']}", error)))
        topics.append({"name": name, "partitions": answers})
    return {"throttle_time_ms": 0, "topics": topics}


def error_response(request: Request, error_code: ErrorCode) -> Answer:
    """Say that the whole request failed."""
    return {"throttle_time_ms": 0, "topics": [
        {"name": topic["name"], "partitions": [_answer(asked, error_code) for asked in topic["partitions"]]}
        for topic in request.body(ApiKeys.DELETE_RECORDS).data["topics"]]}


def _delete(services: Services, topic_name: str, asked: Struct) -> dict[str, Any]:
    cluster = services.cluster
    partition = cluster.topics.partition(topic_name, asked["partition_index"])
    if partition is None:
        return _answer(asked, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if topic_name in INTERNAL_TOPICS:
        return _answer(asked, ErrorCode.INVALID_TOPIC_EXCEPTION)
    if partition.leadership.leader_id != services.node_id:
        return _answer(asked, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    log = partition.log
    if not log.config.is_deleted:
        return _answer(asked, ErrorCode.POLICY_VIOLATION)
    offset = log.high_watermark if asked["offset"] == _HIGH_WATERMARK else asked["offset"]
    if not 0 <= offset <= log.high_watermark:
        return _answer(asked, ErrorCode.OFFSET_OUT_OF_RANGE)
    low_watermark = log.increment_log_start_offset(offset)
    cluster.topic_life.checkpoint_start(partition, low_watermark)
    return _answer(asked, ErrorCode.NONE, low_watermark)


def _answer(asked: Struct, error_code: ErrorCode, low_watermark: int = _INVALID_LOW_WATERMARK) -> dict[str, Any]:
    return {"partition_index": asked["partition_index"], "low_watermark": low_watermark, "error_code": error_code}
