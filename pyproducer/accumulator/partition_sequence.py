"""The sequence numbers of one partition: the one table of their states, and what the end of a batch does to them.

A broker stores a batch once because it knows its producer id, epoch and numbers again, and in order because it takes
no number but the next. It may forget a producer id, and then it takes any number as the first (broker_memory.py).
Hence the rule: **what may be in the log keeps its numbers until they decide it, whether it stands before or behind a
batch that was refused; a new epoch begins when nothing of the partition is on the wire or in doubt.**

    FRESH      nothing of this epoch was numbered: the next batch goes
    ALONE      nobody can say whether the broker knows us: one batch at a time, until one is stored
    FLOWING    it knows us: up to five batches are on their way
    IN_DOUBT   a batch failed that may be in the log: those behind it go by their numbers, and tell
    HOLE       a batch failed that is in no log: behind it what may be in the log goes by its numbers, the others step
               aside
    REFUSED    the same, and a batch stepped aside: it has no number any more, and waits in its place for the next epoch
    BUMP_DUE   nothing is on the wire or in doubt: the next epoch begins, in the order of the list

In the last four nothing new is numbered. Nobody who waits is favoured: a batch that stepped aside keeps its memory and
its own delivery.timeout.ms, and so does the one in doubt that it waits for; the older one gives up first.

Which batches have numbers is not written down a second time: they are those in the partition's list whose
base_sequence is one, as long as they are not decided, or are LATE (told as expired, and still on the wire).

Road:    drain -> [sequence] -> completion
Thread:  sender thread only.
Source:  Java TransactionManager, TxnPartitionEntry, TxnPartitionMap (4.1), idempotent half. The rows below say where
         Java does otherwise. A transactional producer raises no epoch by itself: for it each move into IN_DOUBT, HOLE
         or REFUSED is an abortable error, and the next epoch begins when the end of the transaction has brought it.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, ClassVar, Final

from pyproducer.accumulator.batch_state import WAITING, BatchState
from pyproducer.accumulator.broker_memory import NO_OFFSET, BrokerMemory
from pyproducer.common.error_codes import ErrorCode
from pyproducer.common.errors import LocalProtocolError
from pyproducer.record.layout import NO_PRODUCER, NO_SEQUENCE, ProducerIdAndEpoch, increment_sequence, is_earlier

if TYPE_CHECKING:
    from pyproducer.accumulator.producer_batch import ProducerBatch
    from pyproducer.accumulator.transaction_manager import TransactionManager

# A broker knows five batches again (Java ProducerStateEntry.NUM_BATCHES_TO_RETAIN): the oldest one on its way, and so
# many behind it.
_WINDOW = 4

REFUSALS: Final = frozenset({ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID,
                             ErrorCode.INVALID_PRODUCER_EPOCH})
"""A broker refuses a batch for its numbers, id or epoch: this attempt stored nothing."""

_NOT_NUMBERED_YET = frozenset({BatchState.OPEN, BatchState.QUEUED})


class SequenceState(enum.Enum):
    """See the table above."""

    FRESH = "fresh"
    ALONE = "alone"
    FLOWING = "flowing"
    IN_DOUBT = "in doubt"
    HOLE = "hole"
    REFUSED = "refused"
    BUMP_DUE = "bump due"

    __hash__: ClassVar[Callable[[object], int]] = object.__hash__  # by identity, in C; see BatchState


class SequenceEvent(enum.Enum):
    """What happens to a partition's numbers."""

    NUMBERED = "a batch gets numbers"
    NUMBERED_FOR_SURE = "a batch gets numbers, and no broker takes any other as the first"
    LOST_SIGHT = "the broker may not know us any more"
    STORED = "a batch was stored"
    REFUSED = "a batch was refused by its numbers, and is in no log"
    FAILED = "a batch with numbers failed, and is in no log"
    UNKNOWN = "a batch with numbers failed, and may be in the log"
    WHOLE = "nothing is undecided, and what was stored last has the last number"
    BROKEN = "nothing is undecided, and numbers are missing in the log"
    BEGUN = "an epoch begins"

    __hash__: ClassVar[Callable[[object], int]] = object.__hash__


_FRESH, _ALONE, _FLOWING, _IN_DOUBT, _HOLE, _REFUSED, _BUMP_DUE = SequenceState
_NEVER = None

_TABLE: Mapping[SequenceEvent, tuple[SequenceState | None, ...]] = {
    # In order of the states:  FRESH    ALONE      FLOWING    IN_DOUBT   HOLE       REFUSED    BUMP_DUE
    # Java numbers in each state but its unresolved one, in which it also drains nothing new.
    SequenceEvent.NUMBERED: (_ALONE, _ALONE, _FLOWING, _NEVER, _NEVER, _NEVER, _NEVER),
    # Since Transactions V2 a broker refuses all but 0 as the first number of an epoch, so nothing has to go alone.
    SequenceEvent.NUMBERED_FOR_SURE: (_FLOWING, _FLOWING, _FLOWING, _NEVER, _NEVER, _NEVER, _NEVER),
    # Java has no such event: it pipelines the first batch with the second, always.
    SequenceEvent.LOST_SIGHT: (_FRESH, _ALONE, _ALONE, _IN_DOUBT, _HOLE, _REFUSED, _BUMP_DUE),
    SequenceEvent.STORED: (_NEVER, _FLOWING, _FLOWING, _IN_DOUBT, _HOLE, _REFUSED, _NEVER),
    # It steps aside: its numbers are void. Java begins the epoch at once, and numbers all that is on its way anew, in
    # doubt or not.
    SequenceEvent.REFUSED: (_NEVER, _REFUSED, _REFUSED, _REFUSED, _REFUSED, _REFUSED, _NEVER),
    # Expired off the wire, or given up with its transaction, whose end brings another epoch, too. The same: Java begins
    # the epoch at once; takes each batch that was sent and expired for one in doubt; and tries what has numbers to the
    # end of its transaction.
    SequenceEvent.FAILED: (_NEVER, _HOLE, _HOLE, _HOLE, _HOLE, _REFUSED, _NEVER),
    # Java's partitionsWithUnresolvedSequences. What is refused and in doubt Java numbers anew, and it may be stored
    # twice. What expired on the wire counts until its request ended: an answer may still say that it was stored.
    SequenceEvent.UNKNOWN: (_NEVER, _IN_DOUBT, _IN_DOUBT, _IN_DOUBT, _HOLE, _REFUSED, _NEVER),
    # Java maybeResolveSequences, isNextSequence. What stepped aside has to be numbered all the same.
    SequenceEvent.WHOLE: (_NEVER, _NEVER, _NEVER, _FLOWING, _FLOWING, _BUMP_DUE, _NEVER),
    SequenceEvent.BROKEN: (_NEVER, _NEVER, _NEVER, _BUMP_DUE, _BUMP_DUE, _BUMP_DUE, _NEVER),
    # Another partition's epoch is this one's, too, as soon as nothing of it is undecided.
    # No event are a split, whose parts have the numbers, and a codec that fails: the batch goes out uncompressed, by
    # those that it has.
    SequenceEvent.BEGUN: (_FRESH, _FRESH, _FRESH, _NEVER, _NEVER, _NEVER, _FRESH),
}
_MOVES: Mapping[tuple[SequenceState, SequenceEvent], SequenceState] = {
    (state, event): to for event, row in _TABLE.items() for state, to in zip(SequenceState, row, strict=True)
    if to is not None}

_MAKES_HOLE = frozenset({SequenceEvent.REFUSED, SequenceEvent.FAILED})

DISTURBED: Final = frozenset({_IN_DOUBT, _HOLE, _REFUSED, _BUMP_DUE})
"""Nothing new is numbered."""


class PartitionSequence:
    """The numbers of one partition: whose they are, and the next one.

    Args:
        batches: The partition's list, which is read here and never written.
        manager: Whose producer id and epoch the numbers belong to.

    Attributes:
        state: See the table; written by `_move` alone.
        is_disturbed: Whether nothing new is numbered.
        owner: The id and epoch that the numbers below belong to.
        next_sequence: The next one to give.
        memory: What the leader remembers of them, and of whose they are.
    """

    __slots__ = ("_batches", "_has_doubt", "_hole", "_manager", "_newest", "is_disturbed", "memory", "next_sequence",
                 "owner", "state")

    def __init__(self, batches: list[ProducerBatch], manager: TransactionManager) -> None:
        self._batches = batches
        self._manager = manager
        self.state: SequenceState = SequenceState.FRESH
        self.is_disturbed: bool = False
        self.owner: ProducerIdAndEpoch = NO_PRODUCER
        self.next_sequence: int = 0
        self.memory: BrokerMemory = BrokerMemory(batches, manager)
        # Where the first batch begins that is in no log, and will never be by its numbers.
        self._hole: int = NO_SEQUENCE
        # Whether a batch of this epoch failed that may be in the log, or may yet come there out of a broken connection.
        self._has_doubt: bool = False
        # Where the batches begin that were numbered last: with one more, they are those that a broker knows.
        self._newest: tuple[int, ...] = ()

    def _move(self, event: SequenceEvent) -> SequenceState:
        """Move to another state.

        Raises:
            LocalProtocolError: The table has no such move; nothing was changed.
        """
        to = _MOVES.get((self.state, event))
        if to is None:
            raise LocalProtocolError(f"{self!r}: {event.value}, which cannot be")
        self.state = to  # first: what follows is derived, and done once more in a recovery
        self.is_disturbed = to in DISTURBED
        if self.is_disturbed:
            self._manager.on_disturbed(self)
        return to

    # Who may go.

    def head(self) -> ProducerBatch | None:
        """Return the batch that is to be sent next while the numbers are disturbed; None where an answer comes first.

        It is the oldest one with numbers. What stepped aside stands before it perhaps, and waits.
        """
        oldest = self._oldest()
        return oldest if oldest is not None and oldest.state in WAITING else None

    def can_send(self, batch: ProducerBatch, now_ms: int) -> bool:
        """Whether the batch that is its partition's head may be sent now.

        Source: Java RecordAccumulator.shouldStopDrainBatchesForPartition (4.1).
        """
        manager = self._manager
        if not manager.has_producer_id or (
                manager.transactions is not None and not manager.transactions.may_number(batch.topic_partition)):
            return False
        oldest = self._oldest()
        if batch.base_sequence != NO_SEQUENCE:
            # A retry goes only when it is the oldest on its way, so the broker never sees a gap because of us; and
            # behind a hole only to learn whether it is in the log.
            return oldest is batch and (batch.may_be_in_log or not self._is_behind_hole(batch))
        state = self.state
        if state is _FLOWING and not self.memory.is_certain(batch, now_ms) and not manager.is_sure_of_first:
            # Differs from Java, which pipelines. A broker that has forgotten us takes any number as its first: if it
            # refuses the first batch for a moment, the second is stored before it. One round trip buys certain order.
            state = self._move(SequenceEvent.LOST_SIGHT)
        if oldest is None:
            return not self.is_disturbed
        # Behind another one it goes, if that is of this epoch: the broker must see the epochs in order. And while the
        # oldest one is among the last four, for with five behind it the broker would not know its retry again, and
        # refuse it as out of order. Differs from Java, which bounds the requests of a connection only.
        return (state is _FLOWING and self.owner == manager.producer_id_and_epoch
                and oldest.base_sequence in self._newest)

    def _oldest(self) -> ProducerBatch | None:
        for batch in self._batches:
            if batch.base_sequence == NO_SEQUENCE:
                if batch.state in _NOT_NUMBERED_YET:
                    return None
            elif not batch.is_done or batch.state is BatchState.LATE:
                return batch
        return None

    def undecided(self) -> list[ProducerBatch]:
        """Return the batches that have numbers and are not decided, or not answered yet, in order."""
        found: list[ProducerBatch] = []
        for batch in self._batches:
            if batch.base_sequence == NO_SEQUENCE:
                if batch.state in _NOT_NUMBERED_YET:
                    break
            elif not batch.is_done or batch.state is BatchState.LATE:
                found.append(batch)
        return found

    # What happens to batches.

    def on_drained(self, batch: ProducerBatch, now_ms: int, newest_timestamp_age_ms: int) -> None:
        """Give a batch its numbers, unless it has some, before it is sent.

        Args:
            batch: The batch.
            now_ms: Monotonic time, in ms.
            newest_timestamp_age_ms: How old the newest timestamp in it is: when it is stored, that counts.
        """
        if batch.first_sent_ms is None:
            batch.first_sent_ms = now_ms
        if batch.base_sequence != NO_SEQUENCE:
            return
        current = self._manager.producer_id_and_epoch
        if self.owner is not current and self.owner != current:
            self.begin(current)
        if self.state is not _FLOWING:
            self._move(SequenceEvent.NUMBERED_FOR_SURE if self._manager.is_sure_of_first else SequenceEvent.NUMBERED)
        transactions = self._manager.transactions
        batch.is_transactional = transactions is not None
        if transactions is not None:
            transactions.on_numbered(batch.topic_partition)
        sequence = self.next_sequence
        self._newest = (*self._newest[1 - _WINDOW:], sequence)
        self.next_sequence = increment_sequence(sequence, batch.record_count)
        batch.producer_id, batch.producer_epoch = self.owner
        batch.base_sequence = sequence  # last: a batch that has it has its place
        if newest_timestamp_age_ms >= self._manager.memory_ms:
            self.memory.end_at(now_ms)  # nothing goes behind it

    def on_stored(self, batch: ProducerBatch, now_ms: int, newest_timestamp_age_ms: int,
                  base_offset: int = NO_OFFSET) -> None:
        """The batch is in the log.

        Args:
            batch: The batch, told as expired perhaps.
            now_ms: When that was heard, in monotonic ms.
            base_offset: Where; -1 where the broker does not say.
            newest_timestamp_age_ms: How old the newest timestamp in it is, as the log has it: by that a broker knows
                when it may forget a producer.
        """
        self.memory.on_stored(batch, now_ms, newest_timestamp_age_ms, base_offset)
        if self.state is not _FLOWING:
            self.on_end(batch, SequenceEvent.STORED)

    def on_end(self, batch: ProducerBatch, event: SequenceEvent) -> None:
        """A batch, or an attempt, ended: it was stored or refused, or has failed."""
        if batch.base_sequence == NO_SEQUENCE:
            return
        self.memory.on_end()
        self._has_doubt |= event is SequenceEvent.UNKNOWN
        self._move(event)
        if event in _MAKES_HOLE and (self._hole == NO_SEQUENCE or is_earlier(batch.base_sequence, self._hole)):
            self._hole = batch.base_sequence

    def on_retry(self, batch: ProducerBatch, code: ErrorCode | None) -> None:
        """A batch that was answered, or was not, waits for its next attempt: with its numbers, or without.

        What may be in the log keeps them. What is not there does so, too, unless the broker will not take them.
        """
        if batch.base_sequence == NO_SEQUENCE or batch.may_be_in_log or code not in REFUSALS:
            return
        if code is not ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER or self._oldest() is batch:
            self._step_aside(batch)
        # else one before it is missing there, and comes first.

    def _step_aside(self, batch: ProducerBatch) -> None:
        self.on_end(batch, SequenceEvent.REFUSED)  # first: nothing new overtakes it
        batch.base_sequence = NO_SEQUENCE
        batch.first_sent_ms = None

    def doubt_left(self, batch: ProducerBatch, code: ErrorCode, log_start_offset: int = NO_OFFSET) -> str | None:
        """Say why a batch may be in the log although its numbers were refused; None where it is certainly not.

        Each attempt that was answered by a refusal stored nothing. After one that was not answered, a broker that must
        still know us would know the batch again, and call it stored: if it was the last one that it stored, for after a
        restart a broker knows no more than that one (docs/decisions/producer_ids.md).

        Args:
            batch: The batch, not decided.
            code: One of REFUSALS.
            log_start_offset: Where the broker says that its log begins; -1 where it does not say.
        """
        if not batch.may_be_in_log:
            return None
        doubt = self.memory.doubt_left(batch, code, log_start_offset)
        if doubt is not None or code is not ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            return doubt
        if self._has_doubt:
            # One before it may come late out of a broken connection, and this one behind it: nothing keeps them from
            # the log as long as no new epoch is there. One behind it is the next case.
            return f"other batches of producer id {batch.producer_id} may be in the log, or may yet come there"
        undecided = self.undecided()
        if any(other.may_be_in_log or other.is_in_flight for other in undecided[undecided.index(batch) + 1:]):
            return ("batches behind it may be in the log, too, and a broker that was restarted knows only the last one "
                    f"of producer id {batch.producer_id}")
        return None

    def is_behind_another(self, batch: ProducerBatch) -> bool:
        """Whether a batch with lower numbers is not decided: while that is missing, a broker refuses this one."""
        return self._oldest() is not batch

    # Epochs.

    @property
    def is_bump_due(self) -> bool:
        """Whether only a new epoch helps, and may begin."""
        return self.state is _BUMP_DUE

    def settle(self) -> None:
        """Look whether a disturbed partition has been decided, before anything is drained."""
        if self._hole != NO_SEQUENCE:
            for batch in self.undecided():
                if batch.state in WAITING and not batch.may_be_in_log and self._is_behind_hole(batch):
                    self._step_aside(batch)
        if self._oldest() is None and self.state is not _BUMP_DUE:
            last = self.memory.last_acked_sequence
            is_whole = last != NO_SEQUENCE and increment_sequence(last, 1) == self.next_sequence
            self._move(SequenceEvent.WHOLE if is_whole else SequenceEvent.BROKEN)
            self._hole = NO_SEQUENCE
            self._has_doubt &= not is_whole

    def _is_behind_hole(self, batch: ProducerBatch) -> bool:
        return self._hole != NO_SEQUENCE and is_earlier(self._hole, batch.base_sequence)

    def begin(self, owner: ProducerIdAndEpoch) -> None:
        """Begin at 0 for a new id or epoch; no batch has numbers."""
        self._newest = ()
        self._hole = NO_SEQUENCE
        self._has_doubt = False
        self.next_sequence = 0
        self.memory.last_acked_sequence = NO_SEQUENCE
        self._move(SequenceEvent.BEGUN)
        self.owner = owner

    def on_recovered(self) -> None:
        """Go on after a turn that ended anywhere, or after time in which nobody ran: only the batches are believed."""
        for batch in self.undecided():
            following = increment_sequence(batch.base_sequence, batch.record_count)
            if is_earlier(self.next_sequence, following):
                self.next_sequence = following
        self.memory.end_at(0)
        self._move(SequenceEvent.LOST_SIGHT)
        if not self.is_disturbed:  # what was noted for a move that did not come
            self._hole = NO_SEQUENCE
            self._has_doubt = False

    def __repr__(self) -> str:
        return (f"<PartitionSequence {self.state.value} of {tuple(self.owner)}: next {self.next_sequence}, "
                f"acknowledged {self.memory.last_acked_sequence}>")
