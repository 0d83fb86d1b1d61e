"""The transaction coordinator: all transactional ids of a cluster, their time, and their records.

A cluster has one, which its brokers share: which broker may speak for an id is a question of who leads the id's
partition of __transaction_state (`check`), and moving that leadership moves nothing else.

Road:    transaction APIs, Produce -> [transaction coordinator] -> __transaction_state, markers
Thread:  any. Each id has a lock, held while its change is written, made and carried out; the logs' and the group
         coordinator's locks are taken after it, never before. One more lock guards the table of ids, and is the
         innermost.
Source:  Java TransactionCoordinator, TransactionStateManager (4.1).
         Differs from Java: an EndTxn is answered when its markers are written, so that nobody is told
         CONCURRENT_TRANSACTIONS without need; with transaction.marker.delay.ms it is answered before, as in Java. A
         transaction is aborted when its own time is over, not at the next look at all of them.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection
from dataclasses import replace
from typing import NamedTuple

from pyproducer.broker.cluster.config import BrokerConfig
from pyproducer.broker.cluster.coordinator.coordinator_log import append_records, read_log
from pyproducer.broker.cluster.coordinator.internal_topics import TRANSACTION_STATE_TOPIC_NAME, InternalTopics
from pyproducer.broker.cluster.coordinator.transaction.markers import MarkerWriter
from pyproducer.broker.cluster.coordinator.transaction.metadata import TransactionMetadata
from pyproducer.broker.cluster.coordinator.transaction.state import EXPIRABLE, TransactionState, Verdict
from pyproducer.broker.cluster.coordinator.transaction.transaction_records import (
    parse_transaction,
    parse_transactional_id,
    transaction_record,
    transaction_tombstone,
)
from pyproducer.broker.cluster.delayed_operation import DelayedFetches
from pyproducer.broker.cluster.living_brokers import LivingBrokers
from pyproducer.broker.cluster.partition import Partition
from pyproducer.broker.cluster.producer_ids import ProducerIds
from pyproducer.broker.cluster.timer import Timer, TimerTask
from pyproducer.common.clock import Clock
from pyproducer.common.cluster import TopicPartition
from pyproducer.common.error_codes import ErrorCode
from pyproducer.record.layout import NO_PRODUCER_EPOCH, NO_PRODUCER_ID

_logger = logging.getLogger(__name__)
# How soon markers are tried again for partitions without a living leader; a leader is back within moments or seconds.
_MARKER_RETRY_MS = 100
# After a restart: when the brokers are there that lead the partitions.
_FIRST_MARKER_RETRY_MS = 10
_REFUSALS = {Verdict.CONCURRENT: ErrorCode.CONCURRENT_TRANSACTIONS, Verdict.INVALID: ErrorCode.INVALID_TXN_STATE}


class ProducerAnswer(NamedTuple):
    """A code, and with NONE the producer id and epoch to go on with."""

    error_code: ErrorCode
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH


class _Entry:
    """One transactional id. Everything is guarded by its lock."""

    __slots__ = ("lock", "metadata", "timeout_task", "unmarked")

    def __init__(self, metadata: TransactionMetadata) -> None:
        self.lock = threading.RLock()
        self.metadata = metadata
        self.unmarked: set[TopicPartition] = set()  # partitions of an ending transaction without a marker yet
        self.timeout_task: TimerTask | None = None


class TransactionCoordinator:
    """Speaks for all transactional ids.

    Args:
        config: Times, and the version of transactions.
        clock: The clocks.
        timer: For transactions that are open too long, and markers that must wait.
        internal_topics: Has the log of transactional ids.
        brokers: One of them must live to speak for an id.
        delayed_fetches: Those that read this log are woken.
        producer_ids: Where fresh ids come from.
        markers: Writes the ends of transactions.
    """

    def __init__(self, config: BrokerConfig, clock: Clock, timer: Timer, internal_topics: InternalTopics,
                 brokers: LivingBrokers, delayed_fetches: DelayedFetches, producer_ids: ProducerIds,
                 markers: MarkerWriter) -> None:
        self._config = config
        self._clock = clock
        self._timer = timer
        self._internal_topics = internal_topics
        self._brokers = brokers
        self._delayed_fetches = delayed_fetches
        self._producer_ids = producer_ids
        self._markers = markers
        self.transaction_version: int = config.number("transaction.version")
        self._max_timeout_ms = config.number("transaction.max.timeout.ms")
        self._marker_delay_ms = config.number("transaction.marker.delay.ms")
        self._lock = threading.Lock()  # guards _entries
        self._entries: dict[str, _Entry] = {}

    def check(self, transactional_id: str, node_id: int) -> ErrorCode:
        """Return NONE when this broker speaks for the id, else NOT_COORDINATOR."""
        return self._internal_topics.check_coordinator(TRANSACTION_STATE_TOPIC_NAME, transactional_id, node_id)

    def check_available(self, transactional_id: str) -> ErrorCode:
        """Return NONE when some living broker speaks for the id: what another broker asks before it relies on it."""
        partition = self._partition_of(transactional_id)
        if partition is None or partition.leadership.leader_id not in self._brokers:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        return ErrorCode.NONE

    # ---- producers

    def is_valid_timeout(self, timeout_ms: int) -> bool:
        """Whether a producer may ask for this time."""
        return 0 < timeout_ms <= self._max_timeout_ms

    def initialize(self, transactional_id: str, timeout_ms: int, expected: tuple[int, int] | None) -> ProducerAnswer:
        """Give a producer its id and a new epoch, which fences every earlier one: InitProducerId.

        Args:
            transactional_id: Whose.
            timeout_ms: How long its transactions may be open.
            expected: Producer id and epoch of a producer that goes on after an error; None for one that begins.
        """
        while True:
            with self._lock:
                entry = self._entries.get(transactional_id)
                if entry is None:
                    entry = self._entries[transactional_id] = _Entry(TransactionMetadata(
                        transactional_id, self._producer_ids.next_producer_id(), timeout_ms=timeout_ms))
            with entry.lock:
                if self._entries.get(transactional_id) is entry:  # else it expired before we had the lock
                    return self._initialize(entry, timeout_ms, expected)

    def _initialize(self, entry: _Entry, timeout_ms: int, expected: tuple[int, int] | None) -> ProducerAnswer:
        metadata = entry.metadata
        now_ms = self._clock.timestamp_ms()
        if not metadata.accepts(expected):
            return ProducerAnswer(ErrorCode.PRODUCER_FENCED)
        if metadata.is_ending:
            return ProducerAnswer(ErrorCode.CONCURRENT_TRANSACTIONS)
        if metadata.state is TransactionState.ONGOING:
            error_code = self._end(entry, metadata.fenced(transaction_version=self.transaction_version, now_ms=now_ms))
            # Also when all is done: the producer asks again, and gets an epoch of its own.
            return ProducerAnswer(ErrorCode.CONCURRENT_TRANSACTIONS if error_code is ErrorCode.NONE else error_code)
        fresh = metadata.initialized(timeout_ms, expected, now_ms=now_ms,
                                     new_producer_id=self._producer_ids.next_producer_id)
        error_code = fresh if isinstance(fresh, ErrorCode) else self._save(entry, fresh)
        if error_code is not ErrorCode.NONE:
            return ProducerAnswer(error_code)
        return ProducerAnswer(ErrorCode.NONE, entry.metadata.producer_id, entry.metadata.producer_epoch)

    # ---- partitions

    def lock_of(self, transactional_id: str) -> threading.RLock | None:
        """Return the lock of an id, or None for an unknown id.

        Who holds it while he appends records of the transaction cannot be overtaken by its markers.
        """
        entry = self._entries.get(transactional_id)
        return None if entry is None else entry.lock

    def add_partitions(self, transactional_id: str, producer_id: int, producer_epoch: int,
                       topic_partitions: Collection[TopicPartition], *,
                       client_transaction_version: int) -> ErrorCode:
        """Take partitions into a transaction: AddPartitionsToTxn, AddOffsetsToTxn, and Produce since V2."""
        if not transactional_id:
            return ErrorCode.INVALID_REQUEST
        entry = self._entries.get(transactional_id)
        if entry is None:
            return ErrorCode.INVALID_PRODUCER_ID_MAPPING
        with entry.lock:
            metadata = entry.metadata
            error_code = metadata.check_producer(producer_id, producer_epoch)
            if error_code is not ErrorCode.NONE or metadata.has_partitions(topic_partitions):
                return error_code
            error_code = self._save(entry, metadata.with_partitions(
                topic_partitions, client_transaction_version=client_transaction_version,
                now_ms=self._clock.timestamp_ms()))
            if error_code is ErrorCode.NONE and metadata.state is not TransactionState.ONGOING:
                self._schedule_timeout(entry)
            return error_code

    def verify_partition(self, transactional_id: str, producer_id: int, producer_epoch: int,
                         topic_partition: TopicPartition) -> ErrorCode:
        """Return NONE when a partition is in the open transaction of this producer."""
        if not transactional_id:
            return ErrorCode.INVALID_REQUEST
        entry = self._entries.get(transactional_id)
        if entry is None:
            return ErrorCode.INVALID_PRODUCER_ID_MAPPING
        with entry.lock:
            error_code = entry.metadata.check_producer(producer_id, producer_epoch)
            if error_code is ErrorCode.NONE and not entry.metadata.has_partitions((topic_partition,)):
                return ErrorCode.TRANSACTION_ABORTABLE
            return error_code

    # ---- the end

    def end(self, transactional_id: str, producer_id: int, producer_epoch: int, *, commit: bool,
            client_transaction_version: int) -> ProducerAnswer:
        """End a transaction: EndTxn."""
        if not transactional_id:
            return ProducerAnswer(ErrorCode.INVALID_REQUEST)
        entry = self._entries.get(transactional_id)
        if entry is None:
            return ProducerAnswer(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        with entry.lock:
            metadata = entry.metadata
            verdict = metadata.judge_end(producer_id, producer_epoch, commit=commit,
                                         client_transaction_version=client_transaction_version)
            if isinstance(verdict, ErrorCode) or verdict in _REFUSALS:
                return ProducerAnswer(verdict if isinstance(verdict, ErrorCode) else _REFUSALS[verdict])
            if verdict is Verdict.DONE:
                return ProducerAnswer(ErrorCode.NONE, metadata.producer_id, metadata.producer_epoch)
            prepared = metadata.ending(commit=commit, client_transaction_version=client_transaction_version,
                                       now_ms=self._clock.timestamp_ms(),
                                       new_producer_id=self._producer_ids.next_producer_id)
            error_code = self._end(entry, prepared)
            if error_code is not ErrorCode.NONE:
                return ProducerAnswer(error_code)
            done = prepared.completed(now_ms=prepared.last_update_timestamp_ms)  # for its id and epoch
            return ProducerAnswer(ErrorCode.NONE, done.producer_id, done.producer_epoch)

    # ---- looking at them

    def describe(self, transactional_id: str) -> TransactionMetadata | None:
        """Return what is known of an id, or None."""
        entry = self._entries.get(transactional_id)
        return None if entry is None else entry.metadata

    def list_transactions(self) -> list[TransactionMetadata]:
        """Return all ids."""
        with self._lock:
            return [entry.metadata for entry in self._entries.values()]

    def expire_ids(self, timestamp_ms: int) -> int:
        """Forget ids without a transaction that were not used for transactional.id.expiration.ms; return how many.

        Args:
            timestamp_ms: The wall clock.
        """
        oldest_ms = timestamp_ms - self._config.number("transactional.id.expiration.ms")
        with self._lock:
            entries = list(self._entries.items())
        return sum(self._expire(transactional_id, entry, oldest_ms) for transactional_id, entry in entries)

    def _expire(self, transactional_id: str, entry: _Entry, oldest_ms: int) -> bool:
        with entry.lock:
            metadata = entry.metadata
            partition = self._partition_of(transactional_id)
            if (metadata.state not in EXPIRABLE or metadata.last_update_timestamp_ms > oldest_ms or partition is None
                    or append_records(self._delayed_fetches, partition, [transaction_tombstone(transactional_id)],
                                      timestamp_ms=self._clock.timestamp_ms()) is not ErrorCode.NONE):
                return False
            # Who has found the entry before, and gets its lock now, is a producer that nobody knows.
            entry.metadata = replace(metadata, producer_id=NO_PRODUCER_ID)
            with self._lock:
                del self._entries[transactional_id]
            return True

    # ---- memory

    def load(self) -> None:
        """Read __transaction_state, and go on with what was under way. Before anybody asks."""
        found: dict[str, TransactionMetadata] = {}
        for partition in self._internal_topics.partitions(TRANSACTION_STATE_TOPIC_NAME):
            for batch in read_log(partition):
                for record in batch:
                    transactional_id = None if record.key is None else parse_transactional_id(record.key)
                    if transactional_id is None:
                        continue
                    if record.value is None:
                        found.pop(transactional_id, None)
                    else:
                        found[transactional_id] = parse_transaction(transactional_id, record.value)
        with self._lock:
            self._entries = {transactional_id: _Entry(metadata) for transactional_id, metadata in found.items()}
            entries = list(self._entries.values())
        for entry in entries:
            if entry.metadata.is_ending:
                entry.unmarked = set(entry.metadata.topic_partitions)
                self._schedule_markers(entry, _FIRST_MARKER_RETRY_MS)
            elif entry.metadata.state is TransactionState.ONGOING:
                self._schedule_timeout(entry)

    # ---- parts, under the id's lock

    def _partition_of(self, transactional_id: str) -> Partition | None:
        return self._internal_topics.partition_of(TRANSACTION_STATE_TOPIC_NAME, transactional_id)

    def _save(self, entry: _Entry, metadata: TransactionMetadata) -> ErrorCode:
        """Write a change, then make it; on failure nothing has changed."""
        partition = self._partition_of(metadata.transactional_id)
        if partition is None:
            return ErrorCode.NOT_COORDINATOR
        record = transaction_record(metadata, transaction_version=self.transaction_version)
        try:
            error_code = append_records(self._delayed_fetches, partition, [record],
                                        timestamp_ms=self._clock.timestamp_ms())
        except OSError:
            _logger.exception("Error while writing the transaction %s", metadata.transactional_id)
            return ErrorCode.NOT_COORDINATOR  # Kafka's word for KAFKA_STORAGE_ERROR in the log of its states
        if error_code is ErrorCode.NONE:
            entry.metadata = metadata
        return (ErrorCode.COORDINATOR_NOT_AVAILABLE if error_code is ErrorCode.NOT_ENOUGH_REPLICAS else error_code)

    def _end(self, entry: _Entry, prepared: TransactionMetadata) -> ErrorCode:
        """Write that a transaction ends, then its markers."""
        error_code = self._save(entry, prepared)
        if error_code is not ErrorCode.NONE:
            return error_code
        if entry.timeout_task is not None:
            entry.timeout_task.cancel()
            entry.timeout_task = None
        entry.unmarked = set(prepared.topic_partitions)
        if self._marker_delay_ms:
            self._schedule_markers(entry, self._marker_delay_ms)
        else:
            self._write_markers(entry)
        return ErrorCode.NONE

    def _schedule_markers(self, entry: _Entry, delay_ms: int) -> None:
        self._timer.schedule(delay_ms, lambda: self._write_markers(entry))

    def _write_markers(self, entry: _Entry) -> None:
        """Write the markers that can be; with the last of them the transaction is complete."""
        with entry.lock:
            metadata = entry.metadata
            partition = self._partition_of(metadata.transactional_id)
            if not metadata.is_ending or partition is None:
                return
            try:
                entry.unmarked = self._markers.write(metadata, entry.unmarked,
                                                     coordinator_epoch=partition.leadership.leader_epoch)
            except OSError:  # the disk is full or gone; a marker that was written already may be written again
                _logger.exception("Error while writing markers of the transaction %s", metadata.transactional_id)
                self._schedule_markers(entry, _MARKER_RETRY_MS)
                return
            if entry.unmarked or self._save(
                    entry, metadata.completed(now_ms=self._clock.timestamp_ms())) is not ErrorCode.NONE:
                self._schedule_markers(entry, _MARKER_RETRY_MS)

    def _schedule_timeout(self, entry: _Entry) -> None:
        metadata = entry.metadata
        left_ms = metadata.start_timestamp_ms + metadata.timeout_ms - self._clock.timestamp_ms()
        entry.timeout_task = self._timer.schedule(
            max(left_ms, 0), lambda: self._on_timeout(entry, metadata.start_timestamp_ms))

    def _on_timeout(self, entry: _Entry, start_timestamp_ms: int) -> None:
        """Abort a transaction that was open too long, against its producer."""
        with entry.lock:
            metadata = entry.metadata
            if metadata.state is not TransactionState.ONGOING or metadata.start_timestamp_ms != start_timestamp_ms:
                return
            _logger.info("Aborting the transaction %s: it has been open for %d ms", metadata.transactional_id,
                         metadata.timeout_ms)
            error_code = self._end(entry, metadata.fenced(transaction_version=self.transaction_version,
                                                          now_ms=self._clock.timestamp_ms()))
            if error_code is not ErrorCode.NONE:
                self._timer.schedule(
                    _MARKER_RETRY_MS, lambda: self._on_timeout(entry, start_timestamp_ms))
