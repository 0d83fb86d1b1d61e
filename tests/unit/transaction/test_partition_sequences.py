"""One partition's numbers."""

from __future__ import annotations

from pyproducer.record.layout import MAX_SEQUENCE
from pyproducer.transaction.partition_sequences import NONE, PartitionSequences, ProducerIdAndEpoch
from tests.unit.transaction.test_transaction_manager import Batch


def owned() -> PartitionSequences:
    sequences = PartitionSequences()
    sequences.start_at_beginning(ProducerIdAndEpoch(7, 3))
    return sequences


def numbered(sequences: PartitionSequences, count: int = 1) -> Batch:
    batch = Batch(count)
    sequences.number(batch)
    return batch


def test_new_when_nothing_was_numbered_then_nobody_owns_it_and_nothing_is_on_its_way() -> None:
    sequences = PartitionSequences()
    assert (sequences.owner, sequences.next_sequence, sequences.last_acked_sequence, sequences.last_acked_offset) == (
        NONE, 0, -1, -1)
    assert sequences.first_in_flight_sequence() == -1
    assert not sequences.is_window_full


def test_number_when_batches_follow_each_other_then_records_are_counted() -> None:
    sequences = owned()
    batches = [numbered(sequences, count) for count in (3, 1, 5)]
    assert [(batch.producer_id, batch.producer_epoch, batch.base_sequence) for batch in batches] == [
        (7, 3, 0), (7, 3, 3), (7, 3, 4)]
    assert sequences.next_sequence == 9
    assert sequences.in_flight == batches
    assert sequences.first_in_flight_sequence() == 0


def test_in_flight_when_batches_come_back_in_any_order_then_stays_in_order_of_numbers_also_where_they_wrap() -> None:
    sequences = owned()
    sequences.next_sequence = MAX_SEQUENCE - 1
    batches = [numbered(sequences, 2) for _ in range(4)]
    assert [batch.base_sequence for batch in batches] == [MAX_SEQUENCE - 1, 0, 2, 4]
    for batch in batches:
        sequences.remove_in_flight(batch)
        sequences.remove_in_flight(batch)
    assert sequences.in_flight == []
    for index in (2, 0, 3, 1):
        sequences.add_in_flight(batches[index])
    assert sequences.in_flight == batches


def test_window_when_the_oldest_is_the_fifth_back_then_is_full_until_it_is_answered() -> None:
    sequences = owned()
    batches = []
    for count in (1, 2, 3, 4):
        batches.append(numbered(sequences, count))
        assert not sequences.is_window_full
    batches.append(numbered(sequences))
    assert sequences.is_window_full
    sequences.remove_in_flight(batches[1])
    assert sequences.is_window_full, "it is the oldest that counts"
    sequences.remove_in_flight(batches[0])
    assert not sequences.is_window_full


def test_start_at_beginning_when_batches_are_on_their_way_then_they_are_the_first_of_the_new_epoch() -> None:
    sequences = owned()
    batches = [numbered(sequences, count) for count in (3, 1, 5)]
    sequences.last_acked_sequence, sequences.last_acked_offset = 8, 50
    sequences.remove_in_flight(batches[0])
    sequences.start_at_beginning(ProducerIdAndEpoch(7, 4))
    assert [(batch.producer_epoch, batch.base_sequence, batch.is_sequence_reset) for batch in batches] == [
        (3, 0, False), (4, 0, True), (4, 1, True)]
    assert (sequences.owner, sequences.next_sequence, sequences.last_acked_sequence) == ((7, 4), 6, -1)
    assert numbered(sequences).base_sequence == 6
    for _ in range(2):
        assert not sequences.is_window_full
        numbered(sequences)
    assert sequences.is_window_full, "batches are counted from the first of the epoch"
