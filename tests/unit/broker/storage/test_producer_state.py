from __future__ import annotations

from pyproducer.broker.storage.batch_header import BatchHeader
from pyproducer.broker.storage.producer_state import ActiveProducer, ProducerStateManager
from pyproducer.common.error_codes import ErrorCode
from pyproducer.record.layout import TRANSACTIONAL_MASK

MAX = 2**31 - 1


def header(sequence: int, *, count: int = 3, epoch: int = 0, producer_id: int = 7) -> BatchHeader:
    return BatchHeader(0, 100, 0, 2, 0, 0, count - 1, 1000, 1000 + sequence, producer_id, epoch, sequence, count)


def manager(*headers: BatchHeader) -> ProducerStateManager:
    producers = ProducerStateManager()
    offset = 0
    for one in headers:
        producers.update(one, offset, one.max_timestamp)
        offset += one.record_count
    return producers


def test_check_of_an_unknown_producer_accepts_any_sequence() -> None:
    assert manager().check(header(77)) is ErrorCode.NONE


def test_check_wants_the_next_sequence() -> None:
    producers = manager(header(0))
    assert producers.check(header(3)) is ErrorCode.NONE
    for sequence in (0, 1, 2, 4, 9):
        assert producers.check(header(sequence, count=2)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_check_of_epochs() -> None:
    producers = manager(header(0, epoch=4))
    assert producers.check(header(3, epoch=3)) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert producers.check(header(0, epoch=5)) is ErrorCode.NONE
    assert producers.check(header(3, epoch=5)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_check_wraps_from_the_largest_sequence_to_0() -> None:
    assert manager(header(MAX - 2)).check(header(0)) is ErrorCode.NONE
    wrapped_inside = manager(header(MAX - 1))
    assert wrapped_inside.check(header(1)) is ErrorCode.NONE
    assert wrapped_inside.check(header(0)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_find_duplicate_knows_the_last_five_batches_exactly() -> None:
    producers = manager(*(header(3 * number) for number in range(6)))
    assert producers.find_duplicate(header(0)) is None
    for number in range(1, 6):
        duplicate = producers.find_duplicate(header(3 * number))
        assert duplicate is not None
        assert (duplicate.first_offset, duplicate.timestamp) == (3 * number, 1000 + 3 * number)
    assert producers.find_duplicate(header(3, count=2)) is None
    assert producers.find_duplicate(header(3, epoch=1)) is None
    assert producers.find_duplicate(header(3, producer_id=8)) is None


def test_update_with_a_new_epoch_forgets_the_old_batches() -> None:
    producers = manager(header(0), header(0, epoch=1))
    assert producers.find_duplicate(header(0)) is None
    assert producers.check(header(3, epoch=1)) is ErrorCode.NONE


def test_update_without_producer_id_keeps_nothing() -> None:
    producers = manager(header(-1, producer_id=-1, epoch=-1))
    assert producers.find_duplicate(header(-1, producer_id=-1, epoch=-1)) is None


# ---- what others are shown

def transactional(one: BatchHeader) -> BatchHeader:
    return one._replace(attributes=TRANSACTIONAL_MASK)


def test_active_producers_when_shown_then_each_has_its_epoch_sequence_time_and_transaction() -> None:
    producers = ProducerStateManager()
    producers.update(header(0, epoch=4), 10, 5000)
    producers.update(transactional(header(0, epoch=2, producer_id=8)), 13, 6000)
    producers.end_transaction(9, 3, 77, 7000)
    assert producers.active_producers() == [
        ActiveProducer(7, producer_epoch=4, last_sequence=2, last_timestamp=5000, coordinator_epoch=-1,
                       transaction_first_offset=None),
        ActiveProducer(8, producer_epoch=2, last_sequence=2, last_timestamp=6000, coordinator_epoch=-1,
                       transaction_first_offset=13),
        ActiveProducer(9, producer_epoch=3, last_sequence=-1, last_timestamp=7000, coordinator_epoch=77,
                       transaction_first_offset=None)]


def test_transactions_when_several_are_open_then_the_oldest_is_the_unstable_one() -> None:
    producers = ProducerStateManager()
    for producer_id, offset in ((1, 10), (2, 20), (3, 30)):
        producers.update(transactional(header(0, producer_id=producer_id)), offset, 1000)
    producers.update(transactional(header(3, producer_id=1)), 40, 1000)
    assert (producers.first_unstable_offset, producers.transaction_first_offset(1)) == (10, 10)
    assert [producers.next_unstable_offset(producer_id) for producer_id in (1, 2, 9)] == [20, 10, 10]
    assert [producers.has_open_transaction(1, epoch) for epoch in (0, 1)] == [True, False]
    producers.end_transaction(2, 0, 0, 1000)
    assert producers.first_unstable_offset == 10
    producers.end_transaction(1, 0, 0, 1000)
    assert (producers.first_unstable_offset, producers.next_unstable_offset(3)) == (30, None)
    assert not producers.has_open_transaction(1, 0)
    producers.end_transaction(3, 0, 0, 1000)
    assert producers.first_unstable_offset is None


def test_batch_when_it_has_no_sequence_then_its_producer_is_known_and_nothing_can_repeat_it() -> None:
    producers = manager(header(-1))
    assert producers.knows(7)
    assert not producers.knows(8)
    assert producers.find_duplicate(header(-1)) is None
    assert producers.check(header(-1)) is ErrorCode.NONE
    assert producers.check(header(0)) is ErrorCode.NONE


def test_expired_when_a_producer_is_silent_then_it_is_forgotten_but_not_with_an_open_transaction() -> None:
    producers = ProducerStateManager()
    producers.update(header(0, producer_id=7), 10, 5000)
    producers.update(transactional(header(0, producer_id=8)), 13, 5000)
    producers.update(header(0, producer_id=9), 16, 5001)
    assert producers.remove_expired(6000, 1000) == 1
    assert [producers.knows(producer_id) for producer_id in (7, 8, 9)] == [False, True, True]
    producers.end_transaction(8, 0, 0, 6000)
    assert producers.remove_expired(7000, 1000) == 2
    assert not producers.active_producers()


def test_attempt_when_a_producer_has_written_nothing_then_a_higher_sequence_waits_until_the_lowest_is_written() -> None:
    producers = ProducerStateManager()
    for sequence in (6, 3, 9, -1):
        producers.note_attempt(header(sequence), 1000)
    assert [producers.check(header(sequence)) for sequence in (0, 3)] == [ErrorCode.NONE] * 2
    assert producers.check(header(6)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert producers.check(header(6, producer_id=8)) is ErrorCode.NONE
    producers.update(header(3), 0, 1000)
    assert producers.check(header(6)) is ErrorCode.NONE


def test_attempt_when_its_epoch_is_newer_then_the_older_one_does_not_count() -> None:
    producers = ProducerStateManager()
    producers.note_attempt(header(3), 1000)
    producers.note_attempt(header(6, epoch=1), 1000)
    producers.note_attempt(header(0), 1000)
    assert producers.check(header(6, epoch=1)) is ErrorCode.NONE
    assert producers.check(header(9, epoch=1)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert producers.check(header(9, epoch=2)) is ErrorCode.NONE


def test_attempt_when_its_producer_is_known_or_is_not_heard_of_for_long_then_it_is_forgotten() -> None:
    producers = ProducerStateManager()
    producers.update(header(0), 0, 1000)
    producers.note_attempt(header(3), 1000)
    producers.note_attempt(header(3, producer_id=8), 1000)
    producers.note_attempt(header(3, producer_id=9), 1001)
    producers.remove_expired(2000, 1000)
    codes = {producer_id: producers.check(header(6, producer_id=producer_id)) for producer_id in (7, 8, 9)}
    assert codes == {7: ErrorCode.NONE, 8: ErrorCode.NONE, 9: ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER}
