"""Transactions as they were measured on Apache Kafka 4.1: producer ids, epochs, ends, records.

The same tests run against it with KAFKA_REFERENCE=host:port.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from tests.support.patience import GIVE_UP_S
from tests.support.raw_transactions import RawTransactions

OUT_OF_ORDER = 45
INVALID_EPOCH = 47
INVALID_STATE = 48
INVALID_MAPPING = 49
CONCURRENT = 51
FENCED = 90
ABORTABLE = 120
# From this version on the client speaks Transactions V2.
V2_PRODUCE, V1_PRODUCE = 12, 11

Begin = Callable[..., RawTransactions]


# ---- InitProducerId

def test_init_gives_one_id_and_the_next_epoch(begin: Begin) -> None:
    transactions = begin()
    producer_id, epoch = transactions.identity
    assert epoch == 0
    assert transactions.init() == (producer_id, 1)
    assert transactions.init(version=0) == (producer_id, 2)


@pytest.mark.parametrize("timeout_ms", [-1, 0, 900_001])
def test_init_with_a_timeout_out_of_range_is_50(begin: Begin, timeout_ms: int) -> None:
    transactions = begin(timeout_ms=900_000)
    answer = transactions.init_once(timeout_ms=timeout_ms)
    assert (answer["error_code"], answer["producer_id"], answer["producer_epoch"]) == (50, -1, -1)


def test_init_with_id_and_epoch_goes_on_and_may_be_repeated(begin: Begin) -> None:
    transactions = begin()
    producer_id, epoch = transactions.identity
    for _ in range(2):
        answer = transactions.init_once(producer_id=producer_id, producer_epoch=epoch)
        assert (answer["error_code"], answer["producer_id"], answer["producer_epoch"]) == (0, producer_id, epoch + 1)
    transactions.init()
    assert transactions.init_once(producer_id=producer_id, producer_epoch=epoch)["error_code"] == FENCED
    assert transactions.init_once(version=3, producer_id=producer_id, producer_epoch=epoch)["error_code"] == (
        INVALID_EPOCH)
    assert transactions.init_once(producer_id=producer_id + 777_777, producer_epoch=0)["error_code"] == FENCED


@pytest.mark.parametrize("identity", [(5, -1), (-1, 5)])
def test_init_with_half_an_identity_is_42(begin: Begin, identity: tuple[int, int]) -> None:
    producer_id, epoch = identity
    assert begin().init_once(producer_id=producer_id, producer_epoch=epoch)["error_code"] == 42


def test_init_during_a_transaction_aborts_it_and_fences(begin: Begin, topic: str) -> None:
    transactions = begin()
    zombie = begin()
    zombie.transactional_id, zombie.producer_id, zombie.epoch = (
        transactions.transactional_id, *transactions.identity)
    assert transactions.produce(topic, 0, 0) == (0, 0)
    assert transactions.init_once()["error_code"] == CONCURRENT
    assert transactions.await_state("CompleteAbort")["producer_epoch"] == 1
    assert transactions.init() == (zombie.producer_id, 2)
    assert zombie.produce(topic, 0, 1) == (INVALID_EPOCH, -1)
    assert zombie.produce(topic, 0, 1, version=V1_PRODUCE) == (INVALID_EPOCH, -1)
    assert zombie.add_partitions({topic: [1]}) == {(topic, 1): FENCED}
    assert zombie.end(commit=True) == FENCED
    assert zombie.end(commit=True, version=4) == FENCED


# ---- Transactions V2

def test_v2_produce_takes_the_partition_in_and_end_gives_the_next_epoch(begin: Begin, topic: str) -> None:
    transactions = begin()
    producer_id, _ = transactions.identity
    assert transactions.produce(topic, 0, 0) == (0, 0)
    assert transactions.produce(topic, 0, 1) == (0, 1)
    assert transactions.produce(topic, 2, 0) == (0, 0)
    state = transactions.describe()
    assert (state["error_code"], state["transaction_state"], state["transaction_timeout_ms"]) == (0, "Ongoing", 30_000)
    assert (state["producer_id"], state["producer_epoch"]) == (producer_id, 0)
    assert abs(state["transaction_start_time_ms"] - time.time() * 1000) < 60_000
    assert transactions.topics() == {topic: [0, 2]}
    assert transactions.end(commit=True) == 0
    assert transactions.identity == (producer_id, 1)
    assert transactions.await_state("CompleteCommit")["topics"] == []


def test_v2_a_repeated_end_is_answered_again_and_another_is_48(begin: Begin, topic: str) -> None:
    transactions = begin()
    transactions.produce(topic, 0, 0)
    producer_id, epoch = transactions.identity
    assert transactions.end(commit=True) == 0
    transactions.await_state("CompleteCommit")
    again = transactions.end_once(commit=True, producer_epoch=epoch)
    assert (again["error_code"], again["producer_id"], again["producer_epoch"]) == (0, producer_id, epoch + 1)
    assert transactions.end_once(commit=False, producer_epoch=epoch)["error_code"] == INVALID_STATE
    assert transactions.end_once(commit=True)["error_code"] == INVALID_STATE, "nothing in the next one"


def test_v2_an_empty_transaction_may_be_aborted_and_not_committed(begin: Begin) -> None:
    transactions = begin()
    producer_id, _ = transactions.identity
    refused = transactions.end_once(commit=True)
    assert (refused["error_code"], refused["producer_id"], refused["producer_epoch"]) == (INVALID_STATE, -1, -1)
    for epoch in (1, 2):
        assert transactions.end(commit=False) == 0
        assert transactions.identity == (producer_id, epoch)
        state = transactions.await_state("CompleteAbort")
        assert state["producer_epoch"] == epoch
        assert state["transaction_start_time_ms"] > 0
        repeated = transactions.end_once(commit=False, producer_epoch=epoch - 1)
        assert (repeated["error_code"], repeated["producer_epoch"]) == (0, epoch)
        assert transactions.end_once(commit=True, producer_epoch=epoch - 1)["error_code"] == INVALID_STATE
    assert transactions.end(commit=True) == INVALID_STATE


def test_v2_sequences_begin_anew_and_old_epochs_are_47(begin: Begin, topic: str) -> None:
    transactions = begin()
    assert transactions.produce(topic, 0, 0, count=2) == (0, 0)
    old = transactions.epoch
    assert transactions.end(commit=True) == 0
    transactions.await_state("CompleteCommit")
    assert transactions.produce(topic, 0, 2, epoch=old) == (INVALID_EPOCH, -1)
    assert transactions.produce(topic, 0, 2) == (OUT_OF_ORDER, -1)
    assert transactions.produce(topic, 0, 0) == (0, 3)
    assert transactions.produce(topic, 1, 0, epoch=transactions.epoch + 3) == (INVALID_EPOCH, -1)


def test_v2_a_producer_begins_in_a_partition_with_sequence_0(begin: Begin, topic: str) -> None:
    transactions = begin()
    assert transactions.produce(topic, 0, 5) == (OUT_OF_ORDER, -1)
    assert transactions.topics() == {topic: [0]}


# ---- Produce

def test_records_beside_the_transaction_of_their_producer_are_48(begin: Begin, topic: str) -> None:
    transactions = begin()
    assert transactions.produce(topic, 0, 0) == (0, 0)
    assert transactions.produce(topic, 0, 1, is_transactional=False) == (INVALID_STATE, -1)
    assert transactions.produce(topic, 0, 1, is_transactional=False, transactional_id=None) == (INVALID_STATE, -1)
    assert transactions.produce(topic, 0, 1) == (0, 1)
    assert transactions.produce(topic, 1, 0, is_transactional=False) == (0, 0), "no transaction there"
    assert transactions.topics() == {topic: [0]}


def test_transactional_records_without_transactional_id_are_53(begin: Begin, topic: str) -> None:
    answer = begin().produce_once(topic, 0, 0, transactional_id=None)
    assert (answer["error_code"], answer["log_start_offset"], answer["error_message"]) == (53, -1, None)


@pytest.mark.parametrize("version", [9, V1_PRODUCE, V2_PRODUCE])
def test_records_of_an_unknown_producer_are_49(begin: Begin, topic: str, version: int) -> None:
    transactions = begin()
    assert transactions.produce(topic, 0, 0, version=version, transactional_id="nobody") == (INVALID_MAPPING, -1)
    transactions.producer_id += 999_999
    assert transactions.produce(topic, 0, 0, version=version) == (INVALID_MAPPING, -1)


def test_v1_records_of_a_partition_that_was_not_added_are_refused(begin: Begin, topic: str) -> None:
    transactions = begin()
    answer = transactions.produce_once(topic, 0, 0, version=11)
    assert (answer["error_code"], answer["error_message"], answer["log_start_offset"]) == (ABORTABLE, None, -1)
    for version in (9, 10):
        answer = transactions.produce_once(topic, 0, 0, version=version)
        assert (answer["error_code"], answer["error_message"]) == (
            INVALID_STATE, "Partition was not added to the transaction")
    transactions.add_partitions({topic: [1]})
    assert transactions.produce(topic, 0, 0, version=11) == (ABORTABLE, -1)


def test_a_repeated_batch_is_answered_with_its_first_offset(begin: Begin, topic: str) -> None:
    transactions = begin()
    assert transactions.produce(topic, 0, 0) == (0, 0)
    assert transactions.produce(topic, 0, 1) == (0, 1)
    assert transactions.produce(topic, 0, 0) == (0, 0)


# ---- Transactions V1

@pytest.mark.parametrize("versions", [(3, 0), (7, 1), (9, 2), (10, 3), (11, 4)])
def test_v1_transaction_keeps_epoch_and_sequences(begin: Begin, topic: str, versions: tuple[int, int]) -> None:
    produce_version, version = versions
    transactions = begin()
    identity = transactions.identity
    for number, commit in enumerate((True, False)):
        assert transactions.add_partitions({topic: [0, 1]}, version=min(version, 3)) == {(topic, 0): 0, (topic, 1): 0}
        assert transactions.produce(topic, 0, number, version=produce_version) == (0, 2 * number)
        assert transactions.end(commit=commit, version=version) == 0
        transactions.await_state("CompleteCommit" if commit else "CompleteAbort")
        assert transactions.end(commit=commit, version=version) == 0, "again"
        assert transactions.end(commit=not commit, version=version) == INVALID_STATE
    assert transactions.identity == identity


def test_v1_a_batch_does_not_overtake_the_first_one_that_was_refused(begin: Begin, topic: str) -> None:
    transactions = begin()
    assert transactions.produce(topic, 0, 0, version=V1_PRODUCE) == (ABORTABLE, -1)
    transactions.add_partitions({topic: [0]})
    assert transactions.produce(topic, 0, 1, version=V1_PRODUCE) == (OUT_OF_ORDER, -1)
    assert transactions.produce(topic, 0, 0, version=V1_PRODUCE) == (0, 0)
    assert transactions.produce(topic, 0, 1, version=V1_PRODUCE) == (0, 1)


@pytest.mark.parametrize("commit", [True, False])
def test_v1_an_empty_transaction_cannot_be_ended(begin: Begin, commit: bool) -> None:
    assert begin().end(commit=commit, version=4) == INVALID_STATE


@pytest.mark.parametrize(("version", "code"), [(0, INVALID_EPOCH), (1, INVALID_EPOCH), (2, FENCED), (4, FENCED),
                                               (5, FENCED)])
def test_end_of_another_epoch_is_fenced(begin: Begin, topic: str, version: int, code: int) -> None:
    transactions = begin()
    transactions.init()
    transactions.init()
    transactions.produce(topic, 0, 0)
    for epoch in (0, transactions.epoch + 7):
        assert transactions.end(commit=True, version=version, producer_epoch=epoch) == code


@pytest.mark.parametrize("version", [4, 5])
def test_end_of_another_producer_is_49_and_without_id_42(begin: Begin, version: int) -> None:
    transactions = begin()
    answer = transactions.end_once(commit=True, version=version, producer_id=transactions.producer_id + 99_999)
    assert answer["error_code"] == INVALID_MAPPING
    assert transactions.end(commit=True, version=version, transactional_id="nobody") == INVALID_MAPPING
    assert transactions.end(commit=True, version=version, transactional_id="") == 42


# ---- time

def test_a_transaction_that_is_open_too_long_is_aborted_and_its_producer_fenced(begin: Begin, topic: str) -> None:
    transactions = begin(timeout_ms=2000)
    assert transactions.produce(topic, 0, 0) == (0, 0)
    producer_id, epoch = transactions.identity
    deadline = time.monotonic() + GIVE_UP_S  # Kafka looks every 10 s
    while (state := transactions.describe())["transaction_state"] != "CompleteAbort":
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert (state["producer_id"], state["producer_epoch"]) == (producer_id, epoch + 1)
    assert transactions.produce(topic, 0, 1) == (INVALID_EPOCH, -1)
    assert transactions.end(commit=True) == INVALID_STATE
    assert transactions.end(commit=True, version=4) == FENCED
    assert transactions.init_once(producer_id=producer_id, producer_epoch=epoch)["producer_epoch"] == epoch + 1, (
        "only time was lost")
    assert transactions.init() == (producer_id, epoch + 2)
