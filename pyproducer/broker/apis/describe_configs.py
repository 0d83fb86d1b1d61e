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

from collections.abc import Callable
from typing import Any, NamedTuple

from pyproducer.broker.apis import answer_size
from pyproducer.broker.apis.answer_size import AnswerSize
from pyproducer.broker.apis.api_handler import Api, Question
from pyproducer.broker.apis.services import Answer, Services
from pyproducer.broker.apis.unexpected import unexpected
from pyproducer.broker.cluster.authorizer import AclOperation, ResourceType
from pyproducer.broker.cluster.config_entries import ConfigEntry, broker_entries, cluster_entries, topic_entries
from pyproducer.broker.network.request_channel import Request
from pyproducer.common.error_codes import ErrorCode
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
    size = AnswerSize(answer_size.MOST_CONFIG_BYTES)
    told: dict[Any, tuple[list[dict[str, Any]], int]] = {}
    for resource in data["resources"]:
        if size.is_full:
            results.append(_refused(resource, ErrorCode.POLICY_VIOLATION, "Excessively large answer."))
            continue
        try:
            found = _denial(services, request, resource) or _described(services, resource)
        except Exception as error:
            code = unexpected(request, f"resource {resource['resource_name']}", error)
            found = code, code.sentence
        if not isinstance(found, _Described):
            results.append(_refused(resource, *found))
            continue
        keys = frozenset(resource["configuration_keys"] or ())  # no keys are all keys, as in Kafka
        same = keys, found.same
        if same not in told:  # most topics have the settings of the one before
            configs = [_config(entry, version, with_synonyms=with_synonyms, with_documentation=with_documentation)
                       for entry in found.entries() if not keys or entry.name in keys]
            told[same] = configs, sum(map(_size_bytes, configs))
        configs, size_bytes = told[same]
        size.add(size_bytes + len(resource["resource_name"]))
        results.append({
            "error_code": 0, "error_message": "", "resource_type": resource["resource_type"],
            "resource_name": resource["resource_name"], "configs": configs})
    return {"throttle_time_ms": 0, "results": results}


def error_response(request: Request, error_code: ErrorCode) -> Answer:
    """Say that the whole request failed."""
    resources = request.body(ApiKeys.DESCRIBE_CONFIGS).data["resources"]
    return {"throttle_time_ms": 0, "results": [_refused(resource, error_code, error_code.sentence)
                                               for resource in resources]}


def _denial(services: Services, request: Request, resource: Struct) -> tuple[ErrorCode, str] | None:
    error_code = configs_denial(services, request, AclOperation.DESCRIBE_CONFIGS, resource)
    return None if error_code is ErrorCode.NONE else (error_code, error_code.sentence)


def configs_denial(services: Services, request: Request, operation: AclOperation, resource: Struct) -> ErrorCode:
    """Return NONE when the asker may see or alter the settings of a resource: those of brokers are the cluster's."""
    if resource["resource_type"] == TOPIC:
        is_allowed = services.authorize_topic(request, operation, resource["resource_name"])
        return ErrorCode.NONE if is_allowed else ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return (ErrorCode.NONE if services.authorize_cluster(request, operation)
            else ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


class _Described(NamedTuple):
    """What is to be told of a resource.

    Attributes:
        same: Resources with the same are told the same.
        entries: Makes the settings.
    """

    same: Any
    entries: Callable[[], list[ConfigEntry]]


def _described(services: Services, resource: Struct) -> _Described | tuple[ErrorCode, str]:
    kind, name = resource["resource_type"], resource["resource_name"]
    cluster = services.cluster
    if kind == TOPIC:
        reason = topic_name_fault(name)
        if reason is not None:
            return ErrorCode.INVALID_TOPIC_EXCEPTION, reason
        topic = cluster.topics.find(name)
        if topic is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ""
        config = topic.config
        return _Described(frozenset(config.overrides.items()),
                          lambda: topic_entries(config, services.config, cluster.dynamic_configs.by_broker))
    if kind == BROKER:
        if name == "":
            return _Described("", lambda: cluster_entries(cluster.dynamic_configs.of("")))
        if not name.lstrip("-").isdigit():
            return ErrorCode.INVALID_REQUEST, f"Broker id must be an integer, but it is: {name}"
        if int(name) != services.node_id:
            return ErrorCode.INVALID_REQUEST, (f"Unexpected broker id, expected {services.node_id} or empty string, "
                                               f"but received {name}")
        return _Described(name, lambda: broker_entries(services.config, cluster.dynamic_configs.by_broker))
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


def _size_bytes(config: dict[str, Any]) -> int:
    """Return about how many bytes of the answer a setting takes."""
    return 20 + len(config["name"]) + len(config["value"] or "") + len(config.get("documentation") or "") + sum(
        20 + len(synonym["name"]) + len(synonym["value"] or "") for synonym in config["synonyms"])


def _refused(resource: Struct, error_code: ErrorCode, message: str) -> dict[str, Any]:
    return {"error_code": error_code, "error_message": message, "resource_type": resource["resource_type"],
            "resource_name": resource["resource_name"], "configs": []}
