"""FindCoordinator 0-6: the broker in charge of a group (type 0) or of a transactional id (type 1).

Does:    authorization before anything else (30, 53); the internal topic is made by asking (Kafka's settings); its
         partition for the key has a leader, whose address on the listener that the request came in by is the answer;
         15 when the topic is not there (yet), or cannot be made now, has no living leader, or the leader not this
         listener; several keys from version 4 on, answered in the order asked, with repetitions.
Omits:   share coordinators (type 2) are answered with 42, as other types are; there is no throttle.

Road:    KafkaApis -> [FindCoordinator] -> internal topics
Thread:  handler threads.
Source:  Java KafkaApis.handleFindCoordinatorRequest, getCoordinator (4.1), and measured answers.
"""

from __future__ import annotations

import logging
from typing import Any, NamedTuple

from pyproducer.broker.apis.api_handler import Api, Question
from pyproducer.broker.apis.services import Answer, Services
from pyproducer.broker.apis.unexpected import unexpected
from pyproducer.broker.cluster.authorizer import AclOperation, ResourceType
from pyproducer.broker.cluster.coordinator.internal_topics import (
    GROUP_METADATA_TOPIC_NAME,
    TRANSACTION_STATE_TOPIC_NAME,
)
from pyproducer.broker.cluster.coordinator.partition_for import partition_for
from pyproducer.broker.network.request_channel import Request
from pyproducer.broker.storage.descriptors import reason
from pyproducer.common.error_codes import ErrorCode
from pyproducer.common.errors import ConfigError
from pyproducer.protocol.apis import ApiKeys

API = Api(ApiKeys.FIND_COORDINATOR, asks=(
    Question(AclOperation.DESCRIBE, ResourceType.GROUP),
    Question(AclOperation.DESCRIBE, ResourceType.TRANSACTIONAL_ID)))
_logger = logging.getLogger(__name__)
_BATCHED_FROM = 4
# Java's words, where clients print them.
_MESSAGES = {
    ErrorCode.NONE: "NONE",
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "The coordinator is not available.",
    ErrorCode.INVALID_REQUEST: ("This most likely occurs because of a request being malformed by the client library "
                                "or the message was sent to an incompatible broker. See the broker logs for more "
                                "details."),
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "Group authorization failed.",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "Transactional Id authorization failed.",
}


class _Coordination(NamedTuple):
    """How keys of one type are coordinated."""

    resource_type: ResourceType
    denied: ErrorCode
    topic: str


_BY_KEY_TYPE = {
    0: _Coordination(ResourceType.GROUP, ErrorCode.GROUP_AUTHORIZATION_FAILED, GROUP_METADATA_TOPIC_NAME),
    1: _Coordination(ResourceType.TRANSACTIONAL_ID, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
                     TRANSACTION_STATE_TOPIC_NAME),
}
_NO_NODE = {"node_id": -1, "host": "", "port": -1}


def handle(services: Services, request: Request) -> Answer:
    """Answer one FindCoordinator request."""
    data = request.body(ApiKeys.FIND_COORDINATOR).data
    coordination = _BY_KEY_TYPE.get(data.get("key_type", 0))
    if coordination is None:
        return error_response(request, ErrorCode.INVALID_REQUEST)
    body: dict[str, Any]
    if request.header.api_version >= _BATCHED_FROM:
        coordinators = []
        for key in data["coordinator_keys"]:
            try:
                error_code, node = _find(services, request, coordination, key)
            except Exception as error:
                error_code, node = unexpected(request, f"key {key}", error), _NO_NODE
            coordinators.append({"key": key, "error_code": error_code, "error_message": "", **node})
        body = {"throttle_time_ms": 0, "coordinators": coordinators}
    else:
        error_code, node = _find(services, request, coordination, data["key"])
        body = {"throttle_time_ms": 0, "error_code": error_code, "error_message": _message(error_code), **node}
    _logger.debug("Sending FindCoordinator response %s for correlation id %d to client %s.", body,
                  request.header.correlation_id, request.header.client_id)
    return body


def error_response(request: Request, error_code: ErrorCode) -> Answer:
    """Say that the whole request failed."""
    if request.header.api_version >= _BATCHED_FROM:
        return {"throttle_time_ms": 0, "coordinators": [
            {"key": key, "error_code": error_code, "error_message": _message(error_code), **_NO_NODE}
            for key in request.body(ApiKeys.FIND_COORDINATOR).data["coordinator_keys"]]}
    return {"throttle_time_ms": 0, "error_code": error_code, "error_message": _message(error_code), **_NO_NODE}


def _find(services: Services, request: Request, coordination: _Coordination,
          key: str) -> tuple[ErrorCode, dict[str, Any]]:
    """Return the coordinator's address, or why there is none."""
    if not services.authorize(request, AclOperation.DESCRIBE, coordination.resource_type, key):
        return coordination.denied, _NO_NODE
    try:
        topic = services.cluster.internal_topics.get_or_create(coordination.topic)
    except (ConfigError, OSError) as error:  # the disk, or brokers that went meanwhile: a client asks again after a 15
        _logger.error("%s was not made: %s", coordination.topic, reason(error) if isinstance(error, OSError) else error)
        topic = None
    if topic is None:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE, _NO_NODE
    leader_id = topic.partitions[partition_for(key, len(topic.partitions))].leadership.leader_id
    found = services.end_points(request.context).get(leader_id)
    if found is None:  # no leader, not alive, or not on this listener
        return ErrorCode.COORDINATOR_NOT_AVAILABLE, _NO_NODE
    end_point, _ = found
    if coordination.resource_type is ResourceType.GROUP:
        services.homeless_groups.note(key, request.header.client_id,
                                      is_known=services.cluster.group_coordinator.describe(key) is not None)
    return ErrorCode.NONE, {"node_id": leader_id, "host": end_point.host, "port": end_point.port}


def _message(error_code: ErrorCode) -> str:
    return _MESSAGES.get(error_code) or error_code.sentence
