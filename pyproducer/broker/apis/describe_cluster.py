"""DescribeCluster 0-2: the brokers and the controller.

Omits:   authorized operations (their default is sent); controllers (endpoint type 2) are refused with 114,
         other types with 115.

Road:    KafkaApis -> [DescribeCluster]
Thread:  handler threads.
Source:  Java KafkaApis.handleDescribeCluster (4.1), and its measured answer.
"""

from __future__ import annotations

from pyproducer.broker.request_channel import Request
from pyproducer.broker.services import Answer, Services
from pyproducer.common.error_codes import ErrorCode
from pyproducer.protocol.request import DescribeClusterRequest

_BROKERS = 1
_CONTROLLERS = 2


def handle(services: Services, request: Request) -> Answer:
    """Answer one DescribeCluster request."""
    data = request.body(DescribeClusterRequest).data
    endpoint_type = data.get("endpoint_type", _BROKERS)
    if endpoint_type != _BROKERS:
        return error_response(request, ErrorCode.MISMATCHED_ENDPOINT_TYPE if endpoint_type == _CONTROLLERS
                              else ErrorCode.UNSUPPORTED_ENDPOINT_TYPE)
    brokers = []
    for node_id, (end_point, rack) in sorted(services.end_points(request.context.listener_name).items()):
        broker = {"broker_id": node_id, "host": end_point.host, "port": end_point.port, "rack": rack}
        if request.header.api_version >= 2:
            broker["is_fenced"] = False
        brokers.append(broker)
    return {"throttle_time_ms": 0, "error_code": 0, "error_message": None,
            "cluster_id": services.cluster.cluster_id, "controller_id": services.cluster.controller_id,
            "brokers": brokers}


def error_response(request: Request, error_code: ErrorCode) -> Answer:
    """Say that the whole request failed."""
    return {"throttle_time_ms": 0, "error_code": error_code, "error_message": None, "cluster_id": "", "brokers": []}
