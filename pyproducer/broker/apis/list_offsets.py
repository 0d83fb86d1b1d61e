"""ListOffsets 1-10: offsets by time, and the two ends.

Does:    -1 the end (the last stable offset when read committed), -2 the start, -3 (from 7) the newest timestamp,
         -4 (from 8) the start of what is local, -5 (from 9) the end of what is tiered, which is nothing; a time: the
         first record at or after it, or -1 and -1. Other negative times are 35. Read committed finds nothing behind the
         last stable offset.
Omits:   tiered storage; timeout_ms has nothing to wait for.

Road:    KafkaApis -> [ListOffsets] -> partition -> log
Thread:  handler threads.
Source:  Java KafkaApis.handleListOffsetRequest, UnifiedLog.fetchOffsetByTimestamp (4.1), and its measured answers.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from pyproducer.broker.authorizer import AclOperation
from pyproducer.broker.partition import Partition
from pyproducer.broker.request_channel import Request
from pyproducer.broker.services import Answer, Services
from pyproducer.broker.storage.batch_header import BatchHeader
from pyproducer.broker.storage.log import Log
from pyproducer.broker.unexpected import unexpected
from pyproducer.common.error_codes import ErrorCode
from pyproducer.protocol.request import ListOffsetsRequest
from pyproducer.record.batch_reader import Record, read_batches
from pyproducer.record.expansion import EXPANSION, ExpansionBusyError

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
# The request version that brought each special timestamp.
_FIRST_VERSION = {LATEST: 0, EARLIEST: 0, MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9}
_READ_COMMITTED = 1
_LEADER_EPOCH_FROM = 4


class _Found(NamedTuple):
    timestamp: int
    offset: int
    leader_epoch: int


_NOTHING = _Found(-1, -1, -1)


def handle(services: Services, request: Request) -> Answer:
    """Answer one ListOffsets request."""
    data = request.body(ListOffsetsRequest).data
    version = request.header.api_version
    committed = data.get("isolation_level", 0) == _READ_COMMITTED
    topics = []
    for topic in data["topics"]:
        answers = []
        is_denied = not services.authorize_topic(request, AclOperation.DESCRIBE, topic["name"])
        for asked in topic["partitions"]:
            partition = services.cluster.partition(topic["name"], asked["partition_index"])
            timestamp: int = asked["timestamp"]
            error_code, found = ErrorCode.NONE, _NOTHING
            if is_denied:
                error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
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
        topics.append({"name": topic["name"], "partitions": answers})
    return {"throttle_time_ms": 0, "topics": topics}


def error_response(request: Request, error_code: ErrorCode) -> Answer:
    """Say that the whole request failed."""
    version = request.header.api_version
    return {"throttle_time_ms": 0, "topics": [
        {"name": topic["name"], "partitions": [_answer(asked["partition_index"], error_code, _NOTHING, version)
                                               for asked in topic["partitions"]]}
        for topic in request.body(ListOffsetsRequest).data["topics"]]}


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
        timestamp = timestamp if header is None else header.max_timestamp
    else:
        header = log.batch_for_timestamp(timestamp)
    found = _NOTHING if header is None else _first_record(log, header, timestamp)
    return found if found.offset < end_offset else _NOTHING


def _first_record(log: Log, header: BatchHeader, timestamp: int) -> _Found:
    """Return the first record of a batch at or after a time."""
    data = log.read(header.base_offset, header.size_bytes, at_least_one=True)
    record: Record
    for batch in read_batches(data):
        with EXPANSION.expanded(batch) as expanded:
            for record in batch.decoded(expanded):
                if record.timestamp >= timestamp:
                    return _Found(record.timestamp, record.offset, header.partition_leader_epoch)
        # The header promises a timestamp that no record has (possible without strict checks): the last offset
        # is what Kafka's index has for such a batch.
        return _Found(header.max_timestamp, header.last_offset, header.partition_leader_epoch)
    return _NOTHING
