"""Wait until the partitions of a topic are known.

Road:    send(), partitions_for() -> [metadata]
Thread:  any caller; blocks up to max.block.ms.
Source:  Java KafkaProducer.waitOnMetadata (4.1).
"""

from __future__ import annotations

from collections.abc import Callable

from pyproducer.accumulator.life import Life
from pyproducer.client.metadata import ProducerMetadata
from pyproducer.common.clock import Clock
from pyproducer.common.cluster import Cluster, PartitionTable
from pyproducer.common.errors import KafkaTimeoutError
from pyproducer.common.topic_name import ensure_topic_name


def wait_on_metadata(metadata: ProducerMetadata, wakeup_sender: Callable[[], None], clock: Clock, life: Life,
                     topic: str, partition: int | None, max_block_ms: int, wait_ms: int | None = None) -> Cluster:
    """Return a snapshot that knows a topic, and a partition of it if one is asked for.

    Args:
        metadata: What is known and who waits for more.
        wakeup_sender: Makes the sender thread look at once.
        clock: For the deadline.
        life: The producer's: its sender thread does not wait for what only it can bring.
        topic: Name of the topic.
        partition: Index of the partition that the caller wants, or None.
        max_block_ms: The setting; for the message.
        wait_ms: Longest wait in ms; None waits up to max_block_ms.

    Raises:
        KafkaTimeoutError: Not known in time (phase "metadata"); the message tells what was tried. Not sent.
        InvalidTopicError: The name is not allowed, or the broker refuses it. Not sent.
        AuthorizationError: The topic may not be described. Not sent.
        AuthenticationError: TLS or SASL failed. Not sent.
        IllegalStateError: The producer was closed meanwhile, or died. Not sent.
    """
    if metadata.fetch().partition_count_for_topic(topic) is None:
        ensure_topic_name(topic)
    now_ms = clock.now_ms()
    wait_ms = 0 if life.is_on_sender_thread else max_block_ms if wait_ms is None else wait_ms
    deadline_ms = now_ms + wait_ms
    metadata.add(topic, now_ms)
    while True:
        cluster = metadata.fetch()
        table = cluster.table(topic)
        if partition in table.by_index if partition is not None else table.count:
            return cluster
        version = metadata.request_update_for_topic(topic, now_ms)
        wakeup_sender()
        left_ms = deadline_ms - clock.now_ms()
        if left_ms <= 0 or not metadata.await_update(version, left_ms):
            why = _explain(metadata, topic, partition, table, max_block_ms)
            if life.is_on_sender_thread:
                why = (f"What is known of topic {topic!r} does not suffice yet, and a callback cannot wait for more: "
                       "it runs on the producer's own thread, which asks the brokers. It is asked for now")
            raise KafkaTimeoutError(why, phase="metadata")
        metadata.ensure_topic_usable(topic)
        now_ms = clock.now_ms()


def _explain(metadata: ProducerMetadata, topic: str, partition: int | None, table: PartitionTable,
             max_block_ms: int) -> str:
    if not table.count:
        return (f"Topic {topic!r} was not known within max.block.ms = {max_block_ms} ms: "
                f"{metadata.describe_failure(topic)}")
    why = f"Partition {partition} of topic {topic!r} was not known within max.block.ms = {max_block_ms} ms: "
    found = len(table.in_order)
    if found == table.count:
        return f"{why}the topic has {found} partitions, so the index must be from 0 to {found - 1}"
    return (f"{why}the brokers tell of {found} partitions of it, from {table.in_order[0].partition} to "
            f"{table.count - 1}, and not of this one")
