"""Fetch 4-18: batches from partition leaders, waiting for them when there are none yet.

Does:    min_bytes and max_wait_ms without a thread that waits (delayed_operation.py); whole batches, and at least one
         even when it alone is above the limits; a batch that holds the offset comes from its start; fetch.max.bytes,
         and less where large responses wait to be read (queued.max.response.bytes);
         the permission to read a topic (29), for followers that for the cluster; leader epochs (74, 75), 1 out of
         range, 3 and 100 unknown, 6 with the leader's address (KIP-951); from version 11 on consumers may read from
         followers, up to where these are in sync, and are sent to the one in their rack where replica.selector.class
         says so (KIP-392); read_committed ends at the last stable offset
         and lists the aborted transactions to skip in what it gives. A partition that is named twice is answered once,
         as it was named last; an isolation level that nobody knows is -1, and so is a negative size where there is
         something to read.
Omits:   sessions: a request to open one is answered with the session id zero, which clients take as no; a request of
         a session is 70. Diverging epochs.

Road:    KafkaApis -> [Fetch] -> partition -> log -> socket
Thread:  handler threads; a delayed fetch is answered on the thread of the append that completes it, or the timer's.
Source:  Java KafkaApis.handleFetchRequest, ReplicaManager.fetchMessages, DelayedFetch (4.1), and measured answers.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, NamedTuple

from pyproducer.broker.apis.api_handler import Api, Question
from pyproducer.broker.apis.list_offsets import ISOLATION_LEVELS, READ_COMMITTED
from pyproducer.broker.apis.services import Answer, Outcome, Services
from pyproducer.broker.apis.unexpected import unexpected
from pyproducer.broker.cluster.authorizer import AclOperation, ResourceType
from pyproducer.broker.cluster.config import RACK_AWARE_SELECTOR
from pyproducer.broker.cluster.delayed_operation import DelayedOperation
from pyproducer.broker.cluster.partition import Partition
from pyproducer.broker.cluster.topic_table import TopicState
from pyproducer.broker.network.request_channel import Request
from pyproducer.broker.storage.batch_header import last_header
from pyproducer.broker.storage.log import Log
from pyproducer.common.cluster import TopicPartition
from pyproducer.common.error_codes import ErrorCode
from pyproducer.protocol.apis import ApiKeys
from pyproducer.protocol.schema import Struct

API = Api(ApiKeys.FETCH, asks=(
    Question(AclOperation.READ, ResourceType.TOPIC), Question(AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER)))
_logger = logging.getLogger(__name__)
_TOPIC_ID_FROM = 13
_FOLLOWERS_FROM = 11
_LEADER_TAG_FROM = 12
_NODE_ENDPOINTS_FROM = 16


class _Asked(NamedTuple):
    """One partition of a request; `partition` is None when there is no such topic or partition."""

    partition_index: int
    partition: Partition | None
    unknown: ErrorCode
    current_leader_epoch: int
    fetch_offset: int
    max_bytes: int


class _AskedTopic(NamedTuple):
    key: dict[str, Any]
    partitions: list[_Asked]


class _Read(NamedTuple):
    """What one pass over all partitions found."""

    body: dict[str, Any]
    size_bytes: int
    has_error: bool
    is_elsewhere: bool


class FetchPass:
    """A parsed request that can be read more than once: at once, and again when its wait is over."""

    def __init__(self, services: Services, request: Request) -> None:
        self._services = services
        self._request = request
        data = request.body(ApiKeys.FETCH).data
        self._version = request.header.api_version
        self.max_wait_ms: int = data["max_wait_ms"]
        self.min_bytes: Any = min(data["min_bytes"], services.config.number("fetch.max.bytes"))
        self._max_bytes = min(data["max_bytes"], services.config.number("fetch.max.bytes"))
        self._committed = data["isolation_level"] == READ_COMMITTED
        self._is_denied_follower = _replica_id(data) >= 0 and not services.authorize_cluster(
            request, AclOperation.CLUSTER_ACTION)
        # From here on a consumer may read from any replica.
        self._reads_followers = self._version >= _FOLLOWERS_FROM and _replica_id(data) < 0
        rack = data.get("rack_id") if self._reads_followers else None
        self._rack: str | None = rack if rack and services.config.optional_text(
            "replica.selector.class") == RACK_AWARE_SELECTOR else None
        self._topics = self._asked_topics(data["topics"])

    def _asked_topics(self, topics: Sequence[Struct]) -> list[_AskedTopic]:
        """Return each partition once, as it was named last, in the place where it was named first."""
        name_field = "topic_id" if self._version >= _TOPIC_ID_FROM else "topic"
        last: dict[tuple[Any, int], Struct] = {}
        for topic in topics:
            name = topic[name_field]
            for partition in topic["partitions"]:
                last[name, partition["partition"]] = partition
        grouped: list[tuple[Any, list[Struct]]] = []
        for (name, _), partition in last.items():
            if not grouped or grouped[-1][0] != name:
                grouped.append((name, []))
            grouped[-1][1].append(partition)
        return [self._asked_topic(name, partitions) for name, partitions in grouped]

    def _asked_topic(self, name: Any, asked_partitions: Sequence[Struct]) -> _AskedTopic:
        cluster = self._services.cluster
        if self._version >= _TOPIC_ID_FROM:
            key: dict[str, Any] = {"topic_id": name}
            found = cluster.topics.find_by_id(name)
        else:
            key = {"topic": name}
            found = cluster.topics.find(name)
        partitions = () if found is None else found.partitions
        unknown = (ErrorCode.UNKNOWN_TOPIC_ID if found is None and self._version >= _TOPIC_ID_FROM
                   else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if self._is_denied(found, key):
            partitions, unknown = (), ErrorCode.TOPIC_AUTHORIZATION_FAILED
        asked = []
        for partition in asked_partitions:
            index = partition["partition"]
            asked.append(_Asked(index, partitions[index] if 0 <= index < len(partitions) else None, unknown,
                                partition.get("current_leader_epoch", -1), partition["fetch_offset"],
                                partition["partition_max_bytes"]))
        return _AskedTopic(key, asked)

    def _is_denied(self, found: TopicState | None, key: dict[str, Any]) -> bool:
        """Whether nothing may be read: a replica asks for the whole cluster, a consumer for each topic."""
        request = self._request
        if _replica_id(request.body(ApiKeys.FETCH).data) >= 0:
            return self._is_denied_follower
        name = key.get("topic", None if found is None else found.name)
        return name is not None and not self._services.authorize_topic(request, AclOperation.READ, name)

    def keys(self) -> list[TopicPartition]:
        """Return the partitions whose appends may complete the request."""
        return [asked.partition.topic_partition for topic in self._topics for asked in topic.partitions
                if asked.partition is not None]

    def is_ready(self) -> bool:
        """Return whether there are min_bytes to read, or something that is no reason to wait."""
        size_bytes = 0
        for topic in self._topics:
            for asked in topic.partitions:
                if self._error_of(asked) is not ErrorCode.NONE or asked.partition is None:
                    return True
                if self._preferred_replica(asked.partition, asked.fetch_offset) is not None:
                    return True
                size_bytes += asked.partition.log.bytes_after(
                    asked.fetch_offset, max(asked.max_bytes, 0), up_to_offset=self._up_to(asked.partition))
                if size_bytes >= self.min_bytes:
                    return True
        return False

    def read(self) -> _Read:
        """Read all partitions and build the response."""
        left_bytes = min(self._max_bytes, max(self._services.response_room_bytes(), 0))
        total_bytes = 0
        has_error = is_elsewhere = False
        leaders: set[int] = set()
        responses: list[dict[str, Any]] = []
        for topic in self._topics:
            answers = []
            for asked in topic.partitions:
                try:
                    answer = self._read_one(asked, left_bytes, at_least_one=total_bytes == 0, leaders=leaders)
                except Exception as error:
                    place = asked.partition and asked.partition.topic_partition
                    answer = self._error(asked, unexpected(self._request, place, error), leaders)
                total_bytes += len(answer["records"])
                left_bytes = max(left_bytes - len(answer["records"]), 0)
                has_error |= answer["error_code"] != 0
                is_elsewhere |= "preferred_read_replica" in answer
                answers.append(answer)
            responses.append({**topic.key, "partitions": answers})
        body: dict[str, Any] = {"throttle_time_ms": 0, "error_code": 0, "responses": responses}
        if leaders and self._version >= _NODE_ENDPOINTS_FROM:
            body["node_endpoints"] = self._services.node_end_points(self._request.context, leaders)
        return _Read(body, total_bytes, has_error, is_elsewhere)

    def _read_one(self, asked: _Asked, left_bytes: int, *, at_least_one: bool, leaders: set[int]) -> dict[str, Any]:
        error_code = self._error_of(asked)
        limit_bytes = min(asked.max_bytes, left_bytes)  # the first partition's may be below 0, as it was asked for
        if error_code is ErrorCode.NONE and limit_bytes < 0 and self._has_more(asked):
            error_code = ErrorCode.UNKNOWN_SERVER_ERROR
        if error_code is not ErrorCode.NONE or asked.partition is None:
            return self._error(asked, error_code, leaders)
        partition = asked.partition
        log = partition.log
        stable_offset, high_watermark = log.last_stable_offset, log.high_watermark
        up_to_offset = stable_offset if self._committed else None
        if partition.leadership.leader_id != self._services.node_id:
            # A follower's: it may have less than there is.
            high_watermark = partition.end_offset_at(self._services.node_id)
            stable_offset = min(stable_offset, high_watermark)
            up_to_offset = stable_offset if self._committed else high_watermark
        preferred = None if self._rack is None else self._preferred_replica(partition, asked.fetch_offset)
        data = b"" if preferred is not None else log.read(
            asked.fetch_offset, max(limit_bytes, 0), at_least_one=at_least_one, up_to_offset=up_to_offset)
        answer: dict[str, Any] = {
            "partition_index": asked.partition_index, "error_code": 0, "high_watermark": high_watermark,
            "last_stable_offset": stable_offset, "log_start_offset": log.log_start_offset,
            # Behind the read: compaction forgets a transaction together with its marker, long after its records.
            "aborted_transactions": self._aborted(log, asked.fetch_offset, stable_offset, data), "records": data}
        if preferred is not None:
            answer["preferred_read_replica"] = preferred
        return answer

    def _up_to(self, partition: Partition) -> int | None:
        """Return where reading ends; None at the log's end."""
        stable_offset = partition.log.last_stable_offset if self._committed else None
        if partition.leadership.leader_id == self._services.node_id:
            return stable_offset
        end_offset = partition.end_offset_at(self._services.node_id)
        return end_offset if stable_offset is None else min(stable_offset, end_offset)

    def _preferred_replica(self, partition: Partition, fetch_offset: int) -> int | None:
        """Return the follower to whom the leader sends a consumer of its rack; None for nobody (KIP-392)."""
        node_id = self._services.node_id
        if self._rack is None or partition.leadership.leader_id != node_id:
            return None
        brokers = dict(self._services.cluster.brokers.items())
        near = [found for found in partition.replicas.isr if found in brokers and brokers[found].rack == self._rack
                and partition.end_offset_at(found) >= fetch_offset]
        return near[0] if near and node_id not in near else None

    def _aborted(self, log: Log, fetch_offset: int, stable_offset: int, data: bytes) -> list[dict[str, int]] | None:
        """Return what readers of committed records must skip of `data`; None for others."""
        if not self._committed:
            return None
        if not data or not log.transactions.has_any(fetch_offset):
            return []
        # Not up to the stable offset: each of many small answers would list all that was ever aborted behind it.
        end_offset = min(stable_offset, last_header(data).last_offset + 1)
        return [{"producer_id": aborted.producer_id, "first_offset": aborted.first_offset}
                for aborted in log.aborted_transactions(fetch_offset, end_offset)]

    def respond(self) -> None:
        """Read now and answer, whatever there is; a failure must not reach the append that completed us."""
        try:
            answer: Answer = self.read().body
        except Exception:
            _logger.exception("Error when completing a delayed fetch of %s", self._request.context.connection_id)
            answer = error_response(self._request, ErrorCode.UNKNOWN_SERVER_ERROR)
        self._services.respond(self._request, answer)

    def _has_more(self, asked: _Asked) -> bool:
        """Whether there is something to read in a partition: only then Kafka looks at the size."""
        return asked.partition is not None and asked.fetch_offset < asked.partition.log.log_end_offset

    def _error_of(self, asked: _Asked) -> ErrorCode:
        partition = asked.partition
        if partition is None or self._services.cluster.topics.partition(*partition.topic_partition) is not partition:
            return asked.unknown  # never there, or deleted while the request waited
        node_id = self._services.node_id
        if not self._reads_followers or partition.leadership.leader_id == node_id:
            error_code = partition.check_leader(node_id, asked.current_leader_epoch)
            end_offset = partition.log.log_end_offset
        else:
            error_code = partition.check_reader(node_id, asked.current_leader_epoch)
            end_offset = partition.end_offset_at(node_id)
        if error_code is not ErrorCode.NONE:
            return error_code
        if not partition.log.log_start_offset <= asked.fetch_offset <= end_offset:
            return ErrorCode.OFFSET_OUT_OF_RANGE
        return ErrorCode.NONE

    def _error(self, asked: _Asked, error_code: ErrorCode, leaders: set[int]) -> dict[str, Any]:
        answer: dict[str, Any] = {
            "partition_index": asked.partition_index, "error_code": error_code, "high_watermark": -1,
            "aborted_transactions": [] if error_code is asked.unknown else None, "records": b""}
        if (error_code in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)
                and asked.partition is not None and self._version >= _LEADER_TAG_FROM):
            leader_id, leader_epoch = asked.partition.leadership
            answer["current_leader"] = {"leader_id": leader_id, "leader_epoch": leader_epoch}
            leaders.add(leader_id)
        return answer


class DelayedFetch(DelayedOperation):
    """A Fetch that waits for min_bytes or for max_wait_ms."""

    def __init__(self, fetch: FetchPass) -> None:
        super().__init__(fetch.max_wait_ms)
        self._fetch = fetch

    def can_complete(self) -> bool:
        """Return whether the answer would be worth sending; a failure must not reach the append that asks."""
        try:
            return self._fetch.is_ready()
        except Exception:
            _logger.exception("Error when looking whether a delayed fetch is complete")
            return True  # the answer says what is wrong, and of which partition

    def on_complete(self, *, expired: bool) -> None:
        """Answer with what there is now."""
        self._fetch.respond()


def _replica_id(data: Struct) -> int:
    """Return which broker asks, as a follower would; -1 for a consumer."""
    found: int = data["replica_state"]["replica_id"] if "replica_state" in data else data["replica_id"]
    return found


def handle(services: Services, request: Request) -> Answer:
    """Answer one Fetch request."""
    data = request.body(ApiKeys.FETCH).data
    if data.get("session_epoch", -1) > 0:
        return {"throttle_time_ms": 0, "error_code": ErrorCode.FETCH_SESSION_ID_NOT_FOUND, "responses": []}
    if data["isolation_level"] not in ISOLATION_LEVELS:
        return error_response(request, ErrorCode.UNKNOWN_SERVER_ERROR)
    fetch = FetchPass(services, request)
    found = fetch.read()
    keys = fetch.keys()
    if (found.has_error or found.is_elsewhere or found.size_bytes >= fetch.min_bytes or fetch.max_wait_ms <= 0
            or not keys):
        return found.body
    services.cluster.delayed_fetches.try_complete_else_watch(DelayedFetch(fetch), keys)
    return Outcome.LATER


def error_response(request: Request, error_code: ErrorCode) -> Answer:
    """Say that the whole request failed: before version 7 only partitions can say so, from 13 on they do not."""
    if request.header.api_version >= _TOPIC_ID_FROM:
        return {"throttle_time_ms": 0, "error_code": error_code, "responses": []}
    return {"throttle_time_ms": 0, "error_code": error_code, "responses": [
        {"topic": topic["topic"], "partitions": [
            {"partition_index": partition["partition"], "error_code": error_code, "high_watermark": -1,
             "aborted_transactions": [], "records": b""} for partition in topic["partitions"]]}
        for topic in request.body(ApiKeys.FETCH).data["topics"]]}
