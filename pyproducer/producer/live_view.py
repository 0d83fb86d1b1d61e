"""What waits now: records, bytes and ages by partition, and who leads them.

Road:    accumulator, metadata -> [live view] -> metrics(), why(), errors of calls that wait for records
Thread:  any; looks at lists that others change, so it may miss what comes meanwhile.
Source:  ours.
"""

from __future__ import annotations

from typing import NamedTuple

from pyproducer.accumulator.record_accumulator import RecordAccumulator
from pyproducer.client.metadata import ProducerMetadata
from pyproducer.common.cluster import UNKNOWN_PARTITION, TopicPartition
from pyproducer.common.public import public
from pyproducer.observe.registry import error_name

NO_PARTITION = -1
"""Of records whose partition is not chosen, because their topic is not known yet."""
MOST_PARTITIONS = 1000
"""So many are described: those that hold most come first."""
_MOST_TRIED = 16  # so many of a partition's batches, the oldest ones, may have been sent


@public
class PartitionState(NamedTuple):
    """What waits for one partition.

    Attributes:
        topic: The topic.
        partition: The number; NO_PARTITION where none is chosen.
        records: Records whose outcome is not decided.
        bytes: Their size, uncompressed where they were not sent yet.
        batches: How many batches hold them; 0 where they wait for metadata.
        in_flight: How many of these a request has.
        oldest_ms: The age of the oldest record.
        attempts: How often the oldest batch was sent in vain.
        error: The name of the error of its last attempt, "" where there was none.
        leader: Who leads the partition; None while that is not known.
    """

    topic: str
    partition: int
    records: int
    bytes: int
    batches: int
    in_flight: int
    oldest_ms: int
    attempts: int
    error: str
    leader: int | None


class _Sum:
    def __init__(self, began_ms: int) -> None:
        self.records = self.bytes = self.batches = self.in_flight = self.attempts = 0
        self.error = ""
        self.began_ms = began_ms


def why_not_done(accumulator: RecordAccumulator, metadata: ProducerMetadata, trouble: str,
                 topic_partition: TopicPartition, wait_limit: str) -> str:
    """Say why records are not done, and which setting bounds that, for the end of an error's text.

    Args:
        accumulator: Where they are.
        metadata: What is known, and what failed.
        trouble: Why the client's own requests fail; "" where none does.
        topic_partition: Where they go; UNKNOWN_PARTITION: to any partition of the topic.
        wait_limit: Which setting ends the wait for a topic, and its value.
    """
    topic, partition = topic_partition
    if any(queue.topic == topic and (partition == UNKNOWN_PARTITION or queue.partition in (None, partition))
           for queue in list(accumulator.waiting.queues.values())):
        return (f" (the wait for the topic ends with {wait_limit}, or after ten seconds in which brokers say that it "
                f"does not exist); {metadata.describe_failure(topic)}")
    return (f" (delivery.timeout.ms decides how long that is tried){last_attempt(accumulator, topic_partition)}"
            f"{'; ' + trouble if trouble else ''}{failing_addresses(metadata)}")


def last_attempt(accumulator: RecordAccumulator, of: TopicPartition | None = None) -> str:
    """Say how a Produce request ended whose records are not stored, for the end of an error's text; or "".

    Args:
        accumulator: Where they are.
        of: Where they go, as for `why_not_done`; None for any.
    """
    for partition in list(accumulator.busy):
        topic, number = partition.topic_partition
        if of is not None and (of.topic != topic or of.partition not in (number, UNKNOWN_PARTITION)):
            continue
        for batch in partition.batches[:_MOST_TRIED]:
            if batch.last_error is not None and not batch.is_done:
                return f"; the last attempt failed with: {str(batch.last_error).rstrip('.')}"
    return ""


def failing_addresses(metadata: ProducerMetadata) -> str:
    """Say which addresses do not work, and why, for the end of an error's text; or ""."""
    return "".join(f"; {address}: {text}" for address, text in metadata.last_errors().items())


def waiting_partitions(accumulator: RecordAccumulator, metadata: ProducerMetadata, now_ms: int) -> list[PartitionState]:
    """Return the partitions with records that are not decided, most records first."""
    found: dict[tuple[str, int], _Sum] = {}
    for batch in accumulator.batches():
        if batch.is_done:
            continue
        key = (batch.topic_partition.topic, batch.topic_partition.partition)
        row = found.get(key)
        if row is None:
            row = found[key] = _Sum(batch.story.opened_ms)
            row.attempts = batch.attempts
            row.error = "" if batch.last_error is None else error_name(batch.last_error)
        row.records += batch.open.record_count
        row.bytes += batch.size_bytes
        row.batches += 1
        row.in_flight += batch.is_in_flight
    for queue in list(accumulator.waiting.queues.values()):
        records = list(queue.records)
        if records:
            key = (queue.topic, NO_PARTITION if queue.partition is None else queue.partition)
            row = found.setdefault(key, _Sum(min(record.sent_ms for record in records)))
            row.records += len(records)
            row.bytes += sum(record.size_bytes for record in records)
    cluster = metadata.cluster
    states = []
    for (topic, partition), row in found.items():
        info = cluster.table(topic).by_index.get(partition)
        states.append(PartitionState(
            topic, partition, row.records, row.bytes, row.batches, row.in_flight, max(0, now_ms - row.began_ms),
            row.attempts, row.error, None if info is None or info.leader is None else info.leader.node_id))
    return sorted(states, key=lambda state: (-state.records, state.topic, state.partition))[:MOST_PARTITIONS]
