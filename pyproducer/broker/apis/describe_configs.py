"""DescribeConfigs 1-4: the settings of topics and brokers, with where each comes from.

Does:    topics (type 2) and brokers (type 4, by id, or "" for what was altered for all of them); keys asked for or all;
         synonyms; documentation from version 3 on; 29 and 31 without the permission; 3 and 17 for topics, 42 for
         another broker's id and for resources of other kinds; 44 for what would make the answer too large.
Omits:   broker loggers (type 8), client metrics (type 16), groups (type 32).

Road:    KafkaApis -> [DescribeConfigs] -> config entries
Thread:  handler threads.
Source:  Java ConfigHelper.describeConfigs (4.1), and its measured answers.
"""

from __future__ import annotations

from typing import Any

from pyproducer.broker.apis.answer_size import AnswerSize
from pyproducer.broker.apis.api_handler import Api, Question
from pyproducer.broker.apis.services import Answer, Services
from pyproducer.broker.apis.unexpected import unexpected
from pyproducer.broker.cluster.authorizer import AclOperation, ResourceType
from pyproducer.broker.cluster.config_entries import ConfigEntry, broker_entries, cluster_entries, topic_entries
from pyproducer.broker.network.request_channel import Request
from pyproducer.common.error_codes import ERRORS, ErrorCode
from pyproducer.common.topic_name import topic_name_fault
from pyproducer.protocol.apis import ApiKeys
from pyproducer.protocol.schema import Struct

API = Api(ApiKeys.DESCRIBE_CONFIGS, asks=(
    Question(AclOperation.DESCRIBE_CONFIGS, ResourceType.TOPIC),
    Question(AclOperation.DESCRIBE_CONFIGS, ResourceType.CLUSTER)))
TOPIC = 2
BROKER = 4
_DOCUMENTATION_FROM = 3


def handle(services: Services, request: Request) -> Answer:
    """Answer one DescribeConfigs request."""
    data = request.body(ApiKeys.DESCRIBE_CONFIGS).data
    version = request.header.api_version
    with_synonyms = data["include_synonyms"]
    with_documentation = data.get("include_documentation", False)
    results = []
    size = AnswerSize()
    for resource in data["resources"]:
        if size.is_full:
            results.append(_refused(resource, ErrorCode.POLICY_VIOLATION, "Excessively large answer."))
            continue
        try:
            found = _denial(services, request, resource) or _entries(services, resource)
        except Exception as error:
            code = unexpected(request, f"resource {resource['resource_name']}", error)
            found = code, ERRORS[code].sentence
        if isinstance(found, tuple):
            results.append(_refused(resource, *found))
            continue
        size.add(len(found))
        keys = resource["configuration_keys"]
        wanted = None if not keys else set(keys)  # no keys are all keys, as in Kafka
        results.append({
            "error_code": 0, "error_message": "", "resource_type": resource["resource_type"],
            "resource_name": resource["resource_name"],
            "configs": [_config(entry, version, with_synonyms=with_synonyms, with_documentation=with_documentation)
                        for entry in found if wanted is None or entry.name in wanted]})
    return {"throttle_time_ms": 0, "results": results}


def error_response(request: Request, error_code: ErrorCode) -> Answer:
    """Say that the whole request failed."""
    resources = request.body(ApiKeys.DESCRIBE_CONFIGS).data["resources"]
    return {"throttle_time_ms": 0, "results": [_refused(resource, error_code, ERRORS[error_code].sentence)
                                               for resource in resources]}


def _denial(services: Services, request: Request, resource: Struct) -> tuple[ErrorCode, str] | None:
    error_code = configs_denial(services, request, AclOperation.DESCRIBE_CONFIGS, resource)
    return None if error_code is ErrorCode.NONE else (error_code, ERRORS[error_code].sentence)


def configs_denial(services: Services, request: Request, operation: AclOperation, resource: Struct) -> ErrorCode:
    """Return NONE when the asker may see or alter the settings of a resource: those of brokers are the cluster's."""
    if resource["resource_type"] == TOPIC:
        is_allowed = services.authorize_topic(request, operation, resource["resource_name"])
        return ErrorCode.NONE if is_allowed else ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return (ErrorCode.NONE if services.authorize_cluster(request, operation)
            else ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


def _entries(services: Services, resource: Struct) -> list[ConfigEntry] | tuple[ErrorCode, str]:
    kind, name = resource["resource_type"], resource["resource_name"]
    cluster = services.cluster
    if kind == TOPIC:
        reason = topic_name_fault(name)
        if reason is not None:
            return ErrorCode.INVALID_TOPIC_EXCEPTION, reason
        topic = cluster.topics.find(name)
        if topic is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ""
        return topic_entries(topic.config, services.config, cluster.dynamic_configs.by_broker)
    if kind == BROKER:
        if name == "":
            return cluster_entries(cluster.dynamic_configs.of(""))
        if not name.lstrip("-").isdigit():
            return ErrorCode.INVALID_REQUEST, f"Broker id must be an integer, but it is: {name}"
        if int(name) != services.node_id:
            return ErrorCode.INVALID_REQUEST, (f"Unexpected broker id, expected {services.node_id} or empty string, "
                                               f"but received {name}")
        return broker_entries(services.config, cluster.dynamic_configs.by_broker)
    return ErrorCode.INVALID_REQUEST, f"Resources of type {kind} are not described by the embedded broker."


def _config(entry: ConfigEntry, version: int, *, with_synonyms: bool, with_documentation: bool) -> dict[str, Any]:
    config: dict[str, Any] = {
        "name": entry.name, "value": entry.value, "read_only": entry.is_read_only, "config_source": entry.source,
        "is_sensitive": entry.is_sensitive,
        "synonyms": [synonym._asdict() for synonym in entry.synonyms] if with_synonyms else []}
    if version >= _DOCUMENTATION_FROM:
        config["config_type"] = entry.config_type
        config["documentation"] = entry.doc if with_documentation else None
    return config


def _refused(resource: Struct, error_code: ErrorCode, message: str) -> dict[str, Any]:
    return {"error_code": error_code, "error_message": message, "resource_type": resource["resource_type"],
            "resource_name": resource["resource_name"], "configs": []}
