"""Read a topic from its first record to its present end, to check what a producer wrote.

A reader for tests and demonstrations, not a consumer: no groups, no positions kept, one request at a time.

Road:    beside it: broker -> BlockingClient -> [reader] -> the test's assertions
Thread:  the caller's, which also polls the sockets.
Wire:    Metadata from 4, ListOffsets from 1, Fetch from 4, each in the newest version that both ends know: brokers from
         0.11 on.
Source:  ours; Java CompletedFetch (4.1) for what is aborted. Control records are never given.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, cast

from pyproducer.client.blocking_client import BlockingClient, Connection
from pyproducer.common.clock import Clock, SystemClock
from pyproducer.common.error_codes import error_for_code
from pyproducer.common.errors import KafkaTimeoutError, RemoteProtocolError
from pyproducer.common.records import Header
from pyproducer.common.waiting import checked_timeout
from pyproducer.network.sasl.patient_login import login_of
from pyproducer.producer.config import CONFIG_TABLE, ProducerConfig
from pyproducer.producer.config.other_names import laid_over
from pyproducer.protocol.apis import ApiKeys
from pyproducer.protocol.types import ZERO_UUID
from pyproducer.record.batch_reader import RecordBatch, read_batches
from pyproducer.record.control import ControlRecordType, parse_control_record
from pyproducer.record.decompression import DEFAULT_LIMIT_BYTES

CLIENT_ID = "pyproducer-reader"

FETCH_MAX_BYTES = 4 * 1024 * 1024
"""Of one answer and of one partition in it; a larger batch comes alone and whole, as the broker must make progress."""

FETCH_BY_NAME_VERSION = 12
"""The last version of Fetch that names topics; later ones take the id that a newer Metadata answer tells."""

TIERED_FROM_VERSION = 8
"""The first version of ListOffsets that tells where the local log begins; brokers without it have no tiered storage."""

REMOTE_LOOKUP_TIMEOUT_MS = 30_000
"""How long a broker may look for an offset in tiered storage: request.timeout.ms of Java's clients."""

EARLIEST_LOCAL = -4
EARLIEST = -2
LATEST = -1
CONSUMER_REPLICA_ID = -1

IsolationLevel = Literal["read_uncommitted", "read_committed"]
ISOLATION_LEVELS: dict[str, int] = {"read_uncommitted": 0, "read_committed": 1}

END_FIELDS = "high_watermark", "last_stable_offset"
"""Of a partition in an answer to Fetch: where it ends for each isolation level."""

THROTTLED: dict[str, Any] = {"records": b"", "aborted_transactions": None, **dict.fromkeys(END_FIELDS, -1)}
"""In place of a partition, where the client's quota is used up and the answer has none."""


class ConsumedRecord(NamedTuple):
    """One record as it lies in the log."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]


def read_topic(bootstrap_servers: str, topic: str, *, timeout: float | None = 30.0,
               settings: Mapping[str, object] | None = None,
               isolation_level: IsolationLevel = "read_uncommitted") -> Iterator[ConsumedRecord]:
    """Yield the records of a topic up to where it ends when the call is made.

    The call itself connects and asks for the ends; what is sent after it is not yielded, however late the first record
    is taken. Partition after partition, each in the order of its offsets.

    Args:
        bootstrap_servers: `host:port`, several divided by commas; the first that answers is asked.
        topic: Its name; it is not created.
        timeout: Seconds without progress after which the reading is given up; None waits for ever.
        settings: The producer's, under Java's keys: security.protocol, ssl.* and sasl.*, client.id, the sizes of
            socket buffers. All are checked, the others not used; bootstrap.servers is the argument's.
        isolation_level: With "read_committed", as a consumer's isolation.level, records of aborted transactions are
            left out, and a partition ends where its oldest open transaction begins.

    Raises:
        TypeError: The timeout is not a number.
        ValueError: The timeout is not above 0, or there is no such isolation level.
        ConfigError: A setting or an address is wrong.
        ApiError: The broker answered with an error code; an unknown topic is one.
        AuthenticationError: One end of TLS or SASL refused the other.
        DisconnectedError: No broker answered, or one closed the connection.
        KafkaTimeoutError: No progress for `timeout` seconds.
        ProtocolError: What answers is not Kafka, or has no version in common with us.
        CorruptRecordError: A batch's checksum does not fit its bytes, or compressed records expand beyond 256 MiB.

    Thread: the caller's; close the iterator to close the connections early.
    """
    settings = CONFIG_TABLE.guarded(settings or {})  # an error below leads here, and shows variables
    longest = checked_timeout(timeout)
    if longest is not None and longest <= 0:
        raise ValueError(f"timeout {timeout} is too short: read_topic() waits more than 0 seconds, or None for ever")
    if isolation_level not in ISOLATION_LEVELS:
        raise ValueError(f"isolation_level {isolation_level!r} is none of {', '.join(ISOLATION_LEVELS)}")
    config = ProducerConfig(laid_over({"client.id": CLIENT_ID, **settings}, {"bootstrap.servers": bootstrap_servers}))
    records = _records(config, topic, longest, ISOLATION_LEVELS[isolation_level])
    next(records)
    return cast("Iterator[ConsumedRecord]", records)


def _records(config: ProducerConfig, topic: str, timeout_s: float | None,
             isolation: int) -> Iterator[ConsumedRecord | None]:
    """Yield None as soon as it is known where each partition ends, then the records.

    None is for read_topic() alone. A generator that has begun closes its connections also when nobody takes a record
    of it; one that has not would leave them to whoever collects the garbage.
    """
    clock = SystemClock()
    # The producer's default for receiving is meant for small answers.
    receive_buffer_bytes = -1 if config.is_default("receive.buffer.bytes") else config.receive_buffer_bytes
    with login_of(config, timeout_s) as login, BlockingClient.of(
            config, login, timeout_s=timeout_s, clock=clock, receive_buffer_bytes=receive_buffer_bytes) as client:
        spans = _spans(client, config.bootstrap_servers, topic, isolation)
        yield None
        for span in spans:
            yield from _read_partition(client, span, timeout_s, clock)


class _Span(NamedTuple):
    """What is to be read of one partition, and from whom."""

    leader: Connection
    topic: str
    topic_id: uuid.UUID
    partition: int
    isolation: int
    start_offset: int
    end_offset: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def _spans(client: BlockingClient, bootstrap_servers: tuple[tuple[str, int], ...], topic: str,
           isolation: int) -> list[_Span]:
    """Ask for the partitions of a topic, and where each begins and ends now."""
    metadata = client.ask(client.connect_to_any(bootstrap_servers), ApiKeys.METADATA, lambda version: {
        "topics": [{"name": topic}], "allow_auto_topic_creation": False}).body
    described = _only(metadata["topics"], "Metadata", topic)
    _ensure_no_error(described["error_code"], "Metadata", topic)
    nodes = {broker["node_id"]: (broker["host"], broker["port"]) for broker in metadata["brokers"]}
    leaders: dict[int, Connection] = {}
    spans = []
    for partition in sorted(described["partitions"], key=lambda each: int(each["partition_index"])):
        index, leader_id = partition["partition_index"], partition["leader_id"]
        if leader_id not in nodes:
            raise error_for_code(partition["error_code"] or 5, message=f"{topic}-{index} has no leader")
        if leader_id not in leaders:
            leaders[leader_id] = client.connect(*nodes[leader_id])
        leader = leaders[leader_id]
        start_offset, end_offset = (
            _offset(client, leader, topic, index, isolation, which) for which in (EARLIEST, LATEST))
        spans.append(_Span(leader, topic, described.get("topic_id", ZERO_UUID), index, isolation, start_offset,
                           end_offset))
    return spans


def _offset(client: BlockingClient, leader: Connection, topic: str, partition: int, isolation: int,
            which: int) -> int:
    answer = client.ask(leader, ApiKeys.LIST_OFFSETS, lambda version: {
        "replica_id": CONSUMER_REPLICA_ID, "isolation_level": isolation,
        "topics": [{"name": topic, "partitions": [
            {"partition_index": partition, "current_leader_epoch": -1, "timestamp": which}]}],
        "timeout_ms": REMOTE_LOOKUP_TIMEOUT_MS}).body
    what = f"{topic}-{partition}"
    found = _only(_only(answer["topics"], "ListOffsets", what)["partitions"], "ListOffsets", what)
    _ensure_no_error(found["error_code"], "ListOffsets", what)
    return int(found["offset"])


def _read_partition(client: BlockingClient, span: _Span, timeout_s: float | None,
                    clock: Clock) -> Iterator[ConsumedRecord]:
    next_offset = span.start_offset
    progress_ms = clock.now_ms()
    while next_offset < span.end_offset:
        found = _fetch(client, span, next_offset)
        aborted = _Aborted(found["aborted_transactions"] or ())
        first_unread = next_offset
        for batch in read_batches(found["records"] or b""):
            batch.ensure_valid()
            if not aborted.has(batch) and not batch.is_control:
                # What came uncompressed is there already, however large it is.
                for record in batch.records(max(DEFAULT_LIMIT_BYTES, batch.size_bytes)):
                    if first_unread <= record.offset < span.end_offset:
                        yield ConsumedRecord(span.topic, span.partition, record.offset, record.timestamp, record.key,
                                             record.value, record.headers)
            next_offset = max(next_offset, batch.last_offset + 1)
        now_ms = clock.now_ms()
        if next_offset > first_unread:
            progress_ms = now_ms
        elif (not found["records"] and found[END_FIELDS[span.isolation]] >= span.end_offset
              and _is_local(client, span, next_offset)):
            return  # compaction has left nothing behind here
        elif timeout_s is not None and now_ms - progress_ms > timeout_s * 1000:
            why = ": the broker throttles this client, whose quota is used up" if found is THROTTLED else ""
            raise KafkaTimeoutError(f"{span} gave nothing from offset {next_offset} for {timeout_s} s, although it "
                                    f"ends at {span.end_offset}{why}", phase="request")


def _fetch(client: BlockingClient, span: _Span, offset: int) -> Any:
    answer = client.ask(span.leader, ApiKeys.FETCH, lambda version: {
        "replica_id": CONSUMER_REPLICA_ID, "max_wait_ms": 500, "min_bytes": 1, "max_bytes": FETCH_MAX_BYTES,
        "isolation_level": span.isolation, "session_id": 0, "session_epoch": -1,
        "topics": [{"topic": span.topic, "topic_id": span.topic_id, "partitions": [
            {"partition": span.partition, "current_leader_epoch": -1, "fetch_offset": offset, "log_start_offset": -1,
             "partition_max_bytes": FETCH_MAX_BYTES}]}],
        "forgotten_topics_data": []}, max_version=FETCH_BY_NAME_VERSION if span.topic_id == ZERO_UUID else None).body
    _ensure_no_error(answer.get("error_code", 0), "Fetch", span.topic)
    if answer["throttle_time_ms"] and not answer["responses"]:
        return THROTTLED  # the connection is muted that long; until then the next request waits at the broker
    found = _only(_only(answer["responses"], "Fetch", span)["partitions"], "Fetch", span)
    _ensure_no_error(found["error_code"], "Fetch", f"{span} at offset {offset}")
    return found


def _is_local(client: BlockingClient, span: _Span, offset: int) -> bool:
    """Whether a Fetch from an offset reads the leader's own log, and finds all that there is.

    What is in tiered storage alone may not be there in time: then the answer has no records (Java DelayedRemoteFetch).
    """
    version = span.leader.versions.latest_usable_version(ApiKeys.LIST_OFFSETS)
    return version < TIERED_FROM_VERSION or offset >= _offset(
        client, span.leader, span.topic, span.partition, span.isolation, EARLIEST_LOCAL)


class _Aborted:
    """Which transactions of an answer's batches are aborted. A broker tells that only who reads committed records.

    Args:
        transactions: Of which producers, and from which offset each.
    """

    def __init__(self, transactions: Iterable[Any]) -> None:
        self._to_come = sorted(((each["first_offset"], each["producer_id"]) for each in transactions), reverse=True)
        self._producers: set[int] = set()

    def has(self, batch: RecordBatch) -> bool:
        """Whether a batch belongs to one; to be asked batch by batch, in order."""
        while self._to_come and self._to_come[-1][0] <= batch.last_offset:
            self._producers.add(self._to_come.pop()[1])
        if batch.producer_id not in self._producers:
            return False
        if not batch.is_control:
            return batch.is_transactional
        for record in batch:
            marker = parse_control_record(record.key, record.value)
            if marker is not None and marker.type is ControlRecordType.ABORT:
                self._producers.discard(batch.producer_id)
        return True


def _only(rows: Sequence[Any], api: str, what: object) -> Any:
    """Return the row of what was asked for."""
    if not rows:
        raise RemoteProtocolError(f"{api}: the answer leaves {what} out")
    return rows[0]


def _ensure_no_error(error_code: int, api: str, what: str) -> None:
    if error_code:
        raise error_for_code(error_code, message=f"{api} of {what}:", api=api)
