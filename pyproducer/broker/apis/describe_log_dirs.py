"""DescribeLogDirs 1-4: how large the partitions are that this broker has, and how much room is left.

Does:    the one directory, with what of it is asked for, or everything; a storage error where the system does not tell
         the room; 31 without the permission.
Omits:   replicas that move to another directory: there is one.

Road:    KafkaApis -> [DescribeLogDirs] -> partitions
Thread:  handler threads.
Source:  Java KafkaApis.handleDescribeLogDirsRequest, ReplicaManager.describeLogDirs (4.1), and its measured answers.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Iterator
from typing import Any

from pyproducer.broker.apis.api_handler import Api, Question
from pyproducer.broker.apis.services import Answer, Services
from pyproducer.broker.apis.unexpected import unexpected
from pyproducer.broker.cluster.authorizer import AclOperation, ResourceType
from pyproducer.broker.network.request_channel import Request
from pyproducer.common.error_codes import ErrorCode
from pyproducer.protocol.apis import ApiKeys

API = Api(ApiKeys.DESCRIBE_LOG_DIRS, asks=(Question(AclOperation.DESCRIBE, ResourceType.CLUSTER),))


def handle(services: Services, request: Request) -> Answer:
    """Answer one DescribeLogDirs request; partitions that are not here are left out."""
    if not services.authorize_cluster(request, AclOperation.DESCRIBE):
        return error_response(request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    topics = request.body(ApiKeys.DESCRIBE_LOG_DIRS).data["topics"]
    wanted: dict[str, set[int]] | None = None
    if topics is not None:
        wanted = {}
        for topic in topics:
            wanted.setdefault(topic["topic"], set()).update(topic["partitions"])
    directory = log_dir(services)
    result: dict[str, Any] = {"error_code": 0, "log_dir": directory, "topics": list(_topics(services, wanted))}
    try:
        usage = shutil.disk_usage(directory)
        result |= {"total_bytes": usage.total, "usable_bytes": usage.free}
    except OSError as error:
        result |= {"error_code": unexpected(request, directory, error), "topics": []}
    return {"throttle_time_ms": 0, "error_code": 0, "results": [result]}


def error_response(request: Request, error_code: ErrorCode) -> Answer:
    """Say that the whole request failed."""
    return {"throttle_time_ms": 0, "error_code": error_code, "results": []}


def log_dir(services: Services) -> str:
    """Return the directory of all logs as Kafka tells it: its absolute path."""
    return os.path.abspath(services.cluster.data_dir.path)


def _topics(services: Services, wanted: dict[str, set[int]] | None) -> Iterator[dict[str, Any]]:
    names: Collection[str] = services.cluster.topics if wanted is None else wanted
    for name in list(names):
        topic = services.cluster.topics.find(name)
        partitions = [] if topic is None else [
            {"partition_index": partition.topic_partition.partition, "partition_size": partition.log.size_bytes,
             "offset_lag": partition.log.log_end_offset - partition.end_offset_at(services.node_id),
             "is_future_key": False}
            for partition in topic.partitions if services.node_id in partition.replicas.assigned
            and (wanted is None or partition.topic_partition.partition in wanted[name])]
        if partitions:
            yield {"name": name, "partitions": partitions}
