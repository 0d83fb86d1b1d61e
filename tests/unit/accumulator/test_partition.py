"""What a batch takes of buffer.memory besides its buffer: itself, and the futures of the batch before it."""

from __future__ import annotations

import random

import pytest

from pyproducer.accumulator.partition import BATCH_BYTES, FUTURE_BYTES
from pyproducer.common.cluster import Cluster
from pyproducer.common.errors import BufferExhaustedError
from tests.unit.accumulator.test_record_accumulator import Setup, cluster, rows_of

MIB = 2**20


def taken_bytes(setup: Setup) -> int:
    return setup.pool.total_bytes - setup.pool.available_bytes


def complete_all(setup: Setup, where: Cluster | None = None) -> None:
    while drained := setup.drain(size=100 * MIB, where=where):
        for batches in drained.values():
            for batch in batches:
                batch.complete(0)
                setup.accumulator.finish(batch)


def test_reservation_when_a_partition_is_new_then_is_for_a_batch_full_of_records_like_the_first():
    setup = Setup(batch_size=16384, memory=MIB)
    setup.append(value=b"v" * 10)
    reserved_bytes = taken_bytes(setup)
    while not setup.append(value=b"v" * 10).new_batch_created:
        pass
    first, second = setup.accumulator.incomplete()
    assert 0 <= reserved_bytes - (16384 + BATCH_BYTES + first.future_count * FUTURE_BYTES) < 200 * FUTURE_BYTES
    assert second.reserved_bytes == 16384 + BATCH_BYTES + first.future_count * FUTURE_BYTES


@pytest.mark.parametrize("batch_size", [0, 1, 200, 16384])
def test_reservation_when_sizes_vary_then_is_for_all_futures_but_those_of_one_batch(batch_size):
    setup = Setup(batch_size=batch_size, memory=64 * MIB)
    draw = random.Random(3)
    for _ in range(3000):
        setup.append(value=b"v" * draw.choice((0, 0, 0, 0, 10, 1000, 20_000)))
    batches = setup.accumulator.incomplete()
    held_bytes = sum(batch.size_bytes + BATCH_BYTES + batch.future_count * FUTURE_BYTES for batch in batches)
    assert len(batches) > 20
    assert taken_bytes(setup) >= held_bytes - batches[-1].future_count * FUTURE_BYTES
    complete_all(setup)
    assert taken_bytes(setup) == 0


def test_reservation_when_the_batch_before_was_answered_then_still_counts_its_records():
    setup = Setup(batch_size=1000)
    for _ in range(3):
        setup.append()
    complete_all(setup)
    assert setup.pool.available_bytes == setup.pool.total_bytes
    setup.append()
    assert taken_bytes(setup) == 1000 + BATCH_BYTES + 3 * FUTURE_BYTES


def test_reservation_when_the_batch_before_holds_rows_then_they_have_no_futures():
    setup = Setup()
    rows = rows_of(*[b"r" * 20] * 3)
    assert setup.accumulator.append_rows("t", 0, rows, 0, 3, 0).row_count == 3
    assert taken_bytes(setup) == 200 + BATCH_BYTES  # rows were asked for, so nothing is taken for records
    setup.append(value=b"v" * 20)
    assert not setup.append(value=b"v" * 150).batch.row_count
    first, second = setup.accumulator.incomplete()
    assert (first.record_count, first.future_count) == (4, 1)
    assert second.reserved_bytes == 61 + 21 + 150 + BATCH_BYTES + FUTURE_BYTES
    complete_all(setup)
    assert (first.future_count, taken_bytes(setup)) == (1, 0)


def test_reservation_when_it_would_be_above_the_total_then_takes_all_there_is():
    setup = Setup(batch_size=1000, memory=1000)
    for _ in range(3):
        batch = setup.append(value=b"v").batch
        while not setup.append(value=b"v").batch_is_full and batch.size_bytes < 950:
            pass
        assert setup.pool.available_bytes == 0
        with pytest.raises(BufferExhaustedError):
            setup.append(partition=1)
        complete_all(setup)
        assert setup.pool.available_bytes == 1000
    assert setup.accumulator.append_rows("t", 1, rows_of(b"r" * 900), 0, 1, 0).row_count == 1
    assert setup.pool.available_bytes == 0


def test_reservation_when_there_are_many_partitions_then_each_remembers_its_own_batches():
    setup = Setup(batch_size=1000, memory=10 * MIB)
    leaders = (0,) * 100
    for partition in range(100):
        for _ in range(1 + partition % 5):
            setup.append(partition)
    complete_all(setup, cluster(leaders))
    for partition in range(100):
        batch = setup.append(partition).batch
        assert batch.reserved_bytes == 1000 + BATCH_BYTES + (1 + partition % 5) * FUTURE_BYTES
    complete_all(setup, cluster(leaders))
    assert taken_bytes(setup) == 0


def test_batch_that_was_answered_or_split_or_aborted_then_is_not_kept():
    setup = Setup()
    setup.append()
    complete_all(setup)
    partition = setup.accumulator._partitions["t", 0]
    assert partition.batches == []
    setup.append()
    setup.append()
    batch = setup.drain()[0][0]
    assert partition.batches == [batch]
    reserved_bytes = batch.reserved_bytes
    parts = setup.accumulator.split(batch)
    assert partition.batches == parts
    assert sum(part.reserved_bytes for part in parts) == reserved_bytes == taken_bytes(setup)
    setup.append()
    setup.accumulator.abort_batches(BufferExhaustedError("over"))
    assert partition.batches == []
    assert taken_bytes(setup) == 0


def test_reservation_when_a_caller_asks_while_the_batch_before_leaves_then_it_is_charged_for_its_futures(monkeypatch):
    """Callers ask without the lock: between two lines of a leaving they must find the batch or its count."""
    setup = Setup()
    setup.append()
    setup.append()
    (batch,) = setup.drain()[0]
    batch.complete(0)
    partition, release = setup.accumulator._partitions["t", 0], setup.pool.release
    seen: list[int] = []

    def release_while_asked(*arguments):
        seen.append(partition.bookkeeping_bytes(1000))
        release(*arguments)
        seen.append(partition.bookkeeping_bytes(1000))

    monkeypatch.setattr(setup.pool, "release", release_while_asked)
    setup.accumulator.finish(batch)
    assert seen == [BATCH_BYTES + 2 * FUTURE_BYTES] * 2
