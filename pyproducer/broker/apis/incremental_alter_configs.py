"""IncrementalAlterConfigs 0-1: set, remove, extend and shorten settings of topics and brokers while they are in use.

Does:    topics (type 2), all settings; brokers (type 4, by id or "" for all), the defaults of topics: other settings of
         a broker need a restart and are refused with 42. Kept in the data directory. 40 a topic's wrong value or name,
         42 a broker's, twice the same resource or key, or no value, 29 and 31 without the permission, 3 and 17 for
         topics; validate_only.
Omits:   broker loggers (type 8), client metrics (type 16), groups (type 32): 42.

Road:    KafkaApis -> [IncrementalAlterConfigs] -> topic life, dynamic configs -> partition, log
Thread:  handler threads; one alteration at a time.
Source:  Java ConfigAdminManager, ConfigurationControlManager (4.1), and its measured answers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

from pyproducer.broker.apis.api_handler import Api, Question
from pyproducer.broker.apis.describe_configs import BROKER, TOPIC, configs_denial
from pyproducer.broker.apis.services import Answer, Services
from pyproducer.broker.apis.unexpected import unexpected
from pyproducer.broker.cluster.authorizer import AclOperation, ResourceType
from pyproducer.broker.cluster.config import BROKER_CONFIG, DYNAMIC_CONFIG, LIST_CONFIG, TOPIC_CONFIG, BrokerConfig
from pyproducer.broker.cluster.topic_config import asked_topic_config, error_text
from pyproducer.broker.network.request_channel import Request
from pyproducer.common.error_codes import ErrorCode
from pyproducer.common.errors import ConfigError
from pyproducer.common.settings.parse import value_text
from pyproducer.common.topic_name import topic_name_fault
from pyproducer.protocol.apis import ApiKeys
from pyproducer.protocol.schema import Struct

API = Api(ApiKeys.INCREMENTAL_ALTER_CONFIGS, asks=(
    Question(AclOperation.ALTER_CONFIGS, ResourceType.TOPIC),
    Question(AclOperation.ALTER_CONFIGS, ResourceType.CLUSTER)))
_SET, _DELETE, _APPEND, _SUBTRACT = range(4)


class _Refusal(NamedTuple):
    error_code: ErrorCode
    message: str | None


class _RefusedError(Exception):
    """What was asked of a resource makes no sense."""

    def __init__(self, refusal: _Refusal) -> None:
        super().__init__(refusal)
        self.refusal = refusal


def handle(services: Services, request: Request) -> Answer:
    """Answer one IncrementalAlterConfigs request."""
    data = request.body(ApiKeys.INCREMENTAL_ALTER_CONFIGS).data
    named = Counter((resource["resource_type"], resource["resource_name"]) for resource in data["resources"])
    responses = []
    for resource in data["resources"]:
        if named[resource["resource_type"], resource["resource_name"]] > 1:
            fault: _Refusal | None = _Refusal(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
        else:
            denial = configs_denial(services, request, AclOperation.ALTER_CONFIGS, resource)
            if denial is not ErrorCode.NONE:
                responses.append(_response(resource, _Refusal(denial, denial.sentence)))
                continue
            try:
                fault = _alter(services, resource, validate_only=data["validate_only"])
            except _RefusedError as error:
                fault = error.refusal
            except Exception as error:
                fault = _Refusal(unexpected(request, f"resource {resource['resource_name']}", error), None)
        responses.append(_response(resource, fault))
    return {"throttle_time_ms": 0, "responses": responses}


def error_response(request: Request, error_code: ErrorCode) -> Answer:
    """Say that the whole request failed."""
    return {"throttle_time_ms": 0, "responses": [
        _response(resource, _Refusal(error_code, None))
        for resource in request.body(ApiKeys.INCREMENTAL_ALTER_CONFIGS).data["resources"]]}


def _response(resource: Struct, fault: _Refusal | None) -> dict[str, Any]:
    error_code, message = (ErrorCode.NONE, None) if fault is None else fault
    return {"error_code": error_code, "error_message": message, "resource_type": resource["resource_type"],
            "resource_name": resource["resource_name"]}


def _alter(services: Services, resource: Struct, *, validate_only: bool) -> _Refusal | None:
    names = [config["name"] for config in resource["configs"]]
    if len(set(names)) < len(names):
        return _Refusal(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    missing = [config["name"] for config in resource["configs"]
               if config["value"] is None and config["config_operation"] != _DELETE]
    if missing:
        return _Refusal(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {','.join(missing)}")
    try:
        if resource["resource_type"] == TOPIC:
            return _alter_topic(services, resource, validate_only=validate_only)
        if resource["resource_type"] == BROKER:
            return _alter_broker(services, resource, validate_only=validate_only)
    except ConfigError as error:
        return _Refusal(ErrorCode.INVALID_CONFIG, error_text(error, TOPIC_CONFIG))
    return _Refusal(ErrorCode.INVALID_REQUEST, f"Unknown resource type {resource['resource_type']}")


def _alter_topic(services: Services, resource: Struct, *, validate_only: bool) -> _Refusal | None:
    name = resource["resource_name"]
    if not name:
        return _Refusal(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
    reason = topic_name_fault(name)
    if reason is not None:
        return _Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, reason)
    topic = services.cluster.topics.find(name)
    if topic is not None:
        defaults = {
            key: str(value_text(services.config.topic_default(key))) for key in LIST_CONFIG & TOPIC_CONFIG.keys()}
        altered = partial(_altered, resource, defaults)
        if validate_only:
            asked_topic_config(altered(topic.config.overrides), services.config)
            return None
        if services.cluster.topic_life.alter_topic_configs(name, altered):
            return None
    return _Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")


def _alter_broker(services: Services, resource: Struct, *, validate_only: bool) -> _Refusal | None:
    name = resource["resource_name"]
    if name and name != str(services.node_id):
        return _Refusal(ErrorCode.INVALID_REQUEST, (
            f"Unexpected broker id, expected {services.node_id}, but received {name}" if name.lstrip("-").isdigit()
            else f"Broker id must be an integer, but it is: {name}"))
    defaults = {key: services.config.text(key) for key in LIST_CONFIG & BROKER_CONFIG.keys()}
    altered = partial(_altered, resource, defaults)
    try:
        if validate_only:
            BrokerConfig().alter(altered(services.cluster.dynamic_configs.of(name)))
        else:
            services.cluster.dynamic_configs.alter_broker_configs(name, altered)
            services.cluster.leaders.elect()  # unclean.leader.election.enable may be another one
    except ConfigError as error:
        # Not 40, as of a topic: Kafka's check of a broker's settings knows one code.
        return _Refusal(ErrorCode.INVALID_REQUEST, (
            error_text(error, BROKER_CONFIG) if error.key in DYNAMIC_CONFIG else error.why))
    return None


def _altered(resource: Struct, defaults: Mapping[str, str], before: Mapping[str, str]) -> dict[str, str]:
    """Return the settings as they would be; they are not checked yet.

    Raises:
        _RefusedError: That cannot be done with a setting.
    """
    configs = dict(before)
    for config in resource["configs"]:
        name, operation, value = config["name"], config["config_operation"], config["value"]
        if operation == _SET:
            configs[name] = value
        elif operation == _DELETE:
            configs.pop(name, None)
        elif operation in (_APPEND, _SUBTRACT):
            if name not in defaults:
                word = "APPEND" if operation == _APPEND else "SUBTRACT"
                raise _RefusedError(_Refusal(ErrorCode.INVALID_CONFIG,
                                             f"Can't {word} to key {name} because its type is not LIST."))
            parts = configs.get(name, defaults[name]).split(",")
            given = value.split(",")
            kept = ([*parts, *(part for part in given if part not in parts)] if operation == _APPEND
                    else [part for part in parts if part not in given])
            configs[name] = ",".join(part for part in kept if part)
        else:
            raise _RefusedError(_Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, None))
    return configs
