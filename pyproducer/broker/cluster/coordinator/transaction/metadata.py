"""What is known of one transactional id, and what each event makes of it.

Road:    transaction coordinator -> [metadata] -> transaction records
Thread:  immutable values; the coordinator replaces one by the next under the id's lock.
Source:  Java TransactionMetadata, TxnTransitMetadata, TransactionCoordinator (4.1).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from pyproducer.broker.cluster.coordinator.transaction.state import (
    VERDICTS_V1,
    VERDICTS_V2,
    TransactionEvent,
    TransactionState,
    Verdict,
    next_state,
)
from pyproducer.common.cluster import TopicPartition
from pyproducer.common.error_codes import ErrorCode
from pyproducer.record.layout import MAX_EPOCH, NO_PRODUCER_EPOCH, NO_PRODUCER_ID

# The last epoch that a producer is given: the coordinator needs one more to fence it.
LAST_EPOCH = MAX_EPOCH - 1
# From this level of the feature transaction.version on, ending a transaction gives a new epoch (KIP-890).
EPOCH_BUMP_FROM = 2
_PREPARED = (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)
_COMPLETE = (TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)


@dataclass(frozen=True)
class TransactionMetadata:
    """One transactional id.

    Attributes:
        transactional_id: Whose this is.
        producer_id: In use.
        producer_epoch: In use; -1 before the first InitProducerId is done.
        timeout_ms: How long a transaction may be open.
        state: Of its transaction.
        last_producer_epoch: The epoch before, when the same producer went on: a repeated request has it. Else -1.
        previous_producer_id: The id before, when the epochs of that were used up. Else -1.
        next_producer_id: The id to go on with, while a transaction ends that had the last epoch. Else -1.
        topic_partitions: In the transaction.
        start_timestamp_ms: When the transaction began, epoch ms; -1 without one.
        last_update_timestamp_ms: When this was written, epoch ms.
        client_transaction_version: Level of transaction.version that the client spoke last.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int = NO_PRODUCER_EPOCH
    timeout_ms: int = 0
    state: TransactionState = TransactionState.EMPTY
    last_producer_epoch: int = NO_PRODUCER_EPOCH
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    topic_partitions: frozenset[TopicPartition] = frozenset()
    start_timestamp_ms: int = -1
    last_update_timestamp_ms: int = -1
    client_transaction_version: int = 0

    @property
    def is_epoch_exhausted(self) -> bool:
        """Whether the producer cannot be given another epoch."""
        return self.producer_epoch >= LAST_EPOCH

    @property
    def is_ending(self) -> bool:
        """Whether markers are being written."""
        return self.state in _PREPARED

    # ---- InitProducerId

    def initialized(self, timeout_ms: int, expected: tuple[int, int] | None, *, now_ms: int,
                    new_producer_id: Callable[[], int]) -> TransactionMetadata | ErrorCode:
        """Give the producer its next epoch; there must be no transaction.

        Args:
            timeout_ms: What the producer asks for.
            expected: Producer id and epoch that the producer has, when it goes on after an error.
            now_ms: Epoch ms.
            new_producer_id: Gives a fresh id, when the epochs of this one are used up.
        """
        if not self.accepts(expected):
            return ErrorCode.PRODUCER_FENCED
        producer_id, epoch, last_epoch = self.producer_id, self.producer_epoch, NO_PRODUCER_EPOCH
        previous_producer_id = self.previous_producer_id
        if self.is_epoch_exhausted and (expected is None or expected[1] == epoch):
            last_epoch = NO_PRODUCER_EPOCH if expected is None else epoch
            producer_id, previous_producer_id, epoch = new_producer_id(), producer_id, 0
        elif expected is None:
            epoch += 1
        elif epoch == NO_PRODUCER_EPOCH or expected[1] == epoch:
            epoch, last_epoch = epoch + 1, epoch
        elif expected[1] == self.last_producer_epoch:  # the answer to the first request was lost
            last_epoch = self.last_producer_epoch
        else:
            return ErrorCode.PRODUCER_FENCED
        return replace(self, state=next_state(self.state, TransactionEvent.INITIALIZE), producer_id=producer_id,
                       previous_producer_id=previous_producer_id, producer_epoch=epoch,
                       last_producer_epoch=last_epoch, timeout_ms=timeout_ms, topic_partitions=frozenset(),
                       start_timestamp_ms=-1, last_update_timestamp_ms=now_ms)

    def accepts(self, expected: tuple[int, int] | None) -> bool:
        """Whether a producer that brings this id and epoch may be the one that we know."""
        if expected is None or self.producer_epoch == NO_PRODUCER_EPOCH or expected[0] == self.producer_id:
            return True
        return expected[0] == self.previous_producer_id and expected[1] >= LAST_EPOCH

    # ---- partitions

    def check_producer(self, producer_id: int, producer_epoch: int) -> ErrorCode:
        """Return NONE when this is the producer, and no transaction is being ended."""
        if producer_id != self.producer_id:
            return ErrorCode.INVALID_PRODUCER_ID_MAPPING
        if producer_epoch != self.producer_epoch:
            return ErrorCode.PRODUCER_FENCED
        return ErrorCode.CONCURRENT_TRANSACTIONS if self.is_ending else ErrorCode.NONE

    def has_partitions(self, topic_partitions: Iterable[TopicPartition]) -> bool:
        """Whether all of these are in the open transaction."""
        return self.state is TransactionState.ONGOING and self.topic_partitions.issuperset(topic_partitions)

    def with_partitions(self, topic_partitions: Iterable[TopicPartition], *, client_transaction_version: int,
                        now_ms: int) -> TransactionMetadata:
        """Take partitions into the transaction, which the first of them begins."""
        return replace(self, state=next_state(self.state, TransactionEvent.ADD_PARTITIONS),
                       topic_partitions=self.topic_partitions.union(topic_partitions),
                       start_timestamp_ms=(self.start_timestamp_ms if self.state is TransactionState.ONGOING
                                           else now_ms),
                       last_update_timestamp_ms=now_ms, client_transaction_version=client_transaction_version)

    # ---- the end

    def judge_end(self, producer_id: int, producer_epoch: int, *, commit: bool,
                  client_transaction_version: int) -> Verdict | ErrorCode:
        """Say how an EndTxn of a client is to be taken, or the code to refuse it with."""
        if client_transaction_version < EPOCH_BUMP_FROM:
            if producer_id != self.producer_id:
                return ErrorCode.INVALID_PRODUCER_ID_MAPPING
            if producer_epoch != self.producer_epoch:
                return ErrorCode.PRODUCER_FENCED
            return VERDICTS_V1.get((self.state, commit), Verdict.INVALID)
        overflowed = (producer_id == self.previous_producer_id and producer_epoch == LAST_EPOCH
                      and self.producer_epoch == 0)
        if producer_id != self.producer_id and not overflowed:
            return ErrorCode.INVALID_PRODUCER_ID_MAPPING
        is_next = not overflowed and producer_epoch == self.producer_epoch
        is_repeated = overflowed or producer_epoch + 1 == self.producer_epoch
        is_valid = (is_repeated if self.is_ending else is_next or is_repeated if self.state in _COMPLETE else is_next)
        if not is_valid:
            return ErrorCode.PRODUCER_FENCED
        return VERDICTS_V2.get((self.state, commit, is_repeated), Verdict.INVALID)

    def ending(self, *, commit: bool, client_transaction_version: int, now_ms: int,
               new_producer_id: Callable[[], int]) -> TransactionMetadata:
        """Begin the end that a client asks for; since Transactions V2 with the next epoch."""
        is_empty = self.state is not TransactionState.ONGOING
        event = (TransactionEvent.COMMIT if commit else TransactionEvent.ABORT_EMPTY if is_empty
                 else TransactionEvent.ABORT)
        ended = replace(self, state=next_state(self.state, event), last_update_timestamp_ms=now_ms,
                        start_timestamp_ms=now_ms if is_empty else self.start_timestamp_ms,
                        client_transaction_version=client_transaction_version)
        if client_transaction_version < EPOCH_BUMP_FROM:
            return ended
        return replace(ended, producer_epoch=min(self.producer_epoch + 1, MAX_EPOCH),
                       last_producer_epoch=self.producer_epoch,
                       next_producer_id=new_producer_id() if self.is_epoch_exhausted else NO_PRODUCER_ID)

    def fenced(self, *, transaction_version: int, now_ms: int) -> TransactionMetadata:
        """Begin to abort against the producer, with an epoch that it is not told: timed out, or initialized anew.

        Args:
            transaction_version: Level of the broker's feature. Since Transactions V2 the old epoch is remembered, so
                that a producer that lost only time can go on by InitProducerId.
            now_ms: Epoch ms.
        """
        return replace(self, state=next_state(self.state, TransactionEvent.ABORT), last_update_timestamp_ms=now_ms,
                       producer_epoch=min(self.producer_epoch + 1, MAX_EPOCH),
                       last_producer_epoch=(self.producer_epoch if transaction_version >= EPOCH_BUMP_FROM
                                            else NO_PRODUCER_EPOCH),
                       client_transaction_version=transaction_version)

    def completed(self, *, now_ms: int) -> TransactionMetadata:
        """End the transaction: all markers are written."""
        done = replace(self, state=next_state(self.state, TransactionEvent.MARKERS_WRITTEN),
                       topic_partitions=frozenset(), last_update_timestamp_ms=now_ms, next_producer_id=NO_PRODUCER_ID)
        if self.next_producer_id == NO_PRODUCER_ID:
            return done
        return replace(done, producer_id=self.next_producer_id, previous_producer_id=self.producer_id,
                       producer_epoch=0)
