"""The states of a transaction, what may happen in each, and how an EndTxn is to be taken in each.

    state            initialize   add partitions   commit          abort           abort empty     markers written
    ---------------  -----------  ---------------  --------------  --------------  --------------  ----------------
    Empty            Empty        Ongoing          -               -               PrepareAbort    -
    Ongoing          -            Ongoing          PrepareCommit   PrepareAbort    -               -
    PrepareCommit    -            -                -               -               -               CompleteCommit
    PrepareAbort     -            -                -               -               -               CompleteAbort
    CompleteCommit   Empty        Ongoing          -               -               PrepareAbort    -
    CompleteAbort    Empty        Ongoing          -               -               PrepareAbort    -

"Abort empty" is a transaction without partitions, which only Transactions V2 (KIP-890) may end. Any other event in a
state is a bug of the coordinator.

Road:    transaction metadata -> [state]; end_transaction -> [verdicts]
Thread:  constants and pure functions.
Source:  Java TransactionState, TransactionCoordinator.endTransaction and its table (4.1).
         Differs from Java: there is no pending state, because a change is written and made under one lock, so nothing
         is ever in PrepareEpochFence; and an id that expires is gone at once, so nothing is ever Dead. Both keep
         their names for those who ask for them.
"""

from __future__ import annotations

from enum import Enum

from pyproducer.common.errors import IllegalStateError


class TransactionState(Enum):
    """A state: the number that the log has for it, and the name that DescribeTransactions gives it."""

    EMPTY = (0, "Empty")
    ONGOING = (1, "Ongoing")
    PREPARE_COMMIT = (2, "PrepareCommit")
    PREPARE_ABORT = (3, "PrepareAbort")
    COMPLETE_COMMIT = (4, "CompleteCommit")
    COMPLETE_ABORT = (5, "CompleteAbort")
    DEAD = (6, "Dead")
    PREPARE_EPOCH_FENCE = (7, "PrepareEpochFence")

    @property
    def id(self) -> int:
        """The number in the log."""
        return self.value[0]

    @property
    def title(self) -> str:
        """Kafka's name."""
        return self.value[1]


STATES_BY_ID = {state.id: state for state in TransactionState}
STATES_BY_TITLE = {state.title: state for state in TransactionState}


class TransactionEvent(Enum):
    """What may happen to a transaction."""

    INITIALIZE = "initialize"
    ADD_PARTITIONS = "add partitions"
    COMMIT = "commit"
    ABORT = "abort"
    ABORT_EMPTY = "abort empty"
    MARKERS_WRITTEN = "markers written"


_S, _E = TransactionState, TransactionEvent

TRANSITIONS: dict[TransactionState, dict[TransactionEvent, TransactionState]] = {
    _S.EMPTY: {_E.INITIALIZE: _S.EMPTY, _E.ADD_PARTITIONS: _S.ONGOING, _E.ABORT_EMPTY: _S.PREPARE_ABORT},
    _S.ONGOING: {_E.ADD_PARTITIONS: _S.ONGOING, _E.COMMIT: _S.PREPARE_COMMIT, _E.ABORT: _S.PREPARE_ABORT},
    _S.PREPARE_COMMIT: {_E.MARKERS_WRITTEN: _S.COMPLETE_COMMIT},
    _S.PREPARE_ABORT: {_E.MARKERS_WRITTEN: _S.COMPLETE_ABORT},
    _S.COMPLETE_COMMIT: {_E.INITIALIZE: _S.EMPTY, _E.ADD_PARTITIONS: _S.ONGOING, _E.ABORT_EMPTY: _S.PREPARE_ABORT},
    _S.COMPLETE_ABORT: {_E.INITIALIZE: _S.EMPTY, _E.ADD_PARTITIONS: _S.ONGOING, _E.ABORT_EMPTY: _S.PREPARE_ABORT},
    _S.DEAD: {},
    _S.PREPARE_EPOCH_FENCE: {},
}


def next_state(state: TransactionState, event: TransactionEvent) -> TransactionState:
    """Return where an event leads.

    Raises:
        IllegalStateError: The event is not one of this state; a bug of the coordinator. Nothing was changed.
    """
    following = TRANSITIONS[state].get(event)
    if following is None:
        raise IllegalStateError(f"A transaction in the state {state.title} cannot take the event '{event.value}'")
    return following


class Verdict(Enum):
    """How an EndTxn is taken."""

    END = "end"  # write the markers
    END_EMPTY = "end empty"  # nothing to mark, but a new epoch
    DONE = "done"  # it has been done: say so again
    CONCURRENT = "concurrent"  # it is being done: ask again
    INVALID = "invalid"  # INVALID_TXN_STATE


COMMIT, ABORT = True, False

# States in which an id that is not used may be forgotten.
EXPIRABLE = frozenset((_S.EMPTY, _S.COMPLETE_COMMIT, _S.COMPLETE_ABORT))

# Before Transactions V2 a repeated EndTxn has the epoch of the first. (state, commit) -> verdict
VERDICTS_V1: dict[tuple[TransactionState, bool], Verdict] = {
    (_S.ONGOING, COMMIT): Verdict.END, (_S.ONGOING, ABORT): Verdict.END,
    (_S.PREPARE_COMMIT, COMMIT): Verdict.CONCURRENT, (_S.PREPARE_ABORT, ABORT): Verdict.CONCURRENT,
    (_S.COMPLETE_COMMIT, COMMIT): Verdict.DONE, (_S.COMPLETE_ABORT, ABORT): Verdict.DONE,
}

# Since Transactions V2 the epoch tells a repetition (the one before the present) from the next transaction's end.
# (state, commit, is repetition) -> verdict
VERDICTS_V2: dict[tuple[TransactionState, bool, bool], Verdict] = {
    (_S.ONGOING, COMMIT, False): Verdict.END, (_S.ONGOING, ABORT, False): Verdict.END,
    (_S.PREPARE_COMMIT, COMMIT, True): Verdict.CONCURRENT, (_S.PREPARE_ABORT, ABORT, True): Verdict.CONCURRENT,
    (_S.COMPLETE_COMMIT, COMMIT, True): Verdict.DONE, (_S.COMPLETE_ABORT, ABORT, True): Verdict.DONE,
    (_S.EMPTY, ABORT, False): Verdict.END_EMPTY,
    (_S.COMPLETE_COMMIT, ABORT, False): Verdict.END_EMPTY, (_S.COMPLETE_ABORT, ABORT, False): Verdict.END_EMPTY,
}
