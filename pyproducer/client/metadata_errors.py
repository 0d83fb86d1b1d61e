"""The error of who waited for metadata that did not come, with what was tried.

Road:    partitions_for(), check(), the waiting room -> [error]
Thread:  any.
Source:  ours; Java says only that the topic is not present in metadata after max.block.ms.
"""

from __future__ import annotations

from pyproducer.client.metadata import ProducerMetadata
from pyproducer.common.error_codes import ErrorCode
from pyproducer.common.errors import NOT_SENT, KafkaError, KafkaTimeoutError, UnknownTopicOrPartitionError


def not_known(metadata: ProducerMetadata, topic: str, partition: int | None, limit: str) -> KafkaTimeoutError:
    """Return the error for a topic, or a partition of it, that did not become known in time. Not sent.

    Args:
        metadata: What is known, and what failed.
        topic: The topic.
        partition: The partition that was wanted, or None for any.
        limit: Which setting ended the wait, and its value.
    """
    return KafkaTimeoutError(_explain(metadata, topic, partition, limit), phase="metadata")


def no_such_partition(metadata: ProducerMetadata, topic: str, partition: int) -> KafkaError | None:
    """Return the error for a partition beyond the last one that brokers tell of; None where it may yet become known.

    Its topic has to be asked for after the partition was wanted. Not sent.
    """
    count = metadata.cluster.table(topic).count
    if partition < count or not count:
        return None
    error = UnknownTopicOrPartitionError(
        f"Topic {topic!r} has no partition {partition}: the index must be from 0 to {count - 1}, or None to let the "
        "partitioner choose", code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, api="METADATA")
    error.outcome = NOT_SENT
    error.retriable = False
    return error


def no_answer(metadata: ProducerMetadata, waited_ms: int) -> KafkaTimeoutError:
    """Return the error for brokers none of which answered in time."""
    return KafkaTimeoutError(f"No broker answered a request for metadata within {waited_ms} ms: "
                             f"{metadata.describe_failures()}", phase="metadata")


def _explain(metadata: ProducerMetadata, topic: str, partition: int | None, limit: str) -> str:
    table = metadata.cluster.table(topic)
    if not table.count:
        return f"Topic {topic!r} was not known within {limit}: {metadata.describe_failure(topic)}"
    if partition is None or partition in table.by_index:
        return f"Topic {topic!r} became known just when {limit} ended"
    why = f"Partition {partition} of topic {topic!r} was not known within {limit}: "
    found = len(table.in_order)
    if found == table.count:
        return f"{why}the topic has {found} partitions, so the index must be from 0 to {found - 1}"
    return (f"{why}the brokers tell of {found} partitions of it, from {table.in_order[0].partition} to "
            f"{table.count - 1}, and not of this one")
