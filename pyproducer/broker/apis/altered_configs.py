"""What both APIs that alter settings share: each resource is looked at, asked for, and altered or refused by itself.

Road:    IncrementalAlterConfigs, AlterConfigs -> [altered configs] -> topic life, dynamic configs -> partition, log
Thread:  handler threads; one alteration at a time.
Source:  Java ConfigAdminManager, ConfigurationControlManager (4.1), and their measured answers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

from pyproducer.broker.apis.api_handler import Question
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
from pyproducer.protocol.schema import Struct


class Refusal(NamedTuple):
    """What a resource is answered that was not altered."""

    error_code: ErrorCode
    message: str | None


class RefusedAlterationError(Exception):
    """What was asked of a setting cannot be done; nothing was changed."""

    def __init__(self, error_code: ErrorCode, message: str | None) -> None:
        super().__init__(error_code, message)
        self.refusal: Refusal = Refusal(error_code, message)


class Alteration(NamedTuple):
    """What an API does with the settings of a resource.

    Attributes:
        altered: Returns the settings as they would be, unchecked: of the resource, the defaults of settings that are
            lists, and what is altered now. Raises RefusedAlterationError.
        needs_value: Whether a setting of the request must have a value.
    """

    altered: Callable[[Struct, Mapping[str, str], Mapping[str, str]], Mapping[str, str]]
    needs_value: Callable[[Struct], bool]


ASKS = (Question(AclOperation.ALTER_CONFIGS, ResourceType.TOPIC),
        Question(AclOperation.ALTER_CONFIGS, ResourceType.CLUSTER))


def altered_resources(services: Services, request: Request, alteration: Alteration) -> Answer:
    """Alter the settings of each resource of a request, or only look whether that could be done."""
    data = request.body(request.api_key).data
    named = Counter((resource["resource_type"], resource["resource_name"]) for resource in data["resources"])
    responses = []
    for resource in data["resources"]:
        if named[resource["resource_type"], resource["resource_name"]] > 1:
            fault: Refusal | None = Refusal(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
        else:
            denial = configs_denial(services, request, AclOperation.ALTER_CONFIGS, resource)
            if denial is not ErrorCode.NONE:
                responses.append(_response(resource, Refusal(denial, denial.sentence)))
                continue
            try:
                fault = _alter(services, resource, alteration, validate_only=data["validate_only"])
            except RefusedAlterationError as error:
                fault = error.refusal
            except Exception as error:
                fault = Refusal(unexpected(request, f"resource {resource['resource_name']}", error), None)
        responses.append(_response(resource, fault))
    return {"throttle_time_ms": 0, "responses": responses}


def error_answer(request: Request, error_code: ErrorCode) -> Answer:
    """Say that the whole request failed."""
    return {"throttle_time_ms": 0, "responses": [
        _response(resource, Refusal(error_code, None))
        for resource in request.body(request.api_key).data["resources"]]}


def _response(resource: Struct, fault: Refusal | None) -> dict[str, Any]:
    error_code, message = (ErrorCode.NONE, None) if fault is None else fault
    return {"error_code": error_code, "error_message": message, "resource_type": resource["resource_type"],
            "resource_name": resource["resource_name"]}


def _alter(services: Services, resource: Struct, alteration: Alteration, *,
           validate_only: bool) -> Refusal | None:
    names = [config["name"] for config in resource["configs"]]
    if len(set(names)) < len(names):
        return Refusal(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    missing = [config["name"] for config in resource["configs"]
               if config["value"] is None and alteration.needs_value(config)]
    if missing:
        return Refusal(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {','.join(missing)}")
    try:
        if resource["resource_type"] == TOPIC:
            return _alter_topic(services, resource, alteration, validate_only=validate_only)
        if resource["resource_type"] == BROKER:
            return _alter_broker(services, resource, alteration, validate_only=validate_only)
    except ConfigError as error:
        return Refusal(ErrorCode.INVALID_CONFIG, error_text(error, TOPIC_CONFIG))
    return Refusal(ErrorCode.INVALID_REQUEST, f"Unknown resource type {resource['resource_type']}")


def _alter_topic(services: Services, resource: Struct, alteration: Alteration, *,
                 validate_only: bool) -> Refusal | None:
    name = resource["resource_name"]
    if not name:
        return Refusal(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
    reason = topic_name_fault(name)
    if reason is not None:
        return Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, reason)
    topic = services.cluster.topics.find(name)
    if topic is not None:
        defaults = {
            key: str(value_text(services.config.topic_default(key))) for key in LIST_CONFIG & TOPIC_CONFIG.keys()}
        altered = partial(alteration.altered, resource, defaults)
        if validate_only:
            asked_topic_config(altered(topic.config.overrides), services.config)
            return None
        if services.cluster.topic_life.alter_topic_configs(name, altered):
            return None
    return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")


def _alter_broker(services: Services, resource: Struct, alteration: Alteration, *,
                  validate_only: bool) -> Refusal | None:
    name = resource["resource_name"]
    if name and name != str(services.node_id):
        return Refusal(ErrorCode.INVALID_REQUEST, (
            f"Unexpected broker id, expected {services.node_id}, but received {name}" if name.lstrip("-").isdigit()
            else f"Broker id must be an integer, but it is: {name}"))
    defaults = {key: services.config.text(key) for key in LIST_CONFIG & BROKER_CONFIG.keys()}
    altered = partial(alteration.altered, resource, defaults)
    try:
        if validate_only:
            BrokerConfig().alter(altered(services.cluster.dynamic_configs.of(name)))
        else:
            services.cluster.dynamic_configs.alter_broker_configs(name, altered)
            services.cluster.leaders.elect()  # unclean.leader.election.enable may be another one
    except ConfigError as error:
        # Not 40, as of a topic: Kafka's check of a broker's settings knows one code.
        return Refusal(ErrorCode.INVALID_REQUEST, (
            error_text(error, BROKER_CONFIG) if error.key in DYNAMIC_CONFIG else error.why))
    return None
