"""ListOffsets 1-10: offsets by time, and the two ends.

Does:    -1 the end (the last stable offset when read committed), -2 the start, -3 (from version 7 on) the newest
         timestamp, -4 (from version 8 on) the start of what is local, -5 (from version 9 on) the end of what is tiered,
         which is nothing; a time: the first record at or after it that the log still has, or -1 and -1. Other negative
         times are 35. Read committed finds nothing behind the last stable offset; an isolation level that nobody knows
         is -1. 3 unknown, 42 a partition that is named twice, once, 78 when records had to be expanded for it and there
         is no room now.
Omits:   tiered storage; timeout_ms has nothing to wait for.

Road:    KafkaApis -> [ListOffsets] -> partition -> log
Thread:  handler threads.
Source:  Java KafkaApis.handleListOffsetRequest, UnifiedLog.fetchOffsetByTimestamp (4.1), and its measured answers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

from pyproducer.broker.apis.api_handler import Api, Question
from pyproducer.broker.apis.services import Answer, Services
from pyproducer.broker.apis.unexpected import unexpected
from pyproducer.broker.cluster.authorizer import AclOperation, ResourceType
from pyproducer.broker.cluster.partition import Partition
from pyproducer.broker.network.request_channel import Request
from pyproducer.broker.storage.batch_header import BatchHeader
from pyproducer.broker.storage.expansion import EXPANSION, ExpansionBusyError
from pyproducer.broker.storage.log import Log
from pyproducer.common.error_codes import ErrorCode
from pyproducer.protocol.apis import ApiKeys
from pyproducer.record.batch_reader import Record, read_batches

API = Api(ApiKeys.LIST_OFFSETS, asks=(Question(AclOperation.DESCRIBE, ResourceType.TOPIC),))
LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
# The request version that brought each special timestamp.
_FIRST_VERSION = {LATEST: 0, EARLIEST: 0, MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9}
READ_COMMITTED = 1
ISOLATION_LEVELS = (0, READ_COMMITTED)
_LEADER_EPOCH_FROM = 4


class _Found(NamedTuple):
    timestamp: int
    offset: int
    leader_epoch: int


_NOTHING = _Found(-1, -1, -1)


def handle(services: Services, request: Request) -> Answer:
    """Answer one ListOffsets request."""
    data = request.body(ApiKeys.LIST_OFFSETS).data
    version = request.header.api_version
    isolation_level = data.get("isolation_level", 0)
    if isolation_level not in ISOLATION_LEVELS:
        return error_response(request, ErrorCode.UNKNOWN_SERVER_ERROR)
    committed = isolation_level == READ_COMMITTED
    named = Counter((topic["name"], asked["partition_index"])
                    for topic in data["topics"] for asked in topic["partitions"])
    topics: dict[str, list[dict[str, Any]]] = {}
    for topic in data["topics"]:
        answers = topics.setdefault(topic["name"], [])
        is_denied = not services.authorize_topic(request, AclOperation.DESCRIBE, topic["name"])
        for asked in topic["partitions"]:
            partition = services.cluster.topics.partition(topic["name"], asked["partition_index"])
            timestamp: int = asked["timestamp"]
            error_code, found = ErrorCode.NONE, _NOTHING
            key = topic["name"], asked["partition_index"]
            if is_denied:
                error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            elif named[key] != 1:
                if not named[key]:
                    continue
                named[key] = 0  # answered once
                error_code = ErrorCode.INVALID_REQUEST
            elif partition is None:
                error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            elif timestamp < 0 and _FIRST_VERSION.get(timestamp, version + 1) > version:
                error_code = ErrorCode.UNSUPPORTED_VERSION
            else:
                try:
                    error_code = partition.check_leader(services.node_id, asked.get("current_leader_epoch", -1))
                    if error_code is ErrorCode.NONE:
                        found = _find(partition, timestamp, committed=committed)
                except ExpansionBusyError:  # clients ask again
                    error_code = ErrorCode.OFFSET_NOT_AVAILABLE
                except Exception as error:
                    error_code = unexpected(request, partition.topic_partition, error)
            answers.append(_answer(asked["partition_index"], error_code, found, version))
    return {"throttle_time_ms": 0, "topics": [{"name": name, "partitions": answers}
                                              for name, answers in topics.items()]}


def error_response(request: Request, error_code: ErrorCode) -> Answer:
    """Say that the whole request failed."""
    version = request.header.api_version
    return {"throttle_time_ms": 0, "topics": [
        {"name": topic["name"], "partitions": [_answer(asked["partition_index"], error_code, _NOTHING, version)
                                               for asked in topic["partitions"]]}
        for topic in request.body(ApiKeys.LIST_OFFSETS).data["topics"]]}


def _answer(index: int, error_code: ErrorCode, found: _Found, version: int) -> dict[str, Any]:
    answer: dict[str, Any] = {"partition_index": index, "error_code": error_code, "timestamp": found.timestamp,
                              "offset": found.offset}
    if version >= _LEADER_EPOCH_FROM:
        answer["leader_epoch"] = found.leader_epoch
    return answer


def _find(partition: Partition, timestamp: int, *, committed: bool) -> _Found:
    log = partition.log
    leader_epoch = partition.leadership.leader_epoch
    if timestamp == LATEST:
        return _Found(-1, log.last_stable_offset if committed else log.high_watermark, leader_epoch)
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return _Found(-1, log.log_start_offset, leader_epoch)
    if timestamp == LATEST_TIERED:
        return _NOTHING
    end_offset = log.last_stable_offset if committed else log.high_watermark
    if timestamp == MAX_TIMESTAMP:
        header = log.batch_with_max_timestamp()
        found = _NOTHING if header is None else _newest_record(log, header)
    else:
        found = _first_record(log, timestamp)
    return found if found.offset < end_offset else _NOTHING


def _first_record(log: Log, timestamp: int) -> _Found:
    """Return the first record at or after a time that the log still serves."""
    start_offset = log.log_start_offset
    for header in log.batches_for_timestamp(timestamp):
        for record in _records(log, header):
            if record.timestamp >= timestamp and record.offset >= start_offset:
                return _Found(record.timestamp, record.offset, header.partition_leader_epoch)
    return _NOTHING


def _newest_record(log: Log, header: BatchHeader) -> _Found:
    """Return the first record of a batch that has its largest timestamp."""
    for record in _records(log, header):
        if record.timestamp >= header.max_timestamp:
            return _Found(record.timestamp, record.offset, header.partition_leader_epoch)
    # The header promises a timestamp that no record has (possible without strict checks): the last offset
    # is what Kafka's index has for such a batch.
    return _Found(header.max_timestamp, header.last_offset, header.partition_leader_epoch)


def _records(log: Log, header: BatchHeader) -> Iterator[Record]:
    """Read the records of a batch; none when it was deleted meanwhile."""
    for batch in read_batches(log.read(header.base_offset, header.size_bytes, at_least_one=True)):
        if batch.base_offset == header.base_offset:
            with EXPANSION.expanded(batch) as expanded:
                yield from batch.decoded(expanded)
