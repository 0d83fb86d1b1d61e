"""pyproducer: a Kafka producer for Python with the Java producer's guarantees and settings.

    from pyproducer import KafkaProducer
    with KafkaProducer({"bootstrap.servers": "localhost:9092"}) as producer:
        producer.send("orders", b"paid", key=b"42")

Everything public is in `__all__`; side doors are `pyproducer.broker`, `pyproducer.spark` and `pyproducer.testing`.
"""

from __future__ import annotations

from pyproducer.accumulator.batch_future import BatchFuture, BatchMetadata
from pyproducer.common.cluster import Cluster, Node, PartitionInfo, TopicPartition
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
    ProducerClosedError,
    ProducerDeadError,
    ProtocolError,
    RecordRejectedError,
    RecordTooLargeError,
    RemoteProtocolError,
    RetriableError,
    SchemaError,
    SerializationError,
    TransportError,
    UnknownApiError,
    UnknownTopicOrPartitionError,
    UnsupportedVersionError,
)
from pyproducer.common.record_future import FutureRecordMetadata
from pyproducer.common.records import Header, ProducerRecord, RecordMetadata
from pyproducer.common.version import __version__ as __version__
from pyproducer.hotpath import IMPL
from pyproducer.producer.config import ProducerConfig
from pyproducer.producer.interceptors import ProducerInterceptor
from pyproducer.producer.json_serializer import JsonSerializer
from pyproducer.producer.kafka_producer import KafkaProducer
from pyproducer.producer.partitioners import (
    Crc32Partitioner,
    DefaultPartitioner,
    Fnv1aPartitioner,
    Murmur3Partitioner,
    Partitioner,
    RoundRobinPartitioner,
    UniformStickyPartitioner,
)
from pyproducer.producer.producer import Producer
from pyproducer.producer.serializers import (
    BytesSerializer,
    DoubleSerializer,
    FloatSerializer,
    IntegerSerializer,
    LongSerializer,
    Serializer,
    StringSerializer,
)

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
    "LocalProtocolError",
    "LongSerializer",
    "Murmur3Partitioner",
    "Node",
    "OutOfOrderSequenceError",
    "PartitionInfo",
    "Partitioner",
    "Producer",
    "ProducerClosedError",
    "ProducerConfig",
    "ProducerDeadError",
    "ProducerInterceptor",
    "ProducerRecord",
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
    "TransportError",
    "UniformStickyPartitioner",
    "UnknownApiError",
    "UnknownTopicOrPartitionError",
    "UnsupportedVersionError",
]

for _name in __all__:
    _member = globals()[_name]
    if isinstance(_member, type) and _member.__module__ != "pyproducer.hotpath._native":
        # Tracebacks and reprs show the public name; a compiled class cannot be renamed.
        _member.__module__ = __name__
del _member, _name


def __dir__() -> list[str]:
    return list(__all__)
