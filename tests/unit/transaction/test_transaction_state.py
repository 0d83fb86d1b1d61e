"""The table of a transactional producer's states: every move that it has, and none that it has not."""

from __future__ import annotations

import itertools

import pytest

from pyproducer.common.errors import IllegalStateError
from pyproducer.transaction import transaction_state
from pyproducer.transaction.transaction_state import TRANSITIONS, TransactionEvent, TransactionState, next_state

UNINITIALIZED, INITIALIZING, READY, IN_TRANSACTION, PREPARED, COMMITTING, ABORTING, ABORTABLE, FATAL = TransactionState
_E = TransactionEvent
# Written down a second time, state by state. FAIL_FOR_GOOD may come at any time.
LAWFUL = {
    UNINITIALIZED: {_E.INITIALIZE: INITIALIZING},
    INITIALIZING: {_E.INITIALIZED: READY, _E.REFUSED: UNINITIALIZED, _E.STILL_OPEN: PREPARED},
    READY: {_E.INITIALIZE: INITIALIZING, _E.BEGIN: IN_TRANSACTION},
    IN_TRANSACTION: {_E.PREPARE: PREPARED, _E.COMMIT: COMMITTING, _E.ABORT: ABORTING, _E.FAIL: ABORTABLE},
    PREPARED: {_E.INITIALIZE: INITIALIZING, _E.COMMIT: COMMITTING, _E.ABORT: ABORTING, _E.FAIL: ABORTABLE},
    COMMITTING: {_E.ENDED: READY, _E.EPOCH_NEEDED: INITIALIZING, _E.FAIL: ABORTABLE},
    ABORTING: {_E.ENDED: READY, _E.EPOCH_NEEDED: INITIALIZING, _E.FAIL: ABORTING},
    ABORTABLE: {_E.ABORT: ABORTING, _E.FAIL: ABORTABLE},
    FATAL: {},
}


@pytest.mark.parametrize(("state", "event"), list(itertools.product(TransactionState, TransactionEvent)))
def test_event_when_it_comes_then_it_leads_where_it_may_or_is_refused(
        state: TransactionState, event: TransactionEvent) -> None:
    to = {**LAWFUL[state], _E.FAIL_FOR_GOOD: FATAL}.get(event)
    if to is not None:
        assert next_state(state, event) is to
    else:
        with pytest.raises(IllegalStateError, match=f"is {state.value} cannot go on where {event.value[:10]}"):
            next_state(state, event)


def test_states_when_followed_from_the_first_then_each_is_reached_and_only_the_fatal_error_is_the_end() -> None:
    reached, ends = {UNINITIALIZED}, set(TransactionState)
    for (state, _), to in TRANSITIONS.items():
        reached.add(to)
        if to is not state:
            ends.discard(state)
    assert reached == set(TransactionState)
    assert ends == {FATAL}


def test_fatal_error_when_anything_comes_then_it_stays() -> None:
    """aiokafka's check of a move ended in an else branch that allowed it: an abort could follow a fencing."""
    assert {to for (state, _), to in TRANSITIONS.items() if state is FATAL} == {FATAL}


def test_drawing_when_compared_with_the_table_then_it_has_the_same_moves() -> None:
    lines = (transaction_state.__doc__ or "").splitlines()
    columns = next(line for line in lines if line.split()[:1] == ["event"]).split()[1:]
    states = [next(state for state in TransactionState if state.name.startswith(column.rstrip(".")))
              for column in columns]
    assert states == list(TransactionState)[:-1]
    drawn = {}
    for event in TransactionEvent:
        cells = next(line for line in lines if line.split()[:1] == [event.name]).split()[1:]
        if event is _E.FAIL_FOR_GOOD:
            continue
        for state, cell in zip(states, cells, strict=True):
            if cell != "-":
                drawn[state, event] = next(to for to in TransactionState if to.name.startswith(cell.rstrip(".")))
    assert drawn == {move: to for move, to in TRANSITIONS.items() if move[1] is not _E.FAIL_FOR_GOOD}
