"""What a transactional producer knows of its id and of the transaction that is open: the state, and who waits for it.

    caller   init_transactions, send_offsets, prepare, commit, abort   moves the state, and waits in a PendingCall
    sender   the client's own requests (sender/requests/)              read the state, and move it by the answers

A caller's call and its state are one field, written in one step, so an exception from outside (Ctrl-C) leaves no call
that nobody answers. A call that was not answered in time may only be repeated: it then waits for the same outcome. That
of a block which is over has nobody to repeat it: who comes next waits for it (`left`).

Road:    KafkaProducer -> [transactions] <- sender/requests, completion
Thread:  `_lock` guards each move; it is never held while anything is called. What the sender alone writes says so.
Source:  Java TransactionManager (4.1), its transactional half; KIP-98, KIP-360, KIP-447, KIP-890, KIP-939.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyproducer.common.clock import Clock
from pyproducer.common.cluster import TopicPartition
from pyproducer.common.consumer_offsets import ConsumerGroupMetadata, OffsetAndMetadata
from pyproducer.common.errors import IllegalStateError, KafkaError, TransactionAbortedError
from pyproducer.common.sender_log import SenderLog, sender_log
from pyproducer.common.waiting import SYSTEM_LOCKS, Locks
from pyproducer.transaction import transaction_errors
from pyproducer.transaction.pending_call import PendingCall
from pyproducer.transaction.prepared_transaction import PreparedTransaction
from pyproducer.transaction.transaction_state import (
    TRANSITIONS,
    TransactionEvent,
    TransactionState,
    next_state,
)

log: SenderLog = sender_log(__name__)

TRANSACTIONS_V2 = 2
"""The level of the feature transaction.version from which on brokers add partitions by themselves, and the end of a
transaction brings the next epoch (KIP-890)."""

_S, _E = TransactionState, TransactionEvent
_ENDING = frozenset({_S.COMMITTING, _S.ABORTING})
_SENDING = frozenset({_S.IN_TRANSACTION, _S.PREPARED, _S.COMMITTING})
_FAILING = frozenset({_S.ABORTING, _S.ABORTABLE_ERROR, _S.FATAL_ERROR})
_TAKING = frozenset({_S.IN_TRANSACTION})
_CLOSED = frozenset({_S.PREPARED, _S.COMMITTING, _S.ABORTING, _S.ABORTABLE_ERROR})
_BETWEEN = frozenset({_S.UNINITIALIZED, _S.INITIALIZING, _S.READY})
_OPEN = frozenset({_S.IN_TRANSACTION, _S.PREPARED, _S.COMMITTING, _S.ABORTING, _S.ABORTABLE_ERROR})

_TELLS = {
    _S.UNINITIALIZED: "init_transactions() comes first",
    _S.INITIALIZING: "its producer id is awaited: call again what was left before it had ended, it waits for that",
    _S.READY: "begin_transaction() comes first",
    _S.IN_TRANSACTION: "a transaction is open: commit_transaction() or abort_transaction() end it",
    _S.PREPARED: "a prepared transaction is open: commit_transaction() or abort_transaction() end it, also one that a "
                 "TransactionCompleter ended elsewhere; or init_transactions() with another transactional id",
    _S.COMMITTING: "the transaction is being committed",
    _S.ABORTING: "the transaction is being aborted",
}


class OffsetsToCommit:
    """Offsets of one group that a transaction commits, and who waits until they are there.

    Attributes:
        offsets: By partition.
        group: Whose.
        pending: The call.
    """

    __slots__ = ("group", "offsets", "pending")

    def __init__(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: ConsumerGroupMetadata,
                 pending: PendingCall) -> None:
        self.offsets: dict[TopicPartition, OffsetAndMetadata] = dict(offsets)
        self.group: ConsumerGroupMetadata = group
        self.pending: PendingCall = pending


class OpenTransaction:
    """What is known of one transaction, from its begin to its end. The sender's, but for who adds offsets.

    Attributes:
        began_ms: When the coordinator may have heard of it first, in monotonic ms; None before.
        partitions: Those in it: since Transactions V2 all that batches were numbered for, before those that were added.
        groups: The groups that were added to it.
        offsets: What is to be committed, in order; taken out when it is there.
        is_known_there: Whether the coordinator may know of it, so that it has to be ended there.
        is_closed_off: Whether it is sure that no record comes any more.
        has_offsets: Whether offsets may be in it.
        is_end_lost: Whether an EndTxn had no answer.
        needs_epoch: Why the next one cannot go on in its epoch; "" where it can.
        error: The first failure in it.
    """

    __slots__ = ("began_ms", "error", "groups", "has_offsets", "is_closed_off", "is_end_lost", "is_known_there",
                 "needs_epoch", "offsets", "partitions")

    def __init__(self) -> None:
        self.began_ms: int | None = None
        self.partitions: dict[TopicPartition, None] = {}
        self.groups: set[str] = set()
        self.offsets: list[OffsetsToCommit] = []
        self.is_known_there: bool = False
        self.is_closed_off: bool = False
        self.is_end_lost: bool = False
        self.has_offsets: bool = False
        self.needs_epoch: str = ""
        self.error: KafkaError | None = None

    def note_lost(self, api: str) -> None:
        """A request had no answer, and may come late: in the same epoch it would be taken for the next transaction's.

        Since Transactions V2 the end of each brings another epoch, and this says nothing.
        """
        self.needs_epoch = self.needs_epoch or f"the answer to a request {api} was lost, which may come late"


class Transactions:
    """The state of one transactional producer.

    Args:
        transactional_id: transactional.id.
        timeout_ms: transaction.timeout.ms.
        two_phase: transaction.two.phase.commit.enable.
        clock: For how long a transaction has been open.
        locks: Makes the lock and the cells.

    Attributes:
        transactional_id: Of now; init_transactions() may bind another one.
        is_v2: Whether Transactions V2 are in use; the sender's, between transactions.
        current: The transaction that is open, or was last.
        on_change: Told after each move of the state.
        wakeup: Has the sender look.
        prepared: Transactions that were handed out, by transactional id, and of whose end nothing is known.
    """

    def __init__(self, transactional_id: str, *, timeout_ms: int, two_phase: bool = False, clock: Clock,
                 locks: Locks = SYSTEM_LOCKS) -> None:
        self.transactional_id: str = transactional_id
        self.timeout_ms: int = timeout_ms
        self.two_phase: bool = two_phase
        self.is_v2: bool = False
        self.current: OpenTransaction = OpenTransaction()
        self.on_change: Callable[[], None] = _nothing
        self.wakeup: Callable[[], None] = _nothing
        self.prepared: dict[str, PreparedTransaction] = {}
        self._clock = clock
        self._locks = locks
        self._lock = locks.rlock()  # guards the moves of _position
        self._position: tuple[TransactionState, PendingCall | None] = (_S.UNINITIALIZED, None)
        self._error: KafkaError | None = None  # of the error states; written before them
        self._features_epoch = -1  # the sender's: of which news is_v2 is

    # What others ask.

    @property
    def state(self) -> TransactionState:
        """Where it stands."""
        return self._position[0]

    @property
    def pending(self) -> PendingCall | None:
        """The call that waits, or waited, for a move."""
        return self._position[1]

    @property
    def left(self) -> PendingCall | None:
        """The call that a block has left before it had ended, as long as nobody was told how it did."""
        pending = self._position[1]
        return pending if pending is not None and pending.is_left and not pending.is_told else None

    @property
    def takes_records(self) -> bool:
        """Whether records may be sent."""
        return self._position[0] is _S.IN_TRANSACTION

    @property
    def is_sending(self) -> bool:
        """Whether what is in the transaction goes on its way."""
        return self._position[0] in _SENDING

    def may_number(self, topic_partition: TopicPartition) -> bool:
        """Whether a batch of a partition may be numbered and sent: before Transactions V2 once that was added."""
        return self._position[0] in _SENDING and (self.is_v2 or topic_partition in self.current.partitions)

    @property
    def is_failing(self) -> bool:
        """Whether what is not on its way fails, and nothing is tried again."""
        return self._position[0] in _FAILING

    @property
    def is_ending(self) -> bool:
        """Whether the end of a transaction is being asked for."""
        return self._position[0] in _ENDING

    @property
    def is_open(self) -> bool:
        """Whether a transaction is open."""
        return self._position[0] in _OPEN

    @property
    def is_closed(self) -> bool:
        """Whether a transaction is open that takes no records any more."""
        return self._position[0] in _CLOSED

    def open_ms(self) -> int:
        """How long the coordinator may have known the transaction, in ms."""
        began_ms = self.current.began_ms
        return 0 if began_ms is None else self._clock.now_ms() - began_ms

    def ensure_may_send(self, within: OpenTransaction | None = None, *, is_batch: bool = False) -> None:
        """Do nothing while records may be sent.

        Args:
            within: The transaction that they belong to, as rows of a send_batch() do, which go into no other one.
            is_batch: Whether it is such a call that begins.

        Raises:
            IllegalStateError: No transaction is open, or another one. Not sent.
            AbortableTransactionError: It can only be aborted. Not sent.
            FatalProducerError: The producer can only be closed. Not sent.
        """
        state = self._position[0]
        if state is _S.IN_TRANSACTION and (within is None or within is self.current):
            return
        if within is not None and (state in _BETWEEN or within is not self.current):
            error: KafkaError = IllegalStateError(
                f"The transaction of {self.transactional_id!r} in which send_batch() began has ended: rows that were "
                "not handed over by then go into no other one, send them again in the next")
        else:
            error = self._refusal("send()" if within is None and not is_batch else "send_batch()", state)
        error.outcome = "not_sent"
        raise error

    def failure_of_records(self) -> KafkaError:
        """Return the error of records that are given up with their transaction."""
        cause = self._error if self._position[0] in (_S.ABORTABLE_ERROR, _S.FATAL_ERROR) else self.current.error
        if cause is None:
            return TransactionAbortedError("The transaction was aborted before the record was acknowledged")
        error = TransactionAbortedError("The transaction failed before the record was acknowledged, and will not be "
                                        f"committed: {cause}")
        error.__cause__ = cause
        return error

    def _refusal(self, call: str, state: TransactionState) -> KafkaError:
        error = self._error
        if state is _S.ABORTABLE_ERROR and error is not None:
            return transaction_errors.abortable(error, self.transactional_id, self._hint(error))
        if state is _S.FATAL_ERROR and error is not None:
            return transaction_errors.fatal(error, self.transactional_id, self._hint(error))
        return IllegalStateError(f"{call} is not possible now, with transactional.id {self.transactional_id!r}: "
                                 f"{_TELLS.get(state, state.value)}")

    def _hint(self, error: KafkaError) -> str:
        return transaction_errors.why_fenced(error, self.open_ms(), self.timeout_ms)

    # The callers' calls. Each returns at once; those that end later return what to wait for.

    def initialize(self, transactional_id: str | None) -> PendingCall:
        """Ask for a producer id and an epoch, which fences every earlier producer of the id.

        Args:
            transactional_id: The id from now on; None keeps the one of now.
        """
        binds = self.transactional_id if transactional_id is None else transactional_id
        with self._lock:
            call = "init_transactions()"
            pending = self._repeated(call)
            if pending is not None and pending.binds == binds:
                self.wakeup()  # who was interrupted after the move has told nobody, perhaps
                return pending
            if pending is not None and not pending.is_set:
                raise IllegalStateError(f"init_transactions() with transactional.id {pending.binds!r} was left before "
                                        f"it had ended, and goes on: call that again before {binds!r}")
            pending = PendingCall(call, self._locks.cell, binds)
            pending.leaves_prepared = self._position[0] is _S.PREPARED and binds == self.transactional_id
            self._begin_call(_E.INITIALIZE, pending)
        self._tell()
        return pending

    def begin(self) -> None:
        """Begin a transaction."""
        with self._lock:
            self._repeated("begin_transaction()")
            self._ensure(_E.BEGIN, "begin_transaction()")
            self.current = OpenTransaction()
            self._position = (next_state(self._position[0], _E.BEGIN), None)
        self._tell()

    def add_offsets(self, offsets: Mapping[TopicPartition, OffsetAndMetadata],
                    group: ConsumerGroupMetadata) -> PendingCall:
        """Have the transaction commit offsets of a group."""
        call = "send_offsets_to_transaction()"
        with self._lock:
            self._repeated(call)
            state = self._position[0]
            if state is not _S.IN_TRANSACTION:
                raise self._refusal(call, state)
            pending = PendingCall(call, self._locks.cell)
            if offsets:
                self.current.offsets.append(OffsetsToCommit(offsets, group, pending))
            else:
                pending.settle()
        self._tell()
        return pending

    def prepare(self) -> PendingCall:
        """Take no more records, and wait until all that is in the transaction is stored."""
        return self._call(_E.PREPARE, "prepare_transaction()")

    def commit(self) -> PendingCall:
        """Commit what is in the transaction, once it is stored."""
        return self._call(_E.COMMIT, "commit_transaction()")

    def abort(self) -> PendingCall:
        """Abort what is in the transaction; a prepare that waits, or timed out, is given up with it."""
        with self._lock:
            prepare = self._position[1]
            if prepare is not None and prepare.call == "prepare_transaction()":
                prepare.is_told = True
            else:
                prepare = None
        pending = self._call(_E.ABORT, "abort_transaction()", gives_up=prepare)
        self._give_up_for(pending)  # again, too: who was interrupted behind the move told nobody
        return pending

    def leave(self, call: str) -> None:
        """Whoever made a call is gone, and does not call again."""
        pending = self._position[1]
        if pending is not None and pending.call == call:
            pending.is_left = True

    @staticmethod
    def _give_up_for(pending: PendingCall | None) -> None:
        """Tell the prepare that waits, in another thread, that an abort has come instead; again is no error."""
        if pending is not None and pending.gives_up is not None:
            pending.gives_up.settle(TransactionAbortedError("The transaction was aborted before it was prepared"))

    def _call(self, event: TransactionEvent, call: str, *, gives_up: PendingCall | None = None) -> PendingCall:
        with self._lock:
            pending = self._repeated(call)
            if pending is None:
                self._begin_call(event, pending := PendingCall(call, self._locks.cell, gives_up=gives_up))
        self._tell()  # again, too: who was interrupted after the move has told nobody, perhaps
        return pending

    def _begin_call(self, event: TransactionEvent, pending: PendingCall) -> None:
        """Move, and note the call that waits for what follows. With the lock held."""
        self._ensure(event, pending.call)
        if event is _E.INITIALIZE:
            self.transactional_id = pending.binds
        self._position = (next_state(self._position[0], event), pending)

    def _ensure(self, event: TransactionEvent, call: str) -> None:
        state = self._position[0]
        if (state, event) not in TRANSITIONS:
            raise self._refusal(call, state)

    def _repeated(self, call: str) -> PendingCall | None:
        """Return the call before, where it is the same one and was not told how it ended. With the lock held.

        Raises:
            IllegalStateError: It is another one, which timed out, or whose task was cancelled.
        """
        pending = self._position[1]
        if pending is None or pending.is_told:
            return None
        if pending.call == call:
            return pending
        if pending.is_set and pending.error is not None:
            return None  # it has failed: what comes next says how
        if pending.is_set:
            raise IllegalStateError(f"{call} is not possible now: {pending.call} was left before it had ended, and has "
                                    "succeeded since. Call it again, it returns at once")
        raise IllegalStateError(f"{call} is not possible now: {pending.call} was left before it had ended, and goes "
                                "on, so what becomes of it is not known yet. Call it again, or close the producer")

    # What the sender, or a record that fails, tells.

    def note_first_request(self) -> None:
        """A coordinator is about to hear of the transaction: its time counts from now."""
        if self.current.began_ms is None:
            self.current.began_ms = self._clock.now_ms()

    def on_numbered(self, topic_partition: TopicPartition) -> None:
        """A batch of a partition gets numbers. Since Transactions V2 it brings the partition into the transaction."""
        current = self.current
        current.partitions[topic_partition] = None
        current.is_known_there = True
        if current.began_ms is None:
            current.began_ms = self._clock.now_ms()

    def note_features(self, epoch: int, level: int) -> bool:
        """Take in which protocol brokers speak, between transactions; return whether it is Transactions V2 just now.

        Args:
            epoch: Of the finalized features, -1 where brokers tell none.
            level: Of transaction.version.

        Source: Java TransactionManager.maybeUpdateTransactionV2Enabled (4.1).
        """
        if epoch <= self._features_epoch:
            return False
        was_v2, self.is_v2 = self.is_v2, level >= TRANSACTIONS_V2
        self._features_epoch = epoch
        return self.is_v2 and not was_v2

    def on_initialized(self) -> None:
        """A producer id and an epoch came."""
        with self._lock:
            pending = self._move(_E.INITIALIZED)
            self._error = None
        self._tell(pending)

    def on_refused(self, error: KafkaError) -> None:
        """The coordinator gives no producer id to who asked for one first; it may be asked again.

        What is prepared with the same id, and not known to be ended, stays so.

        Nodes are refused one by one, and whoever asked may have been told of the first, or have an id by then.
        """
        with self._lock:
            state, pending = self._position
            if state is not _S.INITIALIZING:
                return
            is_kept = pending is not None and pending.leaves_prepared and pending.binds in self.prepared
            self._move(_E.STILL_OPEN if is_kept else _E.REFUSED)
        self._tell(pending, error)

    def on_all_sent(self, prepared: PreparedTransaction) -> None:
        """All that is in a prepared transaction is stored. Nothing is handed out where an abort has come since."""
        with self._lock:
            state, pending = self._position
            if state is not _S.PREPARED:
                self._give_up_for(pending)
                return
            self.prepared[prepared.transactional_id] = prepared
            current = self.current
            # Before Transactions V2 a completer that comes late would end the next transaction of this epoch.
            current.needs_epoch = current.needs_epoch or "it was prepared, so that others may ask for its end, too"
        self._tell(pending, value=prepared)

    def on_ended(self, *, needs_epoch: bool) -> None:
        """The transaction is ended at its coordinator, or there was nothing to end."""
        self.prepared.pop(self.transactional_id, None)
        with self._lock:
            pending = self._position[1]
            if pending is not None:
                pending.is_ended = True
            self._move(_E.EPOCH_NEEDED if needs_epoch else _E.ENDED)
            self._error = None
        self._give_up_for(pending)  # whoever aborts was interrupted, perhaps
        # Where an epoch is needed the sender has to look again: of an empty transaction no answer will have it do so.
        self._tell(None if needs_epoch else pending)

    def on_failed(self, error: KafkaError) -> None:
        """A record, or a request, of the transaction failed. Thread: any."""
        self._fail(error, _OPEN)

    def _fail(self, error: KafkaError, states: frozenset[TransactionState]) -> None:
        if isinstance(error, IllegalStateError):
            return  # it never was in it
        if transaction_errors.is_fatal(error) and (states is _OPEN or self._position[0] in states):
            self.on_fatal_error(error)
            return
        with self._lock:
            state = self._position[0]
            if state not in states:
                return
            is_first = self.current.error is None
            if is_first:
                self.current.error = error
            if state is not _S.ABORTING and state is not _S.ABORTABLE_ERROR:
                self._error = error
            pending = self._move(_E.FAIL)
            is_new = self._position[0] is _S.ABORTABLE_ERROR and state is not _S.ABORTABLE_ERROR
        if is_new:
            log.info("The transaction of %s can only be aborted: %s", self.transactional_id, error)
            self._give_up_calls(pending, transaction_errors.abortable(error, self.transactional_id, self._hint(error)))

    def on_not_taken(self, error: KafkaError) -> None:
        """A record was not taken, and its future tells so: the transaction fails, unless it was closed before.

        Then the record never was in it; and what is prepared, or being committed, may be so already.
        """
        self._fail(error, _TAKING)

    def on_fatal_error(self, error: KafkaError) -> None:
        """No transaction of this producer can succeed any more."""
        with self._lock:
            if self._position[0] is _S.FATAL_ERROR:
                return
            self._error = error
            pending = self._move(_E.FAIL_FOR_GOOD)
        log.warning("The producer with transactional.id %s cannot go on: %s", self.transactional_id, error)
        self._give_up_calls(pending, transaction_errors.fatal(error, self.transactional_id, self._hint(error)))

    def on_disturbed(self, why: str) -> None:
        """The sequence numbers of a partition do not go on: whatever else comes, the transaction is aborted."""
        current = self.current
        current.needs_epoch = current.needs_epoch or why
        if self._position[0] in _SENDING:
            self.on_failed(TransactionAbortedError(why))

    def begin_end_of_life(self) -> None:
        """The producer is being closed: what is open is aborted, unless it is prepared, or being ended already."""
        with self._lock:
            if self._position[0] not in (_S.IN_TRANSACTION, _S.ABORTABLE_ERROR):
                return
            before, error = self._position[1], self._error
            pending = PendingCall("close()", self._locks.cell)
            pending.is_told = True  # nobody waits for it
            self._position = (next_state(self._position[0], _E.ABORT), pending)
        if before is not None:  # it has failed, and who failed it tells it so, or will: the first time counts
            before.settle(None if before.is_ended or error is None else transaction_errors.abortable(
                error, self.transactional_id, self._hint(error)))
        log.info("The transaction of %s is aborted, for the producer is closed", self.transactional_id)
        self._tell()

    def end_life(self, error: KafkaError) -> None:
        """The sender's last act: nobody answers what is asked for any more."""
        error.outcome = "unknown"
        self._give_up_calls(self._position[1], error)

    def give_up_offsets(self) -> None:
        """The transaction is not committed: nor are its offsets."""
        offsets = self.current.offsets
        while offsets:
            offsets.pop().pending.settle(TransactionAbortedError("The transaction is not committed"))

    def on_offsets_committed(self, order: OffsetsToCommit) -> None:
        """Offsets are in the transaction."""
        offsets = self.current.offsets
        if order in offsets:  # else they were given up while they were on their way
            offsets.remove(order)
        order.pending.settle()

    def _give_up_calls(self, pending: PendingCall | None, error: KafkaError) -> None:
        """Fail what waits: a transaction that is ended stays so, whatever comes after."""
        for order in list(self.current.offsets):
            order.pending.settle(error)
        self._tell(pending, None if pending is not None and pending.is_ended else error)

    def _move(self, event: TransactionEvent) -> PendingCall | None:
        """Move the state; return the call that waits. With the lock held."""
        state, pending = self._position
        self._position = (next_state(state, event), pending)
        return pending

    def _tell(self, pending: PendingCall | None = None, error: KafkaError | None = None,
              value: PreparedTransaction | None = None) -> None:
        """Tell of a move: those who look before they send, then who waits, then the sender."""
        self.on_change()
        if pending is not None:
            pending.settle(error, value)
        self.wakeup()


def _nothing() -> None:
    """Tell nobody."""
