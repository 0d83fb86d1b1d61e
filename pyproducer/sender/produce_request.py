"""One Produce request: the batches of a node, and its body in any version.

Road:    drain -> [produce request] -> NetworkClient
Thread:  sender thread only.
Source:  Java Sender.sendProduceRequest, ProduceRequest.Builder (4.1); protocol.md A.4 for the versions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any
from uuid import UUID

from pyproducer.accumulator.producer_batch import ProducerBatch
from pyproducer.common.cluster import Cluster

FIRST_VERSION_WITH_TOPIC_IDS = 13
LAST_VERSION_BEFORE_TRANSACTIONS_V2 = 11
"""Later ones bring the partition of a transactional batch into its transaction (KIP-890)."""

BatchesByPartition = dict[tuple[str, int], ProducerBatch]


def produce_request(
        batches: Sequence[ProducerBatch], cluster: Cluster, *, acks: int, timeout_ms: int, transactional_id: str | None,
        highest_version: int | None) -> tuple[Callable[[int], Mapping[str, Any]], int | None, Mapping[UUID, str]]:
    """Describe a Produce request, which can be built in any version.

    Args:
        batches: At most one of each partition, closed and with headers.
        cluster: Tells topic ids.
        acks: 0, 1 or -1.
        timeout_ms: How long the leader waits for its followers.
        transactional_id: Of the transaction that the batches belong to; None when there is none.
        highest_version: The highest version that is allowed; None leaves that to the topics' ids. A transaction of
            the first version of that protocol goes no higher than 11 (KIP-890).

    Returns:
        What builds the body for a version; the highest version that may be used, None for any, and below 13, which
        names topics by id, where one's is not known; and the names of the ids in it, for metadata may have other ids
        when the answer comes (KAFKA-19397).
    """
    by_topic: dict[str, list[dict[str, Any]]] = {}
    for batch in batches:
        topic, partition = batch.topic_partition
        by_topic.setdefault(topic, []).append({"index": partition, "records": batch.encoded})
    topic_ids: dict[str, UUID] = {}
    topic_names: dict[UUID, str] = {}
    for topic in by_topic:
        topic_id = cluster.ids_by_topic.get(topic)
        if topic_id is not None:
            topic_ids[topic] = topic_id
            topic_names[topic_id] = topic

    def build(version: int) -> Mapping[str, Any]:
        topic_data: list[dict[str, Any]] = []
        for topic, partition_data in by_topic.items():
            if version >= FIRST_VERSION_WITH_TOPIC_IDS:
                topic_data.append({"topic_id": topic_ids[topic], "partition_data": partition_data})
            else:
                topic_data.append({"name": topic, "partition_data": partition_data})
        return {"transactional_id": transactional_id, "acks": acks, "timeout_ms": timeout_ms, "topic_data": topic_data}

    if len(topic_ids) < len(by_topic) and (highest_version is None or highest_version >= FIRST_VERSION_WITH_TOPIC_IDS):
        highest_version = FIRST_VERSION_WITH_TOPIC_IDS - 1
    return build, highest_version, topic_names
