"""Produce 3-13: append one batch to each partition named.

Does:    Kafka's checks in Kafka's order (storage/validation.py), duplicates and sequences of idempotent producers
         (storage/producer_state.py), acks=0, acks=1 and acks=-1 (others: 21), LogAppendTime, max.message.bytes (10),
         topic ids from version 13 on (100 when unknown), record_errors (KIP-467), the leader's address when this node
         does not lead (KIP-951, from version 10 on). acks=0 has no response: nothing is written, or the connection is
         closed when a partition had an error. Versions 0-2 are advertised and refused, as Kafka does (KAFKA-18659). A
         partition that is named twice is answered once, and gets the last of its batches; a topic without partitions is
         left out.
         6 when this node does not lead; 17 an internal topic, but for the admin client. Topics need the permission to
         write (29). Records of a transaction need that for its id (53) and a partition that is in it (48, from version
         11 on 120); from version 12 on it is taken in here (Transactions V2).
Differs: where one of the batches that one partition is sent makes no sense, Kafka may store another and answer 87.
         acks=-1 asks for min.insync.replicas: 19 where fewer are in sync before, 20 where they are behind the append.
Omits:   what is in sync has everything at once, so timeout_ms has nothing to wait for.

Road:    KafkaApis -> [Produce] -> partition -> log
Thread:  handler threads. Appending wakes the fetches that wait for the partition; their responses are built here.
Source:  Java KafkaApis.handleProduceRequest, ReplicaManager.appendRecords (4.1), and its measured answers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyproducer.broker.apis.api_handler import Api, Question
from pyproducer.broker.apis.services import Answer, Outcome, Services
from pyproducer.broker.apis.unexpected import unexpected
from pyproducer.broker.cluster.authorizer import AclOperation, ResourceType
from pyproducer.broker.cluster.coordinator.transaction.append_guard import AppendGuard, note_attempt
from pyproducer.broker.cluster.partition import Partition
from pyproducer.broker.cluster.replicas import Leadership
from pyproducer.broker.cluster.topic_table import TopicState
from pyproducer.broker.network.request_channel import Request
from pyproducer.broker.storage.expansion import Allowance
from pyproducer.broker.storage.log import AppendResult
from pyproducer.common.error_codes import ErrorCode
from pyproducer.protocol.apis import ApiKeys
from pyproducer.protocol.schema import Struct
from pyproducer.record.layout import ATTRIBUTES_OFFSET, TRANSACTIONAL_MASK, Buffer

API = Api(ApiKeys.PRODUCE, asks=(
    Question(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID), Question(AclOperation.WRITE, ResourceType.TOPIC)))
_TOPIC_ID_FROM = 13
_CURRENT_LEADER_FROM = 10
ACKS_ALL = -1
_NOTHING: tuple[()] = ()
# Java AdminUtils.ADMIN_CLIENT_ID: the one that may write to internal topics.
_ADMIN_CLIENT_ID = "__admin_client"


def handle(services: Services, request: Request) -> Answer:
    """Answer one Produce request."""
    data = request.body(ApiKeys.PRODUCE).data
    if not _has_transactional_records(data):
        return _append_all(services, request, data, None)
    transactional_id = data["transactional_id"]
    if transactional_id is None or not services.authorize(
            request, AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id):
        return error_response(request, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    with AppendGuard(services.cluster.transactions, transactional_id, request.header.api_version) as guard:
        return _append_all(services, request, data, guard)


def note_attempts(services: Services, request: Request) -> None:
    """Remember the batches of transactions in a request that something else than `handle` may answer."""
    for topic_data in request.body(ApiKeys.PRODUCE).data["topic_data"]:
        found = _find_topic(services, topic_data, request.header.api_version)
        for partition_data in topic_data["partition_data"]:
            if found is not None and 0 <= partition_data["index"] < len(found.partitions):
                note_attempt(found.partitions[partition_data["index"]], partition_data["records"],
                             services.clock.timestamp_ms())


def _append_all(services: Services, request: Request, data: Struct, guard: AppendGuard | None) -> Answer:
    version = request.header.api_version
    acks = data["acks"]
    timestamp_ms = services.clock.timestamp_ms()
    node_id = services.node_id
    allowance = Allowance(request.size_bytes)
    failed = False
    leaders: set[int] = set()
    responses: list[dict[str, Any]] = []
    asked: Sequence[Mapping[str, Any]] = data["topic_data"]
    if len(asked) != 1 or len(asked[0]["partition_data"]) != 1:
        asked = _each_once(asked, version)
    for topic_data in asked:
        topic = _topic_key(topic_data, version)
        found = _find_topic(services, topic_data, version)
        partitions: tuple[Partition, ...] = _NOTHING if found is None else found.partitions
        name: str | None = topic_data["name"] if version < _TOPIC_ID_FROM else None if found is None else found.name
        is_denied = name is not None and not services.authorize_topic(request, AclOperation.WRITE, name)
        unknown = (ErrorCode.UNKNOWN_TOPIC_ID if found is None and version >= _TOPIC_ID_FROM
                   else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        answers: list[dict[str, Any]] = []
        for partition_data in topic_data["partition_data"]:
            index: int = partition_data["index"]
            partition = partitions[index] if 0 <= index < len(partitions) else None
            if is_denied:
                answer = _error(index, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            elif partition is None:
                answer = _error(index, unknown)
            elif not -1 <= acks <= 1:
                answer = _error(index, ErrorCode.INVALID_REQUIRED_ACKS)
            elif found is not None and found.is_internal and request.header.client_id != _ADMIN_CLIENT_ID:
                answer = _error(index, ErrorCode.INVALID_TOPIC_EXCEPTION)
            elif partition.leadership.leader_id != node_id:
                answer = _not_leader(index, partition.leadership, version)
                leaders.add(partition.leadership.leader_id)
            else:
                answer = _append(services, request, partition, partition_data["records"], timestamp_ms, guard,
                                 allowance, needs_replicas=acks == ACKS_ALL)
            failed |= answer["error_code"] != 0
            answers.append(answer)
        topic["partition_responses"] = answers
        responses.append(topic)
    if acks == 0:
        # Nobody waits for an answer: a closed connection is the only way to say that something went wrong.
        return Outcome.CLOSE_CONNECTION if failed else Outcome.NO_RESPONSE
    body: dict[str, Any] = {"responses": responses, "throttle_time_ms": 0}
    if leaders and version >= _CURRENT_LEADER_FROM:
        body["node_endpoints"] = services.node_end_points(request.context, leaders)
    return body


def error_response(request: Request, error_code: ErrorCode) -> Answer:
    """Say that the whole request failed."""
    data = request.body(ApiKeys.PRODUCE).data
    if data["acks"] == 0:
        return Outcome.CLOSE_CONNECTION
    version = request.header.api_version
    responses = []
    for topic_data in data["topic_data"]:
        topic = _topic_key(topic_data, version)
        topic["partition_responses"] = [_error(partition["index"], error_code)
                                        for partition in topic_data["partition_data"]]
        responses.append(topic)
    return {"responses": responses, "throttle_time_ms": 0}


def _append(services: Services, request: Request, partition: Partition, records: Buffer | None, timestamp_ms: int,
            guard: AppendGuard | None, allowance: Allowance, *, needs_replicas: bool) -> dict[str, Any]:
    index = partition.topic_partition.partition
    try:
        fault = None if guard is None else guard.check_batch(partition, records, timestamp_ms)
        if fault is None and needs_replicas and not partition.has_enough_replicas:
            return _error(index, _too_few(services, request, partition, ErrorCode.NOT_ENOUGH_REPLICAS))
        result = fault or partition.append(records, produce_version=request.header.api_version,
                                           timestamp_ms=timestamp_ms, allowance=allowance, appender=(
                                               None if request.story is None
                                               else request.story.appender_of(*partition.topic_partition)))
    except Exception as error:  # the others of the request may be stored already
        return _error(index, unexpected(request, partition.topic_partition, error))
    log_start_offset = partition.log.log_start_offset
    if isinstance(result, AppendResult):
        services.cluster.delayed_fetches.check_and_complete(partition.topic_partition)
        if needs_replicas and not partition.has_enough_replicas:
            return _error(index, _too_few(services, request, partition, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND))
        return {"index": index, "error_code": 0, "base_offset": result.base_offset,
                "log_append_time_ms": result.log_append_time_ms, "log_start_offset": log_start_offset,
                "record_errors": _NOTHING, "error_message": None}
    services.refusals.refused(partition.topic_partition, request.header.client_id, result.error_code, result.why,
                              now_ms=services.clock.now_ms())
    error_code = result.error_code
    if error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and request.header.api_version >= _TOPIC_ID_FROM:
        error_code = ErrorCode.UNKNOWN_TOPIC_ID  # the topic was deleted meanwhile
    answer = _error(index, error_code, log_start_offset if result.tells_log_start_offset else -1)
    answer["error_message"] = result.error_message
    answer["record_errors"] = [
        {"batch_index": fault.batch_index, "batch_index_error_message": fault.message}
        for fault in result.record_faults]
    return answer


def _too_few(services: Services, request: Request, partition: Partition, error_code: ErrorCode) -> ErrorCode:
    services.refusals.refused(partition.topic_partition, request.header.client_id, error_code, (
        f"in sync are {sorted(partition.replicas.isr)}, fewer than min.insync.replicas="
        f"{partition.config.min_insync_replicas}"), now_ms=services.clock.now_ms())
    return error_code


def _error(index: int, error_code: ErrorCode, log_start_offset: int = -1) -> dict[str, Any]:
    return {"index": index, "error_code": error_code, "base_offset": -1, "log_append_time_ms": -1,
            "log_start_offset": log_start_offset, "record_errors": _NOTHING, "error_message": None}


def _not_leader(index: int, leadership: Leadership, version: int) -> dict[str, Any]:
    answer = _error(index, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    if version >= _CURRENT_LEADER_FROM:
        answer["current_leader"] = {"leader_id": leadership.leader_id, "leader_epoch": leadership.leader_epoch}
    return answer


def _each_once(topics: Sequence[Mapping[str, Any]], version: int) -> list[dict[str, Any]]:
    """Return the topics that have partitions, each once, with each partition as it is named last."""
    name_field = "topic_id" if version >= _TOPIC_ID_FROM else "name"
    found: dict[Any, dict[int, Struct]] = {}
    for topic_data in topics:
        for partition_data in topic_data["partition_data"]:
            found.setdefault(topic_data[name_field], {})[partition_data["index"]] = partition_data
    return [{name_field: name, "partition_data": list(partitions.values())} for name, partitions in found.items()]


def _find_topic(services: Services, topic_data: Mapping[str, Any], version: int) -> TopicState | None:
    topics = services.cluster.topics
    return topics.find_by_id(topic_data["topic_id"]) if version >= _TOPIC_ID_FROM else topics.find(topic_data["name"])


def _topic_key(topic_data: Mapping[str, Any], version: int) -> dict[str, Any]:
    if version >= _TOPIC_ID_FROM:
        return {"topic_id": topic_data["topic_id"]}
    return {"name": topic_data["name"]}


def _has_transactional_records(data: Struct) -> bool:
    """Whether a batch has the transactional bit; a whole request stands or falls with one such batch, as in Kafka."""
    low_byte = ATTRIBUTES_OFFSET + 1
    return any(records is not None and len(records) > low_byte and records[low_byte] & TRANSACTIONAL_MASK
               for topic in data["topic_data"] for partition in topic["partition_data"]
               for records in (partition["records"],))
