"""The caller's part of the road: serialize, choose the partition, append.

Road:    send() -> [interceptors, serializers, partitioner] -> RecordAccumulator
Thread:  any caller.
Source:  Java KafkaProducer.doSend (4.1); seed 001.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyproducer.accumulator.produce_result import FutureRecordMetadata, OnCompletion, failed_future
from pyproducer.accumulator.record_accumulator import RecordAccumulator
from pyproducer.client.metadata import ProducerMetadata
from pyproducer.common.clock import Clock
from pyproducer.common.cluster import Cluster, TopicPartition
from pyproducer.common.error_codes import ErrorCode
from pyproducer.common.errors import (
    ApiError,
    AuthenticationError,
    KafkaTimeoutError,
    RecordTooLargeError,
    SerializationError,
)
from pyproducer.common.records import Header, ProducerRecord, RecordMetadata
from pyproducer.hotpath import HEADER_SIZE_BYTES, record_size_upper_bound
from pyproducer.producer.interceptors import ProducerInterceptors
from pyproducer.producer.partitioners import Partitioner
from pyproducer.producer.serializers import Serializer
from pyproducer.producer.wait_on_metadata import wait_on_metadata

UNKNOWN_PARTITION = -1
# metadata.max.idle.ms is minutes, so a topic in use is reported once a second and not for each record.
_TOUCH_INTERVAL_MS = 1000


class RecordSender:
    """Takes records from callers and hands them to the accumulator."""

    def __init__(self, *, metadata: ProducerMetadata, accumulator: RecordAccumulator, partitioner: Partitioner,
                 key_serializer: Serializer | None, value_serializer: Serializer | None,
                 interceptors: ProducerInterceptors, clock: Clock, wakeup_sender: Callable[[], None],
                 max_request_size_bytes: int, buffer_memory_bytes: int, max_block_ms: int) -> None:
        self._metadata = metadata
        self._accumulator = accumulator
        self._partitioner = partitioner
        self._partition = partitioner.partition
        self._on_append: Callable[..., None] | None = getattr(partitioner, "on_append", None)
        self._key_serializer = key_serializer
        self._value_serializer = value_serializer
        self._interceptors = interceptors
        self._clock = clock
        self._wakeup_sender = wakeup_sender
        self._max_request_size_bytes = max_request_size_bytes
        self._buffer_memory_bytes = buffer_memory_bytes
        self._max_record_bytes = min(max_request_size_bytes, buffer_memory_bytes)
        self._max_block_ms = max_block_ms
        self._touched: dict[str, int] = {}  # topic -> when it was reported as in use; races only report twice

    def send(self, topic: str, value: Any, key: Any, partition: int | None, timestamp: int | None,
             headers: tuple[Header, ...], on_completion: OnCompletion | None) -> FutureRecordMetadata:
        """Send one record, given in parts that were checked by ProducerRecord's rules; see KafkaProducer.send."""
        if self._interceptors:
            record = ProducerRecord(topic, value, key, partition=partition, timestamp=timestamp, headers=headers)
            return self._send_intercepted(record, on_completion)
        try:
            return self._do_send(topic, value, key, partition, timestamp, headers, on_completion)
        except (KafkaTimeoutError, ApiError, AuthenticationError) as error:
            if isinstance(error, RecordTooLargeError):
                raise
            return failed_future(TopicPartition(topic, UNKNOWN_PARTITION if partition is None else partition), error,
                                 on_completion)

    def _send_intercepted(self, record: ProducerRecord, on_completion: OnCompletion | None) -> FutureRecordMetadata:
        interceptors = self._interceptors
        record = interceptors.on_send(record)
        topic_partition = TopicPartition(record.topic,
                                         UNKNOWN_PARTITION if record.partition is None else record.partition)

        def acknowledged(metadata: RecordMetadata | None, exception: BaseException | None) -> None:
            interceptors.on_acknowledgement(metadata, exception)
            if on_completion is not None:
                on_completion(metadata, exception)

        try:
            return self._do_send(record.topic, record.value, record.key, record.partition, record.timestamp,
                                 record.headers, acknowledged)
        except (KafkaTimeoutError, ApiError, AuthenticationError) as error:
            interceptors.on_send_error(record, topic_partition, error)
            if isinstance(error, RecordTooLargeError):
                raise
            return failed_future(topic_partition, error, on_completion)
        except Exception as error:
            interceptors.on_send_error(record, topic_partition, error)
            raise

    def _do_send(self, topic: str, value: Any, key: Any, partition: int | None, timestamp: int | None,
                 headers: tuple[Header, ...], on_completion: OnCompletion | None) -> FutureRecordMetadata:
        created = self._clock.timestamp_ms()
        max_block_ms = self._max_block_ms
        cluster = self._metadata.fetch()
        count = cluster.partition_count_for_topic(topic)
        if (count is None or (partition is not None and partition >= count)
                or abs(created - self._touched.get(topic, 0)) >= _TOUCH_INTERVAL_MS):
            began_ms = self._clock.now_ms()
            cluster = self._known_cluster(topic, partition, created)
            count = len(cluster.partitions_for_topic(topic))
            # What the wait for metadata took is not there any more for the wait for memory.
            max_block_ms = max(0, max_block_ms - (self._clock.now_ms() - began_ms))
        key_bytes = key if self._key_serializer is None and type(key) is bytes else self._serialize(
            self._key_serializer, topic, headers, key, "key")
        value_bytes = value if self._value_serializer is None and type(value) is bytes else self._serialize(
            self._value_serializer, topic, headers, value, "value")
        if partition is None:
            partition = self._partition(topic, key, key_bytes, value, value_bytes, cluster)
            if type(partition) is not int or not 0 <= partition < count:
                partition = self._checked_partition(partition, topic, count)
        size_bytes = record_size_upper_bound(key_bytes, value_bytes, headers)
        if size_bytes > self._max_record_bytes:
            raise self._too_large(topic, size_bytes)
        result = self._accumulator.append(topic, partition, created if timestamp is None else timestamp, key_bytes,
                                          value_bytes, headers, on_completion, max_block_ms)
        if self._on_append is not None:
            self._on_append(topic, partition, size_bytes - HEADER_SIZE_BYTES, cluster, result.batch_is_full)
        if result.batch_is_full or result.new_batch_created:
            self._wakeup_sender()
        return result.future

    def _known_cluster(self, topic: str, partition: int | None, timestamp: int) -> Cluster:
        cluster = wait_on_metadata(self._metadata, self._wakeup_sender, self._clock, topic, partition,
                                   self._max_block_ms)
        self._touched[topic] = timestamp
        return cluster

    def _serialize(self, serializer: Serializer | None, topic: str, headers: tuple[Header, ...], data: Any,
                   part: str) -> bytes | None:
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
            raise TypeError(f"The partitioner {self._partitioner!r} gave {partition!r} for topic {topic!r}: it must "
                            "give an int") from None
        if not 0 <= index < count:
            raise ValueError(f"The partitioner {self._partitioner!r} gave partition {index} for topic {topic!r}: the "
                             f"topic has {count} partitions, so it must be from 0 to {count - 1}")
        return int(index)

    def _too_large(self, topic: str, size_bytes: int) -> RecordTooLargeError:
        if size_bytes > self._max_request_size_bytes:
            limit = f"max.request.size = {self._max_request_size_bytes}"
        else:
            limit = f"buffer.memory = {self._buffer_memory_bytes}"
        error = RecordTooLargeError(
            f"The record for topic {topic!r} takes {size_bytes} bytes with its batch header, which is above {limit}. "
            "Send less in one record, or raise that setting (the topic's max.message.bytes must allow it too)",
            code=ErrorCode.MESSAGE_TOO_LARGE)
        error.outcome = "not_sent"
        return error

