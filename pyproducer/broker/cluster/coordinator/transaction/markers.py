"""Writing the markers that end a transaction in the logs of its partitions.

Road:    transaction coordinator -> [markers] -> partition's log, group coordinator -> fetches that wait
Thread:  under the transactional id's lock; takes the log's and the group coordinator's after it.
Source:  Java TransactionMarkerChannelManager, KafkaApis.handleWriteTxnMarkersRequest (4.1), without the request: the
         brokers of a cluster share their logs.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from pyproducer.broker.cluster.coordinator.group.coordinator import GroupCoordinator
from pyproducer.broker.cluster.coordinator.internal_topics import GROUP_METADATA_TOPIC_NAME
from pyproducer.broker.cluster.coordinator.transaction.metadata import TransactionMetadata
from pyproducer.broker.cluster.coordinator.transaction.state import TransactionState
from pyproducer.broker.cluster.delayed_operation import DelayedFetches
from pyproducer.broker.cluster.living_brokers import LivingBrokers
from pyproducer.broker.cluster.topic_table import TopicTable
from pyproducer.broker.storage.log import AppendResult
from pyproducer.common.clock import Clock
from pyproducer.common.cluster import TopicPartition
from pyproducer.record.control import ControlRecordType

_logger = logging.getLogger(__name__)


class MarkerWriter:
    """Writes them.

    Args:
        clock: The wall clock.
        topics: Where the partitions are.
        brokers: Only a living leader writes.
        group_coordinator: Counts the offsets of a transaction when it is committed.
        delayed_fetches: Those that wait for the end of the transaction are woken.
    """

    def __init__(self, clock: Clock, topics: TopicTable, brokers: LivingBrokers, group_coordinator: GroupCoordinator,
                 delayed_fetches: DelayedFetches) -> None:
        self._clock = clock
        self._topics = topics
        self._brokers = brokers
        self._group_coordinator = group_coordinator
        self._delayed_fetches = delayed_fetches

    def write(self, metadata: TransactionMetadata, topic_partitions: Iterable[TopicPartition], *,
              coordinator_epoch: int) -> set[TopicPartition]:
        """Write the markers of a transaction that is being ended.

        Args:
            metadata: In PrepareCommit or PrepareAbort.
            topic_partitions: Those without a marker yet.
            coordinator_epoch: Of the coordinator.

        Returns:
            The partitions that have no living leader, or too few replicas in sync: try again later. One that was
            deleted, or has a marker of a newer producer, needs none.
        """
        committed = metadata.state is TransactionState.PREPARE_COMMIT
        control_type = ControlRecordType.COMMIT if committed else ControlRecordType.ABORT
        left: set[TopicPartition] = set()
        has_offsets = False
        for topic_partition in sorted(topic_partitions):
            partition = self._topics.partition(*topic_partition)
            if partition is None:
                continue
            leader_id, leader_epoch = partition.leadership
            if leader_id not in self._brokers or not partition.has_enough_replicas:
                left.add(topic_partition)
                continue
            result = partition.log.append_marker(
                control_type, producer_id=metadata.producer_id, producer_epoch=metadata.producer_epoch,
                coordinator_epoch=coordinator_epoch, leader_epoch=leader_epoch,
                timestamp_ms=self._clock.timestamp_ms())
            if not isinstance(result, AppendResult):
                _logger.warning("No marker of transaction %s in %s: %s", metadata.transactional_id, topic_partition,
                                result.why)
                continue
            has_offsets |= topic_partition.topic == GROUP_METADATA_TOPIC_NAME
            self._delayed_fetches.check_and_complete(topic_partition)
        if has_offsets:
            self._group_coordinator.complete_transaction(metadata.producer_id, committed=committed)
        return left
