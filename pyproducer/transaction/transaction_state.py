"""The states of a transactional producer, and what may happen in each.

    event             UNINIT.   INITIALIZING  READY         IN_TRANS.    PREPARED      COMMITTING    ABORTING  ABORTABLE
    INITIALIZE        INITIAL.  -             INITIALIZING  -            INITIALIZING  -             -         -
    INITIALIZED       -         READY         -             -            -             -             -         -
    REFUSED           -         UNINITIAL.    -             -            -             -             -         -
    STILL_OPEN        -         PREPARED      -             -            -             -             -         -
    BEGIN             -         -             IN_TRANS.     -            -             -             -         -
    PREPARE           -         -             -             PREPARED     -             -             -         -
    COMMIT            -         -             -             COMMITTING   COMMITTING    -             -         -
    ABORT             -         -             -             ABORTING     ABORTING      -             -         ABORTING
    ENDED             -         -             -             -            -             READY         READY     -
    EPOCH_NEEDED      -         -             -             -            -             INITIALIZING  INITIAL.  -
    FAIL              -         -             -             ABORTABLE    ABORTABLE     ABORTABLE     ABORTING  ABORTABLE
    FAIL_FOR_GOOD     FATAL_ERROR from each state, which nothing leaves

Road:    KafkaProducer, requests of the client's own -> [states] -> what may be sent
Thread:  constants and pure functions.
Source:  Java TransactionManager.State (4.1). Differs from Java: PREPARED (KIP-939 calls it PREPARED_TRANSACTION) is
         left by an initialization, too, unless it is of the same id and what is prepared with it is open; and so is
         READY; an initialization that is refused leads back to UNINITIALIZED.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from typing import ClassVar

from pyproducer.common.errors import IllegalStateError


class TransactionState(enum.Enum):
    """Where a transactional producer stands."""

    UNINITIALIZED = "uninitialized"          # it has no producer id
    INITIALIZING = "initializing"            # InitProducerId is on its way, or will be
    READY = "ready"                          # no transaction is open
    IN_TRANSACTION = "in a transaction"      # records are taken
    PREPARED = "prepared"                    # no more records are taken; what is there waits for a commit or an abort
    COMMITTING = "committing"                # records are being sent, then EndTxn
    ABORTING = "aborting"                    # records fail, then EndTxn
    ABORTABLE_ERROR = "in an abortable error"  # only abort_transaction() helps
    FATAL_ERROR = "in a fatal error"         # only close() helps

    __hash__: ClassVar[Callable[[object], int]] = object.__hash__  # by identity, in C; see BatchState


class TransactionEvent(enum.Enum):
    """What happens to a transactional producer."""

    INITIALIZE = "init_transactions() is called"
    INITIALIZED = "a producer id and an epoch come"
    REFUSED = "the coordinator gives none"
    STILL_OPEN = "what was prepared with the id is not ended"
    BEGIN = "begin_transaction() is called"
    PREPARE = "prepare_transaction() is called"
    COMMIT = "commit_transaction() is called"
    ABORT = "abort_transaction() is called"
    ENDED = "the transaction is ended"
    EPOCH_NEEDED = "the transaction is ended, and the next one cannot go on in its epoch"
    FAIL = "a record, or a request, fails"
    FAIL_FOR_GOOD = "no transaction of this producer can succeed any more"

    __hash__: ClassVar[Callable[[object], int]] = object.__hash__


_S, _E = TransactionState, TransactionEvent

TRANSITIONS: Mapping[tuple[TransactionState, TransactionEvent], TransactionState] = {
    (_S.UNINITIALIZED, _E.INITIALIZE): _S.INITIALIZING,
    (_S.READY, _E.INITIALIZE): _S.INITIALIZING,
    (_S.PREPARED, _E.INITIALIZE): _S.INITIALIZING,
    (_S.INITIALIZING, _E.INITIALIZED): _S.READY,
    (_S.INITIALIZING, _E.REFUSED): _S.UNINITIALIZED,
    (_S.INITIALIZING, _E.STILL_OPEN): _S.PREPARED,
    (_S.READY, _E.BEGIN): _S.IN_TRANSACTION,
    (_S.IN_TRANSACTION, _E.PREPARE): _S.PREPARED,
    (_S.IN_TRANSACTION, _E.COMMIT): _S.COMMITTING,
    (_S.PREPARED, _E.COMMIT): _S.COMMITTING,
    (_S.IN_TRANSACTION, _E.ABORT): _S.ABORTING,
    (_S.PREPARED, _E.ABORT): _S.ABORTING,
    (_S.ABORTABLE_ERROR, _E.ABORT): _S.ABORTING,
    (_S.COMMITTING, _E.ENDED): _S.READY,
    (_S.ABORTING, _E.ENDED): _S.READY,
    (_S.COMMITTING, _E.EPOCH_NEEDED): _S.INITIALIZING,
    (_S.ABORTING, _E.EPOCH_NEEDED): _S.INITIALIZING,
    (_S.IN_TRANSACTION, _E.FAIL): _S.ABORTABLE_ERROR,
    (_S.PREPARED, _E.FAIL): _S.ABORTABLE_ERROR,
    (_S.COMMITTING, _E.FAIL): _S.ABORTABLE_ERROR,
    (_S.ABORTING, _E.FAIL): _S.ABORTING,
    (_S.ABORTABLE_ERROR, _E.FAIL): _S.ABORTABLE_ERROR,
    **{(state, _E.FAIL_FOR_GOOD): _S.FATAL_ERROR for state in _S},
}


def next_state(state: TransactionState, event: TransactionEvent) -> TransactionState:
    """Return where an event leads.

    Raises:
        IllegalStateError: It cannot happen in this state. Nothing was changed.
    """
    following = TRANSITIONS.get((state, event))
    if following is None:
        raise IllegalStateError(f"A producer that is {state.value} cannot go on where {event.value}")
    return following
