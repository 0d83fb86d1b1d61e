from __future__ import annotations

import pytest

from pyproducer.common.errors import CorruptRecordError
from pyproducer.record.batch_reader import RecordBatch, frame_size, read_batches
from pyproducer.record.batch_writer import build_batch

FIELDS = [(1000, b"k", b"v", ()), (1001, b"k", b"w", ())]
BATCH = build_batch(FIELDS)


def test_batches_are_read_one_after_another_and_know_their_place() -> None:
    data = BATCH + build_batch(FIELDS, base_offset=2, compression="zstd")
    first, second = read_batches(data)
    assert (first.position, second.position, second.base_offset) == (0, len(BATCH), 2)
    assert first.size_bytes + second.size_bytes == len(data)
    assert [record.offset for batch in (first, second) for record in batch] == [0, 1, 2, 3]
    assert second.next_offset == 4


@pytest.mark.parametrize("cut", [0, 1, 11, 12, 16, 17, 60, 61, len(BATCH) - 1])
def test_a_batch_cut_short_at_the_end_is_left_out(cut: int) -> None:
    assert [batch.base_offset for batch in read_batches(BATCH + BATCH[:cut])] == [0]


def test_no_bytes_are_copied_for_headers() -> None:
    data = bytearray(BATCH)
    (batch,) = read_batches(data)
    assert isinstance(batch.data, memoryview)
    assert batch.data.obj is data


@pytest.mark.parametrize(("position", "value", "text"), [
    (8, b"\0\0\0\x0a", r"Record size 10 is less than the minimum record overhead \(14\), at byte 71"),
    (8, b"\xff\xff\xff\xff", "Record size -1 is less than"),
    (16, b"\x03", "Invalid magic found in record: 3, at byte 71"),
    (16, b"\xff", "Invalid magic found in record: -1"),
    (16, b"\x01", "at byte 71 has the old magic 1"),
    (8, b"\0\0\0\x0e", "size 26 is smaller than the minimum allowed overhead 61.*at byte 71"),
])
def test_a_frame_that_makes_no_sense_is_named_with_its_place(position: int, value: bytes, text: str) -> None:
    first = build_batch([(1000, None, b"vvv", ())])
    assert len(first) == 71
    second = bytearray(BATCH)
    second[position:position + len(value)] = value
    batches = read_batches(first + second)
    assert next(batches).base_offset == 0
    with pytest.raises(CorruptRecordError, match=text):
        next(batches)


@pytest.mark.parametrize("position", [17, 21, 30, 57, 65])
def test_a_changed_byte_is_seen_by_the_crc(position: int) -> None:
    damaged = bytearray(BATCH)
    damaged[position] ^= 1
    (batch,) = read_batches(damaged)
    assert not batch.is_valid()
    with pytest.raises(CorruptRecordError, match=r"stored crc = \d+, computed crc = \d+.*offset 0 at byte 0"):
        batch.ensure_valid()


def test_records_before_the_damage_are_given_out_and_the_batch_is_named() -> None:
    damaged = bytearray(build_batch(FIELDS, base_offset=40))
    damaged[-1] = 8  # the last record now claims four headers
    (batch,) = read_batches(damaged)
    records = batch.records()
    assert next(records).value == b"v"
    with pytest.raises(CorruptRecordError, match=r"record 1 of 2.*\(in the batch of offset 40 at byte 0\)"):
        next(records)


def test_records_that_expand_beyond_the_limit_are_refused() -> None:
    (batch,) = read_batches(build_batch([(0, None, bytes(100_000), ())], compression="zstd"))
    with pytest.raises(CorruptRecordError, match="zstd"):
        list(batch.records(limit_bytes=50_000))
    assert len(batch.expanded_records()) > 100_000


def test_a_batch_can_be_iterated_again() -> None:
    (batch,) = read_batches(BATCH)
    for _ in range(2):
        assert [(record.timestamp, record.key, record.value) for record in batch] == [field[:3] for field in FIELDS]


def test_attributes_of_a_batch() -> None:
    (batch,) = read_batches(build_batch(FIELDS, compression="lz4", producer_id=3, producer_epoch=1, base_sequence=9,
                                        is_transactional=True, is_control=True, timestamp_type=1))
    assert (batch.codec_id, batch.timestamp_type, batch.is_transactional, batch.is_control) == (3, 1, True, True)
    assert (batch.has_producer_id, batch.last_sequence) == (True, 10)
    assert repr(batch) == (f"RecordBatch(offsets 0..1, 2 control records, {batch.size_bytes} bytes, lz4, "
                           "producer 3/1, sequence 9)")
    (plain,) = read_batches(BATCH)
    assert (plain.has_producer_id, plain.last_sequence, plain.is_valid()) == (False, -1, True)


def test_frame_size_of_old_magics_is_told_too() -> None:
    old = bytearray(BATCH)
    old[16] = 0
    assert frame_size(old, 0) == len(BATCH)


def test_fewer_bytes_than_a_header_are_no_batch() -> None:
    with pytest.raises(CorruptRecordError, match="smaller than"):
        RecordBatch(BATCH[:60])
