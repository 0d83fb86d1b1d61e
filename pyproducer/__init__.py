"""pyproducer: a Kafka producer for Python with the Java producer's guarantees and settings.

    from pyproducer import KafkaProducer
    with KafkaProducer({"bootstrap.servers": "localhost:9092"}) as producer:
        producer.send("orders", b"paid", key=b"42")

Everything public is in `__all__`; side doors are `pyproducer.broker`, `pyproducer.spark` and `pyproducer.testing`.
"""

from __future__ import annotations

from pyproducer.accumulator.batch_future import BatchFuture, BatchMetadata
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
from pyproducer.observe.catalog import Kind
from pyproducer.observe.registry import Metric
from pyproducer.observe.why import Finding, Why
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

for _name in __all__:
    _member = globals()[_name]
    if isinstance(_member, type) and _member.__module__ != "pyproducer.hotpath._native":
        # Tracebacks and reprs show the public name; a compiled class cannot be renamed.
        _member.__module__ = __name__
del _member, _name


def __dir__() -> list[str]:
    return list(__all__)
