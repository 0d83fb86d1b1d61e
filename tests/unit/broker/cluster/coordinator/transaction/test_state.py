from __future__ import annotations

import dataclasses
import itertools

import pytest

from pyproducer.broker.cluster.coordinator.transaction.metadata import LAST_EPOCH, MAX_EPOCH, TransactionMetadata
from pyproducer.broker.cluster.coordinator.transaction.state import (
    STATES_BY_ID,
    TRANSITIONS,
    VERDICTS_V1,
    VERDICTS_V2,
    TransactionEvent,
    TransactionState,
    Verdict,
    next_state,
)
from pyproducer.broker.cluster.coordinator.transaction.transaction_records import (
    parse_transaction,
    parse_transactional_id,
    transaction_record,
)
from pyproducer.common.cluster import TopicPartition
from pyproducer.common.error_codes import ErrorCode
from pyproducer.common.errors import IllegalStateError

S, E = TransactionState, TransactionEvent
ORDERS = TopicPartition("orders", 0)
FRESH_ID = 900
EVERY_STATE_AND_EVENT = list(itertools.product(S, E))


def metadata(state: TransactionState = S.EMPTY, **fields: object) -> TransactionMetadata:
    found = TransactionMetadata("shop", 7, 3, 1000, state)
    if state in (S.ONGOING, S.PREPARE_ABORT, S.PREPARE_COMMIT):
        found = dataclasses.replace(found, topic_partitions=frozenset((ORDERS,)), start_timestamp_ms=50)
    return dataclasses.replace(found, **fields)  # type: ignore[arg-type]  # the names are its own


def apply(found: TransactionMetadata, event: TransactionEvent) -> TransactionMetadata | ErrorCode:
    """Let an event happen by the method that makes it."""
    if event is E.INITIALIZE:
        return found.initialized(1000, None, now_ms=60, new_producer_id=lambda: FRESH_ID)
    if event is E.ADD_PARTITIONS:
        return found.with_partitions((ORDERS,), client_transaction_version=2, now_ms=60)
    if event is E.MARKERS_WRITTEN:
        return found.completed(now_ms=60)
    if event is E.ABORT:
        return found.fenced(transaction_version=2, now_ms=60)
    return found.ending(commit=event is E.COMMIT, client_transaction_version=2, now_ms=60,
                        new_producer_id=lambda: FRESH_ID)


def test_every_state_has_a_row() -> None:
    assert set(TRANSITIONS) == set(S)
    assert sorted(STATES_BY_ID) == list(range(len(S)))


@pytest.mark.parametrize(("state", "event"), EVERY_STATE_AND_EVENT)
def test_an_event_leads_where_the_table_says_or_raises_and_changes_nothing(
        state: TransactionState, event: TransactionEvent) -> None:
    before = {key: dict(row) for key, row in TRANSITIONS.items()}
    if event in TRANSITIONS[state]:
        assert next_state(state, event) is TRANSITIONS[state][event]
    else:
        with pytest.raises(IllegalStateError, match=f"state {state.title} cannot take the event '{event.value}'"):
            next_state(state, event)
    assert before == TRANSITIONS


@pytest.mark.parametrize(("state", "event"), [
    pair for pair in EVERY_STATE_AND_EVENT
    # An abort without a transaction is made by the same method as one of a transaction: the state decides which.
    if pair[1] is not E.ABORT_EMPTY or pair[0] is not S.ONGOING])
def test_metadata_takes_the_events_of_the_table_and_no_other(
        state: TransactionState, event: TransactionEvent) -> None:
    found = metadata(state)
    copy = dataclasses.replace(found)
    if event in TRANSITIONS[state]:
        changed = apply(found, event)
        assert isinstance(changed, TransactionMetadata)
        assert changed.state is TRANSITIONS[state][event]
    else:
        with pytest.raises(IllegalStateError):
            apply(found, event)
    assert found == copy


def test_verdicts_end_only_what_the_table_can_end() -> None:
    for (state, commit), verdict in VERDICTS_V1.items():
        if verdict is Verdict.END:
            assert (E.COMMIT if commit else E.ABORT) in TRANSITIONS[state]
    for (state, commit, _), verdict in VERDICTS_V2.items():
        if verdict is Verdict.END:
            assert (E.COMMIT if commit else E.ABORT) in TRANSITIONS[state]
        if verdict is Verdict.END_EMPTY:
            assert not commit
            assert E.ABORT_EMPTY in TRANSITIONS[state]


# Rows: state. Columns: abort of the epoch before, abort, commit of the epoch before, commit.
# The table in Java's TransactionCoordinator.endTransaction; epochs that cannot be there are fenced.
F, INV, C, D, N, X = (ErrorCode.PRODUCER_FENCED, Verdict.INVALID, Verdict.CONCURRENT, Verdict.DONE, Verdict.END,
                    Verdict.END_EMPTY)
JAVA_V2 = {
    S.EMPTY: (F, X, F, INV),
    S.ONGOING: (F, N, F, N),
    S.PREPARE_COMMIT: (INV, F, C, F),
    S.PREPARE_ABORT: (C, F, INV, F),
    S.COMPLETE_COMMIT: (INV, X, D, INV),
    S.COMPLETE_ABORT: (D, X, INV, INV),
}


@pytest.mark.parametrize("state", JAVA_V2)
def test_v2_ends_are_judged_as_java_does(state: TransactionState) -> None:
    found = metadata(state)
    assert tuple(found.judge_end(7, epoch, commit=commit, client_transaction_version=2)
                 for commit in (False, True) for epoch in (2, 3)) == JAVA_V2[state]
    assert found.judge_end(7, 4, commit=True, client_transaction_version=2) is F
    assert found.judge_end(8, 3, commit=True, client_transaction_version=2) is ErrorCode.INVALID_PRODUCER_ID_MAPPING


# Columns: abort, commit, with the present epoch.
JAVA_V1 = {S.EMPTY: (INV, INV), S.ONGOING: (N, N), S.PREPARE_COMMIT: (INV, C), S.PREPARE_ABORT: (C, INV),
           S.COMPLETE_COMMIT: (INV, D), S.COMPLETE_ABORT: (D, INV)}


@pytest.mark.parametrize("state", JAVA_V1)
def test_v1_ends_are_judged_as_java_does(state: TransactionState) -> None:
    found = metadata(state)
    assert tuple(found.judge_end(7, 3, commit=commit, client_transaction_version=0)
                 for commit in (False, True)) == JAVA_V1[state]
    assert found.judge_end(7, 2, commit=True, client_transaction_version=0) is F


def test_epochs_that_are_used_up_at_init_give_a_fresh_id() -> None:
    found = metadata(producer_epoch=LAST_EPOCH)
    fresh = found.initialized(1000, None, now_ms=60, new_producer_id=lambda: FRESH_ID)
    assert isinstance(fresh, TransactionMetadata)
    assert (fresh.producer_id, fresh.producer_epoch, fresh.previous_producer_id) == (FRESH_ID, 0, 7)
    again = fresh.initialized(1000, (7, LAST_EPOCH), now_ms=60, new_producer_id=lambda: 901)
    assert again is ErrorCode.PRODUCER_FENCED, "a new producer took over"
    known = found.initialized(1000, (7, LAST_EPOCH), now_ms=60, new_producer_id=lambda: FRESH_ID)
    assert isinstance(known, TransactionMetadata)
    repeated = known.initialized(1000, (7, LAST_EPOCH), now_ms=60, new_producer_id=lambda: 901)
    assert isinstance(repeated, TransactionMetadata)
    assert (repeated.producer_id, repeated.producer_epoch) == (FRESH_ID, 0)


def test_v2_epochs_that_are_used_up_at_the_end_give_a_fresh_id() -> None:
    found = metadata(S.ONGOING, producer_epoch=LAST_EPOCH)
    prepared = found.ending(commit=True, client_transaction_version=2, now_ms=60, new_producer_id=lambda: FRESH_ID)
    assert (prepared.producer_id, prepared.producer_epoch, prepared.next_producer_id) == (7, MAX_EPOCH, FRESH_ID)
    done = prepared.completed(now_ms=61)
    assert (done.producer_id, done.producer_epoch, done.previous_producer_id) == (FRESH_ID, 0, 7)
    assert done.judge_end(7, LAST_EPOCH, commit=True, client_transaction_version=2) is Verdict.DONE
    assert done.judge_end(7, LAST_EPOCH, commit=False, client_transaction_version=2) is Verdict.INVALID


def test_fencing_never_exceeds_the_largest_epoch() -> None:
    assert metadata(S.ONGOING, producer_epoch=MAX_EPOCH).fenced(
        transaction_version=2, now_ms=60).producer_epoch == MAX_EPOCH


def test_the_first_partition_begins_the_transaction() -> None:
    found = metadata().with_partitions((ORDERS,), client_transaction_version=0, now_ms=60)
    assert (found.start_timestamp_ms, found.topic_partitions) == (60, frozenset((ORDERS,)))
    more = found.with_partitions((TopicPartition("orders", 1),), client_transaction_version=0, now_ms=70)
    assert (more.start_timestamp_ms, len(more.topic_partitions)) == (60, 2)


@pytest.mark.parametrize("transaction_version", [0, 1, 2])
@pytest.mark.parametrize("state", [state for state in S if state is not S.PREPARE_EPOCH_FENCE])
def test_a_record_is_read_back(state: TransactionState, transaction_version: int) -> None:
    found = metadata(state, last_update_timestamp_ms=70)
    if transaction_version:
        found = dataclasses.replace(found, previous_producer_id=5, next_producer_id=6, client_transaction_version=2)
    key, value = transaction_record(found, transaction_version=transaction_version)
    assert parse_transactional_id(key) == "shop"
    assert value is not None
    assert value[:2] == (b"\0\0" if transaction_version == 0 else b"\0\1")
    assert parse_transaction("shop", value) == found
