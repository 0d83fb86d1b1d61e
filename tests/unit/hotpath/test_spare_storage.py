"""The compiled twin uses a batch's storage again, and only when nobody has it any more."""

from __future__ import annotations

import sysconfig
from array import array

import pytest

from pyproducer.accumulator.producer_batch import ProducerBatch
from pyproducer.common.cluster import TopicPartition
from pyproducer.hotpath import IMPL, ColumnChunk, OpenBatch, items_column
from pyproducer.record.batch_reader import read_batches
from pyproducer.record.batch_writer import write_header
from pyproducer.record.compression import compressor_for

SIZE = 64 * 1024
reuses = pytest.mark.skipif(IMPL != "native" or bool(sysconfig.get_config_var("Py_GIL_DISABLED")),
                            reason="the Python text leaves storages to Python, and so does a Python without the GIL")


def filled(letter: bytes) -> OpenBatch:
    batch = OpenBatch(None, SIZE)
    while batch.try_append(1, None, letter * 10_000, (), None) is not None:
        pass
    return batch


@reuses
def test_storage_when_its_batch_is_gone_then_the_next_batch_gets_it():
    others = [filled(b"x") for _ in range(300)]  # takes what other tests left, of whatever size
    del others
    batch = ProducerBatch(TopicPartition("t", 0), created_ms=0, write_limit_bytes=SIZE, reserved_bytes=SIZE)
    for _ in range(6):
        batch.open.try_append(1, None, b"a" * 10_000, (), None)
    batch.close(compressor_for("none"))
    where = id(batch.encoded)
    del batch
    assert id(filled(b"b").buffer) == where


@pytest.mark.parametrize("hold", [lambda storage: storage, memoryview, lambda storage: memoryview(storage)[61:]])
def test_storage_when_somebody_still_has_it_then_no_batch_writes_into_it(hold):
    batch = filled(b"a")
    held = hold(batch.buffer)
    before = bytes(held)
    del batch
    others = [filled(b"b") for _ in range(100)]
    assert bytes(held) == before
    assert all(other.buffer is not held for other in others)


def test_storage_when_used_again_then_a_batch_holds_nothing_of_the_one_before():
    fresh = [bytes(filled(b"b").buffer)[61:] for _ in range(2)]
    del fresh[1:]
    filled(b"a")
    batch = OpenBatch(None, SIZE)
    batch.try_append(1, None, b"b", (), None)
    assert len(batch.buffer) == batch.size_bytes < 100
    assert bytes(filled(b"b").buffer)[61:] == fresh[0]


def test_storage_when_batches_of_many_sizes_come_and_go_then_each_holds_its_own_records():
    for size in (100, SIZE, 16_384, 131_072, 1_000_000, SIZE, 20_000) * 3:
        batches = [OpenBatch(None, size) for _ in range(80)]
        for number, batch in enumerate(batches):
            batch.try_append(1, None, bytes([number]) * (size // 2), (), None)
        assert all(bytes([number]) * (size // 2) in batch.buffer for number, batch in enumerate(batches))


def test_rows_when_their_batch_moves_into_a_used_storage_then_none_is_left_behind():
    """Rows are counted when the call ends, so what it had written was not moved, and rows of another batch were sent.

    A batch of 256 KiB begins with half of that, and takes a storage that another one left when it needs more.
    """
    for letter in (b"a", b"b", b"c"):
        values = tuple(letter * 900 + b"%06d" % number for number in range(270))
        batch = OpenBatch(None, 4 * SIZE)
        batch.try_append(1000, None, letter, (), None)
        chunk = ColumnChunk(0, items_column(values, 0, len(values)), None, None, None)
        _, count = chunk.append_to(batch, array("q", [1000] * len(values)), array("i", range(len(values))), 0,
                                   len(values))
        write_header(batch.buffer, codec_id=0, record_count=batch.record_count, base_timestamp=1000,
                     max_timestamp=1000)
        read = [record.value for one in read_batches(bytes(batch.buffer)) for record in one]
        assert count == len(values)
        assert read == [letter, *values]
        del batch
