"""Read a topic from its first record to its present end, to check what a producer wrote.

A reader for tests and demonstrations, not a consumer: no groups, no positions kept, one request at a time.

Road:    beside it: broker -> [reader] -> the test's assertions
Thread:  the caller's; blocking sockets of its own.
Wire:    Metadata v7, ListOffsets v4, Fetch v10: understood by brokers from 2.1 to 4.3, so nothing is negotiated.
Source:  ours. Reads uncommitted: records of open and aborted transactions are in it, control records are not.
"""

from __future__ import annotations

import itertools
import socket
import struct
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from typing import Any, NamedTuple

from pyproducer.common.cluster import address_text
from pyproducer.common.error_codes import error_for_code
from pyproducer.common.errors import (
    CorrelationIdMismatchError,
    DisconnectedError,
    InvalidReceiveError,
    KafkaTimeoutError,
)
from pyproducer.common.records import Header
from pyproducer.common.timeouts import checked_timeout
from pyproducer.protocol.apis import ApiKeys
from pyproducer.protocol.header import build_request, parse_response
from pyproducer.record.batch_reader import read_batches

METADATA_VERSION = 7
LIST_OFFSETS_VERSION = 4
FETCH_VERSION = 10

FETCH_MAX_BYTES = 4 * 1024 * 1024
"""Of one answer and of one partition in it; a larger batch comes alone and whole, as the broker must make progress."""

LARGEST_ANSWER_BYTES = 256 * 1024 * 1024
"""A size above this is not an answer of a Kafka broker."""

EARLIEST = -2
LATEST = -1
CONSUMER_REPLICA_ID = -1


class ConsumedRecord(NamedTuple):
    """One record as it lies in the log."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]


def read_topic(bootstrap_servers: str, topic: str, *, timeout: float | None = 30.0) -> Iterator[ConsumedRecord]:
    """Yield the records of a topic up to where it ends when the call is made.

    Partition after partition, each in the order of its offsets.

    Args:
        bootstrap_servers: `host:port`, several divided by commas; the first that answers is asked.
        topic: Its name; it is not created.
        timeout: Seconds without progress after which the reading is given up; None waits for ever.

    Raises:
        TypeError: The timeout is not a number.
        ValueError: The timeout is not above 0.
        ApiError: The broker answered with an error code; an unknown topic is one.
        DisconnectedError: No broker answered, or one closed the connection.
        KafkaTimeoutError: No progress for `timeout` seconds.
        CorruptRecordError: A batch's checksum does not fit its bytes.

    Thread: the caller's; close the iterator to close the connections early.
    """
    longest = checked_timeout(timeout)
    if longest is not None and longest <= 0:
        raise ValueError(f"timeout {timeout} is too short: read_topic() waits more than 0 seconds, or None for ever")
    with ExitStack() as connections:
        bootstrap = connections.enter_context(_connect_to_any(bootstrap_servers, longest))
        metadata = bootstrap.call(ApiKeys.METADATA, METADATA_VERSION,
                                  {"topics": [{"name": topic}], "allow_auto_topic_creation": False})
        described = metadata["topics"][0]
        _ensure_no_error(described["error_code"], "Metadata", topic)
        nodes = {broker["node_id"]: (broker["host"], broker["port"]) for broker in metadata["brokers"]}
        leaders: dict[int, _Connection] = {}
        spans: list[tuple[int, _Connection, int, int]] = []
        for partition in sorted(described["partitions"], key=lambda each: int(each["partition_index"])):
            index, leader_id = partition["partition_index"], partition["leader_id"]
            if leader_id not in nodes:
                raise error_for_code(partition["error_code"] or 5, message=f"{topic}-{index} has no leader")
            if leader_id not in leaders:
                leaders[leader_id] = connections.enter_context(_Connection(nodes[leader_id], longest))
            leader = leaders[leader_id]
            start_offset, end_offset = (_offset(leader, topic, index, which) for which in (EARLIEST, LATEST))
            spans.append((index, leader, start_offset, end_offset))
        for index, leader, start_offset, end_offset in spans:
            yield from _read_partition(leader, topic, index, start_offset, end_offset, longest)


class _Connection:
    """One blocking conversation with one broker."""

    def __init__(self, address: tuple[str, int], timeout: float | None) -> None:
        self._address = address_text(*address)
        try:
            self._socket = socket.create_connection(address, timeout)
        except OSError as cause:
            raise DisconnectedError(f"cannot connect to {self._address}: {cause}") from cause
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._correlation_ids = itertools.count()

    def __enter__(self) -> _Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def call(self, api_key: ApiKeys, api_version: int, body: Mapping[str, Any]) -> Any:
        """Send one request and return the body of its answer."""
        correlation_id = next(self._correlation_ids)
        chunks = build_request(api_key, api_version, correlation_id, "pyproducer-reader", body)
        try:
            self._socket.sendall(b"".join((struct.pack(">i", sum(map(len, chunks))), *chunks)))
            size_bytes = int(struct.unpack(">i", self._receive(4))[0])
            if not 0 < size_bytes <= LARGEST_ANSWER_BYTES:
                raise InvalidReceiveError(f"{self._address} announced an answer of {size_bytes} bytes: is it Kafka?")
            payload = self._receive(size_bytes)
        except TimeoutError as cause:
            raise KafkaTimeoutError(f"{self._address} did not answer {api_key.name} v{api_version} within "
                                    f"{self._socket.gettimeout()} s", phase="request") from cause
        except OSError as cause:
            raise DisconnectedError(f"the connection to {self._address} broke: {cause}") from cause
        answered_id, answer = parse_response(api_key, api_version, payload)
        if answered_id != correlation_id:
            raise CorrelationIdMismatchError(f"{self._address} answered request {answered_id} instead of "
                                             f"{correlation_id}")
        return answer

    def _receive(self, size_bytes: int) -> memoryview:
        data = memoryview(bytearray(size_bytes))
        received = 0
        while received < size_bytes:
            count = self._socket.recv_into(data[received:])
            if count == 0:
                raise DisconnectedError(f"{self._address} closed the connection after {received} of {size_bytes} "
                                        "bytes of an answer")
            received += count
        return data


def _connect_to_any(bootstrap_servers: str, timeout: float | None) -> _Connection:
    failures = []
    for server in bootstrap_servers.split(","):
        host, _, port = server.strip().rpartition(":")
        try:
            return _Connection((host.strip("[]"), int(port)), timeout)
        except DisconnectedError as error:
            failures.append(str(error))
    raise DisconnectedError("no broker could be reached: " + "; ".join(failures))


def _offset(leader: _Connection, topic: str, partition: int, which: int) -> int:
    answer = leader.call(ApiKeys.LIST_OFFSETS, LIST_OFFSETS_VERSION, {
        "replica_id": CONSUMER_REPLICA_ID, "isolation_level": 0,
        "topics": [{"name": topic, "partitions": [
            {"partition_index": partition, "current_leader_epoch": -1, "timestamp": which}]}]})
    found = answer["topics"][0]["partitions"][0]
    _ensure_no_error(found["error_code"], "ListOffsets", f"{topic}-{partition}")
    return int(found["offset"])


def _read_partition(leader: _Connection, topic: str, partition: int, start_offset: int, end_offset: int,
                    timeout: float | None) -> Iterator[ConsumedRecord]:
    next_offset = start_offset
    progress_at = time.monotonic()
    while next_offset < end_offset:
        fetched = _fetch(leader, topic, partition, next_offset)
        first_unread = next_offset
        for batch in read_batches(fetched):
            batch.ensure_valid()
            if not batch.is_control:
                for record in batch:
                    if first_unread <= record.offset < end_offset:
                        yield ConsumedRecord(topic, partition, record.offset, record.timestamp, record.key,
                                             record.value, record.headers)
            next_offset = max(next_offset, batch.last_offset + 1)
        now = time.monotonic()
        if next_offset > first_unread:
            progress_at = now
        elif timeout is not None and now - progress_at > timeout:
            raise KafkaTimeoutError(f"{topic}-{partition} gave nothing from offset {next_offset} for {timeout} s, "
                                    f"although it ends at {end_offset}", phase="request")


def _fetch(leader: _Connection, topic: str, partition: int, offset: int) -> Any:
    answer = leader.call(ApiKeys.FETCH, FETCH_VERSION, {
        "replica_id": CONSUMER_REPLICA_ID, "max_wait_ms": 500, "min_bytes": 1, "max_bytes": FETCH_MAX_BYTES,
        "isolation_level": 0, "session_id": 0, "session_epoch": -1,
        "topics": [{"topic": topic, "partitions": [
            {"partition": partition, "current_leader_epoch": -1, "fetch_offset": offset, "log_start_offset": -1,
             "partition_max_bytes": FETCH_MAX_BYTES}]}],
        "forgotten_topics_data": []})
    _ensure_no_error(answer["error_code"], "Fetch", topic)
    found = answer["responses"][0]["partitions"][0]
    _ensure_no_error(found["error_code"], "Fetch", f"{topic}-{partition} at offset {offset}")
    return found["records"] or b""


def _ensure_no_error(error_code: int, api: str, what: str) -> None:
    if error_code:
        raise error_for_code(error_code, message=f"{api} of {what}:", api=api)
