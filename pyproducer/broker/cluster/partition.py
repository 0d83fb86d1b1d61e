"""One partition: who leads it, in which epoch, which brokers have it, and its log.

Road:    Produce, Fetch, ListOffsets -> [partition] -> log
Thread:  any. Leader and epoch change together, by replacing one value, and so do the replicas.
Source:  Java kafka.cluster.Partition (4.1). What is appended is committed at once: there is one log for all replicas.
"""

from __future__ import annotations

from typing import Protocol

from pyproducer.broker.cluster.replicas import NO_LEADER, Leadership, Replicas
from pyproducer.broker.cluster.topic_config import TopicConfig
from pyproducer.broker.cluster.topic_name import INTERNAL_TOPICS
from pyproducer.broker.storage.batch_header import recompressed
from pyproducer.broker.storage.expansion import Allowance, ExpansionBusyError
from pyproducer.broker.storage.log import AppendResult, Log
from pyproducer.broker.storage.validation import BatchFault, validate_batch
from pyproducer.common.cluster import TopicPartition
from pyproducer.common.error_codes import ErrorCode
from pyproducer.common.errors import CorruptRecordError
from pyproducer.record.batch_reader import RecordBatch
from pyproducer.record.layout import LOG_APPEND_TIME, Buffer

_NO_EPOCH = -1  # the client has none


class Appender(Protocol):
    """Appends a checked batch in a way of its own, in place of the log; only faults do."""

    def __call__(self, partition: Partition, batch: RecordBatch,
                 log_append_time_ms: int | None, /) -> AppendResult | BatchFault:
        """Return what the producer is told."""


class Partition:
    """A partition of a topic; without `replicas` the leader is the only one."""

    def __init__(self, topic_partition: TopicPartition, leadership: Leadership, log: Log, config: TopicConfig,
                 replicas: Replicas | None = None) -> None:
        self.topic_partition = topic_partition
        self.leadership = leadership
        self.replicas: Replicas = replicas or Replicas((leadership.leader_id,), (leadership.leader_id,))
        self.is_vacant: bool = False  # a test took its leader away: nobody is elected
        self.log = log
        self.config = config
        self.next_appender: Appender | None = None  # of the next batch, whoever sends it: a fault swaps the two

    @property
    def is_internal(self) -> bool:
        """Whether it is of a coordinator."""
        return self.topic_partition.topic in INTERNAL_TOPICS

    @property
    def has_enough_replicas(self) -> bool:
        """Whether as many are in sync as min.insync.replicas asks, or all that there are: for those who want acks=all.

        Source: Java Partition.effectiveMinIsr (4.1).
        """
        return len(self.replicas.isr) >= min(self.config.min_insync_replicas, len(self.replicas.assigned))

    def end_offset_at(self, node_id: int) -> int:
        """Return where the log ends at one of its replicas."""
        log_end_offset = self.log.log_end_offset
        return min(self.replicas.log_ends.get(node_id, log_end_offset), log_end_offset)

    def check_reader(self, node_id: int, current_leader_epoch: int) -> ErrorCode:
        """Return NONE when this node has a replica, leading or not, and the client's epoch is the current one."""
        error_code = self.check_leader(node_id, current_leader_epoch)
        if error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER and node_id in self.replicas.assigned and (
                self.leadership.leader_id != NO_LEADER):
            return ErrorCode.NONE
        return error_code

    def check_leader(self, node_id: int, current_leader_epoch: int) -> ErrorCode:
        """Return NONE when this node leads and the client's epoch (-1: it has none) is the current one."""
        leader_id, leader_epoch = self.leadership
        if current_leader_epoch != _NO_EPOCH and current_leader_epoch != leader_epoch:
            return (ErrorCode.FENCED_LEADER_EPOCH if current_leader_epoch < leader_epoch
                    else ErrorCode.UNKNOWN_LEADER_EPOCH)
        return ErrorCode.NONE if leader_id == node_id else ErrorCode.NOT_LEADER_OR_FOLLOWER

    def append(self, records: Buffer | None, *, produce_version: int, timestamp_ms: int,
               allowance: Allowance | None = None, appender: Appender | None = None) -> AppendResult | BatchFault:
        """Check the one batch that a Produce request has for this partition, and append it.

        Args:
            records: The bytes of the request's records field.
            produce_version: Version of the request.
            timestamp_ms: The broker's wall clock: for LogAppendTime and for the range of CreateTime.
            allowance: What the compressed batches of the request may still hold.
            appender: Appends it in place of the log.
        """
        config = self.config
        rules = config.rules
        batch = validate_batch(records, produce_version=produce_version, timestamp_ms=timestamp_ms, rules=rules,
                               topic_partition=self.topic_partition, allowance=allowance)
        if isinstance(batch, BatchFault):
            return batch
        if config.compressor is not None:
            try:
                batch = recompressed(batch, config.compressor)
            except CorruptRecordError as corrupt:  # found here only without strict checks
                return BatchFault(ErrorCode.CORRUPT_MESSAGE, str(corrupt))
            except ExpansionBusyError as busy:
                return BatchFault(ErrorCode.NOT_ENOUGH_REPLICAS, str(busy), str(busy))
            if batch.size_bytes > rules.max_message_bytes:
                return BatchFault(ErrorCode.MESSAGE_TOO_LARGE, f"recompressed, the record batch has {batch.size_bytes} "
                                                               f"bytes, more than {rules.max_message_bytes}")
        log_append_time_ms = timestamp_ms if rules.timestamp_type == LOG_APPEND_TIME else None
        appender = appender or self.next_appender
        if appender is not None:
            return appender(self, batch, log_append_time_ms)
        return self.log.append(batch, leader_epoch=self.leadership.leader_epoch, log_append_time_ms=log_append_time_ms)
