"""Writing the markers that end a transaction in the logs of its partitions.

Road:    transaction coordinator -> [markers] -> partition's log, group coordinator -> fetches that wait
Thread:  under the transactional id's lock; takes the log's and the group coordinator's after it.
Source:  Java TransactionMarkerChannelManager, KafkaApis.handleWriteTxnMarkersRequest (4.1), without the request: the
         brokers of a cluster share their logs.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING

from pyproducer.broker.cluster.coordinator.internal_topics import GROUP_METADATA_TOPIC_NAME
from pyproducer.broker.cluster.coordinator.transaction.metadata import TransactionMetadata
from pyproducer.broker.cluster.coordinator.transaction.state import TransactionState
from pyproducer.broker.storage.log import AppendResult
from pyproducer.common.cluster import TopicPartition
from pyproducer.record.control import ControlRecordType

if TYPE_CHECKING:
    from pyproducer.broker.cluster.cluster_state import ClusterState

_logger = logging.getLogger(__name__)


def write_markers(cluster: ClusterState, metadata: TransactionMetadata, topic_partitions: Iterable[TopicPartition], *,
                  coordinator_epoch: int) -> set[TopicPartition]:
    """Write the markers of a transaction that is being ended.

    Args:
        cluster: Where the partitions are.
        metadata: In PrepareCommit or PrepareAbort.
        topic_partitions: Those without a marker yet.
        coordinator_epoch: Of the coordinator.

    Returns:
        The partitions that have no living leader: try again later. One that was deleted, or has a marker of a newer
        producer, needs none.
    """
    committed = metadata.state is TransactionState.PREPARE_COMMIT
    control_type = ControlRecordType.COMMIT if committed else ControlRecordType.ABORT
    left: set[TopicPartition] = set()
    has_offsets = False
    for topic_partition in sorted(topic_partitions):
        partition = cluster.partition(*topic_partition)
        if partition is None:
            continue
        leader_id, leader_epoch = partition.leadership
        if leader_id not in cluster.brokers:
            left.add(topic_partition)
            continue
        result = partition.log.append_marker(
            control_type, producer_id=metadata.producer_id, producer_epoch=metadata.producer_epoch,
            coordinator_epoch=coordinator_epoch, leader_epoch=leader_epoch,
            timestamp_ms=cluster.clock.timestamp_ms())
        if not isinstance(result, AppendResult):
            _logger.warning("No marker of transaction %s in %s: %s", metadata.transactional_id, topic_partition,
                            result.why)
            continue
        has_offsets |= topic_partition.topic == GROUP_METADATA_TOPIC_NAME
        cluster.delayed_fetches.check_and_complete(topic_partition)
    if has_offsets:
        cluster.group_coordinator.complete_transaction(metadata.producer_id, committed=committed)
    return left
