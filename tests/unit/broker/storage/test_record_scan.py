from __future__ import annotations

import random

import pytest

from pyproducer.broker.storage.record_scan import last_timestamp_if_sound
from pyproducer.common.errors import CorruptRecordError
from pyproducer.common.records import Header
from pyproducer.record.batch_reader import RecordBatch
from pyproducer.record.batch_writer import build_batch
from pyproducer.record.record_reader import decode_records

START_MS = 1_700_000_000_000


def scan(batch: RecordBatch, data: bytes | None = None, *, earliest: int = 0, latest: int = 2**63,
         needs_key: bool = False) -> bool:
    return last_timestamp_if_sound(
        batch.expanded_records() if data is None else data, record_count=batch.record_count,
        base_timestamp=batch.base_timestamp, earliest=earliest, latest=latest, needs_key=needs_key) is not None


def is_decodable(batch: RecordBatch, data: bytes) -> bool:
    try:
        decoded = list(decode_records(data, record_count=batch.record_count, base_offset=0,
                                      base_timestamp=batch.base_timestamp, base_sequence=-1, append_timestamp=None))
    except CorruptRecordError:
        return False
    return [record.offset for record in decoded] == list(range(batch.record_count)) and all(
        0 <= record.timestamp <= 2**63 for record in decoded)


def make(seeded: random.Random, count: int) -> RecordBatch:
    return RecordBatch(build_batch([
        (START_MS + seeded.randrange(-10**7, 10**7), seeded.choice([None, b"", b"k" * seeded.randrange(300)]),
         seeded.choice([None, b"", b"v" * seeded.randrange(300), b"v" * 20_000]),
         tuple(Header("h" * seeded.randrange(5), seeded.choice([None, b"", b"x" * 100]))
               for _ in range(seeded.choice([0, 0, 1, 3])))) for _ in range(count)]))


@pytest.mark.parametrize("count", [1, 63, 64, 65, 200])
def test_scan_accepts_what_is_right(count: int) -> None:
    assert scan(make(random.Random(count), count))


def test_scan_never_accepts_what_cannot_be_decoded() -> None:
    seeded = random.Random(7)
    accepted = 0
    for _ in range(300):
        batch = make(seeded, 5)
        data = bytearray(batch.expanded_records())
        for _ in range(20):
            damaged = bytearray(data)
            kind = seeded.randrange(3)
            position = seeded.randrange(min(len(data), 60))
            if kind == 0:
                damaged[position] = seeded.randrange(256)
            elif kind == 1:
                del damaged[position:position + seeded.randrange(1, 4)]
            else:
                damaged[position:position] = seeded.randbytes(seeded.randrange(1, 4))
            if scan(batch, bytes(damaged)):
                accepted += 1
                assert is_decodable(batch, bytes(damaged))
    assert accepted  # damage within a value is none to the scan


@pytest.mark.parametrize("cut", range(1, 40))
def test_scan_refuses_records_that_are_cut_or_followed(cut: int) -> None:
    batch = RecordBatch(build_batch([(START_MS, b"key", b"value", (Header("h", b"x"),))] * 3))
    data = batch.expanded_records()
    assert not scan(batch, data[:-cut])
    assert not scan(batch, data + bytes(cut))


def test_scan_refuses_timestamps_and_missing_keys() -> None:
    batch = RecordBatch(build_batch([(START_MS, b"key", b"value", ()), (START_MS + 500, None, b"value", ())]))
    assert scan(batch, earliest=START_MS, latest=START_MS + 500)
    assert not scan(batch, earliest=START_MS + 1)
    assert not scan(batch, latest=START_MS + 499)
    assert not scan(batch, needs_key=True)


def test_scan_leaves_very_many_records_to_the_decoder() -> None:
    assert scan(RecordBatch(build_batch([(START_MS, None, b"", ())] * (1 << 13))))
    assert not scan(RecordBatch(build_batch([(START_MS, None, b"", ())] * ((1 << 13) + 1))))


def test_timestamp_is_that_of_the_last_record_and_all_are_within_the_bounds() -> None:
    seeded = random.Random(3)
    for _ in range(300):
        times = [START_MS + seeded.choice([0, 1, 70, 9000, 2 * 10**6, -5, -10**7, 2**40])
                 for _ in range(seeded.randrange(1, 6))]
        one = RecordBatch(build_batch([(time, None, b"v", ()) for time in times]))
        assert last_timestamp_if_sound(
            one.expanded_records(), record_count=one.record_count, base_timestamp=one.base_timestamp,
            earliest=min(times), latest=max(times), needs_key=False) == times[-1]
        for earliest, latest in ((min(times) + 1, max(times)), (min(times), max(times) - 1)):
            assert not scan(one, earliest=earliest, latest=latest)
