"""The answers are those of kafka-answers: Kafka 4.1.0 to the same bytes."""

from __future__ import annotations

from collections.abc import Callable

import cramjam
import lz4.frame
import pytest
from crc32c import crc32c

from pyproducer.broker.storage.validation import DEFAULT_RULES, BatchFault, BatchRules, RecordFault, validate_batch
from pyproducer.common.cluster import TopicPartition
from pyproducer.common.error_codes import ErrorCode
from pyproducer.record.batch_reader import RecordBatch
from pyproducer.record.batch_writer import build_batch, write_header

NOW_MS = 1_795_243_366_315
FIELDS = [(NOW_MS + i, b"k%d" % i, b"value-%d" % i, ()) for i in range(3)]
GOOD = build_batch(FIELDS)
# Uncompressed, each record of FIELDS has the same size: its offset delta is at the same place.
RECORD_BYTES = (len(GOOD) - 61) // 3


def _validate(data: bytes | None, produce_version: int = 9, rules: BatchRules = DEFAULT_RULES,
              topic_partition: TopicPartition | None = None) -> RecordBatch | BatchFault:
    return validate_batch(data, produce_version=produce_version, timestamp_ms=NOW_MS, rules=rules,
                          topic_partition=topic_partition)


def _with(position: int, value: bytes, data: bytes = GOOD) -> bytes:
    """Other bytes, without a new CRC."""
    return data[:position] + value + data[position + len(value):]


def _header(records: bytes = GOOD[61:], **fields: int) -> bytes:
    """Other values in the header, the CRC right."""
    batch = bytearray(bytes(61) + records)
    values = {"codec_id": 0, "record_count": 3, "base_timestamp": NOW_MS, "max_timestamp": NOW_MS + 2, **fields}
    write_header(batch, **values)  # type: ignore[arg-type]  # the values are of mixed types
    return bytes(batch)


def _count(record_count: int, last_offset_delta: int) -> bytes:
    batch = bytearray(_header(record_count=record_count))
    batch[23:27] = last_offset_delta.to_bytes(4, "big", signed=True)
    batch[17:21] = crc32c(batch[21:]).to_bytes(4, "big")
    return bytes(batch)


def _compressed(codec_id: int, compress: Callable[[bytes], bytes]) -> bytes:
    return _header(compress(GOOD[61:]), codec_id=codec_id)


BIG = [(NOW_MS, b"k", bytes(180_000), ())]


@pytest.mark.parametrize(("data", "code", "tells_log_start_offset", "message"), [
    (b"", 87, False, None),
    (GOOD + GOOD, 87, False, None),
    (_header(is_control=True), 87, True, None),
    (_with(16, b"\x01"), 87, False, None),
    (_with(16, b"\x00"), 87, False, None),
    (_with(16, b"\x03"), 2, False, "Invalid magic found in record: 3"),
    (_with(17, b"\0\0\0\0"), 2, False, None),
    (_count(4, 2), 87, True, None),
    (_count(3, 3), 87, True, None),
    (_count(8, 7), 87, True, None),
    (_count(0, -1), 87, True, None),
    (_header(base_offset=55), 87, True, None),
    (_header(codec_id=5), -1, True, None),
    (_header(codec_id=7), -1, True, None),
    (GOOD[:-1], 87, False, None),
    (_with(8, b"\0\0\0\x0a"), 2, False, "Record size 10 is less than the minimum record overhead (14)"),
    (_with(8, b"\0\0\0\x20"), 2, False, None),
    (_compressed(2, lambda data: bytes(cramjam.snappy.compress(data))), -1, True, None),
    (_header(lz4.frame.compress(build_batch(BIG)[61:]), codec_id=3, record_count=1), -1, True, None),
    (_header(b"garbage", codec_id=1), -1, True, None),
    (_header(producer_id=9, producer_epoch=0), 87, True, None),
    (_header(GOOD[61:] + b"\0"), 87, True, None),
    (_with(0, b"\0" * 7 + b"\x37", _with(8, b"\0\0\0\x20")), 87, True, None),
], ids=lambda value: value if isinstance(value, str) else "")
def test_kafkas_refusals(data: bytes, code: int, tells_log_start_offset: bool, message: str | None) -> None:
    for rules in (BatchRules(is_strict=False), DEFAULT_RULES):
        fault = _validate(data, rules=rules)
        assert isinstance(fault, BatchFault)
        assert (fault.error_code, fault.error_message) == (code, message), fault.why
        assert fault.tells_log_start_offset == tells_log_start_offset
        assert fault.why


@pytest.mark.parametrize("data", [
    GOOD,
    _header(timestamp_type=1),
    _header(base_timestamp=-1, max_timestamp=1),
    _header(producer_id=9, producer_epoch=0, base_sequence=2**31 - 2, is_transactional=True),
    _compressed(2, lambda data: bytes(cramjam.snappy.compress_raw(data))),
    _compressed(3, lz4.frame.compress),
    _compressed(3, lambda data: bytes(lz4.frame.compress(data, block_linked=False, store_size=False))),
    *(build_batch(FIELDS, compression=name) for name in ("gzip", "snappy", "lz4", "zstd")),
    build_batch(BIG, compression="lz4"),
])
def test_what_kafka_takes_is_taken(data: bytes) -> None:
    batch = _validate(data)
    assert isinstance(batch, RecordBatch), batch
    assert bytes(batch.data) == data


def test_no_records_at_all_are_no_batch() -> None:
    fault = _validate(None)
    assert isinstance(fault, BatchFault)
    assert fault.error_code is ErrorCode.INVALID_RECORD


def test_zstd_needs_produce_version_7() -> None:
    data = build_batch(FIELDS, compression="zstd")
    fault = _validate(data, produce_version=6)
    assert isinstance(fault, BatchFault)
    assert fault.error_code is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert isinstance(_validate(data, produce_version=7), RecordBatch)


def test_a_batch_above_the_topics_limit_is_too_large() -> None:
    assert isinstance(_validate(GOOD, rules=BatchRules(max_message_bytes=len(GOOD))), RecordBatch)
    fault = _validate(GOOD, rules=BatchRules(max_message_bytes=len(GOOD) - 1))
    assert isinstance(fault, BatchFault)
    assert (fault.error_code, fault.tells_log_start_offset) == (ErrorCode.MESSAGE_TOO_LARGE, False)


def test_size_when_the_crc_is_wrong_too_then_too_large_is_what_is_said() -> None:
    """Kafka looks at the size first; a producer splits what is too large, and sends what is corrupt again as it is."""
    fault = _validate(_with(17, b"\0\0\0\0"), rules=BatchRules(max_message_bytes=len(GOOD) - 1))
    assert isinstance(fault, BatchFault)
    assert fault.error_code is ErrorCode.MESSAGE_TOO_LARGE


def test_timestamps_out_of_range_are_told_per_record_in_kafkas_words() -> None:
    late = NOW_MS + 3_600_001
    fault = _validate(build_batch([(late, b"k", b"v", ()), (NOW_MS, b"k", b"v", ()), (late + 1, b"k", b"v", ())]))
    assert isinstance(fault, BatchFault)
    assert fault.error_code is ErrorCode.INVALID_TIMESTAMP
    assert fault.error_message == "One or more records have been rejected due to invalid timestamp"
    bounds = f"[{NOW_MS - (2**63 - 1)}, {NOW_MS + 3_600_000}]"
    assert fault.record_faults == (
        RecordFault(0, f"Timestamp {late} of message with offset 0 is out of range. The timestamp should be within "
                       f"{bounds}"),
        RecordFault(2, f"Timestamp {late + 1} of message with offset 2 is out of range. The timestamp should be within "
                       f"{bounds}"))


def test_timestamps_do_not_matter_under_log_append_time() -> None:
    data = build_batch([(2**50, b"k", b"v", ())])
    assert isinstance(_validate(data, rules=BatchRules(timestamp_type=1)), RecordBatch)
    assert isinstance(_validate(data), BatchFault)


def test_a_compacted_topic_needs_keys() -> None:
    rules = BatchRules(is_compacted=True)
    assert isinstance(_validate(GOOD, rules=rules), RecordBatch)
    fault = _validate(build_batch([(NOW_MS, b"k", b"", ())] + [(NOW_MS, None, b"v", ())] * 4), rules=rules,
                      topic_partition=TopicPartition("orders", 2))
    assert isinstance(fault, BatchFault)
    assert fault.error_code is ErrorCode.INVALID_RECORD
    assert [record.batch_index for record in fault.record_faults] == [1, 2, 3, 4]
    assert fault.record_faults[0].message == ("Compacted topic cannot accept message without key in topic partition "
                                              "orders-2")
    assert fault.error_message is not None
    assert "due to 4 record errors in total" in fault.error_message
    assert fault.error_message.count("RecordError(batchIndex=") == 3


def test_offset_deltas_out_of_order_are_refused_only_when_strict() -> None:
    records = bytearray(GOOD[61:])
    # length, attributes, timestamp delta, offset delta
    records[RECORD_BYTES + 3], records[2 * RECORD_BYTES + 3] = 4, 2
    data = _header(bytes(records))
    fault = _validate(data)
    assert isinstance(fault, BatchFault)
    assert fault.error_code is ErrorCode.INVALID_RECORD
    assert "offset delta 2" in str(fault.error_message)
    assert isinstance(_validate(data, rules=BatchRules(is_strict=False)), RecordBatch)


def test_bytes_behind_the_batch_are_refused_only_when_strict() -> None:
    for rest in (b"x", GOOD[:20]):
        fault = _validate(GOOD + rest)
        assert isinstance(fault, BatchFault)
        assert fault.error_code is ErrorCode.INVALID_RECORD
        batch = _validate(GOOD + rest, rules=BatchRules(is_strict=False))
        assert isinstance(batch, RecordBatch)
        assert bytes(batch.data) == GOOD


def test_records_that_expand_too_far_are_refused() -> None:
    fault = _validate(build_batch(BIG, compression="zstd"), rules=BatchRules(max_expanded_bytes=100_000))
    assert isinstance(fault, BatchFault)
    assert fault.error_code is ErrorCode.MESSAGE_TOO_LARGE


def test_records_stay_closed_on_request_unless_the_header_shows_a_fault() -> None:
    rules = BatchRules(reads_records=False)
    assert isinstance(_validate(_header(b"garbage", codec_id=1), rules=rules), RecordBatch)
    for data, code in ((_header(b"garbage", codec_id=6), ErrorCode.UNKNOWN_SERVER_ERROR),
                       (build_batch([(NOW_MS + 3_600_001, b"k", b"v", ())]), ErrorCode.INVALID_TIMESTAMP),
                       (_with(17, b"\0\0\0\0"), ErrorCode.CORRUPT_MESSAGE)):
        fault = _validate(data, rules=rules)
        assert isinstance(fault, BatchFault)
        assert fault.error_code is code
    early = BatchRules(reads_records=False, timestamp_before_max_ms=0)
    fault = _validate(build_batch([(NOW_MS - 1, b"k", b"v", ())]), rules=early)
    assert isinstance(fault, BatchFault)
    assert [record.batch_index for record in fault.record_faults] == [0]


@pytest.mark.parametrize("codec", ["none", "lz4"])
@pytest.mark.parametrize("claimed", [-1, 0, NOW_MS - 1, NOW_MS + 1, NOW_MS + 3, 2**62])
def test_largest_timestamp_of_the_header_when_it_is_not_that_of_the_records_then_it_is_put_right(
        codec: str, claimed: int) -> None:
    """Retention and lookups by time believed what the producer had put there."""
    good = build_batch(FIELDS, compression=codec)
    lying = bytearray(good)
    lying[35:43] = claimed.to_bytes(8, "big", signed=True)
    lying[17:21] = crc32c(lying[21:]).to_bytes(4, "big")
    batch = _validate(bytes(lying))
    assert isinstance(batch, RecordBatch)
    assert bytes(batch.data) == good
    for rules in (BatchRules(timestamp_type=1), BatchRules(reads_records=False, timestamp_after_max_ms=2**63 - 1)):
        batch = _validate(bytes(lying), rules=rules)  # it is stamped anew, or nobody looks at the records
        assert isinstance(batch, RecordBatch)
        assert bytes(batch.data) == lying


def test_largest_timestamp_when_the_records_must_be_decoded_then_it_is_put_right_too() -> None:
    fields = [(NOW_MS + number % 7, None, b"", ()) for number in range(9000)]  # more than the quick look takes
    good = build_batch(fields)
    lying = bytearray(good)
    lying[35:43] = (5).to_bytes(8, "big")
    lying[17:21] = crc32c(lying[21:]).to_bytes(4, "big")
    batch = _validate(bytes(lying))
    assert isinstance(batch, RecordBatch)
    assert bytes(batch.data) == good


@pytest.mark.parametrize("reads_records", [True, False])
@pytest.mark.parametrize(("codec", "kind"), [("none", "DefaultRecord"), ("gzip", "PartialDefaultRecord")])
def test_log_append_time_when_the_producer_says_that_it_has_it_then_each_record_is_refused(
        codec: str, kind: str, reads_records: bool) -> None:
    data = build_batch([(NOW_MS, None, b"v", ()), (NOW_MS + 1, b"k", None, ())], compression=codec, timestamp_type=1)
    rules = BatchRules(timestamp_type=1, reads_records=reads_records)
    fault = _validate(data, rules=rules)
    assert isinstance(fault, BatchFault)
    assert (fault.error_code, fault.error_message) == (
        ErrorCode.INVALID_TIMESTAMP, "One or more records have been rejected due to invalid timestamp")
    assert fault.record_faults == tuple(RecordFault(number, (
        f"Invalid timestamp type in message {kind}(offset={number}, timestamp={NOW_MS + 1}, key={key} bytes, "
        f"value={value} bytes). Producer should not set timestamp type to LogAppendTime.")) for number, key, value in (
            (0, 0, 1), (1, 1, 0)))
    assert isinstance(_validate(data, rules=BatchRules(reads_records=reads_records)), RecordBatch)


def test_largest_timestamp_when_it_is_not_the_last_then_a_header_that_has_it_is_believed_and_no_other() -> None:
    for times in ((7, 0, 3), (0, 7, 3), (0, 3, 7), (7, 7, 0), (3, 3, 3)):
        good = build_batch([(NOW_MS + at, None, b"v", ()) for at in times])
        batch = _validate(good)
        assert isinstance(batch, RecordBatch)
        assert bytes(batch.data) == good
        for claimed in (max(times) - 1, max(times) + 1, 10**7):
            lying = bytearray(good)
            lying[35:43] = (NOW_MS + claimed).to_bytes(8, "big")
            lying[17:21] = crc32c(lying[21:]).to_bytes(4, "big")
            batch = _validate(bytes(lying))
            assert isinstance(batch, RecordBatch)
            assert bytes(batch.data) == good
