"""Wait until the partitions of a topic are known, or until any broker has answered.

Road:    partitions_for(), check() -> [metadata]
Thread:  any caller; blocks up to max.block.ms.
Source:  Java KafkaProducer.waitOnMetadata (4.1). Differs from Java: send() does not come here, see waiting_room.py.
"""

from __future__ import annotations

from collections.abc import Callable

from pyproducer.client.metadata import ProducerMetadata
from pyproducer.client.metadata_errors import no_answer, not_known
from pyproducer.common.clock import Clock
from pyproducer.common.cluster import Cluster
from pyproducer.common.errors import KafkaError
from pyproducer.common.topic_name import ensure_topic_name


def wait_on_metadata(metadata: ProducerMetadata, wakeup_sender: Callable[[], None], clock: Clock, topic: str,
                     max_block_ms: int) -> Cluster:
    """Return a snapshot that knows a topic.

    Args:
        metadata: What is known and who waits for more.
        wakeup_sender: Makes the sender thread look at once.
        clock: For the deadline.
        topic: Name of the topic.
        max_block_ms: Longest wait in ms.

    Raises:
        KafkaTimeoutError: Not known in time (phase "metadata"); the message tells what was tried.
        InvalidTopicError: The name is not allowed, or the broker refuses it.
        AuthorizationError: The topic may not be described.
        AuthenticationError: TLS or SASL failed.
        IllegalStateError: The producer was closed meanwhile, or died.
    """
    deadline_ms = clock.now_ms() + max_block_ms
    fatal_seen = metadata.fatal_count  # what failed before says nothing of now
    found = begin_to_ask(metadata, wakeup_sender, clock, topic)
    while not isinstance(found, Cluster):
        left_ms = deadline_ms - clock.now_ms()
        if left_ms <= 0 or not metadata.await_update(found, left_ms, fatal_seen):
            raise not_in_time(metadata, topic, max_block_ms)
        metadata.ensure_topic_usable(topic)
        found = ask(metadata, wakeup_sender, clock, topic)
    return found


def begin_to_ask(metadata: ProducerMetadata, wakeup_sender: Callable[[], None], clock: Clock,
                 topic: str) -> Cluster | int:
    """Do what `ask` does, for the first time: the topic is in use from now on.

    Raises:
        InvalidTopicError: The name is not allowed.
    """
    if metadata.cluster.partition_count_for_topic(topic) is None:
        ensure_topic_name(topic)
    metadata.add(topic, clock.now_ms())
    return ask(metadata, wakeup_sender, clock, topic)


def ask(metadata: ProducerMetadata, wakeup_sender: Callable[[], None], clock: Clock, topic: str) -> Cluster | int:
    """Return a snapshot that knows a topic; or have brokers asked, and return the version of it to wait beyond."""
    cluster = metadata.cluster
    if cluster.table(topic).count:
        return cluster
    version = metadata.request_update_for_topic(topic, clock.now_ms())
    wakeup_sender()
    return version


def not_in_time(metadata: ProducerMetadata, topic: str, max_block_ms: int) -> KafkaError:
    """Return the error of who waited for a topic in vain."""
    return not_known(metadata, topic, None, f"max.block.ms = {max_block_ms} ms")


def wait_on_brokers(metadata: ProducerMetadata, wakeup_sender: Callable[[], None], timeout_ms: int) -> None:
    """Return when a broker has answered a request for metadata that was made after the call.

    Args:
        metadata: Who asks.
        wakeup_sender: Makes the sender thread look at once.
        timeout_ms: Longest wait in ms.

    Raises:
        KafkaTimeoutError: No answer in time (phase "metadata"); the message tells what was tried.
        AuthenticationError: TLS or SASL failed.
        UnsupportedVersionError: A broker has no version of Metadata in common with us.
        IllegalStateError: The producer was closed meanwhile, or died.

    Source: ours; Java has nothing but partitionsFor() of some topic.
    """
    fatal_seen = metadata.fatal_count
    version = metadata.request_update(reset_equivalent_backoff=True)
    wakeup_sender()
    if not metadata.await_update(version, timeout_ms, fatal_seen):
        raise no_answer(metadata, timeout_ms)
