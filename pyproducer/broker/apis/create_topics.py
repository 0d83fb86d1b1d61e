"""CreateTopics 2-7: topics with partitions and settings.

Does:    29 without the permission to create it, 17 name (also one that differs from an existing one only in '.' and
         '_'), 36 exists, 37 partitions, 38 more replicas than brokers, 39 assignment, 40 setting, 42 named twice, 44
         more than 10,000 partitions in one request, or topics, partitions and settings together; -1 takes the default;
         validate_only; settings are echoed from version 5 on, the topic's id from version 7 on. Replicas are spread
         over the living brokers and their racks, or as they are assigned; brokers that are down may have some.

Road:    KafkaApis -> [CreateTopics] -> topic life
Thread:  handler threads.
Source:  Java ReplicationControlManager.createTopics (4.1).
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from operator import itemgetter
from typing import Any, NamedTuple
from uuid import UUID

from pyproducer.broker.apis.api_handler import Api, Question
from pyproducer.broker.apis.services import Answer, Services
from pyproducer.broker.apis.unexpected import message_of, unexpected
from pyproducer.broker.cluster.authorizer import AclOperation, ResourceType
from pyproducer.broker.cluster.config import TOPIC_CONFIG
from pyproducer.broker.cluster.config_entries import topic_entries
from pyproducer.broker.cluster.topic_config import TopicConfig, asked_topic_config, error_text
from pyproducer.broker.cluster.topic_name import collides
from pyproducer.broker.network.request_channel import Request
from pyproducer.common.error_codes import ErrorCode
from pyproducer.common.errors import ConfigError
from pyproducer.common.topic_name import topic_name_fault
from pyproducer.protocol.apis import ApiKeys
from pyproducer.protocol.schema import Struct

API = Api(ApiKeys.CREATE_TOPICS, asks=(
    Question(AclOperation.CREATE, ResourceType.CLUSTER),
    Question(AclOperation.CREATE, ResourceType.TOPIC),
    Question(AclOperation.DESCRIBE_CONFIGS, ResourceType.TOPIC)))
# Java ReplicationControlManager.MAX_PARTITIONS_PER_BATCH; each partition is an open file here.
MAX_PARTITIONS_PER_REQUEST = 10_000
# Java QuorumController.MAX_RECORDS_PER_USER_OP: one record for a topic, and for each of its partitions and settings.
_MAX_RECORDS_PER_REQUEST = 10_000
_NO_ID = UUID(int=0)
_CONFIGS_FROM = 5


class _Refusal(NamedTuple):
    error_code: ErrorCode
    message: str


def handle(services: Services, request: Request) -> Answer:
    """Answer one CreateTopics request."""
    data = request.body(ApiKeys.CREATE_TOPICS).data
    named = Counter(topic["name"] for topic in data["topics"])
    may_create_all = services.authorize_cluster(request, AclOperation.CREATE)
    results = []
    excess = _excess(services, data["topics"])
    for topic in data["topics"]:
        name = topic["name"]
        if named[name] > 1:
            named[name] = 0  # answered once
            results.append(_refused(name, _Refusal(ErrorCode.INVALID_REQUEST,
                                                   "Found multiple entries for this topic.")))
        elif named[name]:
            if excess is not None:
                fault: _Refusal | None = excess
            elif not (may_create_all or services.authorize_topic(request, AclOperation.CREATE, name)):
                fault = _Refusal(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Authorization failed.")
            else:
                fault = _fault(services, topic)
            try:
                results.append(_refused(name, fault) if fault is not None else _create(
                    services, request, topic, validate_only=data["validate_only"]))
            except Exception as error:
                code = unexpected(request, f"topic {name}", error)
                results.append(_refused(name, _Refusal(code, message_of(code, error))))
    return {"throttle_time_ms": 0, "topics": results}


def error_response(request: Request, error_code: ErrorCode) -> Answer:
    """Say that the whole request failed."""
    return {"throttle_time_ms": 0, "topics": [
        _refused(topic["name"], _Refusal(error_code, error_code.name))
        for topic in request.body(ApiKeys.CREATE_TOPICS).data["topics"]]}


def _excess(services: Services, topics: list[Struct]) -> _Refusal | None:
    """Return why a request is too large as a whole: its partitions, or what a controller would write for it."""
    counts = [max(0, _partition_count(services, topic)) for topic in topics]
    if sum(counts) > MAX_PARTITIONS_PER_REQUEST:
        return _Refusal(ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request.")
    records = [1 + count + len(topic["configs"]) for topic, count in zip(topics, counts, strict=True)]
    if sum(records) <= _MAX_RECORDS_PER_REQUEST:
        return None
    # Of what is refused nothing is written.
    written = sum(itertools.compress(records, (_fault(services, topic) is None for topic in topics)))
    if written > _MAX_RECORDS_PER_REQUEST:
        return _Refusal(ErrorCode.POLICY_VIOLATION, "Unable to perform excessively large batch operation.")
    return None


def _partition_count(services: Services, topic: Struct) -> int:
    if topic["assignments"]:
        return len(topic["assignments"])
    count: int = topic["num_partitions"]
    return services.config.number("num.partitions") if count == -1 else count


def _replication_factor(services: Services, topic: Struct) -> int:
    if topic["assignments"]:
        return len(topic["assignments"][0]["broker_ids"])
    factor: int = topic["replication_factor"]
    return services.config.number("default.replication.factor") if factor == -1 else factor


def _fault(services: Services, topic: Struct) -> _Refusal | None:
    """Return what is wrong with the request for one topic, in Kafka's order and words."""
    name = topic["name"]
    reason = topic_name_fault(name)
    if reason is not None:
        return _Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, reason)
    if services.cluster.topics.find(name) is not None:
        return _Refusal(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    for other in services.cluster.topics:
        if collides(name, other):
            return _Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION,
                            f"Topic '{name}' collides with existing topic: {other}")
    if topic["assignments"]:
        return _assignment_fault(services, topic)
    count, replicas = topic["num_partitions"], topic["replication_factor"]
    if replicas == 0 or replicas < -1:
        return _Refusal(ErrorCode.INVALID_REPLICATION_FACTOR,
                        "Replication factor must be larger than 0, or -1 to use the default value.")
    if count == 0 or count < -1:
        return _Refusal(ErrorCode.INVALID_PARTITIONS,
                        "Number of partitions was set to an invalid non-positive value.")
    brokers = len(services.cluster.topic_life.registered)
    if _replication_factor(services, topic) > brokers:
        replicas = _replication_factor(services, topic)
        return _Refusal(ErrorCode.INVALID_REPLICATION_FACTOR,
                        f"Unable to replicate the partition {replicas} time(s): The target replication factor of "
                        f"{replicas} cannot be reached because only {brokers} broker(s) are registered.")
    return None


def _assignment_fault(services: Services, topic: Struct) -> _Refusal | None:
    if topic["replication_factor"] != -1:
        return _Refusal(ErrorCode.INVALID_REQUEST, "A manual partition assignment was specified, but replication "
                                                   "factor was not set to -1.")
    if topic["num_partitions"] != -1:
        return _Refusal(ErrorCode.INVALID_REQUEST, "A manual partition assignment was specified, but numPartitions "
                                                   "was not set to -1.")
    indexes = sorted(assignment["partition_index"] for assignment in topic["assignments"])
    if indexes != list(range(len(indexes))):
        return _Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                        "partitions should be a consecutive 0-based integer sequence")
    reason = assignment_fault(services, topic["assignments"])
    return None if reason is None else _Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, reason)


def assignment_fault(services: Services, assignments: Sequence[Struct], replication_factor: int | None = None,
                     ) -> str | None:
    """Return what is wrong with the brokers that new partitions are to have, or None.

    Args:
        services: Knows the brokers.
        assignments: Each with its `broker_ids`.
        replication_factor: How many each must have; None for as many as the first.
    """
    for assignment in assignments:
        broker_ids = assignment["broker_ids"]
        if replication_factor is None:
            replication_factor = len(broker_ids)
        if not broker_ids or len(set(broker_ids)) != len(broker_ids) or not (
                set(broker_ids) <= set(services.cluster.topic_life.registered)):
            return (f"The manual partition assignment {broker_ids} names no broker, one twice, or one that is not "
                    "registered.")
        if len(broker_ids) != replication_factor:
            return (f"The manual partition assignment includes a partition with {len(broker_ids)} replica(s), but this "
                    f"is not consistent with previous partitions, which have {replication_factor} replica(s).")
        if not any(broker_id in services.cluster.brokers for broker_id in broker_ids):
            return f"All brokers of the manual partition assignment {broker_ids} are fenced."
    return None


def _create(services: Services, request: Request, topic: Struct, *, validate_only: bool) -> dict[str, Any]:
    name = topic["name"]
    count, replicas = _partition_count(services, topic), _replication_factor(services, topic)
    configs = {config["name"]: config["value"] for config in topic["configs"]}
    try:
        if validate_only:
            config = asked_topic_config(configs, services.config)
            topic_id = _NO_ID
        else:
            created = services.cluster.topic_life.create_topic(
                name, count, configs, replication_factor=replicas, replicas=[
                    assignment["broker_ids"] for assignment in sorted(
                        topic["assignments"], key=itemgetter("partition_index"))] or None)
            if created is None:  # another handler was faster
                return _refused(name, _Refusal(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists."))
            config, topic_id = created.config, created.topic_id
    except ConfigError as error:
        return _refused(name, _Refusal(ErrorCode.INVALID_CONFIG, error_text(error, TOPIC_CONFIG)))
    result: dict[str, Any] = {"name": name, "error_code": 0, "error_message": None, "num_partitions": count,
                              "replication_factor": replicas, "topic_id": topic_id}
    if request.header.api_version < _CONFIGS_FROM:
        return result
    if services.authorize_topic(request, AclOperation.DESCRIBE_CONFIGS, name):
        return {**result, "configs": _configs(config, services)}
    return {**result, "topic_config_error_code": ErrorCode.TOPIC_AUTHORIZATION_FAILED, "configs": [],
            "num_partitions": -1, "replication_factor": -1}


def _configs(config: TopicConfig, services: Services) -> list[dict[str, Any]]:
    return [{"name": entry.name, "value": entry.value, "read_only": False, "is_sensitive": False,
             "config_source": entry.source}
            for entry in topic_entries(config, services.config, services.cluster.dynamic_configs.by_broker)]


def _refused(name: str, refusal: _Refusal) -> dict[str, Any]:
    return {"name": name, "error_code": refusal.error_code, "error_message": refusal.message, "topic_id": _NO_ID,
            "configs": []}
