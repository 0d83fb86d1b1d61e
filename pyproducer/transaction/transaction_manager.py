"""Producer id, epoch and sequence numbers: what makes retries neither duplicate nor reorder records.

Road:    drain -> [TransactionManager] -> batch header ... completion -> [TransactionManager]
Thread:  sender thread only; no sockets, no clock.
Source:  Java TransactionManager (4.1), its idempotent half; KIP-98, KIP-360 (epoch bump instead of death).
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable

from pyproducer.common.cluster import TopicPartition
from pyproducer.common.error_codes import ErrorCode
from pyproducer.common.errors import ApiError, KafkaError
from pyproducer.record.layout import MAX_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, decrement_sequence, increment_sequence
from pyproducer.transaction.partition_sequences import (
    NONE,
    PartitionSequences,
    ProducerIdAndEpoch,
    SequencedBatch,
    is_earlier,
)

log: logging.Logger = logging.getLogger(__name__)


class TransactionManager:
    """The idempotent producer's state; one for each producer with enable.idempotence."""

    def __init__(self) -> None:
        self.producer_id_and_epoch: ProducerIdAndEpoch = NONE
        self.fatal_error: KafkaError | None = None
        # Begun where it is looked up first.
        self._partitions: defaultdict[tuple[str, int], PartitionSequences] = defaultdict(PartitionSequences)
        # A batch failed without our knowing whether it is in the log: its partition -> the sequence that follows it.
        self._unresolved: dict[TopicPartition, int] = {}
        # Partition -> the lowest sequence number of those that were refused: of which no record is in the log.
        self._bump_requested_for: dict[TopicPartition, int] = {}

    # The producer id.

    @property
    def is_undisturbed(self) -> bool:
        """Whether there is an id, and no batch's fate that others wait for."""
        return (self.producer_id_and_epoch.producer_id > NO_PRODUCER_ID and self.fatal_error is None
                and not self._unresolved and not self._bump_requested_for)

    @property
    def needs_producer_id(self) -> bool:
        """Whether InitProducerId must be sent before any batch."""
        return self.producer_id_and_epoch.producer_id <= NO_PRODUCER_ID and self.fatal_error is None

    def on_producer_id(self, producer_id: int, epoch: int) -> None:
        """Take the id that the broker gave."""
        self.producer_id_and_epoch = ProducerIdAndEpoch(producer_id, epoch)
        log.info("Producer id set to %d with epoch %d", producer_id, epoch)

    def on_fatal_error(self, error: KafkaError) -> None:
        """Stop: the broker refuses to give this producer an id, or fenced it. Batches are failed by the sender."""
        self.fatal_error = error

    def settle(self) -> None:
        """Look at what waits for the fate of batches, before anything is drained."""
        if self._unresolved:
            self.resolve_sequences()
        if self._bump_requested_for:
            self.bump_epoch_if_requested()

    def bump_epoch_if_requested(self) -> None:
        """Start new sequences for the partitions that asked for it, once no batch before the refused ones is in doubt.

        Such a batch keeps its numbers until it is decided, and nothing new is sent: by other numbers the broker could
        not know it again, and would store it a second time.
        Differs from Java, which numbers it anew (KAFKA-14034).

        The epoch is raised by the client itself, as Java does for a producer that has no transactional id: a broker
        accepts a higher epoch of a known id when its first sequence number is 0. After the last epoch, a new id.

        Source: Java TransactionManager.bumpIdempotentEpochAndResetIdIfNeeded (4.1).
        """
        ready = [topic_partition for topic_partition, refused in self._bump_requested_for.items()
                 if not self._partitions[topic_partition].is_in_doubt_before(refused)]
        if not ready or not self.producer_id_and_epoch.is_valid:
            return
        producer_id, epoch = self.producer_id_and_epoch
        if epoch >= MAX_EPOCH:
            # Keep the request: the partitions start again when the new id has come.
            self.producer_id_and_epoch = NONE
            return
        self.producer_id_and_epoch = ProducerIdAndEpoch(producer_id, epoch + 1)
        log.info("Producer id %d goes on with epoch %d for %s", producer_id, epoch + 1,
                 ", ".join(map(str, sorted(ready))))
        for topic_partition in ready:
            self._partitions[topic_partition].start_at_beginning(self.producer_id_and_epoch)
            self._unresolved.pop(topic_partition, None)
            del self._bump_requested_for[topic_partition]

    def _request_bump(self, batch: SequencedBatch) -> None:
        """Have a partition start new sequences: the numbers of a batch were refused, or it failed and left a gap."""
        known = self._bump_requested_for.get(batch.topic_partition)
        if known is None or is_earlier(batch.base_sequence, known):
            self._bump_requested_for[batch.topic_partition] = batch.base_sequence

    # Draining.

    def can_send(self, batch: SequencedBatch) -> bool:
        """Whether the first batch of a partition may be sent now.

        Source: Java RecordAccumulator.shouldStopDrainBatchesForPartition (4.1).
        """
        if self.producer_id_and_epoch.producer_id <= NO_PRODUCER_ID or self.fatal_error is not None:
            return False
        partition = self._partitions[batch.topic_partition]
        if batch.base_sequence == NO_SEQUENCE:
            if batch.topic_partition in self._unresolved or batch.topic_partition in self._bump_requested_for:
                # Nothing new until we know whether the batch before is in the log.
                return False
            # Three reasons to wait. Batches of an older epoch are on their way: the broker must see the epochs in
            # order. Or the first batch of all: a broker that does not know a producer id yet takes any sequence number
            # as its first, so the second batch could be stored when the first was refused for a moment.
            # Differs from Java: it pipelines the first batches too; one round trip buys certain order.
            # A third one: a batch whose answer is lost while its partition moves. The new leader has it and takes what
            # follows, but after five more batches it would not know the retry again, and refuse it as out of order
            # until delivery.timeout.ms.
            # Differs from Java: it bounds the requests of a connection only.
            return not partition.in_flight or (partition.owner == self.producer_id_and_epoch
                                               and partition.last_acked_sequence != NO_SEQUENCE
                                               and not partition.is_window_full)
        # A retry goes only when it is the oldest on its way, so the broker never sees a gap because of us.
        first_in_flight = partition.first_in_flight_sequence()
        return first_in_flight in (NO_SEQUENCE, batch.base_sequence)

    def on_drained(self, batch: SequencedBatch) -> None:
        """Give the batch its place in the sequence, unless it has one, and track it as in flight."""
        if batch.base_sequence != NO_SEQUENCE:
            return
        partition = self._partitions[batch.topic_partition]
        if partition.owner != self.producer_id_and_epoch:
            partition.start_at_beginning(self.producer_id_and_epoch)
        partition.number(batch)

    def restore(self, incomplete: Iterable[SequencedBatch]) -> None:
        """Count again what is on its way, after a turn that ended anywhere between numbering and completing a batch.

        A batch that was completed half way is on its way again: its retry has numbers that the broker knows.
        """
        for partition in self._partitions.values():
            partition.in_flight = []
        for batch in incomplete:
            if batch.has_sequence and not batch.is_done:
                partition = self._partitions[batch.topic_partition]
                partition.add_in_flight(batch)
                following = increment_sequence(batch.base_sequence, batch.record_count)
                if self._is_current(batch, partition) and is_earlier(partition.next_sequence, following):
                    partition.next_sequence = following

    # Completion.

    def on_completed(self, batch: SequencedBatch, base_offset: int) -> None:
        """The batch is in the log."""
        partition = self._partitions[batch.topic_partition]
        if partition.owner == (batch.producer_id, batch.producer_epoch):
            last_sequence = increment_sequence(batch.base_sequence, batch.record_count - 1)
            if (partition.last_acked_sequence == NO_SEQUENCE
                    or is_earlier(partition.last_acked_sequence, last_sequence)):
                partition.last_acked_sequence = last_sequence
            if base_offset >= 0:
                partition.last_acked_offset = max(partition.last_acked_offset, base_offset + batch.record_count - 1)
        partition.remove_in_flight(batch)

    def on_split(self, batch: SequencedBatch, new_batches: list[SequencedBatch]) -> None:
        """Smaller batches took over the sequence numbers of one."""
        partition = self._partitions[batch.topic_partition]
        partition.remove_in_flight(batch)
        for new_batch in new_batches:
            partition.add_in_flight(new_batch)

    def on_failed(self, batch: SequencedBatch, error: KafkaError, *, may_be_in_log: bool,
                  has_its_numbers: bool = False) -> None:
        """The batch failed for good.

        Args:
            batch: The batch.
            error: Why.
            may_be_in_log: Whether we do not know if the broker stored it; then its partition waits until the batches
                after it tell (`resolve_sequences`), or starts a new epoch.
            has_its_numbers: The broker's refusal says that it has these numbers: those after it may be in the log, too,
                and in a new epoch they would be stored a second time.

        Source: Java TransactionManager.handleFailedBatch, Sender.failBatch (4.1).
        """
        partition = self._partitions[batch.topic_partition]
        is_current = self._is_current(batch, partition)
        partition.remove_in_flight(batch)
        if not batch.has_sequence or not is_current or self.fatal_error is not None:
            return
        code = error.code if isinstance(error, ApiError) else None
        if has_its_numbers or (may_be_in_log and code not in (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                                                              ErrorCode.UNKNOWN_PRODUCER_ID)):
            self._unresolved[batch.topic_partition] = increment_sequence(batch.base_sequence, batch.record_count)
        else:
            self._request_bump(batch)

    def resolve_sequences(self) -> None:
        """Look whether partitions that waited for the fate of a failed batch can go on.

        Source: Java TransactionManager.maybeResolveSequences (4.1).
        """
        for topic_partition, next_sequence in list(self._unresolved.items()):
            partition = self._partitions[topic_partition]
            if partition.in_flight:
                continue
            if partition.last_acked_sequence == decrement_sequence(next_sequence, 1):
                # A later answer acknowledged the failed batch after all: the sequence has no gap.
                log.debug("The sequence of %s is whole: it goes on at %d", topic_partition, next_sequence)
            else:
                self._bump_requested_for.setdefault(topic_partition, next_sequence)
            del self._unresolved[topic_partition]

    def can_retry(self, batch: SequencedBatch, code: ErrorCode, log_start_offset: int) -> bool | None:
        """Decide on errors that are about sequence numbers; None for all others.

        Source: Java TransactionManager.canRetry (4.1).
        """
        partition = self._partitions[batch.topic_partition]
        if code is ErrorCode.UNKNOWN_PRODUCER_ID:
            if log_start_offset == -1:
                return False
            if batch.is_sequence_reset:
                # The number was given after the answered attempt: the retry carries the new one.
                return True
            if partition.last_acked_offset < log_start_offset:
                # Retention removed everything of ours, so the broker forgot us: start again with the same epoch.
                partition.start_at_beginning(self.producer_id_and_epoch)
                return True
            self._request_bump(batch)
            return True
        if code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            is_next = batch.base_sequence == increment_sequence(partition.last_acked_sequence, 1) \
                if partition.last_acked_sequence != NO_SEQUENCE else batch.base_sequence == 0
            # The broker may have forgotten us, with its topic, and then taken a later batch first: it takes any number
            # as the first one. Differs from Java, which repeats the earlier one until delivery.timeout.ms.
            is_passed = is_earlier(batch.base_sequence, partition.last_acked_sequence) \
                if partition.last_acked_sequence != NO_SEQUENCE else False
            if batch.topic_partition in self._unresolved or ((is_next or is_passed) and not batch.is_sequence_reset):
                # It follows what was acknowledged last, or comes before it, and yet the broker sees a gap: only a new
                # epoch helps.
                self._request_bump(batch)
            return True
        if code is ErrorCode.INVALID_PRODUCER_EPOCH:
            # Without a transactional id nobody fences us: the broker knows a later epoch than the batch carries.
            if not self._is_current(batch, partition):
                return True
            self._request_bump(batch)
            return True
        return None

    def next_sequence(self, topic_partition: TopicPartition) -> int:
        """Return the sequence number that the next new batch of a partition gets."""
        return self._partitions[topic_partition].next_sequence

    def _is_current(self, batch: SequencedBatch, partition: PartitionSequences) -> bool:
        return (batch.producer_id, batch.producer_epoch) == partition.owner
