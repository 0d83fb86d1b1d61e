"""Record batches: what is written is read; damage is named and never costs more memory than allowed."""

from __future__ import annotations

import contextlib
import tracemalloc
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from pyproducer.broker.storage.validation import BatchFault, BatchRules, validate_batch
from pyproducer.common.errors import CorruptRecordError
from pyproducer.hotpath import OpenBatch, record_size_upper_bound
from pyproducer.record.batch_reader import RecordBatch, read_batches
from pyproducer.record.batch_writer import build_batch, close_records, write_header
from pyproducer.record.compression import CODEC_IDS, compressor_for
from pyproducer.record.control import parse_control_record
from pyproducer.record.decompression import decompress
from pyproducer.record.layout import MAX_SEQUENCE, increment_sequence
from tests.property.profiles import examples

LIMIT_BYTES = 1 << 20
# Libraries keep windows and tables of their own, and each piece exists twice while pieces are joined.
ALLOWED_PEAK_BYTES = 3 * LIMIT_BYTES + (8 << 20)

blobs = st.one_of(st.none(), st.binary(max_size=40), st.builds(lambda b, n: b * n, st.binary(max_size=9),
                                                               st.integers(0, 3000)))
headers = st.lists(st.tuples(st.text(max_size=8), st.one_of(st.none(), st.binary(max_size=8))), max_size=4)
timestamps = st.one_of(st.integers(0, 2**41), st.integers(-1, 2**62))
record_fields = st.tuples(timestamps, blobs, blobs, headers)
batches_of_fields = st.lists(record_fields, min_size=1, max_size=30)
codecs = st.sampled_from(sorted(CODEC_IDS))
buffer_types = st.sampled_from([bytes, bytearray, memoryview])


def _varint(value: int) -> bytes:
    raw = value * 2 if value >= 0 else -value * 2 - 1
    out = b""
    while raw >= 128:
        out += bytes([raw % 128 + 128])
        raw //= 128
    return out + bytes([raw])


def _optional(blob: bytes | None) -> bytes:
    return _varint(-1) if blob is None else _varint(len(blob)) + blob


def _naive_records(fields: list[Any]) -> bytes:
    """The drawing of layout.py, written out as plainly as can be."""
    out = b""
    for index, (timestamp, key, value, pairs) in enumerate(fields):
        body = (b"\0" + _varint(timestamp - fields[0][0]) + _varint(index) + _optional(key) + _optional(value)
                + _varint(len(pairs)) + b"".join(_optional(k.encode()) + _optional(v) for k, v in pairs))
        out += _varint(len(body)) + body
    return out


@given(batches_of_fields)
def test_hotpath_append_equals_the_naive_encoder(fields: list[Any]) -> None:
    batch = OpenBatch(None, 2**31 - 1)
    for timestamp, key, value, pairs in fields:
        before = batch.size_bytes
        batch.append(timestamp, key, value, pairs)
        assert batch.size_bytes - before + 61 <= record_size_upper_bound(key, value, pairs)
    assert bytes(batch.buffer[61:]) == _naive_records(fields)
    assert batch.record_count == len(fields)
    assert batch.base_timestamp == fields[0][0]
    assert batch.max_timestamp == max(field[0] for field in fields)


@given(batches_of_fields, codecs, buffer_types, st.integers(0, MAX_SEQUENCE), st.booleans())
def test_what_is_written_is_read(fields: list[Any], codec: str, buffer_type: Any, sequence: int,
                                 is_transactional: bool) -> None:
    data = build_batch(fields, compression=codec, producer_id=7, producer_epoch=3, base_sequence=sequence,
                       is_transactional=is_transactional)
    (batch,) = read_batches(buffer_type(data))
    batch.ensure_valid()
    records = list(batch)
    assert [(r.timestamp, r.key, r.value, list(map(tuple, r.headers))) for r in records] == fields
    assert [r.offset for r in records] == list(range(len(fields)))
    assert [r.sequence for r in records] == [(sequence + i) % 2**31 for i in range(len(fields))]
    assert (batch.last_sequence, batch.is_transactional) == (records[-1].sequence, is_transactional)
    verdict = validate_batch(buffer_type(data), produce_version=9, timestamp_ms=0,
                             rules=BatchRules(timestamp_after_max_ms=2**63))
    assert isinstance(verdict, RecordBatch)


@given(batches_of_fields, codecs, st.integers(0, 2**60), st.integers(0, 2**15 - 1), st.integers(0, MAX_SEQUENCE))
def test_a_header_written_again_equals_one_written_at_once(fields: list[Any], codec: str, producer_id: int, epoch: int,
                                                           sequence: int) -> None:
    open_batch = OpenBatch(None, 2**31 - 1)
    for record in fields:
        open_batch.append(*record)
    compressor = compressor_for(codec)
    times = {"record_count": len(fields), "base_timestamp": open_batch.base_timestamp,
             "max_timestamp": open_batch.max_timestamp}
    batch = close_records(open_batch.buffer, compressor)
    write_header(batch, codec_id=compressor.codec_id, **times)
    write_header(batch, codec_id=compressor.codec_id, producer_id=producer_id, producer_epoch=epoch,
                 base_sequence=sequence, **times)
    assert batch == build_batch(fields, compression=codec, producer_id=producer_id, producer_epoch=epoch,
                                base_sequence=sequence)


@given(st.integers(0, MAX_SEQUENCE), st.integers(0, MAX_SEQUENCE))
def test_sequences_are_numbers_modulo_two_to_the_31(sequence: int, step: int) -> None:
    assert increment_sequence(sequence, step) == (sequence + step) % 2**31


@st.composite
def damaged_batches(draw: st.DrawFn) -> bytes:
    data = bytearray(build_batch(draw(batches_of_fields), compression=draw(codecs)))
    for _ in range(draw(st.integers(1, 4))):
        kind = draw(st.sampled_from(["flip", "set", "cut", "insert", "records"]))
        where = draw(st.integers(0, len(data) - 1)) if data else 0
        if kind == "flip" and data:
            data[where] ^= 1 << draw(st.integers(0, 7))
        elif kind == "set" and data:
            data[where] = draw(st.sampled_from([0, 1, 0x7F, 0x80, 0xFF]))
        elif kind == "records" and len(data) > 61:
            data[draw(st.integers(61, min(len(data) - 1, 90)))] = draw(st.integers(0, 255))
        elif kind == "cut":
            del data[where:]
        else:
            data[where:where] = draw(st.binary(min_size=1, max_size=5))
    if len(data) >= 12 and draw(st.booleans()):
        data[8:12] = (len(data) - 12).to_bytes(4, "big")  # get past the first check
    return bytes(data)


@settings(max_examples=examples(200))
@given(damaged_batches(), buffer_types)
def test_damage_raises_corrupt_record_error_and_nothing_else(data: bytes, buffer_type: Any) -> None:
    with contextlib.suppress(CorruptRecordError):
        for batch in read_batches(buffer_type(data)):
            batch.is_valid()
            repr(batch)
            for record in batch.records(LIMIT_BYTES):
                parse_control_record(record.key, record.value)
    verdict = validate_batch(buffer_type(data), produce_version=9, timestamp_ms=0,
                             rules=BatchRules(max_expanded_bytes=LIMIT_BYTES))
    assert isinstance(verdict, RecordBatch | BatchFault)


@settings(max_examples=examples(200))
@given(st.integers(0, 5), st.binary(max_size=200), st.data())
def test_garbage_in_any_codec_raises_corrupt_record_error_and_nothing_else(codec_id: int, garbage: bytes,
                                                                           data: st.DataObject) -> None:
    start = data.draw(st.sampled_from([b"", b"\x82SNAPPY\0\0\0\0\1\0\0\0\1", b"\x04\x22\x4d\x18",
                                       b"\x28\xb5\x2f\xfd", b"\x1f\x8b\x08", b"\x50\x2a\x4d\x18"]))
    try:
        expanded = decompress(codec_id, start + garbage, LIMIT_BYTES)
    except CorruptRecordError:
        return
    assert len(expanded) <= LIMIT_BYTES


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(flips=st.lists(st.tuples(st.integers(0, 40), st.integers(0, 255)), max_size=4))
@example(flips=[(9, 0)])  # of zstd: the header claims 0 bytes, the blocks hold 32 MiB
def test_a_bomb_costs_no_more_than_the_limit(codec: str, flips: list[tuple[int, int]]) -> None:
    bomb = bytearray(_bomb(codec))
    for where, value in flips:
        bomb[where % len(bomb)] = value
    tracemalloc.start()
    try:
        decompress(CODEC_IDS[codec], bytes(bomb), LIMIT_BYTES)
    except CorruptRecordError:
        pass
    else:
        raise AssertionError("it was not refused")
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak <= ALLOWED_PEAK_BYTES


def _bomb(codec: str, _made: dict[str, bytes] = {}) -> bytes:  # noqa: B006 - made once, it takes a while
    if codec not in _made:
        _made[codec] = compressor_for(codec).compress(bytes(32 << 20))
    return _made[codec]
