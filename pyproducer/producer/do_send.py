"""The caller's part of the road: serialize, choose the partition, append.

Road:    send() -> [interceptors, serializers, partitioner] -> RecordAccumulator
Thread:  any caller.
Source:  Java KafkaProducer.doSend (4.1); seed 001.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from pyproducer.accumulator.life import Life
from pyproducer.accumulator.produce_result import OnCompletion, failed_future
from pyproducer.accumulator.producer_batch import ProducerBatch
from pyproducer.accumulator.record_accumulator import RecordAccumulator
from pyproducer.client.metadata import ProducerMetadata
from pyproducer.common.clock import Clock, SystemClock
from pyproducer.common.cluster import Cluster, TopicPartition
from pyproducer.common.error_codes import ErrorCode
from pyproducer.common.errors import (
    ApiError,
    AuthenticationError,
    KafkaTimeoutError,
    RecordTooLargeError,
    SerializationError,
)
from pyproducer.common.records import (
    NO_HEADERS,
    Header,
    HeaderLike,
    ProducerRecord,
    RecordMetadata,
    ensure_callable,
    ensure_partition,
    ensure_timestamp,
    to_headers,
)
from pyproducer.hotpath import HEADER_SIZE_BYTES, FutureRecordMetadata, record_size_upper_bound
from pyproducer.producer.interceptors import ProducerInterceptors
from pyproducer.producer.partitioners import DefaultPartitioner, Partitioner
from pyproducer.producer.serializers import Serializer
from pyproducer.producer.wait_on_metadata import wait_on_metadata

UNKNOWN_PARTITION = -1
# What send() does not raise: the record's future and callback tell it.
_TOLD_BY_THE_FUTURE = (KafkaTimeoutError, ApiError, AuthenticationError)
# metadata.max.idle.ms is minutes, so a topic in use is reported once a second and not for each record.
_TOUCH_INTERVAL_MS = 1000


class RecordSender:
    """Takes records from callers and hands them to the accumulator."""

    def __init__(self, *, metadata: ProducerMetadata, accumulator: RecordAccumulator, partitioner: Partitioner,
                 key_serializer: Serializer | None, value_serializer: Serializer | None,
                 interceptors: ProducerInterceptors, clock: Clock, life: Life,
                 wakeup_sender: Callable[[], None], max_request_size_bytes: int, buffer_memory_bytes: int,
                 max_block_ms: int) -> None:
        self._metadata = metadata
        self._accumulator = accumulator
        self.partitioner = partitioner
        self._partition = partitioner.partition
        self._on_append: Callable[..., None] | None = getattr(partitioner, "on_append", None)
        self.key_serializer = key_serializer
        self.value_serializer = value_serializer
        self.interceptors = interceptors
        self._clock = clock
        self._life = life
        self._wakeup_sender = wakeup_sender
        self._max_request_size_bytes = max_request_size_bytes
        self._buffer_memory_bytes = buffer_memory_bytes
        self.max_record_bytes = min(max_request_size_bytes, buffer_memory_bytes)
        self._max_block_ms = max_block_ms
        self._touched: dict[str, int] = {}  # topic -> when it was reported as in use; races only report twice
        self.fast_road: Any = None  # a hotpath.FastRoad where records can take it; see `pave`

    def send(self, topic: str | ProducerRecord, value: Any = None, *, key: Any = None, partition: int | None = None,
             timestamp: int | None = None, headers: Iterable[HeaderLike] | None = None,
             on_completion: OnCompletion | None = None) -> FutureRecordMetadata:
        """Take one record or its parts; see KafkaProducer.send."""
        self._life.ensure_open()
        if on_completion is not None:
            ensure_callable(on_completion, "on_completion")
        if type(topic) is str and topic:
            if partition is not None:
                ensure_partition(partition)
            if timestamp is not None:
                ensure_timestamp(timestamp)
            return self._send_parts(topic, value, key, partition, timestamp,
                                    to_headers(headers) if headers else NO_HEADERS, on_completion)
        if isinstance(topic, ProducerRecord):
            record = topic
            if value is not None:
                if on_completion is not None or not callable(value):
                    raise TypeError("send(record, on_completion) takes a callable as its second argument, got "
                                    f"{type(value).__name__}; the value belongs into the ProducerRecord")
                on_completion = value
            if key is not None or partition is not None or timestamp is not None or headers:
                raise TypeError("send(record) takes key, partition, timestamp and headers from the ProducerRecord")
        else:
            record = ProducerRecord(topic, value, key, partition=partition, timestamp=timestamp, headers=headers)
        return self._send_parts(record.topic, record.value, record.key, record.partition, record.timestamp,
                                record.headers, on_completion)

    def refuse(self) -> None:
        """Take no record from now on; what `send` raises is said by the producer's life."""
        if self.fast_road is not None:
            self.fast_road.is_closed = True

    def _send_parts(self, topic: str, value: Any, key: Any, partition: int | None, timestamp: int | None,
                    headers: tuple[Header, ...], on_completion: OnCompletion | None) -> FutureRecordMetadata:
        if self.interceptors:
            record = ProducerRecord(topic, value, key, partition=partition, timestamp=timestamp, headers=headers)
            return self._send_intercepted(record, on_completion)
        try:
            return self._do_send(topic, value, key, partition, timestamp, headers, on_completion)
        except _TOLD_BY_THE_FUTURE as error:
            if isinstance(error, RecordTooLargeError):
                raise
            return failed_future(TopicPartition(topic, UNKNOWN_PARTITION if partition is None else partition), error,
                                 on_completion)

    def _send_intercepted(self, record: ProducerRecord, on_completion: OnCompletion | None) -> FutureRecordMetadata:
        interceptors = self.interceptors
        record = interceptors.on_send(record)

        def acknowledged(metadata: RecordMetadata | None, exception: BaseException | None) -> None:
            interceptors.on_acknowledgement(metadata, exception)
            if on_completion is not None:
                on_completion(metadata, exception)

        try:
            return self._do_send(record.topic, record.value, record.key, record.partition, record.timestamp,
                                 record.headers, acknowledged)
        except _TOLD_BY_THE_FUTURE as error:
            topic_partition = TopicPartition(record.topic,
                                             UNKNOWN_PARTITION if record.partition is None else record.partition)
            interceptors.on_send_error(record, topic_partition, error)
            if isinstance(error, RecordTooLargeError):
                raise
            return failed_future(topic_partition, error, on_completion)
        except Exception as error:
            interceptors.on_send_error(record, None, error)
            raise

    def _do_send(self, topic: str, value: Any, key: Any, partition: int | None, timestamp: int | None,
                 headers: tuple[Header, ...], on_completion: OnCompletion | None) -> FutureRecordMetadata:
        created = self._clock.timestamp_ms()
        max_block_ms = self._max_block_ms
        cluster = self._metadata.fetch()
        table = cluster.table(topic)
        if (not table.count or (partition is not None and partition not in table.by_index)
                or abs(created - self._touched.get(topic, 0)) >= _TOUCH_INTERVAL_MS):
            cluster, max_block_ms = self._await_cluster(topic, partition, created, max_block_ms)
            table = cluster.table(topic)
        key_bytes = key if self.key_serializer is None and type(key) is bytes else self.serialize(
            self.key_serializer, topic, headers, key, "key")
        value_bytes = value if self.value_serializer is None and type(value) is bytes else self.serialize(
            self.value_serializer, topic, headers, value, "value")
        if partition is None:
            partition = self.choose_partition(topic, key, key_bytes, value, value_bytes, cluster, table.count)
            if partition not in table.by_index:
                cluster, max_block_ms = self._await_cluster(topic, partition, created, max_block_ms)
        size_bytes = record_size_upper_bound(key_bytes, value_bytes, headers)
        if size_bytes > self.max_record_bytes:
            raise self.too_large(topic, size_bytes)
        return self.append(topic, partition, created if timestamp is None else timestamp, key_bytes, value_bytes,
                           headers, on_completion, size_bytes, cluster, created, max_block_ms)

    def _await_cluster(self, topic: str, partition: int | None, created: int, max_block_ms: int) -> tuple[Cluster, int]:
        """Wait for what `known_cluster` waits for; return the snapshot, and how long may still be waited, in ms."""
        began_ms = self._clock.now_ms()
        cluster = self.known_cluster(topic, partition, created, max_block_ms)
        # What the wait for metadata took is not there any more for the wait for memory.
        return cluster, max(0, max_block_ms - (self._clock.now_ms() - began_ms))

    def append(self, topic: str, partition: int, timestamp: int, key_bytes: bytes | None, value_bytes: bytes | None,
               headers: tuple[Header, ...], on_completion: OnCompletion | None, size_bytes: int, cluster: Cluster,
               created: int, max_block_ms: int) -> FutureRecordMetadata:
        """Hand one serialized record over, and tell who wants to know; see RecordAccumulator.append.

        Args:
            topic: Its topic.
            partition: Its partition.
            timestamp: Epoch ms.
            key_bytes: The serialized key.
            value_bytes: The serialized value.
            headers: The headers.
            on_completion: The callback.
            size_bytes: Its `record_size_upper_bound`.
            cluster: A snapshot that knows the partition.
            created: Epoch ms of the call.
            max_block_ms: Longest wait for memory.
        """
        try:
            result = self._accumulator.append(topic, partition, timestamp, key_bytes, value_bytes, headers,
                                              on_completion, max_block_ms)
            if self.fast_road is not None:
                self._announce(topic, partition, created, cluster, result.batch)
            if self._on_append is not None:
                self._on_append(topic, partition, size_bytes - HEADER_SIZE_BYTES, cluster, result.batch_is_full)
            if result.batch_is_full or result.new_batch_created:
                self._wakeup_sender()
        except BaseException:
            # Ctrl-C may leave a batch that the sender was not told of, and whoever adds to it later tells nobody.
            self._wakeup_sender()
            raise
        return result.future

    def choose_partition(self, topic: str, key: Any, key_bytes: bytes | None, value: Any, value_bytes: bytes | None,
                         cluster: Cluster, count: int) -> int:
        """Ask the partitioner, and check what it says.

        Raises:
            TypeError: It is not an int. Not sent.
            ValueError: The topic has no such partition. Not sent.

        Returns:
            A partition below the count. The snapshot need not know it, where it has gaps.
        """
        partition = self._partition(topic, key, key_bytes, value, value_bytes, cluster)
        if type(partition) is not int or not 0 <= partition < count:
            partition = self._checked_partition(partition, topic, count)
        return partition

    def pave(self, fast_road_class: Any) -> None:
        """Let plain records take the compiled road, where everything about them is built in.

        That is: no interceptors, no serializers, DefaultPartitioner itself. What such a record meets there is the same
        as here; the first record of each batch comes to `begin_batch`.
        """
        if not self.interceptors and self.key_serializer is None and self.value_serializer is None and type(
                self.partitioner) is DefaultPartitioner and isinstance(self._clock, SystemClock):
            self.fast_road = fast_road_class(self.send, self.begin_batch, self._metadata, self.max_record_bytes,
                                             self._wakeup_sender, ProducerRecord)

    def begin_batch(self, topic: str, partition: int, timestamp: int, key: bytes | None, value: bytes | None,
                    headers: tuple[Header, ...] | None, on_completion: OnCompletion | None, size_bytes: int,
                    cluster: Cluster, created: int) -> FutureRecordMetadata:
        """Take a record from the compiled road, which checked it, chose its partition and found no room there."""
        max_block_ms = self._max_block_ms
        try:
            if partition not in cluster.table(topic).by_index:
                cluster, max_block_ms = self._await_cluster(topic, partition, created, max_block_ms)
            return self.append(topic, partition, timestamp, key, value, headers or NO_HEADERS, on_completion,
                               size_bytes, cluster, created, max_block_ms)
        except _TOLD_BY_THE_FUTURE as error:
            return failed_future(TopicPartition(topic, partition), error, on_completion)

    def _announce(self, topic: str, partition: int, created: int, cluster: Cluster, batch: ProducerBatch) -> None:
        """Tell the compiled road which batch takes the next records."""
        counter: Iterator[int] | None = None
        available: tuple[int, ...] = ()
        table = cluster.table(topic)
        if not self.fast_road.knows(cluster, topic) and isinstance(self.partitioner, DefaultPartitioner):
            infos = table.available or table.in_order
            counter, available = self.partitioner.counter(topic), tuple(info.partition for info in infos)
        self.fast_road.begin_topic(cluster, topic, table.count, self._touched.get(topic, created), counter, available)
        self.fast_road.open_batch(topic, partition, batch.open)

    def known_cluster(self, topic: str, partition: int | None, timestamp: int, wait_ms: int) -> Cluster:
        """Report a topic as in use, and wait until it is known; see wait_on_metadata."""
        cluster = wait_on_metadata(self._metadata, self._wakeup_sender, self._clock, self._life, topic, partition,
                                   self._max_block_ms, wait_ms)
        self._touched[topic] = timestamp
        return cluster

    def serialize(self, serializer: Serializer | None, topic: str, headers: tuple[Header, ...], data: Any,
                  part: str) -> bytes | None:
        """Return the bytes of a part ("key" or "value") of a record.

        Raises:
            SerializationError: The serializer failed, or there is none and the data are not bytes. Not sent.
        """
        if serializer is not None:
            try:
                data = serializer(topic, headers, data)
            except Exception as cause:
                raise SerializationError(
                    f"The {part} serializer {serializer!r} failed on a {type(data).__name__} for topic {topic!r}: "
                    f"{cause}") from cause
        if data is None or type(data) is bytes:
            return data
        if isinstance(data, (bytes, bytearray, memoryview)):
            return bytes(data)
        if serializer is None:
            raise SerializationError(
                f"The {part} is a {type(data).__name__}, but no {part} serializer is given: pass bytes, or set "
                f"{part}.serializer (for example '{'string' if isinstance(data, str) else 'json'}')")
        raise SerializationError(f"The {part} serializer {serializer!r} gave a {type(data).__name__} for topic "
                                 f"{topic!r}: it must give bytes or None")

    def _checked_partition(self, partition: Any, topic: str, count: int) -> int:
        try:
            index = partition.__index__()
        except AttributeError:
            raise TypeError(f"The partitioner {self.partitioner!r} gave {partition!r} for topic {topic!r}: it must "
                            "give an int") from None
        if not 0 <= index < count:
            raise ValueError(f"The partitioner {self.partitioner!r} gave partition {index} for topic {topic!r}: the "
                             f"topic has {count} partitions, so it must be from 0 to {count - 1}")
        return int(index)

    def too_large(self, topic: str, size_bytes: int, where: str = "") -> RecordTooLargeError:
        """Return the error for a record above `max_record_bytes`; `where` says which one it is, if not the only one."""
        if size_bytes > self._max_request_size_bytes:
            limit = f"max.request.size = {self._max_request_size_bytes}"
        else:
            limit = f"buffer.memory = {self._buffer_memory_bytes}"
        error = RecordTooLargeError(
            f"{where}The record for topic {topic!r} takes {size_bytes} bytes with its batch header, which is above "
            f"{limit}. Send less in one record, or raise that setting (the topic's max.message.bytes must allow it "
            "too)",
            code=ErrorCode.MESSAGE_TOO_LARGE)
        error.outcome = "not_sent"
        return error

