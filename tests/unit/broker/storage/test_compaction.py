from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pyproducer.broker.storage.batch_header import BatchHeader
from pyproducer.broker.storage.compaction import compact
from pyproducer.broker.storage.log import AppendResult, Log
from pyproducer.broker.storage.log_config import LogConfig
from pyproducer.broker.storage.segment import LogSegment
from pyproducer.broker.storage.swap import CLEANED_SUFFIX, SWAP_SUFFIX
from pyproducer.record.batch_reader import Record, RecordBatch, read_batches
from pyproducer.record.batch_writer import build_batch
from pyproducer.record.control import ControlRecordType

START_MS = 1_700_000_000_000
LATER_MS = START_MS + 1_000_000
KeyValue = tuple[bytes, "bytes | None"]
LogMaker = Callable[..., Log]


@pytest.fixture
def open_log(tmp_path: Path) -> Iterator[LogMaker]:
    opened: list[Log] = []

    def make(directory: Path | None = None, **settings: Any) -> Log:
        config = LogConfig(is_compacted=True, is_deleted=False)._replace(**{"segment_bytes": 1000, **settings})
        log = Log(directory or tmp_path / "orders-0", config)
        opened.append(log)
        return log

    yield make
    for log in opened:
        log.close()


def append(log: Log, *records: KeyValue, timestamp: int = START_MS, compression: str = "none", **fields: Any) -> int:
    batch = RecordBatch(build_batch([(timestamp, key, value, ()) for key, value in records], compression=compression,
                                    **fields))
    result = log.append(batch, leader_epoch=0)
    assert isinstance(result, AppendResult)
    return result.base_offset


def stored(log: Log) -> list[Record]:
    found: list[Record] = []
    offset = log.log_start_offset
    while data := log.read(offset, 1 << 20, at_least_one=True):
        for batch in read_batches(data):
            batch.ensure_valid()
            if not batch.is_control:
                found += list(batch)
            offset = batch.next_offset
    return found


def roll(log: Log) -> None:
    """Close the active segment: only closed ones are compacted."""
    log.config, before = log.config._replace(segment_bytes=1), log.config
    append(log, (b"active", b"segment"))
    log.config = before


@pytest.mark.parametrize("compression", ["none", "gzip", "lz4", "zstd"])
def test_compact_keeps_the_newest_record_of_each_key_at_its_offset(open_log: LogMaker, compression: str) -> None:
    log = open_log()
    seeded = random.Random(1)
    newest: dict[bytes, tuple[int, bytes]] = {}
    for number in range(300):
        records = [(b"key-%d" % seeded.randrange(20), b"%d-%d" % (number, index)) for index in range(3)]
        offset = append(log, *records, compression=compression)
        for index, (key, value) in enumerate(records):
            newest[key] = (offset + index, value)
    roll(log)
    end = log.log_end_offset
    before_bytes = log.size_bytes
    freed = compact(log, LATER_MS)
    assert freed == before_bytes - log.size_bytes > before_bytes / 2
    kept = [record for record in stored(log) if record.key != b"active"]
    assert sorted(record.offset for record in kept) == [record.offset for record in kept]
    assert {record.key: (record.offset, record.value) for record in kept} == newest
    assert (log.log_start_offset, log.log_end_offset) == (0, end)
    assert compact(log, LATER_MS) == 0
    seen = stored(log)
    log.close()
    again = open_log()
    assert stored(again) == seen
    assert (again.log_start_offset, again.log_end_offset) == (0, end)


def test_compact_merges_small_neighbours(open_log: LogMaker) -> None:
    log = open_log()
    for number in range(100):
        append(log, (b"same key", b"%d" % number * 50))
    roll(log)
    assert len(list(log.directory.glob("*.log"))) > 10
    compact(log, LATER_MS)
    log.compacted_up_to = 0
    compact(log, LATER_MS)
    assert len(list(log.directory.glob("*.log"))) <= 3
    assert [record.value for record in stored(log)] == [b"99" * 50, b"segment"]


def test_compact_when_the_log_begins_far_from_0_then_small_neighbours_are_merged_too(
        open_log: LogMaker, tmp_path: Path) -> None:
    directory = tmp_path / "far-0"
    directory.mkdir()
    (directory / f"{2**40:020d}.log").touch()
    log = open_log(directory)
    for number in range(30):
        append(log, (b"key-%d" % number, b"%d" % number * 20))
    roll(log)
    append(log, (b"key-0", b"newer"))
    roll(log)
    assert log.log_start_offset == 2**40
    before = len(list(directory.glob("*.log")))
    log.config = log.config._replace(segment_bytes=100_000)
    assert compact(log, LATER_MS) > 0
    assert before > 3
    assert len(list(directory.glob("*.log"))) == 2, "one that is compacted, and the active one"
    assert len(stored(log)) == 32


def test_compact_when_it_is_done_then_the_new_files_have_their_indexes(open_log: LogMaker) -> None:
    """Kafka's tools read them beside a broker that runs; the old ones would point into records that moved."""
    log = open_log(index_interval_bytes=200)
    for number in range(100):
        append(log, (b"key-%d" % (number % 40), b"%d" % number * 50), timestamp=START_MS + number)
    roll(log)
    compact(log, LATER_MS)
    bases = [segment.base_offset for segment in log.closed_segments()]
    assert bases
    paths = [log.directory / f"{base:020d}{suffix}" for base in bases for suffix in (".index", ".timeindex")]
    found = {path: path.read_bytes() for path in paths}
    assert sum(len(data) for path, data in found.items() if path.suffix == ".index") > 0
    log.close()
    for path in paths:
        path.unlink()
    open_log(index_interval_bytes=200).close()
    assert {path: path.read_bytes() for path in paths} == found


def test_compact_when_nothing_of_a_segment_goes_then_its_file_is_left_alone(open_log: LogMaker) -> None:
    """All keys differ and no two segments fit into one: to write them again would only wear the disk."""
    log = open_log()
    for number in range(40):
        append(log, (b"key-%d" % number, b"x" * (log.config.segment_bytes * 2 // 3)))
    roll(log)
    before = {path.name: path.stat().st_ino for path in log.directory.glob("*.log")}
    assert len(before) == 41
    assert compact(log, LATER_MS) == 0
    assert {path.name: path.stat().st_ino for path in log.directory.glob("*.log")} == before
    assert log.compacted_up_to == 40


def test_compact_waits_until_enough_is_new(open_log: LogMaker) -> None:
    log = open_log(min_cleanable_ratio=0.5)
    for number in range(40):
        append(log, (b"key-%d" % number, b"x" * 100))
    roll(log)
    compact(log, LATER_MS)  # all keys differ: nothing goes
    assert len(stored(log)) == 41
    append(log, (b"key-1", b"new"))
    roll(log)
    assert compact(log, LATER_MS) == 0
    log.config = log.config._replace(min_cleanable_ratio=0.0)
    assert compact(log, LATER_MS) > 0


def test_compact_spares_what_is_young_and_the_active_segment(open_log: LogMaker) -> None:
    log = open_log(min_compaction_lag_ms=5000)
    append(log, (b"k", b"1"), (b"k", b"2"))
    assert compact(log, LATER_MS) == 0
    roll(log)
    assert compact(log, START_MS + 4999) == 0
    assert compact(log, START_MS + 5000) > 0


def test_tombstones_go_when_they_are_old(open_log: LogMaker) -> None:
    log = open_log(delete_retention_ms=1000)
    append(log, (b"k", b"1"))
    append(log, (b"k", None))
    roll(log)
    compact(log, START_MS + 1000)
    assert [record.value for record in stored(log) if record.key == b"k"] == [None]
    log.compacted_up_to = 0
    compact(log, START_MS + 1001)
    assert [record.value for record in stored(log) if record.key == b"k"] == []


def test_sequences_are_known_after_compaction_and_restart(open_log: LogMaker) -> None:
    log = open_log()
    for sequence in range(3):
        append(log, (b"k", b"%d" % sequence), producer_id=9, producer_epoch=1, base_sequence=sequence)
    append(log, (b"k", b"of somebody else"))
    roll(log)
    compact(log, LATER_MS)
    assert [record.value for record in stored(log) if record.key == b"k"] == [b"of somebody else"]
    log.close()
    again = open_log()
    assert append(again, (b"k", b"3"), producer_id=9, producer_epoch=1, base_sequence=3) == 5


@pytest.mark.parametrize("restarts", [0, 1, 2])
def test_compact_when_the_last_batch_of_a_producer_is_hidden_then_its_sequence_is_known_all_the_same(
        open_log: LogMaker, restarts: int) -> None:
    """A retry that came after a compaction and a restart was stored a second time.

    An answer is lost, others write the same key, the log is compacted, the broker restarts. A producer of whom nothing
    is known may begin anywhere, so that its next batch is taken is no proof: its last one must be known as its last.
    """
    log = open_log()
    mine = {"producer_id": 9, "producer_epoch": 1}
    offsets = [append(log, (b"k", b"%d" % sequence), base_sequence=sequence, **mine) for sequence in range(3)]
    append(log, (b"k", b"of somebody else"))
    roll(log)
    compact(log, LATER_MS)
    assert b"2" not in [record.value for record in stored(log)]
    for _ in range(restarts):
        log.close()
        log = open_log()
    end = log.log_end_offset
    again = log.append(RecordBatch(build_batch([(START_MS, b"k", b"2", ())], base_sequence=2, **mine)), leader_epoch=0)
    assert isinstance(again, AppendResult)
    assert (again.is_duplicate, again.base_offset) == (True, offsets[-1])
    behind_a_gap = log.append(RecordBatch(build_batch([(START_MS, b"k", b"5", ())], base_sequence=5, **mine)),
                              leader_epoch=0)
    assert not isinstance(behind_a_gap, AppendResult)
    assert log.log_end_offset == end
    assert append(log, (b"k", b"3"), base_sequence=3, **mine) == end


def test_aborted_records_go_and_hide_nothing(open_log: LogMaker) -> None:
    def end(control_type: ControlRecordType) -> None:
        log.append_marker(control_type, producer_id=9, producer_epoch=1, coordinator_epoch=0, leader_epoch=0,
                          timestamp_ms=START_MS)

    def write(sequence: int, value: bytes) -> None:
        append(log, (b"k", value), producer_id=9, producer_epoch=1, base_sequence=sequence, is_transactional=True)

    log = open_log()
    write(0, b"committed")
    end(ControlRecordType.COMMIT)
    write(1, b"aborted")
    end(ControlRecordType.ABORT)
    write(2, b"open")
    roll(log)
    assert compact(log, LATER_MS) == 0  # the open transaction is in the way
    end(ControlRecordType.COMMIT)
    roll(log)
    assert compact(log, LATER_MS) > 0
    assert [record.value for record in stored(log) if record.key == b"k"] == [b"open"]
    seen = stored(log)
    log.close()
    again = open_log()
    assert again.last_stable_offset == again.log_end_offset
    assert stored(again) == seen


@pytest.mark.parametrize("control_type", [ControlRecordType.ABORT, ControlRecordType.COMMIT])
def test_compact_when_a_key_has_the_bytes_of_a_markers_key_then_the_marker_does_not_hide_its_record(
        open_log: LogMaker, control_type: ControlRecordType) -> None:
    log = open_log()
    key = bytes([0, 0, 0, control_type])
    append(log, (key, b"the application's"))
    append(log, (b"k", b"older"))
    append(log, (b"k", b"1"), producer_id=9, producer_epoch=1, base_sequence=0, is_transactional=True)
    log.append_marker(control_type, producer_id=9, producer_epoch=1, coordinator_epoch=0, leader_epoch=0,
                      timestamp_ms=START_MS)
    append(log, (b"k", b"newest"))
    roll(log)
    assert compact(log, LATER_MS) > 0
    assert [(record.key, record.value) for record in stored(log)[:2]] == [
        (key, b"the application's"), (b"k", b"newest")]


def test_death_at_any_step_of_the_swap_loses_and_doubles_nothing(open_log: LogMaker, tmp_path: Path) -> None:
    log = open_log()
    for number in range(60):
        append(log, (b"key-%d" % (number % 3), b"%d" % number * 20))
    roll(log)
    log.close()
    before = tmp_path / "before-0"
    shutil.copytree(log.directory, before)
    base_offsets = sorted(int(path.stem) for path in before.glob("*.log"))[:-1]
    log = open_log(segment_bytes=100_000)
    log.compacted_up_to = 0
    compact(log, LATER_MS)
    expected = {record.key: record for record in stored(log)}
    log.close()
    cleaned = (log.directory / "00000000000000000000.log").read_bytes()

    # While it was being written: the old segments stand.
    died = tmp_path / "died-0"
    shutil.copytree(before, died)
    (died / f"{0:020d}{CLEANED_SUFFIX}").write_bytes(cleaned[:100])
    again = open_log(died)
    assert len(stored(again)) == 61
    assert not list(died.glob(f"*{CLEANED_SUFFIX}"))
    # With the new file complete, and any number of the old ones removed: the new one stands.
    for removed in range(len(base_offsets) + 1):
        died = tmp_path / f"died{removed}-0"
        shutil.copytree(before, died)
        for base_offset in base_offsets[:removed]:
            (died / f"{base_offset:020d}.log").unlink()
        (died / f"{0:020d}{SWAP_SUFFIX}").write_bytes(cleaned)
        again = open_log(died)
        found = stored(again)
        assert {record.key: record for record in found} == expected
        assert again.log_end_offset == 61
        assert len({record.offset for record in found}) == len(found)


def test_compact_when_segments_are_deleted_in_the_middle_of_it_then_it_gives_up_and_begins_again_another_time(
        open_log: LogMaker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Retention, or who deletes records, may be faster than the compaction of a later segment."""
    log = open_log()
    for number in range(60):
        append(log, (b"k", b"%d" % number * 20))
    roll(log)
    replace = log.replace_segments
    replaced: list[bool] = []

    def replace_once(old: list[LogSegment], headers: list[BatchHeader], *rest: Any) -> bool:
        if replaced:
            log.increment_log_start_offset(old[0].base_offset + 1)
            log.increment_log_start_offset(log.segment_after(old[-1]))
        replaced.append(replace(old, headers))
        return replaced[-1]

    monkeypatch.setattr(log, "replace_segments", replace_once)
    size_before = log.size_bytes
    freed = compact(log, LATER_MS)
    assert replaced == [True, False]
    assert 0 < freed < size_before
    assert log.compacted_up_to == 0
    assert not list(log.directory.glob(f"*{CLEANED_SUFFIX}"))
    monkeypatch.setattr(log, "replace_segments", replace)
    assert compact(log, LATER_MS) > 0
    assert [record.value for record in stored(log)] == [b"59" * 20, b"segment"]


def test_compact_gives_up_when_the_log_is_deleted(open_log: LogMaker) -> None:
    log = open_log()
    for number in range(60):
        append(log, (b"k", b"%d" % number * 20))
    roll(log)
    closed = log.closed_segments()
    log.delete()
    assert not log.replace_segments(closed[:2], [])


# ---- markers

def transact(log: Log, number: int, *, control_type: ControlRecordType = ControlRecordType.COMMIT, producer_id: int = 9,
             epoch: int = 1, marker_epoch: int | None = None, sequence: int | None = None, key: bytes = b"k",
             timestamp: int = START_MS) -> None:
    append(log, (key, b"%d" % number), producer_id=producer_id, producer_epoch=epoch, is_transactional=True,
           base_sequence=number if sequence is None else sequence, timestamp=timestamp)
    result = log.append_marker(
        control_type, producer_id=producer_id, producer_epoch=epoch if marker_epoch is None else marker_epoch,
        coordinator_epoch=0, leader_epoch=0, timestamp_ms=timestamp)
    assert isinstance(result, AppendResult)


def markers(log: Log) -> list[int]:
    found: list[int] = []
    offset = log.log_start_offset
    while data := log.read(offset, 1 << 20, at_least_one=True):
        for batch in read_batches(data):
            found += [batch.base_offset] if batch.is_control else []
            offset = batch.next_offset
    return found


def compact_anew(log: Log, timestamp_ms: int) -> int:
    log.compacted_up_to = 0
    return compact(log, timestamp_ms)


@pytest.mark.parametrize("bumps", [False, True], ids=["one epoch", "an epoch for each transaction"])
@pytest.mark.parametrize("control_type", [ControlRecordType.COMMIT, ControlRecordType.ABORT])
def test_markers_when_no_record_of_their_transactions_is_left_then_they_go_a_round_later(
        open_log: LogMaker, control_type: ControlRecordType, bumps: bool) -> None:
    """They stayed for ever: a changelog of Streams with exactly-once grew by 67 MB a day."""
    log = open_log()
    for number in range(400):
        epoch = number if bumps else 1
        transact(log, number, control_type=control_type, epoch=epoch, marker_epoch=epoch + bumps,
                 sequence=0 if bumps else number)
    roll(log)
    assert compact(log, LATER_MS) > 0
    assert len(markers(log)) == 400, "a reader may be in the middle of one"
    assert compact_anew(log, START_MS) == 0, "nor are they older than delete.retention.ms"
    day_later_ms = LATER_MS + log.config.delete_retention_ms
    assert compact_anew(log, day_later_ms) > 0
    assert len(markers(log)) == 1
    assert log.size_bytes < 600
    log.close()
    log = open_log()
    fields = {"producer_id": 9, "producer_epoch": 400 if bumps else 1}
    wrong = log.append(RecordBatch(build_batch([(START_MS, b"k", b"x", ())], base_sequence=7, **fields)),
                       leader_epoch=0)
    assert not isinstance(wrong, AppendResult), "the producer is known after a restart"
    assert append(log, (b"k", b"y"), base_sequence=0 if bumps else 400, **fields) == 801


def test_marker_when_its_transaction_has_a_record_that_stays_then_it_stays(open_log: LogMaker) -> None:
    log = open_log()
    transact(log, 0, key=b"kept")
    transact(log, 1, key=b"k")
    transact(log, 2, key=b"k", producer_id=8, sequence=0)
    roll(log)
    for round_ in (1, 2, 3):
        compact_anew(log, LATER_MS + round_ * log.config.delete_retention_ms)
    assert [record.key for record in stored(log)] == [b"kept", b"k", b"active"]
    assert [offset for offset in markers(log) if offset != 3] == [1, 5], "that of the record that is hidden may go"


def test_aborted_transaction_when_its_marker_goes_then_what_its_producer_commits_next_is_read(
        open_log: LogMaker) -> None:
    """Readers of committed records skip a producer's records from an aborted transaction on until its marker comes."""
    log = open_log()
    transact(log, 0, control_type=ControlRecordType.ABORT, key=b"a")
    transact(log, 1, key=b"b")
    roll(log)
    assert len(log.aborted_transactions(0, log.log_end_offset)) == 1
    compact_anew(log, LATER_MS)
    assert len(log.aborted_transactions(0, log.log_end_offset)) == 1
    compact_anew(log, LATER_MS + log.config.delete_retention_ms)
    assert markers(log) == [3]
    assert log.aborted_transactions(0, log.log_end_offset) == []


def test_last_batch_when_its_producer_is_forgotten_then_it_goes_too(open_log: LogMaker) -> None:
    log = open_log()
    append(log, (b"k", b"1"), producer_id=9, producer_epoch=1, base_sequence=0)
    append(log, (b"k", b"2"))
    roll(log)
    compact(log, LATER_MS)
    before = log.size_bytes
    log.remove_expired_producers(LATER_MS * 2, 1)
    assert compact_anew(log, LATER_MS) > 0
    assert log.size_bytes < before
    assert [record.value for record in stored(log)] == [b"2", b"segment"]


# ---- readers that stop before the end

def test_read_when_nothing_is_left_before_an_open_transaction_then_none_of_its_records_is_read(
        open_log: LogMaker) -> None:
    """A reader of committed records began where it had to stop, and was given a batch all the same: an open one's."""
    log = open_log(delete_retention_ms=0)
    append(log, (b"k", b"1"))
    append(log, (b"k", None))
    log.config = log.config._replace(segment_bytes=1)
    append(log, (b"k", b"open"), producer_id=9, producer_epoch=1, base_sequence=0, is_transactional=True)
    assert compact(log, LATER_MS) > 0
    assert (log.log_start_offset, log.last_stable_offset, log.log_end_offset) == (0, 2, 3)
    for offset in (0, 1):
        assert log.read(offset, 1 << 20, at_least_one=True, up_to_offset=2) == b""
        assert log.bytes_after(offset, 1 << 20, up_to_offset=2) == 0, "a Fetch waits for more"
        assert log.read(offset, 1, at_least_one=True) != b""
    log.append_marker(ControlRecordType.COMMIT, producer_id=9, producer_epoch=1, coordinator_epoch=0, leader_epoch=0,
                      timestamp_ms=START_MS)
    assert log.last_stable_offset == 4
    assert [record.value for record in stored(log)] == [b"open"]
    assert log.bytes_after(0, 1 << 20, up_to_offset=4) == log.size_bytes


def test_read_when_nothing_is_left_before_a_followers_end_then_nothing_behind_it_is_read(open_log: LogMaker) -> None:
    log = open_log()
    for value in (b"1", b"2", b"3"):
        append(log, (b"k", value))
    append(log, (b"other", b"4"))
    roll(log)
    assert compact(log, LATER_MS) > 0
    kept = [record.offset for record in stored(log)]
    assert kept == [2, 3, 4]
    for up_to_offset in range(6):
        for offset in range(up_to_offset):
            data = log.read(offset, 1 << 20, at_least_one=True, up_to_offset=up_to_offset)
            found = [record.offset for batch in read_batches(data) for record in batch]
            assert found == [one for one in kept if offset <= one < up_to_offset and (one < 4) == (offset < 4)]
            assert (log.bytes_after(offset, 1 << 20, up_to_offset=up_to_offset) > 0) == bool(found)
