from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pyproducer.broker.storage.log import AppendResult, Log
from pyproducer.broker.storage.log_config import LogConfig
from pyproducer.record.batch_reader import RecordBatch, read_batches
from pyproducer.record.batch_writer import build_batch
from pyproducer.record.control import ControlRecordType

START_MS = 1_700_000_000_000
STEP_MS = 1000
SEGMENT_RECORDS = 4  # two batches of two records fit
LogMaker = Callable[..., Log]


def batch(number: int) -> RecordBatch:
    at = START_MS + STEP_MS * number
    return RecordBatch(build_batch([(at, b"key", bytes(400), ()), (at, b"key", bytes(400), ())]))


def append(log: Log, number: int, leader_epoch: int = 0) -> int:
    result = log.append(batch(number), leader_epoch=leader_epoch)
    assert isinstance(result, AppendResult)
    return result.base_offset


def offsets(log: Log) -> list[int]:
    found: list[int] = []
    offset = log.log_start_offset
    while data := log.read(offset, 1 << 20, at_least_one=True):
        found += [record.offset for one in read_batches(data) for record in one]
        offset = found[-1] + 1
    return [offset for offset in found if offset >= log.log_start_offset]


def files(log: Log) -> list[int]:
    return sorted(int(path.stem) for path in log.directory.glob("*.log"))


@pytest.fixture
def open_log(tmp_path: Path) -> Iterator[LogMaker]:
    opened: list[Log] = []

    def make(*, batches: int = 0, log_start_offset: int = 0, **settings: int | bool) -> Log:
        for earlier in opened:
            earlier.close()
        log = Log(tmp_path / "orders-0", LogConfig(segment_bytes=2000, **settings),  # type: ignore[arg-type]  # as is
                  log_start_offset=log_start_offset)
        opened.append(log)
        for number in range(batches):
            append(log, number)
        return log

    yield make
    for log in opened:
        log.close()


def test_segments_when_their_newest_record_is_too_old_then_deleted(open_log: LogMaker) -> None:
    log = open_log(batches=7, retention_ms=10_000)
    assert files(log) == [0, 4, 8, 12]
    newest_of_first = START_MS + STEP_MS
    assert log.delete_old_segments(newest_of_first + 10_000) == 0
    assert log.delete_old_segments(newest_of_first + 10_001) == 1
    assert (files(log), log.log_start_offset, log.log_end_offset) == ([4, 8, 12], 4, 14)
    assert offsets(log) == list(range(4, 14))
    assert sorted(path.name for path in log.directory.glob("00000000000000000000.*")) == []


def test_active_segment_when_too_old_then_deleted_behind_a_new_one(open_log: LogMaker) -> None:
    log = open_log(batches=3, retention_ms=10_000)
    assert log.delete_old_segments(START_MS + 10 * 60_000) == 2
    assert (files(log), log.log_start_offset, log.log_end_offset) == ([6], 6, 6)
    assert log.delete_old_segments(START_MS + 10 * 60_000) == 0
    assert append(log, 3) == 6
    again = open_log()
    assert (again.log_start_offset, again.log_end_offset, offsets(again)) == (6, 8, [6, 7])


def test_segments_when_the_log_is_too_large_then_deleted_down_to_the_size(open_log: LogMaker) -> None:
    log = open_log(batches=8, retention_ms=-1, retention_bytes=5 * batch(0).size_bytes)
    assert log.delete_old_segments(START_MS) == 1
    assert (files(log), log.size_bytes) == ([4, 8, 12], 6 * batch(0).size_bytes)
    log.config = log.config._replace(retention_bytes=0)
    assert log.delete_old_segments(START_MS) == 3
    assert log.size_bytes == 0


def test_segments_when_deleted_then_what_was_known_of_their_records_is_forgotten(open_log: LogMaker) -> None:
    """Epochs and aborted transactions of records that are gone would be told to clients, and kept for ever."""
    log = open_log(retention_ms=10_000)
    assert append(log, 0, leader_epoch=0) == 0
    open_batch = RecordBatch(build_batch([(START_MS, b"key", bytes(800), ())], producer_id=7, producer_epoch=0,
                                         base_sequence=0, is_transactional=True))
    assert log.append(open_batch, leader_epoch=1) == AppendResult(2)
    assert log.append_marker(ControlRecordType.ABORT, producer_id=7, producer_epoch=0, coordinator_epoch=0,
                             leader_epoch=1, timestamp_ms=START_MS) == AppendResult(3)
    assert [append(log, number, leader_epoch=2) for number in range(100, 103)] == [4, 6, 8]
    assert [(found.first_offset, found.last_offset) for found in log.aborted_transactions(0, 10)] == [(2, 3)]
    assert log.delete_old_segments(START_MS + 10_001) >= 1
    assert log.log_start_offset == 4
    assert log.aborted_transactions(0, 10) == []
    assert log.epochs.entries == ((2, 4),)
    assert (log.directory / "leader-epoch-checkpoint").read_text() == "0\n1\n2 4\n"


def test_log_when_it_is_deleted_then_retention_finds_nothing_to_do(open_log: LogMaker) -> None:
    """The cleaner goes through all partitions; a topic may be deleted while it does."""
    log = open_log(batches=7, retention_ms=10_000)
    assert log.delete_old_segments(START_MS + STEP_MS + 10_001) == 1
    log.delete()
    assert log.delete_old_segments(START_MS * 2) == 0
    assert (log.log_start_offset, log.log_end_offset) == (0, 0)
    assert not log.directory.exists()


def test_segments_of_a_compacted_log_are_not_deleted_by_age(open_log: LogMaker) -> None:
    log = open_log(batches=7, retention_ms=0, is_deleted=False)
    assert log.delete_old_segments(START_MS * 2) == 0


def test_log_start_when_moved_into_a_segment_then_earlier_segments_go_and_it_stays_over_a_restart(
        open_log: LogMaker) -> None:
    log = open_log(batches=7)
    assert log.increment_log_start_offset(6) == 6
    assert (files(log), offsets(log)) == ([4, 8, 12], list(range(6, 14)))
    assert log.increment_log_start_offset(5) == 6
    found = next(log.batches_for_timestamp(0), None)
    assert found is not None
    assert found.base_offset == 6
    again = open_log(log_start_offset=6)
    assert (again.log_start_offset, again.log_end_offset) == (6, 14)
    assert again.increment_log_start_offset(99) == 14
    assert files(again) == [12]


def test_readers_never_see_anything_else_than_the_log_while_segments_go(open_log: LogMaker) -> None:
    log = open_log(batches=60)
    failures: list[str] = []
    stop = threading.Event()

    def read() -> None:
        while not stop.is_set():
            start = log.log_start_offset
            data = log.read(start, 1 << 20, at_least_one=True)
            found = [record.offset for one in read_batches(data) for record in one]
            if not found or found != list(range(found[0], found[-1] + 1)) or found[0] < start - SEGMENT_RECORDS:
                failures.append(f"from {start}: {found}")

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    for offset in range(1, 110):
        log.increment_log_start_offset(offset)
    stop.set()
    for reader in readers:
        reader.join()
    assert failures == []
    assert log.log_start_offset == 109


def test_segment_when_its_first_record_is_too_old_then_a_new_one_begins(open_log: LogMaker) -> None:
    log = open_log(segment_ms=1500)
    for number in (0, 1, 2, 3):
        append(log, number)
    assert files(log) == [0, 4]
    log.config = log.config._replace(segment_bytes=1 << 20)
    append(log, 3)
    append(log, 4)
    assert files(log) == [0, 4, 10]


# ---- epochs

def test_epochs_begin_where_their_first_record_is_and_are_kept_in_kafkas_file(open_log: LogMaker) -> None:
    log = open_log()
    for number, epoch in enumerate((1, 1, 3, 3, 6)):
        append(log, number, epoch)
    checkpoint = log.directory / "leader-epoch-checkpoint"
    assert checkpoint.read_text() == "0\n3\n1 0\n3 4\n6 8\n"
    expected = {0: (0, 0), 1: (1, 4), 2: (1, 4), 3: (3, 8), 5: (3, 8), 6: (6, 10), 7: (-1, -1), -1: (-1, -1)}
    assert {epoch: log.end_offset_for_epoch(epoch, 6) for epoch in expected} == expected
    # A leader that has written nothing yet: its epoch begins at the end.
    assert log.end_offset_for_epoch(6, 7) == (6, 10)
    assert log.end_offset_for_epoch(7, 7) == (7, 10)
    again = open_log()
    assert {epoch: again.end_offset_for_epoch(epoch, 6) for epoch in expected} == expected


def test_epochs_when_their_records_are_deleted_then_forgotten(open_log: LogMaker) -> None:
    log = open_log()
    for number, epoch in enumerate((1, 1, 3, 3, 6)):
        append(log, number, epoch)
    log.increment_log_start_offset(5)
    assert (log.directory / "leader-epoch-checkpoint").read_text() == "0\n2\n3 5\n6 8\n"
    assert log.end_offset_for_epoch(1, 6) == (1, 5)
    assert log.end_offset_for_epoch(3, 6) == (3, 8)
