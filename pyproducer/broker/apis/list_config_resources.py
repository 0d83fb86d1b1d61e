"""ListConfigResources 0-1: what there are settings of: topics and brokers.

Does:    the kinds that are asked for, or all; client metrics (type 16, the only kind of version 0) and groups (type 32)
         have no settings here; 35 for kinds that no Kafka lists; 31 without the permission.
Omits:   broker loggers (type 8): DescribeConfigs has none.

Road:    KafkaApis -> [ListConfigResources]
Thread:  handler threads.
Source:  Java KafkaApis.handleListConfigResources (4.1), and its measured answers.
"""

from __future__ import annotations

from pyproducer.broker.apis.api_handler import Api, Question
from pyproducer.broker.apis.describe_configs import BROKER, TOPIC
from pyproducer.broker.apis.services import Answer, Services
from pyproducer.broker.cluster.authorizer import AclOperation, ResourceType
from pyproducer.broker.network.request_channel import Request
from pyproducer.common.error_codes import ErrorCode
from pyproducer.protocol.apis import ApiKeys

API = Api(ApiKeys.LIST_CONFIG_RESOURCES, asks=(Question(AclOperation.DESCRIBE_CONFIGS, ResourceType.CLUSTER),))

_BROKER_LOGGER, _CLIENT_METRICS, _GROUP = 8, 16, 32
_LISTED = frozenset((TOPIC, BROKER, _BROKER_LOGGER, _CLIENT_METRICS, _GROUP))


def handle(services: Services, request: Request) -> Answer:
    """Answer one ListConfigResources request."""
    if not services.authorize_cluster(request, AclOperation.DESCRIBE_CONFIGS):
        return error_response(request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    data = request.body(ApiKeys.LIST_CONFIG_RESOURCES).data
    if request.header.api_version == 0:
        kinds = frozenset((_CLIENT_METRICS,))
    else:
        kinds = frozenset(data["resource_types"]) or _LISTED
    if kinds - _LISTED:
        return error_response(request, ErrorCode.UNSUPPORTED_VERSION)
    names = ((BROKER, map(str, sorted(services.cluster.brokers))), (TOPIC, list(services.cluster.topics)))
    return {"throttle_time_ms": 0, "error_code": 0, "config_resources": [
        {"resource_name": name, "resource_type": kind} for kind, found in names if kind in kinds for name in found]}


def error_response(request: Request, error_code: ErrorCode) -> Answer:
    """Say that the whole request failed."""
    return {"throttle_time_ms": 0, "error_code": error_code, "config_resources": []}
