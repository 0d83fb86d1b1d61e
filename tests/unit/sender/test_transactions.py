"""Transactions, request by request: what is sent when, and what each answer, and each silence, leads to."""

from __future__ import annotations

import logging
import sys
from typing import Any

import pytest

from pyproducer.common.cluster import TopicPartition
from pyproducer.common.consumer_offsets import ConsumerGroupMetadata, OffsetAndMetadata
from pyproducer.common.error_codes import ErrorCode
from pyproducer.common.errors import (
    AbortableTransactionError,
    AuthenticationError,
    AuthorizationError,
    FatalProducerError,
    IllegalStateError,
    KafkaError,
    TransactionAbortedError,
    UnsupportedVersionError,
)
from pyproducer.record.batch_reader import read_batches
from pyproducer.transaction import transactions
from pyproducer.transaction.pending_call import PendingCall
from pyproducer.transaction.prepared_transaction import PreparedTransaction
from pyproducer.transaction.transaction_state import TransactionState
from tests.unit.sender.stepped_transactions import (
    ADD,
    ADD_OFFSETS,
    COMMIT_OFFSETS,
    END,
    FIND,
    INIT,
    PRODUCE,
    SteppedTransactions,
)

UNINITIALIZED, INITIALIZING, READY, IN_TRANSACTION, PREPARED, COMMITTING, ABORTING, ABORTABLE, FATAL = TransactionState
LEVELS = pytest.mark.parametrize("level", [0, 1, 2])


def initializing() -> tuple[SteppedTransactions, PendingCall]:
    """One whose InitProducerId is on its way, and the call that waits for it."""
    producer = SteppedTransactions()
    pending = producer.tx.initialize(None)
    producer.turn()
    producer.answer_own(FIND)
    producer.turn()
    return producer, pending


def in_transaction(level: int = 2, **settings: Any) -> SteppedTransactions:
    """One that is in a transaction, with one record of partition 0 on its way."""
    producer = SteppedTransactions(level=level, **settings)
    producer.begin()
    producer.append_told("first")
    if level < 2:
        producer.add()
    producer.turn()
    assert producer.apis() == [PRODUCE]
    return producer


# The usual way.

def test_init_when_called_then_the_coordinator_is_found_and_gives_id_and_epoch() -> None:
    producer = SteppedTransactions()
    producer.turn()
    assert producer.client.sent == [], "making a producer touches no network"
    pending = producer.tx.initialize(None)
    assert (producer.state, producer.wakeup.count) == (INITIALIZING, 1)
    producer.turn()
    assert producer.client.body_of(producer.own) == {"key_type": 1, "coordinator_keys": ["shop"]}
    producer.answer_own(FIND, node_id=2, port=9093)
    producer.turn()
    assert producer.own.destination == 2, "the coordinator, not any node"
    assert producer.client.body_of(producer.own) == {"transactional_id": "shop", "transaction_timeout_ms": 60_000}
    assert producer.own.max_version is None
    producer.turn()
    producer.answer_own(INIT, producer_id=9, producer_epoch=4)
    assert (producer.state, pending.is_set, pending.error) == (READY, True, None)
    assert producer.manager is not None
    assert producer.manager.producer_id_and_epoch == (9, 4)
    producer.turn()
    assert producer.client.in_flight == []


def trouble_of(producer: SteppedTransactions) -> str:
    """Why the client's own requests fail, as errors tell."""
    assert producer.sender._own_requests is not None
    return producer.sender._own_requests.trouble


def test_trouble_when_the_coordinator_is_found_again_then_why_it_refuses_is_known_until_it_does_not() -> None:
    """A call that timed out in that moment told nothing of it."""
    producer, _ = initializing()
    why = "InitProducerId failed 1 times, the last time: node 1: NOT_COORDINATOR"
    producer.answer_own(INIT, ErrorCode.NOT_COORDINATOR)
    assert trouble_of(producer).startswith(why)
    producer.turn(advance=100)
    producer.answer_own(FIND)
    assert trouble_of(producer).startswith(why)
    producer.turn()
    producer.answer_own(INIT)
    assert trouble_of(producer) == ""


def test_trouble_when_the_coordinator_refuses_each_time_then_its_attempts_are_counted_and_the_backoff_grows() -> None:
    """Each coordinator that was found began the count, and the backoff, anew: "failed 1 times" after fifty."""
    producer = SteppedTransactions()
    producer.tx.initialize(None)
    producer.turn()
    producer.answer_own(FIND)
    waits = []
    for _ in range(4):
        producer.turn()
        producer.answer_own(INIT, ErrorCode.NOT_COORDINATOR)
        began_ms = producer.clock.now_ms()
        while not producer.apis():
            producer.clock.advance(1)
            producer.turn()
        waits.append(producer.clock.now_ms() - began_ms)
        producer.answer_own(FIND)
    assert trouble_of(producer).startswith("InitProducerId failed 4 times")
    assert waits == sorted(set(waits)), "it grows"


def test_trouble_when_nobody_finds_the_coordinator_then_it_is_known_until_somebody_does() -> None:
    producer = SteppedTransactions()
    producer.tx.initialize(None)
    producer.turn()
    producer.answer_own(FIND, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert trouble_of(producer).startswith("FindCoordinator failed 1 times, the last time: node 1: COORDINATOR_NOT_AV")
    producer.turn(advance=100)
    producer.answer_own(FIND)
    assert trouble_of(producer) == ""


def test_partitions_when_the_coordinator_leaves_one_out_then_it_is_asked_for_again_after_the_backoff() -> None:
    """It was asked for again at once, after each such answer."""
    producer = SteppedTransactions(level=0)
    producer.begin()
    producer.append()
    producer.append(1)
    producer.turn()
    producer.client.answer({"throttle_time_ms": 0, "results_by_topic_v3_and_below": [
        {"name": "t", "results_by_partition": [{"partition_index": 1, "partition_error_code": 0}]}]},
        request=producer.own, received_ms=producer.clock.now_ms())
    assert trouble_of(producer).startswith(
        "AddPartitionsToTxn failed 1 times, the last time: node 1: it answered, and said nothing of t-0")
    producer.turn(advance=99)
    assert producer.apis() == [PRODUCE], "what was added goes"
    producer.turn(advance=1)
    assert producer.client.body_of(producer.own)["v3_and_below_topics"] == [{"name": "t", "partitions": [0]}]
    producer.answer_own(ADD)
    assert trouble_of(producer) == ""


def test_coordinator_when_the_answer_is_of_others_then_what_is_told_says_so() -> None:
    """A timeout said "node 1: None"."""
    producer = SteppedTransactions()
    producer.tx.initialize(None)
    producer.turn()
    producer.client.answer({"throttle_time_ms": 0, "coordinators": []}, request=producer.own,
                           received_ms=producer.clock.now_ms())
    assert trouble_of(producer) == ("FindCoordinator failed 1 times, the last time: node 1: it answered, and said "
                                    "nothing of transactional id 'shop'")


def test_trouble_when_the_last_transaction_does_not_come_to_its_end_then_it_is_known() -> None:
    """The timeout of the next one's first call, or of its records, told nothing of that."""
    producer, _ = initializing()
    for attempt in (1, 2):
        producer.answer_own(INIT, ErrorCode.CONCURRENT_TRANSACTIONS)
        assert trouble_of(producer).startswith(
            f"InitProducerId failed {attempt} times, the last time: node 1: CONCURRENT_TRANSACTIONS")
        producer.turn(advance=100)
    producer.answer_own(INIT)
    assert trouble_of(producer) == ""


def test_transaction_when_brokers_have_v2_then_its_records_and_its_end_are_all_that_is_sent() -> None:
    producer = in_transaction()
    (request,) = producer.client.in_flight
    body = producer.client.body_of(request)
    (batch,) = read_batches(body["topic_data"][0]["partition_data"][0]["records"])
    assert (body["transactional_id"], request.max_version, batch.is_transactional) == ("shop", None, True)
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (7, 0, 0)
    pending = producer.tx.commit()
    producer.turn()
    assert producer.apis() == [PRODUCE], "the end comes when nothing is on its way"
    producer.answer_all()
    producer.turn()
    assert producer.own.max_version is None
    assert producer.client.body_of(producer.own) == {
        "transactional_id": "shop", "producer_id": 7, "producer_epoch": 0, "committed": True}
    assert not pending.is_set
    producer.answer_own(END, producer_id=7, producer_epoch=1)
    assert (producer.state, pending.is_set, pending.error) == (READY, True, None)
    producer.begin()
    producer.append()
    producer.turn()
    assert producer.sequences_on_wire() == [(1, 0)], "a new epoch begins at 0"


@pytest.mark.parametrize("level", [0, 1])
def test_transaction_when_brokers_are_older_then_partitions_are_added_first_and_the_epoch_stays(level: int) -> None:
    producer = SteppedTransactions(level=level)
    producer.begin()
    producer.append()
    producer.append(1)
    producer.turn()
    assert producer.apis() == [ADD], "no batch goes before its partition was added"
    assert producer.client.body_of(producer.own) == {
        "v3_and_below_transactional_id": "shop", "v3_and_below_producer_id": 7, "v3_and_below_producer_epoch": 0,
        "v3_and_below_topics": [{"name": "t", "partitions": [0, 1]}]}
    producer.turn()
    assert producer.apis() == [ADD]
    producer.answer_own(ADD)
    producer.turn()
    (request,) = producer.client.in_flight
    assert request.max_version == 11, "a later version would add partitions"
    producer.answer_all()
    producer.append()
    producer.turn()
    assert producer.apis() == [PRODUCE], "a partition is added once"
    producer.answer_all()
    pending = producer.tx.commit()
    assert producer.end().max_version == 4
    assert (pending.error, producer.state) == (None, READY)
    producer.begin()
    producer.append()
    producer.add()
    producer.turn()
    assert producer.sequences_on_wire() == [(0, 2)], "the same epoch goes on"


@LEVELS
@pytest.mark.parametrize("commit", [True, False])
def test_end_when_the_transaction_is_empty_then_nobody_is_asked(level: int, commit: bool) -> None:
    """Since Transactions V2 a coordinator calls the commit of an empty transaction invalid, and below it an abort."""
    producer = SteppedTransactions(level=level)
    producer.begin()
    pending = producer.tx.commit() if commit else producer.tx.abort()
    producer.turn()
    assert (producer.client.in_flight, pending.is_set, pending.error, producer.state) == ([], True, None, READY)


@LEVELS
def test_first_batches_when_a_transaction_begins_then_since_v2_they_do_not_wait_for_each_other(level: int) -> None:
    """Since Transactions V2 a broker takes no number but 0 as the first of an epoch, so order is sure without a round
    trip; and each transaction begins an epoch."""
    producer = SteppedTransactions(level=level)
    producer.begin()
    for _ in range(3):
        producer.append(value=b"v" * 100)
    if level < 2:
        producer.add()
    producer.turn()
    assert producer.sequences_on_wire() == [(0, 0), (0, 1), (0, 2)][:3 if level == 2 else 1]


def test_commit_when_batches_linger_then_they_go_at_once_and_take_nothing_more() -> None:
    producer = SteppedTransactions(linger=1000, batch_size=1000)
    producer.begin()
    producer.append(value=b"v")
    producer.turn()
    assert producer.client.in_flight == []
    pending = producer.tx.commit()
    producer.turn()
    (batch,) = producer.incomplete()
    assert batch.open.is_closed, "a thread in the middle of send() finds it closed"
    with pytest.raises(IllegalStateError, match="is being committed"):
        producer.append()
    with pytest.raises(IllegalStateError, match="is being committed"):
        producer.enter()
    producer.answer_all()
    producer.end()
    assert pending.error is None


def test_commit_when_records_wait_for_their_topic_then_it_waits_for_them() -> None:
    producer = SteppedTransactions()
    producer.begin()
    future = producer.enter()
    pending = producer.tx.commit()
    producer.turn()
    assert producer.client.in_flight == []
    producer.tell(1)
    producer.turn()
    producer.answer_all()
    assert future.result(0).topic == "u"
    producer.end()
    assert (pending.error, producer.state) == (None, READY)


# Aborts.

@LEVELS
def test_abort_when_called_then_what_did_not_leave_fails_and_what_did_is_waited_for(level: int) -> None:
    producer = in_transaction(level)
    producer.append_told("waits")
    room = producer.enter()
    pending = producer.tx.abort()
    producer.turn()
    error = producer.error_of("waits")
    assert isinstance(error, TransactionAbortedError)
    assert error.outcome == "not_sent"
    with pytest.raises(TransactionAbortedError):
        room.result(0)
    assert producer.apis() == [PRODUCE], "its answer is awaited: the end must not overtake it"
    producer.answer_all()
    producer.end()
    assert (pending.error, producer.state, producer.told_names()) == (None, READY, ["waits", "first"])
    producer.begin()
    producer.append()
    if level < 2:
        # The epoch is the old one, and so are the numbers: nothing was numbered that did not leave.
        producer.add()
    producer.turn()
    assert producer.sequences_on_wire() == [(1, 0) if level == 2 else (0, 1)]


@pytest.mark.parametrize("level", [0, 2])
def test_abort_when_a_batch_was_lost_then_it_is_not_tried_again_and_the_next_transaction_has_another_epoch(
        level: int) -> None:
    producer = in_transaction(level)
    pending = producer.tx.abort()
    producer.turn()
    producer.lose()
    assert producer.error_of("first").outcome == "unknown"
    producer.end()
    if level < 2:
        assert not pending.is_set, "what was lost may come late, and has the epoch of now"
        producer.turn()
        assert producer.client.body_of(producer.own)["producer_id"] == 7
        assert producer.client.body_of(producer.own)["producer_epoch"] == 0
        producer.answer_own(INIT, producer_epoch=1)
    assert (pending.is_set, pending.error, producer.state) == (True, None, READY)
    producer.begin()
    producer.append()
    if level < 2:
        producer.add()
    producer.turn()
    assert producer.sequences_on_wire() == [(1, 0)]


# Failures.

@LEVELS
def test_record_when_it_fails_then_commit_raises_its_error_and_only_an_abort_goes_on(level: int) -> None:
    producer = in_transaction(level)
    producer.answer_all(code=ErrorCode.INVALID_RECORD)
    assert producer.state is ABORTABLE
    with pytest.raises(AbortableTransactionError, match=r"call abort_transaction\(\).*INVALID_RECORD") as failed:
        producer.tx.commit()
    assert failed.value.__cause__ is not None
    assert "INVALID_RECORD" in str(failed.value.__cause__)
    assert failed.value.code == ErrorCode.INVALID_RECORD
    for call in (producer.append, producer.enter, producer.tx.begin, producer.tx.prepare):
        with pytest.raises(AbortableTransactionError, match="INVALID_RECORD"):
            call()
    pending = producer.tx.abort()
    producer.end()
    if level < 2:
        producer.turn()
        producer.answer_own(INIT, producer_epoch=1)
    assert (pending.error, producer.state) == (None, READY)


def test_commit_when_a_record_fails_meanwhile_then_it_fails_and_nothing_is_committed() -> None:
    producer = in_transaction()
    pending = producer.tx.commit()
    producer.turn()
    producer.answer_all(code=ErrorCode.INVALID_RECORD)
    assert isinstance(pending.error, AbortableTransactionError)
    producer.turn()
    assert (producer.client.in_flight, producer.state) == ([], ABORTABLE)
    pending.is_told = True
    producer.tx.abort()
    assert producer.client.body_of(producer.end())["committed"] is False


@pytest.mark.parametrize("code", [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID,
                                  ErrorCode.INVALID_PRODUCER_EPOCH])
def test_numbers_when_they_are_refused_then_the_transaction_is_over_and_no_epoch_is_raised(code: ErrorCode) -> None:
    """An idempotent producer numbers the batch anew in an epoch that it begins by itself. Within a transaction that
    would be another producer's, for the coordinator; and with another batch lost before it, a torn transaction."""
    producer = in_transaction()
    producer.answer_all(code=code)
    assert producer.error_of("first").outcome == "rejected"
    assert producer.state is ABORTABLE
    producer.turn()
    assert producer.client.in_flight == []
    assert producer.manager is not None
    assert producer.manager.producer_id_and_epoch == (7, 0)
    producer.tx.abort()
    producer.end()
    producer.turn()
    assert not producer.manager.disturbed
    producer.begin()
    producer.append()
    producer.turn()
    assert producer.sequences_on_wire() == [(1, 0)]


def test_batch_when_one_before_it_is_missing_then_it_is_tried_again_behind_that() -> None:
    producer = SteppedTransactions()
    producer.begin()
    producer.append_told("a", value=b"a" * 100)
    producer.append_told("b", value=b"b" * 100)
    producer.turn()
    first, second = producer.client.in_flight
    producer.lose(request=first)
    producer.answer_all(code=ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, request=second)
    assert producer.state is IN_TRANSACTION
    producer.turn(advance=100)
    assert producer.sequences_on_wire() == [(0, 0)]
    producer.answer_all()
    producer.turn()
    producer.answer_all(base_offset=1)
    producer.tx.commit()
    producer.end()
    assert producer.told_names() == ["a", "b"]


def test_record_when_it_expires_then_the_transaction_can_only_be_aborted() -> None:
    producer = in_transaction()
    pending = producer.tx.commit()
    producer.turn(advance=2000)
    assert isinstance(pending.error, AbortableTransactionError)
    assert "expired" in str(pending.error)
    pending.is_told = True
    producer.tx.abort()
    producer.turn()
    assert producer.apis() == [PRODUCE], "a request still reads it, and may be acted on"
    producer.lose(timed_out=True)
    producer.end()
    assert producer.state is READY


@pytest.mark.parametrize("code", [ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.PRODUCER_FENCED,
                                  ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED])
def test_produce_when_its_refusal_is_of_the_producer_then_it_can_only_be_closed(code: ErrorCode) -> None:
    producer = in_transaction()
    producer.append_told("waits")
    producer.answer_all(code=code)
    assert producer.state is FATAL
    producer.turn()
    assert producer.error_of("waits").outcome == "not_sent"
    for call in (producer.append, producer.tx.commit, producer.tx.abort, producer.tx.begin,
                 lambda: producer.tx.initialize(None)):
        with pytest.raises(FatalProducerError, match="close it"):
            call()


# Coordinators.

@pytest.mark.parametrize("code", [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE,
                                  ErrorCode.NOT_COORDINATOR])
@pytest.mark.parametrize("api", [INIT, ADD, END])
def test_coordinator_when_it_is_one_no_more_then_it_is_found_anew(api: Any, code: ErrorCode) -> None:
    producer = SteppedTransactions(level=0)
    if api is INIT:
        producer.tx.initialize(None)
        producer.turn()
        producer.answer_own(FIND)
    else:
        producer.begin()
        producer.append()
        if api is END:
            producer.add()
            producer.turn()
            producer.answer_all()
            producer.tx.commit()
    producer.turn()
    producer.answer_own(api, code)
    assert producer.turn() == 100, "the backoff"
    assert producer.client.in_flight == []
    producer.turn(advance=100)
    producer.answer_own(FIND, node_id=2, port=9093)
    producer.turn()
    assert (producer.own.api_key, producer.own.destination) == (api, 2)


def test_coordinator_when_it_cannot_be_reached_then_it_is_found_anew() -> None:
    producer = SteppedTransactions()
    producer.tx.initialize(None)
    producer.turn()
    producer.answer_own(FIND, node_id=2, port=9093)
    producer.client.unready_nodes.add(2)
    assert producer.turn() == 50, "it is being connected"
    producer.client.failed_nodes.add(2)
    assert producer.turn() == 100
    producer.turn(advance=100)
    producer.answer_own(FIND)
    producer.turn()
    assert (producer.own.api_key, producer.own.destination) == (INIT, 1)


def test_init_when_several_refuse_us_in_one_turn_then_the_first_is_told() -> None:
    """The second one tore the turn, and all connections with it."""
    producer = SteppedTransactions()
    pending = producer.tx.initialize(None)
    producer.client.is_ready_now = False
    producer.turn()
    for words in ("first", "second"):
        producer.metadata.refused_by_all(AuthenticationError(words))
    producer.turn()
    assert (str(pending.error), producer.state) == ("first", UNINITIALIZED)


def test_init_when_it_is_answered_and_another_node_refuses_us_in_the_same_poll_then_the_answer_counts() -> None:
    producer, pending = initializing()
    producer.answer_own(INIT)
    producer.metadata.refused_credentials(AuthenticationError("later"))
    producer.turn()
    assert (pending.is_set, pending.error, producer.state) == (True, None, READY)


@pytest.mark.parametrize("code", [ErrorCode.COORDINATOR_NOT_AVAILABLE, None])
def test_find_coordinator_when_nobody_says_then_it_is_asked_again(code: ErrorCode | None) -> None:
    producer = SteppedTransactions()
    producer.tx.initialize(None)
    for backoff_ms in (100, 200, 400):
        producer.turn()
        if code is None:
            producer.lose_own(FIND)
        else:
            producer.answer_own(FIND, code)
        assert producer.turn() == backoff_ms
        producer.clock.advance(backoff_ms)
    producer.turn()
    producer.answer_own(FIND)
    producer.turn()
    assert producer.own.api_key is INIT


def test_concurrent_transactions_when_answered_then_it_is_asked_again_soon() -> None:
    """The coordinator writes its markers within milliseconds; a client that waits for retry.backoff.ms costs each
    transaction a tenth of a second."""
    producer = in_transaction()
    producer.answer_all()
    producer.tx.commit()
    producer.turn()
    for wait_ms in (5, 10, 20, 40, 80, 100, 100):
        producer.answer_own(END, ErrorCode.CONCURRENT_TRANSACTIONS)
        assert producer.turn() == wait_ms
        producer.turn(advance=wait_ms)
    producer.answer_own(END, producer_id=7, producer_epoch=1)
    assert producer.state is READY


# What was lost, and may come late.

@pytest.mark.parametrize("level", [0, 2])
@pytest.mark.parametrize("was_sent", [True, False])
def test_end_txn_when_its_answer_is_lost_then_below_v2_the_next_transaction_gets_another_epoch(
        level: int, was_sent: bool) -> None:
    """Jepsen on Bufstream: an EndTxn whose answer was lost, and which came late, committed the half of the next
    transaction that was there by then, for both had one epoch."""
    producer = in_transaction(level)
    producer.answer_all()
    pending = producer.tx.commit()
    producer.turn()
    producer.lose_own(END, was_sent=was_sent)
    producer.turn(advance=100)
    producer.answer_own(FIND)
    producer.end()
    if level == 2 or not was_sent:
        assert producer.state is READY
        return
    assert (producer.state, pending.is_set) == (INITIALIZING, False)
    producer.turn()
    assert producer.client.body_of(producer.own) == {
        "transactional_id": "shop", "transaction_timeout_ms": 60_000, "producer_id": 7, "producer_epoch": 0}
    producer.answer_own(INIT, producer_epoch=1)
    assert (producer.state, pending.is_set, pending.error) == (READY, True, None)


def test_add_partitions_when_its_answer_is_lost_then_the_next_transaction_gets_another_epoch() -> None:
    """KAFKA-18957 and its siblings: one that comes behind the end begins a transaction that nobody ends."""
    producer = SteppedTransactions(level=0)
    producer.begin()
    producer.append()
    producer.turn()
    producer.lose_own(ADD)
    producer.turn(advance=100)
    producer.answer_own(FIND)
    producer.add()
    producer.turn()
    producer.answer_all()
    pending = producer.tx.commit()
    producer.end()
    assert not pending.is_set
    producer.turn()
    assert producer.client.body_of(producer.own)["producer_epoch"] == 0
    producer.answer_own(INIT, producer_epoch=1)
    assert (producer.state, pending.error) == (READY, None)


@pytest.mark.parametrize("fatal", [47, 48, 49, 53, 90])
@pytest.mark.parametrize(("codes", "is_fatal"), [
    (("fatal",), True), (("fatal", 3), True), (("fatal", 14), True), (("fatal", 51), True), (("fatal", 55), True),
    ((29, "fatal"), True), ((55, "fatal"), True), ((3, "fatal"), False), ((51, "fatal"), False)])
def test_add_partitions_when_one_is_told_what_ends_the_producer_then_nothing_beside_it_hides_that(
        fatal: int, codes: tuple[Any, ...], is_fatal: bool) -> None:
    """Behind what passes it is seen in the answer to the next request."""
    producer = SteppedTransactions(level=1)
    producer.begin()
    for partition in range(len(codes)):
        producer.append(partition)
    producer.turn()
    told = [fatal if code == "fatal" else code for code in codes]
    producer.client.answer({"throttle_time_ms": 0, "results_by_topic_v3_and_below": [
        {"name": topic["name"], "results_by_partition": [
            {"partition_index": index, "partition_error_code": told[index]} for index in topic["partitions"]]}
        for topic in producer.client.body_of(producer.own)["v3_and_below_topics"]]}, request=producer.own,
        received_ms=producer.clock.now_ms())
    assert (producer.state is TransactionState.FATAL_ERROR) is is_fatal


def test_abort_when_nothing_was_added_for_certain_then_an_invalid_state_is_no_failure() -> None:
    producer = SteppedTransactions(level=0)
    producer.begin()
    producer.append()
    producer.turn()
    producer.lose_own(ADD)
    pending = producer.tx.abort()
    producer.turn(advance=100)
    producer.answer_own(FIND)
    producer.end(code=ErrorCode.INVALID_TXN_STATE)
    assert (producer.state, pending.is_set) == (INITIALIZING, False)
    producer.turn()
    producer.answer_own(INIT, producer_epoch=1)
    assert (producer.state, pending.error) == (READY, None)


def test_epoch_when_the_coordinator_cannot_give_another_then_the_producer_can_only_be_closed() -> None:
    producer = in_transaction(0, version=2)
    producer.answer_all()
    pending = producer.tx.commit()
    producer.turn()
    producer.lose_own(END)
    producer.turn(advance=100)
    producer.answer_own(FIND)
    producer.end()
    with pytest.raises(UnsupportedVersionError, match=r"brokers from 2\.5 on"):
        producer.turn()  # the real client makes a mismatch of what `build` raises
    request = producer.client.sent[-1]
    producer.client.in_flight.append(request)
    mismatch = UnsupportedVersionError("brokers from 2.5 on")
    producer.client._live_bodies.append({})
    producer.client.bodies.append({})
    producer.client.answer(None, request=request, version_mismatch=mismatch, was_sent=False)
    assert producer.state is FATAL
    assert pending.error is None, "it was committed, whatever comes after"


def test_turn_when_it_ends_half_way_then_what_was_on_its_way_counts_as_lost() -> None:
    producer = in_transaction(0)
    producer.answer_all()
    producer.tx.commit()
    producer.turn()
    assert producer.own.api_key is END
    producer.sender.recover(producer.clock.now_ms())
    producer.turn()
    assert producer.own.api_key is END
    producer.answer_own(END)
    assert producer.state is INITIALIZING


# Calls that were not answered in time.

def test_commit_when_it_timed_out_then_it_alone_may_be_called_again() -> None:
    producer = in_transaction()
    pending = producer.tx.commit()
    for call in (producer.tx.abort, producer.tx.begin, producer.tx.prepare, lambda: producer.tx.initialize(None)):
        with pytest.raises(IllegalStateError, match=r"commit_transaction\(\) was left before .*, and goes on"):
            call()
    assert producer.tx.commit() is pending
    producer.turn()
    producer.answer_all()
    producer.end()
    with pytest.raises(IllegalStateError, match=r"commit_transaction\(\) was left before .*, and has succeeded"):
        producer.tx.abort()
    assert producer.tx.commit() is pending
    assert (pending.is_set, pending.error) == (True, None)
    pending.is_told = True
    producer.tx.begin()


def test_commit_when_it_timed_out_and_failed_since_then_an_abort_may_follow() -> None:
    producer = in_transaction()
    producer.tx.commit()
    producer.turn()
    producer.answer_all(code=ErrorCode.INVALID_RECORD)
    producer.tx.abort()
    assert producer.state is ABORTING


def test_init_when_it_timed_out_then_another_id_has_to_wait() -> None:
    producer = SteppedTransactions()
    pending = producer.tx.initialize(None)
    assert producer.tx.initialize("shop") is pending
    with pytest.raises(IllegalStateError, match="'shop' was left before it had ended, and goes on"):
        producer.tx.initialize("other")


@pytest.mark.parametrize(("code", "kind"), [
    (ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, AuthorizationError),
    (ErrorCode.INVALID_TRANSACTION_TIMEOUT, KafkaError)])
def test_init_when_it_is_refused_then_it_may_be_called_again(code: ErrorCode, kind: type[KafkaError]) -> None:
    producer, pending = initializing()
    producer.answer_own(INIT, code)
    assert isinstance(pending.error, kind)
    assert producer.state is UNINITIALIZED
    pending.is_told = True
    producer.init()


def test_init_when_all_others_refuse_us_while_it_is_on_its_way_then_its_answer_counts() -> None:
    """It came to who was told already that there is no id, and the turn was torn: all connections were made anew."""
    producer, pending = initializing()
    producer.metadata.refused_by_all(AuthenticationError("node 5: Invalid username or password"))
    producer.turn()
    assert (producer.state, pending.is_set) == (INITIALIZING, False)
    producer.answer_own(INIT, producer_id=9, producer_epoch=4)
    assert (producer.state, pending.is_set, pending.error) == (READY, True, None)


def test_init_when_all_others_refuse_us_while_its_coordinator_is_asked_for_then_that_answer_counts() -> None:
    """The call was told, and the answer came to the next one, for another id, which it did not concern."""
    producer = SteppedTransactions()
    pending = producer.tx.initialize(None)
    producer.turn()
    producer.metadata.refused_by_all(AuthenticationError("node 5: Invalid username or password"))
    producer.turn()
    assert (producer.state, pending.is_set) == (INITIALIZING, False)
    producer.answer_own(FIND, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    assert isinstance(pending.error, AuthorizationError)
    pending.is_told = True
    other = producer.tx.initialize("other")
    producer.turn()
    producer.answer_own(FIND)
    producer.turn()
    producer.answer_own(INIT, producer_id=9, producer_epoch=4)
    assert (producer.state, other.error) == (READY, None)


def test_init_when_its_answer_is_lost_and_nobody_takes_us_any_more_then_that_is_told() -> None:
    producer, pending = initializing()
    producer.lose()
    producer.metadata.refused_by_all(AuthenticationError("node 5: Invalid username or password"))
    producer.turn()
    assert type(pending.error) is AuthenticationError
    assert producer.state is UNINITIALIZED


def test_abort_when_a_node_refuses_us_while_the_next_epoch_is_asked_for_then_it_waits_on() -> None:
    """The transaction has ended: the call must not be told a failure, and the producer needs its epoch."""
    producer = in_transaction(0)
    pending = producer.tx.abort()
    producer.turn()
    producer.lose()
    producer.end()
    producer.turn()
    producer.lose_own(INIT)
    producer.metadata.refused_by_all(AuthenticationError("node 5: Invalid username or password"))
    producer.turn()
    assert (producer.state, pending.is_set) == (INITIALIZING, False)
    for _ in range(3):
        producer.turn(advance=100)
        if producer.client.in_flight:
            producer.answer_own(producer.own.api_key, **({"producer_epoch": 1} if producer.own.api_key is INIT else {}))
    assert (producer.state, pending.is_set, pending.error) == (READY, True, None)


def test_find_coordinator_when_the_id_may_not_be_used_then_init_says_so() -> None:
    producer = SteppedTransactions()
    pending = producer.tx.initialize(None)
    producer.turn()
    producer.answer_own(FIND, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    assert isinstance(pending.error, AuthorizationError)
    assert producer.state is UNINITIALIZED


# Fencing, and time.

@pytest.mark.parametrize("api", [ADD, END])
@pytest.mark.parametrize("code", [ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH])
def test_producer_when_it_is_fenced_then_its_next_call_says_so(api: Any, code: ErrorCode) -> None:
    producer = SteppedTransactions(level=0)
    producer.begin()
    producer.append_told("first")
    if api is END:
        producer.add()
        producer.turn()
        producer.answer_all()
    pending = producer.tx.commit()
    producer.turn()
    producer.answer_own(api, code)
    assert producer.state is FATAL
    assert isinstance(pending.error, FatalProducerError)
    assert "Another producer was initialised with this transactional id" in str(pending.error)
    producer.turn()
    if api is ADD:
        assert producer.error_of("first").outcome == "not_sent"


def test_transaction_when_it_took_longer_than_its_timeout_then_the_error_says_so() -> None:
    producer = in_transaction()
    producer.answer_all()
    pending = producer.tx.commit()
    producer.turn(advance=60_000)
    producer.answer_own(END, ErrorCode.INVALID_TXN_STATE)
    assert "open for 60000 ms" in str(pending.error)
    assert "transaction.timeout.ms = 60000" in str(pending.error)


def test_commit_when_its_first_answer_was_lost_and_then_it_is_fenced_then_the_outcome_is_unknown() -> None:
    producer = in_transaction()
    producer.answer_all()
    pending = producer.tx.commit()
    producer.turn()
    producer.lose_own(END)
    producer.turn(advance=100)
    producer.answer_own(FIND)
    producer.end(code=ErrorCode.PRODUCER_FENCED)
    assert pending.error is not None
    assert pending.error.outcome == "unknown"


# Protocols that change.

def test_level_when_it_rises_then_the_transaction_ends_by_the_old_protocol_and_the_next_has_an_epoch_of_its_own(
        ) -> None:
    producer = in_transaction(1)
    producer.set_level(2, epoch=2)
    producer.answer_all()
    pending = producer.tx.commit()
    assert producer.end().max_version == 4
    producer.turn()
    producer.answer_own(INIT, producer_epoch=1)
    assert (pending.error, producer.tx.is_v2) == (None, True)
    producer.begin()
    producer.append()
    producer.turn()
    assert producer.apis() == [PRODUCE]


def test_level_when_it_falls_then_the_next_transaction_adds_partitions() -> None:
    producer = in_transaction(2)
    producer.set_level(1, epoch=2)
    producer.answer_all()
    producer.tx.commit()
    producer.end()
    producer.begin()
    producer.append()
    producer.turn()
    assert producer.apis() == [ADD]


# The end.

def test_close_when_a_transaction_is_open_then_it_is_aborted_and_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    producer = in_transaction()
    producer.append_told("waits")
    assert producer.sender.ms_to_go_on(producer.clock.now_ms()) == 0
    with caplog.at_level(logging.INFO):
        producer.tx.begin_end_of_life()
    assert "is aborted, for the producer is closed" in caplog.text
    producer.turn()
    producer.answer_all()
    assert producer.sender.ms_to_go_on(producer.clock.now_ms()) == 2000
    request = producer.end()
    assert producer.client.body_of(request)["committed"] is False
    assert producer.sender.ms_to_go_on(producer.clock.now_ms()) == 0


def test_close_when_the_coordinator_does_not_answer_then_it_gives_up(caplog: pytest.LogCaptureFixture) -> None:
    producer = in_transaction()
    producer.answer_all()
    pending = producer.tx.commit()
    producer.turn()
    assert producer.sender.ms_to_go_on(producer.clock.now_ms()) == 2000
    for _ in range(3):
        producer.clock.advance(2000)
        assert producer.sender.ms_to_go_on(producer.clock.now_ms()) == 0
    assert caplog.text.count("was not ended within delivery.timeout.ms") == 1
    producer.sender.abort(KafkaError("closed"))
    assert pending.error is not None
    assert pending.error.outcome == "unknown"


# Offsets.

GROUP = ConsumerGroupMetadata("readers", 3, "member", "instance")
OFFSETS = {TopicPartition("in", 0): OffsetAndMetadata(5, "note", 2), TopicPartition("in", 1): OffsetAndMetadata(6)}


@LEVELS
def test_offsets_when_sent_then_the_groups_coordinator_gets_them_and_the_transaction_knows_of_them(level: int) -> None:
    producer = SteppedTransactions(level=level)
    producer.begin()
    pending = producer.tx.add_offsets(OFFSETS, GROUP)
    producer.turn()
    if level < 2:
        assert producer.client.body_of(producer.own) == {
            "transactional_id": "shop", "producer_id": 7, "producer_epoch": 0, "group_id": "readers"}
        producer.answer_own(ADD_OFFSETS)
        producer.turn()
    assert producer.client.body_of(producer.own) == {"key_type": 0, "coordinator_keys": ["readers"]}
    producer.answer_own(FIND, node_id=2, port=9093)
    producer.turn()
    request = producer.answer_own(COMMIT_OFFSETS)
    assert (request.destination, request.max_version) == (2, None if level == 2 else 4)
    assert producer.client.body_of(request) == {
        "transactional_id": "shop", "group_id": "readers", "producer_id": 7, "producer_epoch": 0, "generation_id": 3,
        "member_id": "member", "group_instance_id": "instance", "topics": [{"name": "in", "partitions": [
            {"partition_index": 0, "committed_offset": 5, "committed_leader_epoch": 2, "committed_metadata": "note"},
            {"partition_index": 1, "committed_offset": 6, "committed_leader_epoch": -1, "committed_metadata": ""}]}]}
    assert (pending.is_set, pending.error, producer.state) == (True, None, IN_TRANSACTION)
    again = producer.tx.add_offsets({TopicPartition("in", 0): OffsetAndMetadata(7)}, GROUP)
    producer.turn()
    producer.answer_own(COMMIT_OFFSETS)  # the group was added, and its coordinator is known
    assert again.is_set
    committed = producer.tx.commit()
    assert producer.end().destination == 1, "without a record, too, there is something to end"
    assert (committed.error, producer.state) == (None, READY)


def test_offsets_when_some_are_not_ready_then_only_these_are_sent_again() -> None:
    producer = SteppedTransactions()
    producer.begin()
    pending = producer.tx.add_offsets(OFFSETS, GROUP)
    producer.turn()
    producer.answer_own(FIND)
    producer.turn()
    producer.client.answer({"throttle_time_ms": 0, "topics": [{"name": "in", "partitions": [
        {"partition_index": 0, "error_code": 0},
        {"partition_index": 1, "error_code": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}]}]}, received_ms=0)
    producer.turn(advance=100)
    body = producer.client.body_of(producer.answer_own(COMMIT_OFFSETS))
    assert [row["partition_index"] for row in body["topics"][0]["partitions"]] == [1]
    assert (pending.is_set, pending.error) == (True, None)


@pytest.mark.parametrize("code", [ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR,
                                  ErrorCode.REQUEST_TIMED_OUT])
def test_offsets_when_the_groups_coordinator_moved_then_it_is_found_anew(code: ErrorCode) -> None:
    producer = SteppedTransactions()
    producer.begin()
    producer.tx.add_offsets(OFFSETS, GROUP)
    producer.turn()
    producer.answer_own(FIND)
    producer.turn()
    producer.answer_own(COMMIT_OFFSETS, code)
    producer.turn(advance=100)
    body = producer.client.body_of(producer.answer_own(FIND))
    assert (body["key_type"], body["coordinator_keys"]) == (0, ["readers"])


@pytest.mark.parametrize(("code", "words"), [
    (ErrorCode.ILLEGAL_GENERATION, "not a member of the group any more"),
    (ErrorCode.UNKNOWN_MEMBER_ID, "not a member of the group any more"),
    (ErrorCode.FENCED_INSTANCE_ID, "not a member of the group any more"),
    (ErrorCode.GROUP_AUTHORIZATION_FAILED, "GROUP_AUTHORIZATION_FAILED"),
    (ErrorCode.OFFSET_METADATA_TOO_LARGE, "OFFSET_METADATA_TOO_LARGE"),
    (ErrorCode.INVALID_PRODUCER_EPOCH, "Another producer"),
    (ErrorCode.TRANSACTION_ABORTABLE, "can only be aborted")])
def test_offsets_when_they_are_refused_then_the_transaction_can_only_be_aborted(code: ErrorCode, words: str) -> None:
    producer = SteppedTransactions()
    producer.begin()
    pending = producer.tx.add_offsets(OFFSETS, GROUP)
    producer.turn()
    producer.answer_own(FIND)
    producer.turn()
    producer.answer_own(COMMIT_OFFSETS, code)
    assert isinstance(pending.error, AbortableTransactionError)
    assert words in str(pending.error)
    assert producer.state is ABORTABLE
    producer.tx.abort()
    producer.end()
    assert producer.state is READY


def test_offsets_when_the_transaction_is_aborted_meanwhile_then_who_waits_is_told() -> None:
    producer = SteppedTransactions()
    producer.begin()
    pending = producer.tx.add_offsets(OFFSETS, GROUP)
    producer.turn()
    producer.tx.abort()
    producer.turn()
    assert isinstance(pending.error, TransactionAbortedError)
    producer.answer_own(FIND)
    producer.turn()
    assert (producer.client.in_flight, producer.state) == ([], READY), "nothing of it came to a coordinator"


@pytest.mark.parametrize("is_asked_again", [False, True])
def test_abort_when_the_answer_that_its_group_is_added_was_lost_then_the_transaction_is_ended_there(
        is_asked_again: bool) -> None:
    """Its coordinator may have begun it, and would keep it open for transaction.timeout.ms."""
    producer = SteppedTransactions(level=0)
    producer.begin()
    producer.tx.add_offsets(OFFSETS, GROUP)
    producer.turn()
    producer.lose_own(ADD_OFFSETS)
    if is_asked_again:
        producer.turn(advance=100)
        producer.answer_own(FIND)
        producer.turn()
        producer.answer_own(ADD_OFFSETS, ErrorCode.CONCURRENT_TRANSACTIONS)
    producer.tx.abort()
    producer.turn(advance=100)
    if not is_asked_again:
        producer.answer_own(FIND)
    producer.end()
    assert producer.state is INITIALIZING, "one that comes late must not begin the next transaction"


def test_commit_when_offsets_are_not_there_yet_then_it_waits_for_them() -> None:
    producer = SteppedTransactions()
    producer.begin()
    producer.tx.add_offsets(OFFSETS, GROUP)
    pending = producer.tx.commit()
    producer.turn()
    producer.answer_own(FIND)
    producer.turn()
    assert producer.apis() == [COMMIT_OFFSETS]
    producer.answer_own(COMMIT_OFFSETS)
    producer.end()
    assert (pending.is_set, pending.error) == (True, None)


@pytest.mark.parametrize("api", [ADD_OFFSETS, COMMIT_OFFSETS])
def test_offsets_when_an_answer_is_lost_below_v2_then_the_next_transaction_gets_another_epoch(api: Any) -> None:
    producer = SteppedTransactions(level=0)
    producer.begin()
    pending = producer.tx.add_offsets(OFFSETS, GROUP)
    producer.turn()
    if api is COMMIT_OFFSETS:
        producer.answer_own(ADD_OFFSETS)
        producer.turn()
        producer.answer_own(FIND)
        producer.turn()
    producer.lose_own(api)
    for _ in range(5):
        producer.turn(advance=100)
        if producer.client.in_flight:
            producer.answer_own(producer.own.api_key)
    assert (pending.is_set, pending.error) == (True, None)
    producer.tx.commit()
    producer.end()
    assert producer.state is INITIALIZING


def test_offsets_when_the_coordinator_checks_no_members_then_they_are_refused() -> None:
    producer = SteppedTransactions(level=0, version=2)
    producer.begin()
    pending = producer.tx.add_offsets(OFFSETS, GROUP)
    producer.turn()
    producer.answer_own(ADD_OFFSETS)
    producer.turn()
    producer.answer_own(FIND)
    with pytest.raises(UnsupportedVersionError, match=r"brokers from 2\.5 on"):
        producer.turn()
    assert not pending.is_set


@LEVELS
def test_offsets_when_their_coordinator_has_no_version_for_them_then_only_that_transaction_is_lost(level: int) -> None:
    """It is of this group alone: other transactions of this producer have no use for the request."""
    producer = SteppedTransactions(level=level)
    producer.begin()
    pending = producer.tx.add_offsets(OFFSETS, GROUP)
    producer.turn()
    if level < 2:
        producer.answer_own(ADD_OFFSETS)
        producer.turn()
    producer.answer_own(FIND)
    producer.turn()
    assert producer.own.api_key is COMMIT_OFFSETS
    mismatch = UnsupportedVersionError("node 1 is too old")
    producer.client.answer(None, request=producer.own, version_mismatch=mismatch, was_sent=False)
    assert isinstance(pending.error, AbortableTransactionError)
    assert "node 1 is too old" in str(pending.error)
    assert producer.state is ABORTABLE
    pending.is_told = True
    producer.tx.abort()
    for _ in range(5):
        producer.turn(advance=100)
        if producer.client.in_flight:
            producer.answer_own(producer.own.api_key, **({"producer_id": 7, "producer_epoch": 1} if level == 2 else {}))
    assert producer.state is READY


# Ids bound anew, and prepared transactions.

def test_abort_when_it_comes_as_a_prepare_is_handed_out_then_it_ends_when_the_transaction_does(
        monkeypatch: pytest.MonkeyPatch) -> None:
    """The sender had looked at the state, and told the abort that it was done, with the prepared transaction."""
    producer = in_transaction()
    prepare = producer.tx.prepare()
    producer.answer_all()
    hand_out = producer.tx.on_all_sent
    aborts: list[PendingCall] = []

    def abort_before(prepared: PreparedTransaction) -> None:
        aborts.append(producer.tx.abort())
        hand_out(prepared)

    monkeypatch.setattr(producer.tx, "on_all_sent", abort_before)
    producer.turn()
    monkeypatch.undo()
    (abort,) = aborts
    assert isinstance(prepare.error, TransactionAbortedError)
    assert (producer.state, abort.is_set, producer.tx.prepared) == (ABORTING, False, {})
    producer.end()
    assert (producer.state, abort.is_set, abort.error, abort.value) == (READY, True, None, None)


def test_abort_when_it_is_interrupted_at_any_line_and_called_again_then_a_prepare_that_waits_is_told() -> None:
    """It waited for max.block.ms, and was told then that it goes on."""
    code_name = transactions.__file__

    def interrupted_at(count: int) -> bool:
        producer = in_transaction()
        prepare = producer.tx.prepare()
        left = count

        def trace(frame: Any, event: str, _argument: Any) -> Any:
            nonlocal left
            if frame.f_code.co_filename != code_name or left < 0:
                return None
            if event == "line":
                left -= 1
                if left < 0:
                    raise KeyboardInterrupt
            return trace

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            producer.tx.abort()
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(before)
        producer.tx.abort()
        assert isinstance(prepare.error, TransactionAbortedError), count
        assert producer.state is ABORTING
        return left < 0

    assert any(not interrupted_at(count) for count in range(200)), "the call came to its end"


def test_init_when_another_id_is_bound_then_its_own_coordinator_gives_id_and_epoch() -> None:
    producer = in_transaction()
    producer.answer_all()
    producer.tx.commit().is_told = True
    producer.end()
    pending = producer.tx.initialize("other")
    assert producer.tx.transactional_id == "other"
    producer.turn()
    assert producer.client.body_of(producer.own)["coordinator_keys"] == ["other"]
    producer.answer_own(FIND, node_id=2, port=9093)
    producer.turn()
    assert producer.own.destination == 2
    assert producer.client.body_of(producer.own) == {"transactional_id": "other", "transaction_timeout_ms": 60_000}
    producer.answer_own(INIT, producer_id=8, producer_epoch=3)
    assert (pending.is_set, pending.error) == (True, None)
    producer.begin()
    producer.append()
    producer.turn()
    assert producer.sequences_on_wire() == [(3, 0)]
    assert producer.client.body_of(producer.client.in_flight[0])["transactional_id"] == "other"


def test_prepare_when_all_is_stored_then_it_says_what_is_needed_to_end_it() -> None:
    producer = in_transaction()
    producer.append(1)
    producer.tx.add_offsets(OFFSETS, GROUP)
    pending = producer.tx.prepare()
    with pytest.raises(IllegalStateError, match="a prepared transaction is open"):
        producer.append()
    producer.turn()
    assert not pending.is_set
    for request in [request for request in producer.client.in_flight if request.api_key is PRODUCE]:
        producer.answer_all(request=request)
    producer.answer_own(FIND)
    producer.turn()
    producer.answer_own(COMMIT_OFFSETS)
    producer.turn()
    assert (pending.is_set, pending.error, producer.state) == (True, None, PREPARED)
    prepared = pending.value
    assert prepared == ("shop", 7, 0, (TopicPartition("t", 0), TopicPartition("t", 1)), True)
    assert not prepared.is_empty
    producer.turn()
    assert producer.client.in_flight == [], "nobody ends it here"
    producer.tx.begin_end_of_life()
    assert (producer.state, producer.sender.ms_to_go_on(0)) == (PREPARED, 0), "close() leaves it open"


def prepared(producer: SteppedTransactions) -> SteppedTransactions:
    """Store the record on its way, and prepare."""
    producer.answer_all()
    pending = producer.tx.prepare()
    producer.turn()
    assert pending.is_set
    pending.is_told = True
    return producer


@pytest.mark.parametrize("commit", [True, False])
def test_prepared_transaction_when_it_is_ended_here_then_the_next_may_begin(commit: bool) -> None:
    producer = prepared(in_transaction())
    pending = producer.tx.commit() if commit else producer.tx.abort()
    assert producer.client.body_of(producer.end())["committed"] is commit
    assert (pending.error, producer.state, producer.tx.prepared) == (None, READY, {})
    pending.is_told = True
    producer.init(epoch=2)


def test_prepare_when_a_record_fails_then_it_fails_and_only_an_abort_goes_on() -> None:
    producer = in_transaction()
    pending = producer.tx.prepare()
    producer.turn()
    producer.answer_all(code=ErrorCode.INVALID_RECORD)
    assert isinstance(pending.error, AbortableTransactionError)
    pending.is_told = True
    producer.tx.abort()
    producer.end()
    assert producer.state is READY


def test_prepare_when_the_transaction_is_empty_then_no_end_is_needed() -> None:
    producer = SteppedTransactions()
    producer.begin()
    pending = producer.tx.prepare()
    producer.turn()
    assert pending.value.is_empty
    pending.is_told = True
    producer.tx.initialize("other").is_told = True
    assert producer.state is INITIALIZING


@pytest.mark.parametrize("commit", [True, False])
def test_empty_prepared_transaction_when_it_is_ended_then_its_epoch_is_asked_for_without_another_wakeup(
        commit: bool) -> None:
    """The sender slept on, up to 15 s: nothing was on its way whose answer would have had it look again."""
    producer = SteppedTransactions()
    producer.begin()
    pending = producer.tx.prepare()
    producer.turn()
    pending.is_told = True
    pending = producer.tx.commit() if commit else producer.tx.abort()
    woken = producer.wakeup.count
    producer.turn()
    if producer.client.in_flight == []:
        assert producer.wakeup.count > woken, "the next turn is taken at once"
        producer.turn()
    assert producer.answer_own(INIT, producer_epoch=1).api_key is INIT
    assert (pending.is_set, pending.error, producer.state) == (True, None, READY)


@pytest.mark.parametrize("transactional_id", [None, "shop"])
@pytest.mark.parametrize("is_open", [True, False])
def test_init_when_a_transaction_is_prepared_with_that_id_then_it_is_kept_unless_somebody_else_has_ended_it(
        transactional_id: str | None, is_open: bool) -> None:
    """A task of a stream, whose transactions a driver ends, had to make another producer for the next one."""
    producer = prepared(in_transaction())
    pending = producer.tx.initialize(transactional_id)
    producer.turn()
    assert producer.client.body_of(producer.own) == {"transactional_ids": ["shop"]}
    producer.client.answer({"throttle_time_ms": 0, "transaction_states": [
        {"error_code": 0, "transactional_id": "shop", "transaction_state": "Ongoing" if is_open else "CompleteCommit",
         "producer_id": 7, "producer_epoch": 0, "topics": []}]})
    if not is_open:
        producer.turn()
        producer.answer_own(INIT, producer_epoch=5)
        assert (pending.error, producer.state) == (None, READY)
        return
    assert isinstance(pending.error, IllegalStateError)
    assert producer.state is TransactionState.PREPARED
    pending.is_told = True
    pending = producer.tx.commit()
    producer.turn()
    producer.answer_own(END, producer_id=7, producer_epoch=1)
    assert (pending.error, producer.state) == (None, READY)


def test_init_when_a_transaction_is_prepared_then_another_id_is_bound() -> None:
    producer = prepared(in_transaction())
    pending = producer.tx.initialize("other")
    producer.turn()
    producer.answer_own(FIND)
    producer.turn()
    producer.answer_own(INIT, producer_id=8)
    assert (pending.error, producer.state) == (None, READY)


@pytest.mark.parametrize(("code", "state", "epoch", "is_open"), [
    (0, "Ongoing", 0, True), (0, "CompleteCommit", 1, False), (0, "CompleteAbort", 1, False), (0, "Ongoing", 2, False),
    (ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, "", 0, False),
    (ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, "Ongoing", 0, False)])  # what stands beside an error means nothing
def test_init_when_an_id_is_bound_again_that_was_prepared_then_its_coordinator_is_asked_whether_it_is_open(
        code: int, state: str, epoch: int, is_open: bool) -> None:
    producer = prepared(in_transaction())
    producer.tx.initialize("other")
    producer.turn()
    producer.answer_own(FIND)
    producer.turn()
    producer.answer_own(INIT, producer_id=8)
    assert producer.tx.pending is not None
    producer.tx.pending.is_told = True
    pending = producer.tx.initialize("shop")
    producer.turn()
    assert producer.client.body_of(producer.own) == {"transactional_ids": ["shop"]}
    producer.client.answer({"throttle_time_ms": 0, "transaction_states": [
        {"error_code": code, "transactional_id": "shop", "transaction_state": state, "producer_id": 7,
         "producer_epoch": epoch, "topics": []}]})
    if is_open:
        assert isinstance(pending.error, IllegalStateError)
        assert "still open: end it first by a TransactionCompleter" in str(pending.error)
        assert producer.state is UNINITIALIZED
        return
    producer.turn()
    producer.answer_own(INIT, producer_epoch=5)
    assert (pending.error, producer.state) == (None, READY)
