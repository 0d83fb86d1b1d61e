from __future__ import annotations

import pytest

from pyproducer.broker.storage.batch_header import (
    BatchHeader,
    checksum,
    last_header,
    read_header,
    recompressed,
    stamped_header,
    with_records,
)
from pyproducer.common.errors import CorruptRecordError
from pyproducer.record.batch_reader import RecordBatch
from pyproducer.record.batch_writer import build_batch
from pyproducer.record.compression import compressor_for

MAX_SEQUENCE = 2**31 - 1
START_MS = 1_700_000_000_000
LOG_APPEND_TIME_BIT = 8


def header(**fields: int) -> BatchHeader:
    plain = BatchHeader(40, 100, 0, 2, 0, 0, 2, 1000, 1000, 7, 0, 10, 3)
    return plain._replace(**fields)


def batch(compression: str = "none", **fields: object) -> RecordBatch:
    return RecordBatch(build_batch([(START_MS + number, b"k%d" % number, b"v" * 50, ()) for number in range(3)],
                                   compression=compression, **fields))  # type: ignore[arg-type]  # passed on as given


def test_last_header_is_that_of_the_last_batch() -> None:
    one, two = batch(base_offset=4), batch("gzip", base_offset=7)
    assert last_header(one.data).base_offset == 4
    assert last_header(bytes(one.data) + bytes(two.data)).last_offset == 9


# ---- numbers

def test_header_tells_where_the_batch_ends() -> None:
    assert header().size_bytes == 112
    assert header().last_offset == 42


@pytest.mark.parametrize(("fields", "last"), [
    ({}, 12), ({"last_offset_delta": 0}, 10), ({"base_sequence": MAX_SEQUENCE - 2}, MAX_SEQUENCE),
    ({"base_sequence": MAX_SEQUENCE - 1}, 0), ({"base_sequence": MAX_SEQUENCE}, 1)])
def test_last_sequence_when_the_producer_counts_then_it_is_that_of_the_last_record(
        fields: dict[str, int], last: int) -> None:
    assert header(**fields).last_sequence == last


@pytest.mark.parametrize("fields", [
    {"producer_id": -1}, {"base_sequence": -1}, {"producer_id": -1, "base_sequence": -1}])
def test_last_sequence_when_nobody_counts_then_there_is_none(fields: dict[str, int]) -> None:
    assert header(**fields).last_sequence == -1


# ---- LogAppendTime

def test_stamp_when_the_topic_keeps_the_producers_time_then_the_header_stays() -> None:
    assert stamped_header(batch(), None) is None


@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_stamp_when_the_producer_claims_log_append_time_then_only_that_bit_is_cleared(compression: str) -> None:
    sent = batch(compression, timestamp_type=1)
    fresh = stamped_header(sent, None)
    assert fresh is not None
    stored = fresh + bytes(sent.data[len(fresh):])
    before, after = read_header(sent.data), read_header(stored)
    assert after == before._replace(attributes=before.attributes & ~LOG_APPEND_TIME_BIT, crc=checksum(stored))
    assert before.attributes & LOG_APPEND_TIME_BIT


@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_stamp_when_the_topic_has_its_own_time_then_it_is_in_the_header_with_its_bit(compression: str) -> None:
    sent = batch(compression)
    fresh = stamped_header(sent, 99)
    assert fresh is not None
    stored = fresh + bytes(sent.data[len(fresh):])
    before, after = read_header(sent.data), read_header(stored)
    assert after == before._replace(attributes=before.attributes | LOG_APPEND_TIME_BIT, max_timestamp=99,
                                    crc=checksum(stored))


# ---- other records behind the same header

def test_records_when_replaced_then_length_count_and_checksum_are_theirs() -> None:
    sent = batch(producer_id=7, producer_epoch=1, base_sequence=5)
    rewritten = with_records(sent, b"other", record_count=1, attributes=0, max_timestamp=START_MS)
    before, after = read_header(sent.data), read_header(rewritten)
    assert after == before._replace(batch_length=61 - 12 + 5, attributes=0, max_timestamp=START_MS, record_count=1,
                                    crc=checksum(rewritten))
    assert rewritten[61:] == b"other"


@pytest.mark.parametrize("kept", ["gzip", "zstd"])
def test_recompressed_when_the_codec_is_the_wanted_one_then_the_batch_is_left_alone(kept: str) -> None:
    sent = batch(kept)
    assert recompressed(sent, compressor_for(kept)) is sent


@pytest.mark.parametrize(("sent_with", "wanted"), [("none", "gzip"), ("gzip", "zstd"), ("lz4", "none")])
def test_recompressed_when_the_codec_is_another_then_the_records_are_the_same(sent_with: str, wanted: str) -> None:
    sent = batch(sent_with, producer_id=7, producer_epoch=1, base_sequence=5, timestamp_type=1)
    stored = recompressed(sent, compressor_for(wanted))
    stored.ensure_valid()
    assert stored.codec_id == compressor_for(wanted).codec_id != sent.codec_id
    assert [(record.timestamp, record.key, record.value) for record in stored] == [
        (record.timestamp, record.key, record.value) for record in sent]
    assert (stored.producer_id, stored.producer_epoch, stored.base_sequence, stored.timestamp_type) == (7, 1, 5, 1)


def test_recompressed_when_the_records_cannot_be_read_then_it_is_corrupt() -> None:
    sent = batch("gzip")
    broken = RecordBatch(bytes(sent.data[:61]) + b"\xff" * (len(sent.data) - 61))
    with pytest.raises(CorruptRecordError):
        recompressed(broken, compressor_for("none"))
