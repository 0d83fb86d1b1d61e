"""A batch grows beyond batch.size while it could not leave anyway: behind one that waits, with memory to be had."""

from __future__ import annotations

import random
import threading
from typing import Any

import pytest

from pyproducer.accumulator.partition import BATCH_BYTES, FUTURE_BYTES
from pyproducer.accumulator.producer_batch import ProducerBatch
from pyproducer.common.errors import BufferExhaustedError
from tests.support.clock import ManualClock
from tests.support.patience import GIVE_UP_S
from tests.unit.accumulator.test_record_accumulator import Setup, cluster, rows_of
from tests.unit.sender.stepped_producer import SteppedProducer

VALUE = b"v" * 50  # two records of it fill a batch of 200 bytes


def fill(setup: Setup, count: int, value: bytes = VALUE) -> list[ProducerBatch]:
    """Append records to one partition, and return its batches."""
    for _ in range(count):
        setup.append(value=value)
    return list(setup.accumulator.incomplete())


def counts(batches: list[ProducerBatch]) -> list[int]:
    return [batch.open.record_count for batch in batches]


def is_ready(setup: Setup, leaders: tuple[int | None, ...] = (0, 1, 0)) -> bool:
    return bool(setup.accumulator.ready(cluster(leaders), setup.clock.now_ms()).ready_nodes)


def complete(setup: Setup) -> None:
    for batches in setup.drain().values():
        for batch in batches:
            batch.complete(0)
            setup.accumulator.finish(batch)


def test_batch_when_another_one_waits_before_it_then_it_grows_up_to_the_largest_and_the_next_one_too() -> None:
    setup = Setup(largest_batch_bytes=800)
    first, second, third = fill(setup, 2 + 12 + 1)
    assert counts([first, second, third]) == [2, 12, 1]
    assert first.size_bytes <= 200 < 400 < second.size_bytes <= 800
    assert counts(fill(setup, 11)) == [2, 12, 12]


def test_batch_when_batch_size_was_set_then_it_is_obeyed() -> None:
    assert counts(fill(Setup(), 7)) == [2, 2, 2, 1]


def compressing(**settings: Any) -> Setup:
    """Return a producer whose batches were compressed to a twentieth so far."""
    setup = Setup(codec="gzip", **settings)
    for _ in range(200):
        setup.append(value=b"v" * 2000)
        complete(setup)
    return setup


def test_batch_when_it_is_compressed_then_it_grows_until_it_is_estimated_to_be_batch_size() -> None:
    setup = compressing(largest_uncompressed_bytes=800)
    assert counts(fill(setup, 2 + 12 + 1)) == [2, 12, 1]
    assert not setup.accumulator.has_split


def test_rows_when_they_are_compressed_then_a_batch_takes_what_is_estimated_to_become_batch_size() -> None:
    setup = compressing(largest_uncompressed_bytes=800)
    rows = rows_of(*[VALUE] * 15)
    assert setup.accumulator.append_rows("t", 0, rows, 0, 15, 0).row_count == 12
    assert Setup().accumulator.append_rows("t", 0, rows, 0, 15, 0).row_count == 2


def test_rows_when_a_batch_was_too_large_for_the_broker_then_batch_size_is_obeyed() -> None:
    setup = compressing(largest_uncompressed_bytes=800)
    setup.accumulator.has_split = True
    assert setup.accumulator.append_rows("t", 0, rows_of(*[VALUE] * 15), 0, 15, 0).row_count == 2


@pytest.mark.parametrize("settings", [{"in_flight_bytes": 799}, {"memory": 6000}])
def test_rows_when_larger_batches_would_take_what_others_need_then_batch_size_is_obeyed(
        settings: dict[str, int]) -> None:
    setup = compressing(largest_uncompressed_bytes=800, **settings)
    assert setup.accumulator.append_rows("t", 0, rows_of(*[VALUE] * 15), 0, 15, 0).row_count == 2


def test_batch_when_it_is_hardly_compressed_then_it_takes_what_becomes_batch_size() -> None:
    setup = compressing(largest_uncompressed_bytes=800)
    halves = random.Random(1).randbytes(1000).hex().encode()  # two digits are a byte
    for _ in range(2):
        setup.append(value=halves)
        complete(setup)
    first, second = fill(setup, 2 + 5)[:2]
    assert counts([first, second]) == [2, 4]
    assert 300 < second.open.write_limit_bytes < 2 * 200


def test_batch_when_one_was_compressed_badly_then_the_next_does_not_grow() -> None:
    setup = compressing(largest_uncompressed_bytes=800)
    setup.append(value=random.Random(1).randbytes(500))
    complete(setup)
    assert counts(fill(setup, 7)) == [2, 2, 2, 1]


def test_batch_when_one_is_sent_again_then_what_is_estimated_of_the_next_stays() -> None:
    """A retry, which was compressed before, was taken for a batch that could not be compressed at all."""
    setup = compressing(largest_uncompressed_bytes=800)
    setup.append(value=b"v" * 2000)
    ((batch,),) = setup.drain().values()
    setup.accumulator.reenqueue(batch, setup.clock.now_ms())
    setup.clock.advance(100)
    complete(setup)
    assert counts(fill(setup, 2 + 12 + 1)) == [2, 12, 1]


def test_batch_when_those_before_it_are_on_their_way_then_it_is_closed_at_batch_size() -> None:
    setup = Setup(largest_batch_bytes=800)
    fill(setup, 2)
    setup.drain()
    assert counts(fill(setup, 4)) == [2, 2, 2]
    assert counts(fill(setup, 1)) == [2, 2, 3]  # now one waits


def test_batch_when_it_grew_and_is_the_first_then_it_does_not_linger() -> None:
    setup = Setup(largest_batch_bytes=800, linger=10_000)
    first, second = fill(setup, 6)
    assert setup.drain()[0] == [first]
    assert is_ready(setup)
    assert setup.drain()[0] == [second]
    fill(setup, 1)
    assert not is_ready(setup)  # this one lingers


def test_batch_when_it_is_old_then_it_grows_no_more_for_it_expires_with_its_oldest_record() -> None:
    setup = Setup(largest_batch_bytes=800, delivery_timeout=6400)
    fill(setup, 3)
    setup.clock.advance(101)
    assert counts(fill(setup, 2)) == [2, 2, 1]


def test_batch_when_it_grew_and_is_old_then_it_is_closed_for_what_comes_now_shall_not_expire_with_it() -> None:
    """Room was had within the time, and filled for the rest of delivery.timeout.ms: new records expired at once."""
    setup = Setup(largest_batch_bytes=800, delivery_timeout=6400)
    assert counts(fill(setup, 3 + 3)) == [2, 4], "it has room for one more"
    setup.clock.advance(101)
    assert not is_ready(setup, leaders=(None, None, None))
    assert counts(fill(setup, 1)) == [2, 4, 1]


def test_batch_when_it_grew_and_is_young_then_it_takes_what_comes_however_long_the_machine_runs() -> None:
    setup = Setup(largest_batch_bytes=800, delivery_timeout=6400, clock=ManualClock(now_ms=1_000_000))
    fill(setup, 3 + 4)
    setup.clock.advance(100)
    assert not is_ready(setup, leaders=(None, None, None))
    assert counts(fill(setup, 1)) == [2, 6]


def test_batch_when_many_partitions_are_busy_then_all_fit_into_the_requests_in_flight() -> None:
    """A cold partition waited for many requests that were filled by the grown batches of the others."""
    setup = Setup(largest_batch_bytes=800, in_flight_bytes=800)
    assert counts(fill(setup, 14)) == [2, 12]
    for partition, expected in ((1, [2, 5, 5]), (2, [2, 2, 2])):
        for _ in range(12):
            setup.append(partition)
        assert counts([batch for batch in setup.accumulator.incomplete()
                       if batch.topic_partition.partition == partition])[:3] == expected


def test_batch_when_it_grew_before_it_was_quite_full_then_it_does_not_linger_all_the_same() -> None:
    """Room is asked for by an upper bound, so a batch may grow below batch.size; it lingered up to twice of that."""
    setup = Setup(largest_batch_bytes=800, linger=10_000)
    _first, second = fill(setup, 5)
    assert second.open.size_bytes > second.full_bytes < 200
    setup.drain()
    assert is_ready(setup)


def test_batch_when_a_broker_found_one_too_large_then_none_grows_any_more() -> None:
    setup = Setup(largest_batch_bytes=800)
    setup.accumulator.has_split = True
    assert counts(fill(setup, 6)) == [2, 2, 2]


def test_memory_when_batches_grow_then_bytes_and_futures_are_charged_and_all_comes_back() -> None:
    setup = Setup(largest_batch_bytes=800)
    first, second = fill(setup, 2 + 11)
    assert second.open.write_limit_bytes == 800
    for batch in (first, second):
        assert batch.reserved_bytes >= batch.open.size_bytes + BATCH_BYTES + FUTURE_BYTES * batch.future_count
    assert setup.pool.total_bytes - setup.pool.available_bytes == first.reserved_bytes + second.reserved_bytes
    complete(setup)
    complete(setup)
    assert setup.pool.available_bytes == setup.pool.total_bytes
    third = setup.append().batch
    assert third.reserved_bytes < 200 + BATCH_BYTES + 6 * FUTURE_BYTES  # not for the futures of the one that grew


def test_memory_when_there_is_none_then_a_batch_is_closed_at_batch_size() -> None:
    setup = Setup(largest_batch_bytes=800)
    first, second = fill(setup, 3)
    left_bytes = 199
    setup.pool.total_bytes = first.reserved_bytes + second.reserved_bytes + left_bytes
    with pytest.raises(BufferExhaustedError):
        fill(setup, 2)
    assert counts(setup.accumulator.incomplete()) == [2, 2]
    assert setup.pool.available_bytes == left_bytes


def test_memory_when_somebody_waits_for_it_then_no_batch_grows_into_what_comes_back() -> None:
    setup = Setup(largest_batch_bytes=800)
    first, second = fill(setup, 3)
    taken_bytes = first.reserved_bytes + second.reserved_bytes
    setup.pool.total_bytes = taken_bytes + 2000
    place = setup.pool.enter(100_000, 1000)
    try:
        assert not setup.pool.extend(second, 10)
    finally:
        place.leave()
    assert setup.pool.extend(second, 10)
    assert setup.pool.total_bytes - setup.pool.available_bytes == taken_bytes + 10


def test_threads_when_they_fill_a_partition_that_grows_then_no_record_is_lost_and_each_is_in_order() -> None:
    setup = Setup(largest_batch_bytes=3200, memory=10**8)
    threads = [threading.Thread(target=lambda name=name: [  # type: ignore[misc]  # bound now
        setup.append(value=f"{name} {number:05}".encode() * 5) for number in range(500)]) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(GIVE_UP_S)
    batches = setup.accumulator.incomplete()
    assert sum(counts(batches)) == 2000
    assert all(len(batch.open.futures) == batch.open.record_count for batch in batches)
    assert setup.pool.total_bytes - setup.pool.available_bytes == sum(batch.reserved_bytes for batch in batches)


def test_turn_when_a_partition_has_a_second_batch_then_what_lingers_behind_it_does_not_go() -> None:
    """The later rounds of a turn took all nearly empty batches, as soon as one partition had a second."""
    producer = SteppedProducer(linger=10)
    for partition in range(2):  # a producer id, and one record of each partition that was stored
        future = producer.append(partition)
        producer.turn(10)
        if not partition:
            producer.client.answer({"throttle_time_ms": 0, "error_code": 0, "producer_id": 7, "producer_epoch": 0})
            producer.turn()
        producer.answer_all(base_offset=0)
        assert future.done()
    futures = [producer.append(0) for _ in range(3)]
    futures.append(producer.append(1))
    producer.turn()
    assert [[part["index"] for topic in producer.client.body_of(request)["topic_data"]
             for part in topic["partition_data"]] for request in producer.client.in_flight] == [[0, 1], [0]]
    producer.turn(10)
    assert len(producer.client.in_flight) == 3
    for _ in range(3):
        producer.answer_all(base_offset=1)
    assert all(future.done() for future in futures)
