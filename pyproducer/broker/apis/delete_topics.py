"""DeleteTopics 1-6: topics and their files are gone when the answer comes.

Does:    29 without the permission, 3 unknown name, 100 unknown id, 42 both or neither given, or a topic named twice, by
         name, id or both, 73 (before version 3: 42) when delete.topic.enable is off, 17 internal topics.

Road:    KafkaApis -> [DeleteTopics] -> topic life
Thread:  handler threads.
Source:  Java ControllerApis.deleteTopics (4.1).
"""

from __future__ import annotations

import uuid
from collections import Counter
from typing import Any

from pyproducer.broker.apis.api_handler import Api, Question
from pyproducer.broker.apis.services import Answer, Services
from pyproducer.broker.apis.unexpected import unexpected
from pyproducer.broker.cluster.authorizer import AclOperation, ResourceType
from pyproducer.broker.cluster.topic_table import TopicState
from pyproducer.broker.network.request_channel import Request
from pyproducer.common.error_codes import ErrorCode
from pyproducer.protocol.apis import ApiKeys

API = Api(ApiKeys.DELETE_TOPICS, asks=(
    Question(AclOperation.DELETE, ResourceType.CLUSTER),
    Question(AclOperation.DELETE, ResourceType.TOPIC),
    Question(AclOperation.DESCRIBE, ResourceType.TOPIC)))
_ZERO_ID = uuid.UUID(int=0)
_STATES_FROM = 6
_DISABLED_CODE_FROM = 3


def handle(services: Services, request: Request) -> Answer:
    """Answer one DeleteTopics request."""
    version = request.header.api_version
    if not services.config.switch("delete.topic.enable"):
        return error_response(request, ErrorCode.TOPIC_DELETION_DISABLED if version >= _DISABLED_CODE_FROM
                              else ErrorCode.INVALID_REQUEST)
    answers: list[dict[str, Any]] = []
    names: Counter[str] = Counter()
    ids: Counter[uuid.UUID] = Counter()
    for name, topic_id in _asked(request):
        if name is None and topic_id == _ZERO_ID:
            answers.append(_refused(None, _ZERO_ID, "Neither topic name nor id were specified."))
        elif name is None:
            ids[topic_id] += 1
        elif topic_id == _ZERO_ID:
            names[name] += 1
        else:
            answers.append(_refused(name, topic_id, "You may not specify both topic name and topic id."))
    answers += [_refused(name, _ZERO_ID, "Duplicate topic name.") for name, count in names.items() if count > 1]
    answers += [_refused(None, topic_id, "Duplicate topic id.") for topic_id, count in ids.items() if count > 1]
    # All of them are looked up before the first one is deleted.
    topics = services.cluster.topics
    found = {name: topics.find(name) for name, count in names.items() if count == 1}
    found_by_id = {topic_id: topics.find_by_id(topic_id) for topic_id, count in ids.items() if count == 1}
    for name, topic in found.items():
        if not _may(services, request, AclOperation.DESCRIBE, name):
            answers.append(_result(ErrorCode.TOPIC_AUTHORIZATION_FAILED, name, _ZERO_ID))
        elif topic is None:
            answers.append(_result(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name, _ZERO_ID))
        elif topic.topic_id in ids:
            found_by_id.pop(topic.topic_id, None)
            answers.append(_refused(name, topic.topic_id,
                                    "The provided topic name maps to an ID that was already supplied."))
        elif not _may(services, request, AclOperation.DELETE, name):
            answers.append(_result(ErrorCode.TOPIC_AUTHORIZATION_FAILED, name, topic.topic_id))
        else:
            answers.append(_delete(services, request, topic, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    for topic_id, topic in found_by_id.items():
        if topic is None:
            answers.append(_result(ErrorCode.UNKNOWN_TOPIC_ID, None, topic_id))
        elif not _may(services, request, AclOperation.DELETE, topic.name):
            is_seen = services.authorize_topic(request, AclOperation.DESCRIBE, topic.name)
            answers.append(_result(ErrorCode.TOPIC_AUTHORIZATION_FAILED, topic.name if is_seen else None, topic_id))
        else:
            answers.append(_delete(services, request, topic, ErrorCode.UNKNOWN_TOPIC_ID))
    return {"throttle_time_ms": 0, "responses": answers}


def error_response(request: Request, error_code: ErrorCode) -> Answer:
    """Say that the whole request failed."""
    return {"throttle_time_ms": 0, "responses": [_result(error_code, name, topic_id)
                                                 for name, topic_id in dict.fromkeys(_asked(request))]}


def _asked(request: Request) -> list[tuple[str | None, uuid.UUID]]:
    data = request.body(ApiKeys.DELETE_TOPICS).data
    if request.header.api_version >= _STATES_FROM:
        return [(topic["name"], topic["topic_id"]) for topic in data["topics"]]
    return [(name, _ZERO_ID) for name in data["topic_names"]]


def _delete(services: Services, request: Request, topic: TopicState, unknown: ErrorCode) -> dict[str, Any]:
    if topic.is_internal:
        return _result(ErrorCode.INVALID_TOPIC_EXCEPTION, topic.name, topic.topic_id)
    try:
        deleted = services.cluster.topic_life.delete_topic(topic.name, topic.topic_id)
    except Exception as error:
        return _result(unexpected(request, f"topic {topic.name}", error), topic.name, topic.topic_id)
    return _result(ErrorCode.NONE if deleted else unknown, topic.name, topic.topic_id)


def _refused(name: str | None, topic_id: uuid.UUID, message: str) -> dict[str, Any]:
    return _result(ErrorCode.INVALID_REQUEST, name, topic_id, message)


def _may(services: Services, request: Request, operation: AclOperation, name: str) -> bool:
    """Return whether the asker may do this with a topic; who may delete all topics may."""
    return (services.authorize_cluster(request, AclOperation.DELETE)
            or services.authorize_topic(request, operation, name))


def _result(error_code: ErrorCode, name: str | None, topic_id: uuid.UUID, message: str | None = None) -> dict[str, Any]:
    return {"name": name, "topic_id": topic_id, "error_code": error_code, "error_message": message}
