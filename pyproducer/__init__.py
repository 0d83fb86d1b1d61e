"""pyproducer: a Kafka producer for Python with the Java producer's guarantees and settings.

    from pyproducer import KafkaProducer
    with KafkaProducer({"bootstrap.servers": "localhost:9092"}) as producer:
        producer.send("orders", b"paid", key=b"42")

Everything public is in `__all__`; side doors are `pyproducer.broker`, `pyproducer.spark`, `pyproducer.testing` and
`pyproducer.compat`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from pyproducer.common.cluster import Cluster, Node, PartitionInfo, TopicPartition
from pyproducer.common.consumer_offsets import ConsumerGroupMetadata, OffsetAndMetadata
from pyproducer.common.delivery_summary import DeliverySummary, TopicDeliveries
from pyproducer.common.error_codes import ErrorCode
from pyproducer.common.errors import (
    AbortableTransactionError,
    ApiError,
    AuthenticationError,
    AuthorizationError,
    BufferExhaustedError,
    ConfigError,
    CorrelationIdMismatchError,
    CorruptRecordError,
    DeliveryFailedError,
    DisconnectedError,
    FailedRecords,
    FatalProducerError,
    ForkedProducerError,
    IllegalStateError,
    InvalidMetadataError,
    InvalidReceiveError,
    InvalidRequestError,
    InvalidTopicError,
    KafkaError,
    KafkaTimeoutError,
    LocalProtocolError,
    OutOfOrderSequenceError,
    PartitionerError,
    ProducerClosedError,
    ProducerDeadError,
    ProtocolError,
    RecordRejectedError,
    RecordTooLargeError,
    RemoteProtocolError,
    RetriableError,
    SchemaError,
    SerializationError,
    TransactionAbortedError,
    TransportError,
    UnknownApiError,
    UnknownTopicOrPartitionError,
    UnsupportedVersionError,
)
from pyproducer.common.record_future import FutureRecordMetadata
from pyproducer.common.records import Header, ProducerRecord, RecordMetadata
from pyproducer.common.version import __version__ as __version__
from pyproducer.hotpath import IMPL

if TYPE_CHECKING:
    from pyproducer.accumulator.batch_future import BatchFuture, BatchMetadata
    from pyproducer.observe.catalog import Kind
    from pyproducer.observe.registry import Metric
    from pyproducer.observe.why import Finding, Why
    from pyproducer.producer.async_producer import AsyncProducer, AsyncTransactionalProducer
    from pyproducer.producer.config import ProducerConfig
    from pyproducer.producer.interceptors import ProducerInterceptor
    from pyproducer.producer.json_serializer import JsonSerializer
    from pyproducer.producer.kafka_producer import KafkaProducer
    from pyproducer.producer.live_view import PartitionState
    from pyproducer.producer.metrics import ProducerMetrics, all_metrics
    from pyproducer.producer.opentelemetry import instrument, observe_all
    from pyproducer.producer.partitioners import (
        Crc32Partitioner,
        DefaultPartitioner,
        Fnv1aPartitioner,
        Murmur3Partitioner,
        Partitioner,
        RoundRobinPartitioner,
        UniformStickyPartitioner,
    )
    from pyproducer.producer.producer import Producer, TransactionalProducer
    from pyproducer.producer.prometheus import PrometheusCollector
    from pyproducer.producer.serializers import (
        BytesSerializer,
        DoubleSerializer,
        FloatSerializer,
        IntegerSerializer,
        LongSerializer,
        Serializer,
        StringSerializer,
    )
    from pyproducer.producer.transaction_completer import TransactionCompleter, TransactionOutcome
    from pyproducer.transaction.prepared_transaction import PreparedTransaction

__all__ = [
    "IMPL",
    "AbortableTransactionError",
    "ApiError",
    "AsyncProducer",
    "AsyncTransactionalProducer",
    "AuthenticationError",
    "AuthorizationError",
    "BatchFuture",
    "BatchMetadata",
    "BufferExhaustedError",
    "BytesSerializer",
    "Cluster",
    "ConfigError",
    "ConsumerGroupMetadata",
    "CorrelationIdMismatchError",
    "CorruptRecordError",
    "Crc32Partitioner",
    "DefaultPartitioner",
    "DeliveryFailedError",
    "DeliverySummary",
    "DisconnectedError",
    "DoubleSerializer",
    "ErrorCode",
    "FailedRecords",
    "FatalProducerError",
    "Finding",
    "FloatSerializer",
    "Fnv1aPartitioner",
    "ForkedProducerError",
    "FutureRecordMetadata",
    "Header",
    "IllegalStateError",
    "IntegerSerializer",
    "InvalidMetadataError",
    "InvalidReceiveError",
    "InvalidRequestError",
    "InvalidTopicError",
    "JsonSerializer",
    "KafkaError",
    "KafkaProducer",
    "KafkaTimeoutError",
    "Kind",
    "LocalProtocolError",
    "LongSerializer",
    "Metric",
    "Murmur3Partitioner",
    "Node",
    "OffsetAndMetadata",
    "OutOfOrderSequenceError",
    "PartitionInfo",
    "PartitionState",
    "Partitioner",
    "PartitionerError",
    "PreparedTransaction",
    "Producer",
    "ProducerClosedError",
    "ProducerConfig",
    "ProducerDeadError",
    "ProducerInterceptor",
    "ProducerMetrics",
    "ProducerRecord",
    "PrometheusCollector",
    "ProtocolError",
    "RecordMetadata",
    "RecordRejectedError",
    "RecordTooLargeError",
    "RemoteProtocolError",
    "RetriableError",
    "RoundRobinPartitioner",
    "SchemaError",
    "SerializationError",
    "Serializer",
    "StringSerializer",
    "TopicDeliveries",
    "TopicPartition",
    "TransactionAbortedError",
    "TransactionCompleter",
    "TransactionOutcome",
    "TransactionalProducer",
    "TransportError",
    "UniformStickyPartitioner",
    "UnknownApiError",
    "UnknownTopicOrPartitionError",
    "UnsupportedVersionError",
    "Why",
    "all_metrics",
    "instrument",
    "observe_all",
]

_LATER = {
    "BatchFuture": "pyproducer.accumulator.batch_future",
    "BatchMetadata": "pyproducer.accumulator.batch_future",
    "Kind": "pyproducer.observe.catalog",
    "Metric": "pyproducer.observe.registry",
    "Finding": "pyproducer.observe.why",
    "Why": "pyproducer.observe.why",
    "AsyncProducer": "pyproducer.producer.async_producer",
    "AsyncTransactionalProducer": "pyproducer.producer.async_producer",
    "ProducerConfig": "pyproducer.producer.config",
    "ProducerInterceptor": "pyproducer.producer.interceptors",
    "JsonSerializer": "pyproducer.producer.json_serializer",
    "KafkaProducer": "pyproducer.producer.kafka_producer",
    "PartitionState": "pyproducer.producer.live_view",
    "ProducerMetrics": "pyproducer.producer.metrics",
    "all_metrics": "pyproducer.producer.metrics",
    "instrument": "pyproducer.producer.opentelemetry",
    "observe_all": "pyproducer.producer.opentelemetry",
    "Crc32Partitioner": "pyproducer.producer.partitioners",
    "DefaultPartitioner": "pyproducer.producer.partitioners",
    "Fnv1aPartitioner": "pyproducer.producer.partitioners",
    "Murmur3Partitioner": "pyproducer.producer.partitioners",
    "Partitioner": "pyproducer.producer.partitioners",
    "RoundRobinPartitioner": "pyproducer.producer.partitioners",
    "UniformStickyPartitioner": "pyproducer.producer.partitioners",
    "Producer": "pyproducer.producer.producer",
    "TransactionalProducer": "pyproducer.producer.producer",
    "PrometheusCollector": "pyproducer.producer.prometheus",
    "BytesSerializer": "pyproducer.producer.serializers",
    "DoubleSerializer": "pyproducer.producer.serializers",
    "FloatSerializer": "pyproducer.producer.serializers",
    "IntegerSerializer": "pyproducer.producer.serializers",
    "LongSerializer": "pyproducer.producer.serializers",
    "Serializer": "pyproducer.producer.serializers",
    "StringSerializer": "pyproducer.producer.serializers",
    "TransactionCompleter": "pyproducer.producer.transaction_completer",
    "TransactionOutcome": "pyproducer.producer.transaction_completer",
    "PreparedTransaction": "pyproducer.transaction.prepared_transaction",
}
"""Where the names are that are loaded when they are first asked for: whoever only reads settings and errors, as most
processes of a Spark job do, pays for no producer."""

for _name in __all__:
    _member = globals().get(_name)
    if isinstance(_member, type) and _member.__module__ != "pyproducer.hotpath._native":
        # Tracebacks and reprs show the public name; a compiled class cannot be renamed.
        # Those of _LATER have it from common.public.
        _member.__module__ = __name__
del _member, _name

if not TYPE_CHECKING:  # which would take any name for one of ours

    def __getattr__(name: str) -> object:
        if name not in _LATER:
            from pyproducer.producer.mistakes import NAMES, no_name

            raise no_name(__name__, name, NAMES)
        home = _LATER[name]
        module = import_module(home)
        # All that are at home there: annotations of one name another.
        globals().update({other: getattr(module, other) for other in _LATER if _LATER[other] == home})
        return globals()[name]


def __dir__() -> list[str]:
    return list(__all__)
