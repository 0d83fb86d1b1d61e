"""DeleteTopics 1-6: topics and their files are gone when the answer comes.

Does:    29 without the permission, 3 unknown name, 100 unknown id, 42 both or neither given, 73 (42 before version 3)
         when delete.topic.enable is off, 17 internal topics.

Road:    KafkaApis -> [DeleteTopics] -> cluster state
Thread:  handler threads.
Source:  Java ControllerApis.deleteTopics (4.1).
"""

from __future__ import annotations

import uuid
from typing import Any

from pyproducer.broker.authorizer import AclOperation
from pyproducer.broker.request_channel import Request
from pyproducer.broker.services import Answer, Services
from pyproducer.broker.unexpected import unexpected
from pyproducer.common.error_codes import ErrorCode
from pyproducer.protocol.request import DeleteTopicsRequest

_ZERO_ID = uuid.UUID(int=0)
_STATES_FROM = 6
_DISABLED_CODE_FROM = 3


def handle(services: Services, request: Request) -> Answer:
    """Answer one DeleteTopics request."""
    version = request.header.api_version
    if not services.config.switch("delete.topic.enable"):
        return error_response(request, ErrorCode.TOPIC_DELETION_DISABLED if version >= _DISABLED_CODE_FROM
                              else ErrorCode.INVALID_REQUEST)
    return {"throttle_time_ms": 0,
            "responses": [_delete(services, request, name, topic_id) for name, topic_id in _asked(request)]}


def error_response(request: Request, error_code: ErrorCode) -> Answer:
    """Say that the whole request failed."""
    return {"throttle_time_ms": 0, "responses": [_result(error_code, name, topic_id)
                                                 for name, topic_id in _asked(request)]}


def _asked(request: Request) -> list[tuple[str | None, uuid.UUID]]:
    data = request.body(DeleteTopicsRequest).data
    if request.header.api_version >= _STATES_FROM:
        asked = [(topic["name"], topic["topic_id"]) for topic in data["topics"]]
    else:
        asked = [(name, _ZERO_ID) for name in data["topic_names"]]
    return list(dict.fromkeys(asked))


def _delete(services: Services, request: Request, name: str | None, topic_id: uuid.UUID) -> dict[str, Any]:
    cluster = services.cluster
    if (name is None) == (topic_id == _ZERO_ID):
        return _result(ErrorCode.INVALID_REQUEST, name, topic_id,
                       "You may not specify both topic name and topic id." if name is not None
                       else "Neither topic name nor id were specified.")
    if name is None:
        topic = cluster.topic_by_id(topic_id)
        if topic is None:
            return _result(ErrorCode.UNKNOWN_TOPIC_ID, None, topic_id)
        if not _may(services, request, AclOperation.DELETE, topic.name):
            is_seen = services.authorize_topic(request, AclOperation.DESCRIBE, topic.name)
            return _result(ErrorCode.TOPIC_AUTHORIZATION_FAILED, topic.name if is_seen else None, topic_id)
    else:
        if not _may(services, request, AclOperation.DESCRIBE, name):
            return _result(ErrorCode.TOPIC_AUTHORIZATION_FAILED, name, _ZERO_ID)
        topic = cluster.topic(name)
        if topic is None:
            return _result(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name, _ZERO_ID)
        if not _may(services, request, AclOperation.DELETE, name):
            return _result(ErrorCode.TOPIC_AUTHORIZATION_FAILED, name, topic.topic_id)
    if topic.is_internal:
        return _result(ErrorCode.INVALID_TOPIC_EXCEPTION, topic.name, topic.topic_id)
    try:
        deleted = cluster.delete_topic(topic.name)
    except Exception as error:
        return _result(unexpected(request, f"topic {topic.name}", error), topic.name, topic.topic_id)
    return _result(ErrorCode.NONE if deleted else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, topic.name, topic.topic_id)


def _may(services: Services, request: Request, operation: AclOperation, name: str) -> bool:
    """Return whether the asker may do this with a topic; who may delete all topics may."""
    return (services.authorize_cluster(request, AclOperation.DELETE)
            or services.authorize_topic(request, operation, name))


def _result(error_code: ErrorCode, name: str | None, topic_id: uuid.UUID, message: str | None = None) -> dict[str, Any]:
    return {"name": name, "topic_id": topic_id, "error_code": error_code, "error_message": message}
