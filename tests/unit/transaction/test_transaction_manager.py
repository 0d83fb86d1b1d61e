"""Sequence numbers under every kind of answer."""

from __future__ import annotations

import pytest

from pyproducer.common.cluster import TopicPartition
from pyproducer.common.error_codes import ErrorCode, error_for_code
from pyproducer.common.errors import KafkaTimeoutError
from pyproducer.record.layout import MAX_SEQUENCE, decrement_sequence, increment_sequence
from pyproducer.transaction.partition_sequences import is_earlier
from pyproducer.transaction.transaction_manager import TransactionManager

TP = TopicPartition("t", 0)


class Batch:
    """SequencedBatch."""

    def __init__(self, count=1, topic_partition=TP):
        self.topic_partition = topic_partition
        self.record_count = count
        self.producer_id = self.producer_epoch = self.base_sequence = -1
        self.is_sequence_reset = False
        self.is_done = self.may_be_in_log = self.is_in_flight = False

    @property
    def has_sequence(self):
        return self.base_sequence != -1

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


def test_out_of_order_of_a_batch_before_the_last_acknowledged_one_starts_a_new_epoch(manager):
    """A simulation found it: the topic was made anew, and the second of two batches on their way was its first one."""
    acked(manager)
    first, second = drained(manager, 2), drained(manager)
    manager.on_completed(second, 0)
    assert manager.can_retry(first, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, 0) is True
    manager.bump_epoch_if_requested()
    assert (first.producer_epoch, first.base_sequence) == (1, 0), "it was repeated until delivery.timeout.ms"


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


# Epochs: what is on the wire keeps its numbers.

OTHER = TopicPartition("t", 1)


def bump_for(manager, topic_partition=TP):
    """Have the epoch bumped for a partition with nothing else on its way."""
    batch = drained_of(manager, topic_partition)
    manager.on_failed(batch, error_for_code(ErrorCode.INVALID_RECORD), may_be_in_log=False)
    manager.bump_epoch_if_requested()


def drained_of(manager, topic_partition, count=1):
    batch = Batch(count, topic_partition)
    assert manager.can_send(batch)
    manager.on_drained(batch)
    return batch


def place(batch):
    return (batch.producer_id, batch.producer_epoch, batch.base_sequence, batch.is_sequence_reset)


def test_new_epoch_when_another_partition_has_batches_on_the_wire_then_these_keep_their_numbers(manager):
    manager.on_completed(drained_of(manager, OTHER), 0)
    first, second = drained_of(manager, OTHER, 2), drained_of(manager, OTHER, 3)
    bump_for(manager)
    assert manager.producer_id_and_epoch == (7, 1)
    assert [place(batch) for batch in (first, second)] == [(7, 0, 1, False), (7, 0, 3, False)]
    assert not manager.can_send(Batch(1, OTHER)), "a new batch would be of the new epoch, and is not to overtake"
    assert manager.can_send(first)
    assert not manager.can_send(second)
    manager.on_completed(first, 1)
    assert not manager.can_send(Batch(1, OTHER))
    assert manager.can_send(second)
    manager.on_completed(second, 3)
    assert [place(batch) for batch in (first, second)] == [(7, 0, 1, False), (7, 0, 3, False)]
    assert place(drained_of(manager, OTHER)) == (7, 1, 0, False)


def test_new_epoch_when_it_has_begun_then_the_first_batch_goes_alone_in_each_partition(manager):
    acked(manager)
    manager.on_completed(drained_of(manager, OTHER), 0)
    bump_for(manager)
    for topic_partition in (TP, OTHER):
        first = drained_of(manager, topic_partition, 2)
        assert place(first) == (7, 1, 0, False)
        assert not manager.can_send(Batch(1, topic_partition))
        manager.on_completed(first, 5)
        assert place(drained_of(manager, topic_partition)) == (7, 1, 2, False)


def test_late_answer_of_an_old_epoch_when_it_comes_then_the_new_sequence_does_not_count_it(manager):
    acked(manager)
    late = drained(manager, 5)
    manager.on_failed(late, KafkaTimeoutError("expired", phase="delivery"), may_be_in_log=True)
    manager.resolve_sequences()
    manager.bump_epoch_if_requested()
    assert manager.producer_id_and_epoch == (7, 1)
    manager.on_completed(late, 10)
    first = drained(manager)
    assert place(first) == (7, 1, 0, False)
    assert not manager.can_send(Batch()), "nothing of the new epoch is acknowledged"
    assert manager.can_retry(first, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, 0) is True
    manager.bump_epoch_if_requested()
    assert place(first) == (7, 2, 0, True), "it is the first one, so only a new epoch helps"


def test_late_failure_of_an_old_epoch_when_it_comes_then_no_further_epoch_begins(manager):
    manager.on_completed(drained_of(manager, OTHER), 0)
    old = drained_of(manager, OTHER)
    bump_for(manager)
    manager.on_failed(old, error_for_code(ErrorCode.INVALID_RECORD), may_be_in_log=False)
    manager.bump_epoch_if_requested()
    # The partition had no part in the bump, and its numbers are the old ones: a new start is due for it.
    assert manager.producer_id_and_epoch == (7, 2)
    manager.on_failed(old, error_for_code(ErrorCode.INVALID_RECORD), may_be_in_log=False)
    manager.bump_epoch_if_requested()
    assert manager.producer_id_and_epoch == (7, 2)
    assert place(drained_of(manager, OTHER)) == (7, 2, 0, False)


def test_invalid_epoch_when_the_batch_is_of_an_old_epoch_then_it_is_retried_without_a_new_one(manager):
    acked(manager)
    first, second = drained(manager), drained(manager)
    manager.on_failed(first, error_for_code(ErrorCode.INVALID_RECORD), may_be_in_log=False)
    manager.bump_epoch_if_requested()
    assert place(second) == (7, 1, 0, True)
    second.producer_epoch = 0  # as it was when it was sent
    assert manager.can_retry(second, ErrorCode.INVALID_PRODUCER_EPOCH, 0) is True
    manager.bump_epoch_if_requested()
    assert manager.producer_id_and_epoch == (7, 1)


def test_new_epoch_when_several_partitions_ask_in_a_turn_then_one_epoch_serves_all(manager):
    acked(manager)
    manager.on_completed(drained_of(manager, OTHER), 0)
    batches = [drained(manager), drained_of(manager, OTHER)]
    for batch in batches:
        assert manager.can_retry(batch, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, 0) is True
    manager.bump_epoch_if_requested()
    assert [place(batch) for batch in batches] == [(7, 1, 0, True)] * 2
    manager.bump_epoch_if_requested()
    assert manager.producer_id_and_epoch == (7, 1), "asked for once, done once"


def test_out_of_order_when_the_renumbered_batch_was_sent_and_refused_too_then_another_epoch_begins(manager):
    acked(manager)
    batch = drained(manager, 2)
    for epoch in (1, 2, 3):
        assert manager.can_retry(batch, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, 0) is True
        manager.bump_epoch_if_requested()
        assert place(batch) == (7, epoch, 0, True)
        batch.is_sequence_reset = False  # its header was written: the number is on the wire


def test_out_of_order_when_the_answer_is_for_the_number_before_then_no_further_epoch_begins(manager):
    acked(manager)
    batch = drained(manager)
    manager.can_retry(batch, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, 0)
    manager.bump_epoch_if_requested()
    assert manager.can_retry(batch, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, 0) is True
    manager.bump_epoch_if_requested()
    assert place(batch) == (7, 1, 0, True)


def test_out_of_order_when_it_is_open_whether_the_batch_before_is_stored_then_a_new_epoch_begins(manager):
    acked(manager)
    first, second = drained(manager), drained(manager)
    manager.on_failed(first, KafkaTimeoutError("expired", phase="delivery"), may_be_in_log=True)
    assert manager.can_retry(second, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, 0) is True
    manager.bump_epoch_if_requested()
    assert place(second) == (7, 1, 0, True)
    manager.on_completed(second, 1)
    assert manager.can_send(Batch()), "the question is settled by the new epoch"


def test_failure_when_it_is_out_of_order_then_a_new_epoch_begins_though_the_outcome_is_unknown(manager):
    acked(manager)
    batch = drained(manager)
    manager.on_failed(batch, error_for_code(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER), may_be_in_log=True)
    manager.bump_epoch_if_requested()
    assert manager.producer_id_and_epoch == (7, 1)
    assert manager.can_send(Batch())


def test_failure_when_the_batch_has_no_number_yet_then_the_sequence_goes_on(manager):
    acked(manager)
    manager.on_failed(Batch(), KafkaTimeoutError("expired", phase="delivery"), may_be_in_log=False)
    manager.bump_epoch_if_requested()
    assert place(drained(manager)) == (7, 0, 1, False)


def test_fatal_error_when_it_came_then_nothing_is_sent_and_no_id_is_asked_for():
    manager = TransactionManager()
    manager.on_fatal_error(error_for_code(ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
    assert not manager.needs_producer_id
    manager.on_producer_id(7, 0)
    assert not manager.can_send(Batch())


def test_fatal_error_when_a_batch_fails_afterwards_then_no_epoch_begins(manager):
    acked(manager)
    batch = drained(manager)
    manager.on_fatal_error(error_for_code(ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
    manager.on_failed(batch, error_for_code(ErrorCode.INVALID_RECORD), may_be_in_log=False)
    manager.bump_epoch_if_requested()
    assert manager.producer_id_and_epoch == (7, 0)


# The ring of numbers.

def test_sequence_when_it_wraps_then_batches_on_their_way_stay_in_order(manager):
    acked(manager, MAX_SEQUENCE - 1)
    batches = [drained(manager, 2) for _ in range(3)]
    assert [batch.base_sequence for batch in batches] == [MAX_SEQUENCE - 1, 0, 2]
    assert manager.next_sequence(TP) == 4
    assert [manager.can_send(batch) for batch in batches] == [True, False, False]
    manager.on_completed(batches[0], 0)
    assert [manager.can_send(batch) for batch in batches[1:]] == [True, False]
    for batch in batches[1:]:
        manager.on_completed(batch, 1)
    assert manager.can_retry(drained(manager), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, 0) is True
    manager.bump_epoch_if_requested()
    assert manager.producer_id_and_epoch == (7, 1), "number 4 follows what was acknowledged last"


def test_completion_when_answers_come_out_of_order_then_the_latest_counts(manager):
    acked(manager)
    first, second = drained(manager, 2), drained(manager, 2)
    manager.on_completed(second, 12)
    manager.on_completed(first, 10)
    batch = drained(manager)
    assert manager.can_retry(batch, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, 0) is True
    manager.bump_epoch_if_requested()
    assert place(batch) == (7, 1, 0, True)


@pytest.mark.parametrize(("log_start_offset", "epoch"), [(13, 1), (14, 0)])
def test_unknown_producer_id_when_our_last_record_is_in_the_log_or_was_removed_then_a_new_epoch_or_the_same(
        manager, log_start_offset, epoch):
    acked(manager)
    acked(manager, 3, offset=11)  # the last one at 13
    acked(manager, 1, offset=2)  # an answer of an earlier time
    batch = drained(manager)
    assert manager.can_retry(batch, ErrorCode.UNKNOWN_PRODUCER_ID, log_start_offset) is True
    manager.bump_epoch_if_requested()
    assert place(batch)[:3] == (7, epoch, 0)


# Splitting, and starting over after an interrupted turn.

def test_split_when_the_batch_is_on_its_way_then_its_parts_take_its_place(manager):
    acked(manager)
    whole, behind = drained(manager, 4), drained(manager)
    parts = [Batch(2), Batch(2)]
    for part, sequence in zip(parts, (1, 3), strict=True):
        part.set_producer_state(7, 0, sequence)
    manager.on_split(whole, parts)
    assert [manager.can_send(batch) for batch in (*parts, behind)] == [True, False, False]
    manager.on_completed(parts[0], 1)
    assert [manager.can_send(batch) for batch in (parts[1], behind)] == [True, False]
    manager.on_completed(parts[1], 3)
    assert manager.can_send(behind)


def test_restore_when_batches_are_lost_and_found_then_what_is_on_its_way_is_what_is_not_done(manager):
    acked(manager)
    batches = [drained(manager) for _ in range(3)]
    batches[0].is_done = True
    manager.restore([batches[2], Batch(), batches[0], batches[1]])
    assert [manager.can_send(batch) for batch in batches[1:]] == [True, False]
    assert manager.next_sequence(TP) == 4


def test_restore_when_a_batch_was_numbered_and_not_counted_then_its_number_is_not_given_again(manager):
    acked(manager)
    batch = Batch(3)
    batch.set_producer_state(7, 0, 1)
    manager.restore([batch])
    assert manager.next_sequence(TP) == 4
    manager.restore([batch])
    assert manager.next_sequence(TP) == 4
    manager.on_completed(batch, 1)
    assert drained(manager).base_sequence == 4


def test_restore_when_a_batch_is_of_an_old_epoch_then_the_new_sequence_does_not_count_it(manager):
    manager.on_completed(drained_of(manager, OTHER), 0)
    old = drained_of(manager, OTHER, 50)
    bump_for(manager)
    old_place = place(old)
    manager.restore([old])
    assert place(old) == old_place
    assert not manager.can_send(Batch(1, OTHER))
    manager.on_completed(old, 1)
    assert place(drained_of(manager, OTHER)) == (7, 1, 0, False)
