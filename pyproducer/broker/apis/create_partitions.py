"""CreatePartitions 0-3: more partitions for topics that exist.

Does:    29 without the permission, 37 not more than there are, 39 assignment, 42 named twice, 3 unknown, 44 where more
         than 10,000 partitions come in one request (Kafka: -1, without a word); validate_only. New partitions have as
         many replicas as the others, spread or as they are assigned.

Road:    KafkaApis -> [CreatePartitions] -> topic life
Thread:  handler threads.
Source:  Java ReplicationControlManager.createPartitions (4.1), and its measured answers.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

from pyproducer.broker.apis.api_handler import Api, Question
from pyproducer.broker.apis.create_topics import MAX_PARTITIONS_PER_REQUEST, assignment_fault
from pyproducer.broker.apis.services import Answer, Services
from pyproducer.broker.apis.unexpected import message_of, unexpected
from pyproducer.broker.cluster.authorizer import AclOperation, ResourceType
from pyproducer.broker.network.request_channel import Request
from pyproducer.common.error_codes import ErrorCode
from pyproducer.protocol.apis import ApiKeys
from pyproducer.protocol.schema import Struct

API = Api(ApiKeys.CREATE_PARTITIONS, asks=(Question(AclOperation.ALTER, ResourceType.TOPIC),))


class _Refusal(NamedTuple):
    error_code: ErrorCode
    message: str | None


def handle(services: Services, request: Request) -> Answer:
    """Answer one CreatePartitions request."""
    data = request.body(ApiKeys.CREATE_PARTITIONS).data
    named = Counter(topic["name"] for topic in data["topics"])
    results = []
    left = MAX_PARTITIONS_PER_REQUEST
    for topic in data["topics"]:
        name = topic["name"]
        if named[name] > 1:
            named[name] = 0  # answered once
            results.append(_result(name, _Refusal(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")))
        elif named[name] and not services.authorize_topic(request, AclOperation.ALTER, name):
            results.append(_result(name, _Refusal(ErrorCode.TOPIC_AUTHORIZATION_FAILED, None)))
        elif named[name]:
            try:
                fault, added = _fault(services, topic, left)
                left -= added
                if fault is None and not data["validate_only"] and (
                        not services.cluster.topic_life.create_partitions(name, topic["count"], [
                            assignment["broker_ids"] for assignment in topic["assignments"] or ()] or None)):
                    fault, _ = _fault(services, topic, left)  # another handler was faster; it says so
            except Exception as error:
                code = unexpected(request, f"topic {name}", error)
                fault = _Refusal(code, message_of(code, error))
            results.append(_result(name, fault))
    return {"throttle_time_ms": 0, "results": results}


def error_response(request: Request, error_code: ErrorCode) -> Answer:
    """Say that the whole request failed."""
    return {"throttle_time_ms": 0, "results": [_result(topic["name"], _Refusal(error_code, None))
                                               for topic in request.body(ApiKeys.CREATE_PARTITIONS).data["topics"]]}


def _fault(services: Services, topic: Struct, left: int) -> tuple[_Refusal | None, int]:
    """Return what is wrong with the request for one topic, or how many partitions it adds, of so many that may be."""
    name, count, assignments = topic["name"], topic["count"], topic["assignments"]
    found = services.cluster.topics.find(name)
    if found is None:
        return _Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None), 0
    present = len(found.partitions)
    if count == present:
        return _Refusal(ErrorCode.INVALID_PARTITIONS, f"Topic already has {present} partition(s)."), 0
    if count < present:
        return _Refusal(ErrorCode.INVALID_PARTITIONS, f"The topic {name} currently has {present} partition(s); "
                                                      f"{count} would not be an increase."), 0
    added: int = count - present
    if added > left:
        return _Refusal(ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request."), 0
    if assignments is None:
        return None, added
    if len(assignments) != added:
        return _Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                        f"Attempted to add {added} additional partition(s), but only {len(assignments)} "
                        "assignment(s) were specified."), 0
    reason = assignment_fault(services, assignments, len(found.partitions[0].replicas.assigned))
    return (None, added) if reason is None else (_Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, reason), 0)


def _result(name: str, fault: _Refusal | None) -> dict[str, Any]:
    error_code, message = (ErrorCode.NONE, None) if fault is None else fault
    return {"name": name, "error_code": error_code, "error_message": message}
