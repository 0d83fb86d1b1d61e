"""DescribeCluster 0-2: the brokers and the controller.

Does:    the addresses of the listener that was asked on; the authorized operations, when asked for; controllers
         (endpoint type 2) are refused with 114, other types with 115.
Omits:   fenced brokers: there are none.

Road:    KafkaApis -> [DescribeCluster]
Thread:  handler threads.
Source:  Java KafkaApis.handleDescribeCluster (4.1), and its measured answer.
"""

from __future__ import annotations

from pyproducer.broker.apis.api_handler import Api, Question
from pyproducer.broker.apis.services import Answer, Services
from pyproducer.broker.cluster.authorizer import CLUSTER_NAME, AclOperation, ResourceType
from pyproducer.broker.network.request_channel import Request
from pyproducer.common.error_codes import ErrorCode
from pyproducer.protocol.apis import ApiKeys

API = Api(ApiKeys.DESCRIBE_CLUSTER, asks=(Question(AclOperation.DESCRIBE, ResourceType.CLUSTER),))
_BROKERS = 1
_CONTROLLERS = 2


def handle(services: Services, request: Request) -> Answer:
    """Answer one DescribeCluster request."""
    data = request.body(ApiKeys.DESCRIBE_CLUSTER).data
    endpoint_type = data.get("endpoint_type", _BROKERS)
    if endpoint_type != _BROKERS:
        if endpoint_type == _CONTROLLERS:
            return _refused(ErrorCode.MISMATCHED_ENDPOINT_TYPE, "The request was sent to an endpoint of type BROKER, "
                                                                "but we wanted an endpoint of type CONTROLLER")
        return _refused(ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, f"Unsupported endpoint type {endpoint_type}")
    brokers = []
    for node_id, (end_point, rack) in sorted(services.end_points(request.context).items()):
        broker = {"broker_id": node_id, "host": end_point.host, "port": end_point.port, "rack": rack}
        if request.header.api_version >= 2:
            broker["is_fenced"] = False
        brokers.append(broker)
    answer = {"throttle_time_ms": 0, "error_code": 0, "error_message": None,
              "cluster_id": services.cluster.cluster_id, "controller_id": services.cluster.brokers.controller_id,
              "brokers": brokers}
    if data["include_cluster_authorized_operations"]:
        answer["cluster_authorized_operations"] = (
            services.authorized_operations(request, ResourceType.CLUSTER, CLUSTER_NAME)
            if services.authorize_cluster(request, AclOperation.DESCRIBE) else 0)
    return answer


def error_response(request: Request, error_code: ErrorCode) -> Answer:
    """Say that the whole request failed."""
    return _refused(error_code, None)


def _refused(error_code: ErrorCode, message: str | None) -> Answer:
    return {"throttle_time_ms": 0, "error_code": error_code, "error_message": message, "cluster_id": "", "brokers": []}
