"""Sequence numbers under every kind of answer."""

from __future__ import annotations

import pytest

from pyproducer.common.cluster import TopicPartition
from pyproducer.common.error_codes import ErrorCode, error_for_code
from pyproducer.common.errors import KafkaTimeoutError
from pyproducer.transaction.producer_id import MAX_SEQUENCE, decrement_sequence, increment_sequence, is_earlier
from pyproducer.transaction.transaction_manager import TransactionManager

TP = TopicPartition("t", 0)


class Batch:
    """SequencedBatch."""

    def __init__(self, count=1, topic_partition=TP):
        self.topic_partition = topic_partition
        self.record_count = count
        self.producer_id = self.producer_epoch = self.base_sequence = -1
        self.is_sequence_reset = False
        self.is_done = False

    @property
    def has_sequence(self):
        return self.base_sequence != -1

    @property
    def last_sequence(self):
        return increment_sequence(self.base_sequence, self.record_count - 1)

    def set_producer_state(self, producer_id, producer_epoch, base_sequence):
        self.producer_id, self.producer_epoch, self.base_sequence = producer_id, producer_epoch, base_sequence

    def reset_producer_state(self, producer_id, producer_epoch, base_sequence):
        self.set_producer_state(producer_id, producer_epoch, base_sequence)
        self.is_sequence_reset = True


@pytest.fixture
def manager():
    made = TransactionManager()
    made.on_producer_id(7, 0)
    return made


def drained(manager, count=1):
    batch = Batch(count)
    assert manager.can_send(batch)
    manager.on_drained(batch)
    return batch


def acked(manager, count=1, offset=0):
    batch = drained(manager, count)
    manager.on_completed(batch, offset)
    return batch


@pytest.mark.parametrize(("sequence", "increment", "expected"), [
    (0, 1, 1), (MAX_SEQUENCE, 1, 0), (MAX_SEQUENCE - 1, 3, 1), (MAX_SEQUENCE - 2, 2, MAX_SEQUENCE)])
def test_increment_sequence_wraps_to_zero(sequence, increment, expected):
    assert increment_sequence(sequence, increment) == expected
    assert decrement_sequence(expected, increment) == sequence


def test_is_earlier_on_the_ring():
    assert is_earlier(1, 2)
    assert not is_earlier(2, 2)
    assert not is_earlier(3, 2)
    assert is_earlier(MAX_SEQUENCE, 0)


def test_nothing_is_sent_before_the_producer_id_came():
    manager = TransactionManager()
    assert manager.needs_producer_id
    assert not manager.can_send(Batch())
    manager.on_producer_id(1, 0)
    assert not manager.needs_producer_id
    assert manager.can_send(Batch())


def test_sequences_count_records_and_five_batches_pipeline_after_the_first_answer(manager):
    first = drained(manager, 3)
    assert (first.producer_id, first.producer_epoch, first.base_sequence) == (7, 0, 0)
    assert not manager.can_send(Batch())  # a broker that does not know us takes any first number
    manager.on_completed(first, 0)
    assert [drained(manager, 2).base_sequence for _ in range(5)] == [3, 5, 7, 9, 11]


def test_a_retry_goes_only_when_it_is_the_oldest_on_its_way(manager):
    acked(manager)
    first, second = drained(manager), drained(manager)
    assert not manager.can_send(second)
    assert manager.can_send(first)
    manager.on_completed(first, 1)
    assert manager.can_send(second)


def test_out_of_order_behind_a_failed_batch_is_retried_without_a_new_epoch(manager):
    acked(manager)
    _first, second = drained(manager), drained(manager)
    assert manager.can_retry(second, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, 0) is True
    manager.bump_epoch_if_requested()
    assert manager.producer_id_and_epoch == (7, 0)


def test_out_of_order_of_the_next_batch_starts_a_new_epoch_from_zero(manager):
    acked(manager)
    batch = drained(manager, 4)
    assert manager.can_retry(batch, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, 0) is True
    manager.bump_epoch_if_requested()
    assert manager.producer_id_and_epoch == (7, 1)
    assert (batch.producer_epoch, batch.base_sequence, batch.is_sequence_reset) == (1, 0, True)
    manager.on_completed(batch, 10)
    assert drained(manager).base_sequence == 4


def test_a_batch_refused_for_good_starts_a_new_epoch_and_renumbers_those_behind(manager):
    acked(manager)
    first, second, third = drained(manager), drained(manager, 2), drained(manager)
    manager.on_failed(first, error_for_code(ErrorCode.INVALID_RECORD), may_be_in_log=False)
    manager.bump_epoch_if_requested()
    assert [(batch.producer_epoch, batch.base_sequence) for batch in (second, third)] == [(1, 0), (1, 2)]
    assert not manager.can_send(third)
    assert manager.can_send(second)


def test_an_expired_batch_blocks_new_ones_until_those_behind_it_are_settled(manager):
    acked(manager)
    first, second = drained(manager), drained(manager)
    manager.on_failed(first, KafkaTimeoutError("expired", phase="delivery"), may_be_in_log=True)
    assert not manager.can_send(Batch())
    manager.resolve_sequences()
    assert not manager.can_send(Batch())
    # The broker had stored the expired one: the one behind it is acknowledged, but the expired is not the last acked.
    manager.on_completed(second, 5)
    manager.resolve_sequences()
    manager.bump_epoch_if_requested()
    assert manager.producer_id_and_epoch == (7, 1)
    assert drained(manager).base_sequence == 0


def test_an_expired_batch_that_is_acknowledged_late_needs_no_new_epoch(manager):
    acked(manager)
    batch = drained(manager)
    manager.on_failed(batch, KafkaTimeoutError("expired", phase="delivery"), may_be_in_log=True)
    manager.on_completed(batch, 1)
    manager.resolve_sequences()
    manager.bump_epoch_if_requested()
    assert manager.producer_id_and_epoch == (7, 0)
    assert drained(manager).base_sequence == 2


def test_the_last_epoch_is_followed_by_a_new_producer_id():
    manager = TransactionManager()
    manager.on_producer_id(7, 32767)
    batch = drained(manager)
    manager.can_retry(batch, ErrorCode.INVALID_PRODUCER_EPOCH, 0)
    manager.bump_epoch_if_requested()
    assert manager.needs_producer_id
    manager.on_producer_id(8, 0)
    manager.bump_epoch_if_requested()
    assert (batch.producer_id, batch.base_sequence) == (8, 0)


def test_unknown_producer_id_after_retention_starts_again_and_otherwise_bumps(manager):
    acked(manager, offset=10)
    batch = drained(manager)
    assert manager.can_retry(batch, ErrorCode.UNKNOWN_PRODUCER_ID, 11) is True
    assert batch.base_sequence == 0
    assert manager.can_retry(batch, ErrorCode.UNKNOWN_PRODUCER_ID, -1) is False


def test_other_errors_are_not_this_layers_to_decide(manager):
    assert manager.can_retry(drained(manager), ErrorCode.NOT_LEADER_OR_FOLLOWER, 0) is None


def test_no_batch_is_numbered_while_the_oldest_one_is_the_fifth_back(manager):
    acked(manager)
    lost = drained(manager, 3)
    for _ in range(4):
        acked(manager, 2)  # by a new leader, which has the lost one too
    waiting = Batch()
    assert not manager.can_send(waiting), "a broker would not know the lost one again"
    assert manager.can_send(lost), "its retry may go"
    manager.on_completed(lost, 1)
    assert manager.can_send(waiting)


def test_five_batches_may_be_on_their_way(manager):
    acked(manager)
    batches = [drained(manager, 2) for _ in range(5)]
    assert not manager.can_send(Batch())
    for batch in batches:
        manager.on_completed(batch, 0)
        drained(manager, 2)
        assert not manager.can_send(Batch())


def test_a_new_epoch_counts_the_batches_on_their_way_again(manager):
    acked(manager)
    batches = [drained(manager) for _ in range(3)]
    manager.on_failed(batches[0], error_for_code(ErrorCode.CORRUPT_MESSAGE), may_be_in_log=False)
    manager.bump_epoch_if_requested()
    manager.on_completed(batches[1], 0)
    for _ in range(4):
        drained(manager)
    assert not manager.can_send(Batch())
    manager.on_completed(batches[2], 1)
    assert manager.can_send(Batch())
