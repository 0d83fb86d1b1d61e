from __future__ import annotations

import pytest
from crc32c import crc32c

from pyproducer.common.errors import LocalProtocolError
from pyproducer.hotpath import OpenBatch
from pyproducer.record.batch_reader import read_batches
from pyproducer.record.batch_writer import (
    build_batch,
    close_records,
    write_header,
)
from pyproducer.record.compression import compressor_for

FIELDS = [(1000, b"k", b"v" * 50, ()), (1007, None, b"w" * 50, [("h", None)]), (1003, b"k", None, ())]


def _open_batch() -> OpenBatch:
    batch = OpenBatch(None, 2**31 - 1)
    for fields in FIELDS:
        batch.append(*fields)
    return batch


def test_close_records_leaves_an_uncompressed_buffer_alone() -> None:
    buffer = _open_batch().buffer
    before = bytes(buffer)
    assert close_records(buffer, compressor_for("none")) is buffer
    assert buffer == before


@pytest.mark.parametrize("name", ["gzip", "snappy", "lz4", "zstd"])
def test_close_records_compresses_into_a_new_buffer_and_keeps_the_old(name: str) -> None:
    buffer = _open_batch().buffer
    before = bytes(buffer)
    closed = close_records(buffer, compressor_for(name))
    assert buffer == before
    assert closed[:61] == bytes(61)
    buffer += b"x"  # no view of it is left behind: it may grow again
    closed += b"x"


def test_attribute_bits() -> None:
    assert build_batch(FIELDS, compression="zstd")[21:23] == b"\0\x04"
    assert build_batch(FIELDS, timestamp_type=1, is_transactional=True, is_control=True)[21:23] == b"\0\x38"


def test_the_crc_covers_attributes_to_end() -> None:
    batch = build_batch(FIELDS, compression="zstd")
    assert int.from_bytes(batch[17:21], "big") == crc32c(batch[21:])


def test_a_header_is_written_again_without_touching_the_records() -> None:
    source = _open_batch()
    times = {"record_count": 3, "base_timestamp": source.base_timestamp, "max_timestamp": source.max_timestamp}
    batch = close_records(source.buffer, compressor_for("lz4"))
    write_header(batch, codec_id=3, producer_id=5, producer_epoch=1, base_sequence=10, **times)
    records = bytes(batch[61:])
    write_header(batch, codec_id=3, producer_id=5, producer_epoch=2, base_sequence=0, is_transactional=True, **times)
    assert batch[61:] == records
    (read,) = read_batches(batch)
    read.ensure_valid()
    assert (read.producer_epoch, read.base_sequence, read.is_transactional, read.codec_id) == (2, 0, True, 3)
    assert (read.base_timestamp, read.max_timestamp, read.last_offset_delta) == (1000, 1007, 2)


def test_a_number_that_does_not_fit_is_our_own_error() -> None:
    with pytest.raises(LocalProtocolError, match="cannot hold"):
        build_batch(FIELDS, producer_epoch=40_000)
    with pytest.raises(LocalProtocolError, match="cannot hold"):
        build_batch(FIELDS, producer_id=2**70)


def test_a_batch_without_records_is_not_built() -> None:
    with pytest.raises(LocalProtocolError, match="at least one record"):
        build_batch([])


def test_offsets_count_from_the_base_offset() -> None:
    (read,) = read_batches(build_batch(FIELDS, base_offset=2**40, partition_leader_epoch=7))
    read.ensure_valid()
    assert (read.base_offset, read.last_offset, read.partition_leader_epoch) == (2**40, 2**40 + 2, 7)
    assert [record.offset for record in read] == [2**40, 2**40 + 1, 2**40 + 2]


def test_log_append_time_is_every_records_timestamp() -> None:
    batch = build_batch([*FIELDS, (5555, None, None, ())], compression="gzip", is_transactional=True, timestamp_type=1)
    (read,) = read_batches(batch)
    read.ensure_valid()
    assert {record.timestamp for record in read} == {5555}
    assert (read.timestamp_type, read.codec_id, read.is_transactional, read.base_timestamp) == (1, 1, True, 1000)
