"""Metadata 0-13: brokers, topics, partitions and their leaders; topics are created by asking for them.

Does:    addresses of the listener that the request came in by; version 0 asks for all topics with an empty list, later
         ones with null; from version 12 on a topic may be named by its id (100 when unknown); repeated names are
         answered once; a wrong name is 17, an unknown one 3 unless it is created (auto.create.topics.enable and the
         request's own switch), which one that differs from an existing one only in '.' and '_' is not; 29 without the
         permission to see, or to create it; among all topics those that may not be seen are left out; 5 a partition
         without a living leader; 42 a topic's id in versions 10 and 11, which have a place for it; the authorized
         operations, where the request asks for them.
Differs: Kafka creates topics behind the answer, says 3 and is ready half a second later; here the first answer
         has the new topic.

Road:    KafkaApis -> [Metadata]
Thread:  handler threads.
Source:  Java KafkaApis.handleTopicMetadataRequest (4.1), and its measured answers.
"""

from __future__ import annotations

import logging
import uuid
from typing import Any

from pyproducer.broker.apis.api_handler import Api, Question
from pyproducer.broker.apis.services import Answer, Services
from pyproducer.broker.apis.unexpected import unexpected
from pyproducer.broker.cluster.authorizer import CLUSTER_NAME, AclOperation, ResourceType
from pyproducer.broker.cluster.partition import Partition
from pyproducer.broker.cluster.topic_name import INTERNAL_TOPICS, collides
from pyproducer.broker.cluster.topic_table import TopicState
from pyproducer.broker.network.request_channel import Request
from pyproducer.common.error_codes import ErrorCode
from pyproducer.common.errors import ConfigError
from pyproducer.common.topic_name import topic_name_fault
from pyproducer.protocol.apis import ApiKeys

API = Api(ApiKeys.METADATA, asks=(
    Question(AclOperation.DESCRIBE, ResourceType.TOPIC),
    Question(AclOperation.CREATE, ResourceType.CLUSTER),
    Question(AclOperation.CREATE, ResourceType.TOPIC),
    Question(AclOperation.DESCRIBE, ResourceType.CLUSTER)))
_logger = logging.getLogger(__name__)
_ZERO_ID = uuid.UUID(int=0)


def handle(services: Services, request: Request) -> Answer:
    """Answer one Metadata request."""
    data = request.body(ApiKeys.METADATA).data
    version = request.header.api_version
    asked = data["topics"]
    if asked is None or (version == 0 and not asked):
        topics = [_topic(services, topic) for topic in services.cluster.topics.values()
                  if services.authorize_topic(request, AclOperation.DESCRIBE, topic.name)]
    else:
        if version in (10, 11) and any(topic["name"] is None or topic["topic_id"] != _ZERO_ID for topic in asked):
            return error_response(request, ErrorCode.INVALID_REQUEST)
        if version >= 12 and any(topic["name"] is None and topic["topic_id"] == _ZERO_ID for topic in asked):
            return error_response(request, ErrorCode.UNKNOWN_SERVER_ERROR)
        may_create = bool(data.get("allow_auto_topic_creation", True))
        topics = []
        wanted = dict.fromkeys((topic["name"], topic.get("topic_id", _ZERO_ID)) for topic in asked)
        uses_ids = any(topic_id != _ZERO_ID for _, topic_id in wanted)  # then Kafka passes over the names
        for name, topic_id in wanted:
            by_id = topic_id != _ZERO_ID
            if uses_ids and not by_id:
                continue
            try:
                topics.append(_by_id(services, request, topic_id) if by_id
                              else _by_name(services, request, name, may_create=may_create))
            except Exception as error:
                topics.append(_error(unexpected(request, name or topic_id, error), name, topic_id))
    if data.get("include_topic_authorized_operations"):
        for topic in topics:
            if topic["name"] is not None:
                topic["topic_authorized_operations"] = services.authorized_operations(
                    request, ResourceType.TOPIC, topic["name"])
    cluster = services.cluster
    end_points = services.end_points(request.context)
    answer = {
        "throttle_time_ms": 0,
        "brokers": [{"node_id": node_id, "host": end_point.host, "port": end_point.port, "rack": rack}
                    for node_id, (end_point, rack) in sorted(end_points.items())],
        "cluster_id": cluster.cluster_id,
        "controller_id": cluster.brokers.controller_id,
        "topics": topics,
        "error_code": 0,
    }
    if data.get("include_cluster_authorized_operations"):
        answer["cluster_authorized_operations"] = (
            services.authorized_operations(request, ResourceType.CLUSTER, CLUSTER_NAME)
            if services.authorize_cluster(request, AclOperation.DESCRIBE) else 0)
    return answer


def error_response(request: Request, error_code: ErrorCode) -> Answer:
    """Say that the whole request failed: every topic has the code, and there are no brokers."""
    topics = [_error(error_code, topic["name"] or "", topic.get("topic_id", _ZERO_ID))
              for topic in request.body(ApiKeys.METADATA).data["topics"] or ()]
    return {"throttle_time_ms": 0, "brokers": [], "cluster_id": None, "controller_id": -1, "topics": topics}


def _by_id(services: Services, request: Request, topic_id: uuid.UUID) -> dict[str, Any]:
    topic = services.cluster.topics.find_by_id(topic_id)
    if topic is not None and not services.authorize_topic(request, AclOperation.DESCRIBE, topic.name):
        return _error(ErrorCode.TOPIC_AUTHORIZATION_FAILED, None, topic_id)
    return _error(ErrorCode.UNKNOWN_TOPIC_ID, None, topic_id) if topic is None else _topic(services, topic)


def _by_name(services: Services, request: Request, name: str, *, may_create: bool) -> dict[str, Any]:
    cluster = services.cluster
    if not services.authorize_topic(request, AclOperation.DESCRIBE, name):
        return _error(ErrorCode.TOPIC_AUTHORIZATION_FAILED, name)
    topic = cluster.topics.find(name)
    if topic is not None:
        return _topic(services, topic)
    if topic_name_fault(name) is not None:
        return _error(ErrorCode.INVALID_TOPIC_EXCEPTION, name)
    if not (may_create and services.config.switch("auto.create.topics.enable")) or name in INTERNAL_TOPICS:
        return _error(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name)
    if not (services.authorize_cluster(request, AclOperation.CREATE)
            or services.authorize_topic(request, AclOperation.CREATE, name)):
        return _error(ErrorCode.TOPIC_AUTHORIZATION_FAILED, name)
    other = next((other for other in cluster.topics if collides(name, other)), None)
    if other is not None:
        _logger.warning("The topic %s is not created: it collides with the topic %s", name, other)
        return _error(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name)
    try:  # None: another handler was faster
        topic = cluster.topic_life.create_topic(name, services.config.number("num.partitions"), {}) or (
            cluster.topics.find(name))
    except ConfigError as error:  # as Kafka, which tells its log and nobody else
        _logger.warning("The topic %s is not created: %s", name, error)
    return _error(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name) if topic is None else _topic(services, topic)


def _error(error_code: ErrorCode, name: str | None, topic_id: uuid.UUID = _ZERO_ID) -> dict[str, Any]:
    return {"error_code": error_code, "name": name, "topic_id": topic_id, "is_internal": False, "partitions": []}


def _topic(services: Services, topic: TopicState) -> dict[str, Any]:
    return {"error_code": 0, "name": topic.name, "topic_id": topic.topic_id, "is_internal": topic.is_internal,
            "partitions": [describe_partition(services, partition) for partition in topic.partitions]}


def describe_partition(services: Services, partition: Partition) -> dict[str, Any]:
    """Return leader, epoch and replicas of a partition, as Metadata and DescribeTopicPartitions tell them."""
    leader_id, leader_epoch = partition.leadership
    alive = leader_id in services.cluster.brokers
    assigned, isr, *_ = partition.replicas
    return {
        "error_code": ErrorCode.NONE if alive else ErrorCode.LEADER_NOT_AVAILABLE,
        "partition_index": partition.topic_partition.partition,
        "leader_id": leader_id if alive else -1,
        "leader_epoch": leader_epoch,
        "replica_nodes": list(assigned),
        "isr_nodes": list(isr),
        "offline_replicas": [node_id for node_id in assigned if node_id not in services.cluster.brokers],
    }
