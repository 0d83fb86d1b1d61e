"""The transaction coordinator's records in __transaction_state, as Kafka writes them.

Road:    transaction coordinator -> [transaction records] -> coordinator log; read back at start
Thread:  pure functions.
Shape:   key: INT16 0, then the id; value: INT16 version, then the message; its version is 0 with transaction.version 0,
         else 1. A null value deletes.
Source:  Java TransactionLog (4.1).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyproducer.broker.cluster.coordinator.coordinator_log import KeyValue
from pyproducer.broker.cluster.coordinator.transaction.metadata import TransactionMetadata
from pyproducer.broker.cluster.coordinator.transaction.state import STATES_BY_ID, TransactionState
from pyproducer.broker.messages.transaction_records import TRANSACTION_LOG_KEY, TRANSACTION_LOG_VALUE
from pyproducer.common.cluster import TopicPartition
from pyproducer.protocol.buffer import Buffer, ByteReader, ByteWriter
from pyproducer.protocol.message import Message
from pyproducer.protocol.types import INT16

_KIND = 0
_FLEXIBLE_FROM = 1


def transaction_record(metadata: TransactionMetadata, *, transaction_version: int) -> KeyValue:
    """Return the record of a transactional id.

    Args:
        metadata: What to write.
        transaction_version: Level of the broker's feature, which decides the version of the value.
    """
    version = 1 if transaction_version >= 1 else 0
    key, _ = transaction_tombstone(metadata.transactional_id)
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(metadata.topic_partitions):
        topics.setdefault(topic, []).append(partition)
    return key, _encoded(
        version, TRANSACTION_LOG_VALUE, version, {
            "producer_id": metadata.producer_id, "previous_producer_id": metadata.previous_producer_id,
            "next_producer_id": metadata.next_producer_id, "producer_epoch": metadata.producer_epoch,
            "transaction_timeout_ms": metadata.timeout_ms, "transaction_status": metadata.state.id,
            "transaction_partitions": None if metadata.state is TransactionState.EMPTY else [
                {"topic": topic, "partition_ids": ids} for topic, ids in topics.items()],
            "transaction_last_update_timestamp_ms": metadata.last_update_timestamp_ms,
            "transaction_start_timestamp_ms": metadata.start_timestamp_ms,
            "client_transaction_version": metadata.client_transaction_version})


def transaction_tombstone(transactional_id: str) -> KeyValue:
    """Return the record that deletes a transactional id."""
    return _encoded(_KIND, TRANSACTION_LOG_KEY, 0, {"transactional_id": transactional_id}), None


def parse_transactional_id(key: Buffer) -> str | None:
    """Return whose record this is; None for a kind that we do not know."""
    reader = ByteReader(key)
    if INT16.read(reader) != _KIND:
        return None
    transactional_id: str = TRANSACTION_LOG_KEY.schema(0, flexible=False).read(reader)["transactional_id"]
    return transactional_id


def parse_transaction(transactional_id: str, value: Buffer) -> TransactionMetadata:
    """Read the value of a record.

    The log does not have the epoch before the present one; as in Java a repeated InitProducerId is not recognised
    after a restart.
    """
    reader = ByteReader(value)
    version = INT16.read(reader)
    data = TRANSACTION_LOG_VALUE.schema(version, flexible=version >= _FLEXIBLE_FROM).read(reader)
    return TransactionMetadata(
        transactional_id, data["producer_id"], data["producer_epoch"], data["transaction_timeout_ms"],
        STATES_BY_ID[data["transaction_status"]], previous_producer_id=data.get("previous_producer_id", -1),
        next_producer_id=data.get("next_producer_id", -1),
        topic_partitions=frozenset(TopicPartition(topic["topic"], partition)
                                   for topic in data["transaction_partitions"] or ()
                                   for partition in topic["partition_ids"]),
        start_timestamp_ms=data["transaction_start_timestamp_ms"],
        last_update_timestamp_ms=data["transaction_last_update_timestamp_ms"],
        client_transaction_version=data.get("client_transaction_version", 0))


def _encoded(prefix: int, message: Message, version: int, values: Mapping[str, Any]) -> bytes:
    writer = ByteWriter()
    INT16.write(writer, prefix)
    message.schema(version, flexible=version >= _FLEXIBLE_FROM).write(writer, values)
    return writer.to_bytes()
