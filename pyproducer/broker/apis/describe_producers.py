"""DescribeProducers 0: who has written to partitions, and whose transactions are open there.

Does:    3 an unknown topic or partition, 6 a partition that another broker leads, 29 without permission to read, 44
         what would make the answer too large.

Road:    KafkaApis -> [DescribeProducers] -> log -> producer state
Thread:  handler threads.
Source:  Java KafkaApis.handleDescribeProducersRequest, ReplicaManager.activeProducerState (4.1), and measured answers.
"""

from __future__ import annotations

from typing import Any

from pyproducer.broker.apis.answer_size import AnswerSize
from pyproducer.broker.apis.api_handler import Api, Question
from pyproducer.broker.apis.services import Answer, Services
from pyproducer.broker.apis.unexpected import unexpected
from pyproducer.broker.cluster.authorizer import AclOperation, ResourceType
from pyproducer.broker.network.request_channel import Request
from pyproducer.common.error_codes import ErrorCode
from pyproducer.protocol.apis import ApiKeys

API = Api(ApiKeys.DESCRIBE_PRODUCERS, asks=(Question(AclOperation.READ, ResourceType.TOPIC),))
_NO_OFFSET = -1


def handle(services: Services, request: Request) -> Answer:
    """Answer one DescribeProducers request."""
    topics = []
    size = AnswerSize()
    for topic in request.body(ApiKeys.DESCRIBE_PRODUCERS).data["topics"]:
        name = topic["name"]
        # As measured: Kafka's words where the topic as a whole is refused, none where it is the partition.
        refusal = ErrorCode.NONE
        if not services.authorize(request, AclOperation.READ, ResourceType.TOPIC, name):
            refusal = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        elif services.cluster.topics.find(name) is None:
            refusal = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        topics.append({"name": name, "partitions": [
            _partition(services, request, name, index, size) if refusal is ErrorCode.NONE
            else _fault(index, refusal, refusal.sentence) for index in topic["partition_indexes"]]})
    return {"throttle_time_ms": 0, "topics": topics}


def error_response(request: Request, error_code: ErrorCode) -> Answer:
    """Say that the whole request failed."""
    return {"throttle_time_ms": 0, "topics": [
        {"name": topic["name"], "partitions": [_fault(index, error_code, None)
                                               for index in topic["partition_indexes"]]}
        for topic in request.body(ApiKeys.DESCRIBE_PRODUCERS).data["topics"]]}


def _partition(services: Services, request: Request, topic: str, index: int, size: AnswerSize) -> dict[str, Any]:
    if size.is_full:
        return _fault(index, ErrorCode.POLICY_VIOLATION, None)
    try:
        found = _active_producers(services, topic, index)
        size.add(len(found["active_producers"]))
        return found
    except Exception as error:
        return _fault(index, unexpected(request, f"{topic}-{index}", error), None)


def _active_producers(services: Services, topic: str, index: int) -> dict[str, Any]:
    partition = services.cluster.topics.partition(topic, index)
    if partition is None:
        return _fault(index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None)
    if partition.leadership.leader_id != services.node_id:
        return _fault(index, ErrorCode.NOT_LEADER_OR_FOLLOWER, None)
    return {"partition_index": index, "error_code": 0, "error_message": None, "active_producers": [
        {"producer_id": producer.producer_id, "producer_epoch": producer.producer_epoch,
         "last_sequence": producer.last_sequence, "last_timestamp": producer.last_timestamp,
         "coordinator_epoch": producer.coordinator_epoch,
         "current_txn_start_offset": (_NO_OFFSET if producer.transaction_first_offset is None
                                      else producer.transaction_first_offset)}
        for producer in partition.log.producers.active_producers()]}


def _fault(index: int, error_code: ErrorCode, message: str | None) -> dict[str, Any]:
    return {"partition_index": index, "error_code": error_code, "error_message": message, "active_producers": []}
