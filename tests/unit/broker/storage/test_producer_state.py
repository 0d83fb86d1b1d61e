from __future__ import annotations

from pyproducer.broker.storage.batch_header import BatchHeader
from pyproducer.broker.storage.producer_state import BATCHES_TO_RETAIN, ProducerStateManager
from pyproducer.common.error_codes import ErrorCode

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
    producers = manager(*(header(3 * number) for number in range(BATCHES_TO_RETAIN + 1)))
    assert producers.find_duplicate(header(0)) is None
    for number in range(1, BATCHES_TO_RETAIN + 1):
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
