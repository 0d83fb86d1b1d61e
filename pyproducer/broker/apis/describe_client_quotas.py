"""DescribeClientQuotas 0-1: none: quotas here are settings of the broker, of no user or client.

Does:    `kafka-configs.sh --describe --entity-type users` asks this before it asks for credentials; 31 without the
         permission.
Omits:   AlterClientQuotas.

Road:    KafkaApis -> [DescribeClientQuotas]
Thread:  handler threads.
Source:  Java KafkaApis.handleDescribeClientQuotasRequest (4.1).
"""

from __future__ import annotations

from pyproducer.broker.apis.api_handler import Api, Question
from pyproducer.broker.apis.services import Answer, Services
from pyproducer.broker.cluster.authorizer import AclOperation, ResourceType
from pyproducer.broker.network.request_channel import Request
from pyproducer.common.error_codes import ErrorCode
from pyproducer.protocol.apis import ApiKeys

API = Api(ApiKeys.DESCRIBE_CLIENT_QUOTAS, asks=(Question(AclOperation.DESCRIBE_CONFIGS, ResourceType.CLUSTER),))


def handle(services: Services, request: Request) -> Answer:
    """Answer one DescribeClientQuotas request."""
    if not services.authorize_cluster(request, AclOperation.DESCRIBE_CONFIGS):
        return error_response(request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    return {"throttle_time_ms": 0, "error_code": 0, "error_message": "", "entries": []}


def error_response(request: Request, error_code: ErrorCode) -> Answer:
    """Say that the whole request failed."""
    return {"throttle_time_ms": 0, "error_code": error_code, "error_message": error_code.sentence,
            "entries": None}
