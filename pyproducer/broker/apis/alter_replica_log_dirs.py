"""AlterReplicaLogDirs 1-2: a partition is to lie in another directory; there is one, where each lies already.

Does:    0 for the directory that there is, 57 for others, 3 for partitions that are not known, 6 for another broker's;
         of several directories for one partition the last counts; 31 without the permission.

Road:    KafkaApis -> [AlterReplicaLogDirs]
Thread:  handler threads.
Source:  Java KafkaApis.handleAlterReplicaLogDirsRequest, ReplicaManager.alterReplicaLogDirs (4.1), and its measured
         answers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyproducer.broker.apis.api_handler import Api, Question
from pyproducer.broker.apis.describe_log_dirs import log_dir
from pyproducer.broker.apis.services import Answer, Services
from pyproducer.broker.apis.unexpected import unexpected
from pyproducer.broker.cluster.authorizer import AclOperation, ResourceType
from pyproducer.broker.network.request_channel import Request
from pyproducer.common.error_codes import ErrorCode
from pyproducer.protocol.apis import ApiKeys

API = Api(ApiKeys.ALTER_REPLICA_LOG_DIRS, asks=(Question(AclOperation.ALTER, ResourceType.CLUSTER),))


def handle(services: Services, request: Request) -> Answer:
    """Answer one AlterReplicaLogDirs request."""
    if not services.authorize_cluster(request, AclOperation.ALTER):
        return error_response(request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    directory = log_dir(services)

    def outcome(name: str, index: int, path: str) -> ErrorCode:
        if path != directory:
            return ErrorCode.LOG_DIR_NOT_FOUND
        try:
            partition = services.cluster.topics.partition(name, index)
        except Exception as error:
            return unexpected(request, f"{name}-{index}", error)
        if partition is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return ErrorCode.NONE if services.node_id in partition.replicas.assigned else ErrorCode.NOT_LEADER_OR_FOLLOWER

    return _answer(request, outcome)


def error_response(request: Request, error_code: ErrorCode) -> Answer:
    """Say that the whole request failed."""
    return _answer(request, lambda _name, _index, _path: error_code)


def _answer(request: Request, outcome: Callable[[str, int, str], ErrorCode]) -> dict[str, Any]:
    paths: dict[str, dict[int, str]] = {}
    for directory in request.body(ApiKeys.ALTER_REPLICA_LOG_DIRS).data["dirs"]:
        for topic in directory["topics"]:
            paths.setdefault(topic["name"], {}).update(dict.fromkeys(topic["partitions"], directory["path"]))
    return {"throttle_time_ms": 0, "results": [
        {"topic_name": name, "partitions": [
            {"partition_index": index, "error_code": outcome(name, index, path)} for index, path in partitions.items()]}
        for name, partitions in paths.items()]}
