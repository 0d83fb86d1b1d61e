"""ListPartitionReassignments 0: there are none, each is done at once; kafka-topics --describe asks.

Road:    KafkaApis -> [ListPartitionReassignments]
Thread:  handler threads.
Source:  Java ReplicationControlManager.listPartitionReassignments (4.1), and its measured answers.
"""

from __future__ import annotations

from pyproducer.broker.apis.api_handler import Api, Question
from pyproducer.broker.apis.services import Answer, Services
from pyproducer.broker.cluster.authorizer import AclOperation, ResourceType
from pyproducer.broker.network.request_channel import Request
from pyproducer.common.error_codes import ErrorCode
from pyproducer.protocol.apis import ApiKeys

API = Api(ApiKeys.LIST_PARTITION_REASSIGNMENTS, asks=(Question(AclOperation.DESCRIBE, ResourceType.CLUSTER),))


def handle(services: Services, request: Request) -> Answer:
    """Answer one ListPartitionReassignments request; topics that are not there are left out too."""
    if not services.authorize_cluster(request, AclOperation.DESCRIBE):
        return error_response(request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    return {"throttle_time_ms": 0, "error_code": 0, "error_message": None, "topics": []}


def error_response(request: Request, error_code: ErrorCode) -> Answer:
    """Say that the whole request failed."""
    return {"throttle_time_ms": 0, "error_code": error_code, "error_message": None, "topics": []}
