from __future__ import annotations

import errno
import os
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pyproducer.broker.storage.log import AppendResult, Log
from pyproducer.broker.storage.log_config import LogConfig
from pyproducer.broker.storage.segment import LogSegment
from pyproducer.broker.storage.validation import BatchFault
from pyproducer.common.error_codes import ErrorCode
from pyproducer.common.errors import ConfigError
from pyproducer.record.batch_reader import RecordBatch, read_batches
from pyproducer.record.batch_writer import build_batch
from pyproducer.record.control import ControlRecordType

START_MS = 1_700_000_000_000


class Logs:
    """Opens logs in one folder and closes them at the end."""

    def __init__(self, folder: Path) -> None:
        self.directory = folder / "orders-0"
        self._open: list[Log] = []

    def open(self, **settings: Any) -> Log:
        log = Log(self.directory, LogConfig(**settings))
        self._open.append(log)
        return log

    def close(self) -> None:
        for log in self._open:
            log.close()


@pytest.fixture
def logs(tmp_path: Path) -> Iterator[Logs]:
    made = Logs(tmp_path)
    yield made
    made.close()


def batch(number: int, *, count: int = 2, value_bytes: int = 100, **fields: Any) -> RecordBatch:
    at = START_MS + 1000 * number
    return RecordBatch(build_batch([(at + index, b"key", bytes(value_bytes), ()) for index in range(count)], **fields))


def append(log: Log, number: int, **fields: int) -> int:
    result = log.append(batch(number, **fields), leader_epoch=3)
    assert isinstance(result, AppendResult)
    return result.base_offset


def fill(log: Log, count: int) -> None:
    for number in range(count):
        append(log, number)


def offsets(data: bytes) -> list[int]:
    return [record.offset for one in read_batches(data) for record in one]


def test_append_patches_offset_and_epoch_and_nothing_else(logs: Logs) -> None:
    log = logs.open()
    append(log, 0)
    sent = batch(1)
    assert log.append(sent, leader_epoch=3) == AppendResult(2)
    (_, stored) = read_batches(log.read(0, 1 << 20, at_least_one=True))
    stored.ensure_valid()
    assert (stored.base_offset, stored.partition_leader_epoch) == (2, 3)
    assert bytes(stored.data[16:]) == bytes(sent.data[16:])
    assert sent.base_offset == 0, "the producer's bytes are left alone"


def test_append_with_log_append_time_stamps_the_batch(logs: Logs) -> None:
    log = logs.open()
    result = log.append(batch(0), leader_epoch=0, log_append_time_ms=START_MS + 5555)
    assert result == AppendResult(0, START_MS + 5555)
    (stored,) = read_batches(log.read(0, 1 << 20, at_least_one=True))
    stored.ensure_valid()
    assert (stored.timestamp_type, stored.max_timestamp) == (1, START_MS + 5555)
    assert {record.timestamp for record in stored} == {START_MS + 5555}


def test_append_clears_a_timestamp_type_that_the_producer_may_not_set(logs: Logs) -> None:
    log = logs.open()
    log.append(batch(0, timestamp_type=1), leader_epoch=0)
    (stored,) = read_batches(log.read(0, 1 << 20, at_least_one=True))
    stored.ensure_valid()
    assert stored.timestamp_type == 0


def test_append_answers_duplicates_and_gaps_without_writing(logs: Logs) -> None:
    log = logs.open()
    ids = {"producer_id": 9, "producer_epoch": 0}
    append(log, 0, base_sequence=0, **ids)
    append(log, 1, base_sequence=2, **ids)
    again = log.append(batch(1, base_sequence=2, **ids), leader_epoch=0)
    assert again == AppendResult(2, START_MS + 1001, is_duplicate=True)
    gap = log.append(batch(1, base_sequence=6, **ids), leader_epoch=0)
    assert isinstance(gap, BatchFault)
    assert gap.error_code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert log.log_end_offset == 4


def test_append_when_a_stamped_batch_is_repeated_then_it_is_answered_with_the_time_of_the_first(logs: Logs) -> None:
    log = logs.open()
    sent = batch(0, producer_id=9, producer_epoch=0, base_sequence=0)
    assert log.append(sent, leader_epoch=0, log_append_time_ms=5000) == AppendResult(0, 5000)
    assert log.append(sent, leader_epoch=0, log_append_time_ms=6000) == AppendResult(0, 5000, is_duplicate=True)


@pytest.mark.parametrize("index_interval_bytes", [0, 500, 4096])
@pytest.mark.parametrize("segment_bytes", [1 << 30, 1000])
def test_read_starts_with_the_batch_that_holds_the_offset(
        logs: Logs, segment_bytes: int, index_interval_bytes: int) -> None:
    log = logs.open(segment_bytes=segment_bytes, index_interval_bytes=index_interval_bytes)
    fill(log, 30)
    for offset in range(60):
        data = log.read(offset, 1, at_least_one=True)
        first = offset - offset % 2
        assert offsets(data) == [first, first + 1]
        assert log.read(offset, 1, at_least_one=False) == b""
    assert log.read(60, 1 << 20, at_least_one=True) == b""


@pytest.mark.parametrize("index_interval_bytes", [0, 500, 4096])
def test_read_gives_whole_batches_within_the_limit(logs: Logs, index_interval_bytes: int) -> None:
    log = logs.open(index_interval_bytes=index_interval_bytes)
    fill(log, 30)
    size = batch(0).size_bytes
    for start in (0, 7, 20):
        for limit in range(size, 8 * size, 37):
            data = log.read(2 * start, limit, at_least_one=True)
            assert len(data) == min(limit // size, 30 - start) * size
            assert offsets(data)[0] == 2 * start


def test_read_stops_before_up_to_offset(logs: Logs) -> None:
    log = logs.open()
    fill(log, 10)
    assert offsets(log.read(4, 1 << 20, at_least_one=True, up_to_offset=8)) == [4, 5, 6, 7]
    assert log.read(8, 1 << 20, at_least_one=True, up_to_offset=8) == b""


def test_segments_are_named_by_their_first_offset_and_read_across(logs: Logs) -> None:
    log = logs.open(segment_bytes=2 * batch(0).size_bytes)
    fill(log, 6)
    assert sorted(path.name for path in logs.directory.glob("*.log")) == [
        "00000000000000000000.log", "00000000000000000004.log", "00000000000000000008.log"]
    found: list[int] = []
    while len(found) < 12:
        found += offsets(log.read(len(found), 1 << 20, at_least_one=True))
    assert found == list(range(12))
    assert log.bytes_after(0, 1 << 20) == 6 * batch(0).size_bytes
    assert log.bytes_after(12, 1 << 20) == 0


def test_segment_when_its_offsets_would_not_fit_into_its_index_then_a_new_one_is_begun(
        logs: Logs, monkeypatch: pytest.MonkeyPatch) -> None:
    """The index has distances of 32 bits; here, of two."""
    monkeypatch.setattr("pyproducer.broker.storage.log._MAX_RELATIVE_OFFSET", 3)
    log = logs.open()
    append(log, 0)
    assert append(log, 1) == 2, "the last that fits"
    assert [path.name for path in logs.directory.glob("*.log")] == ["00000000000000000000.log"]
    assert append(log, 2, count=1) == 4
    assert sorted(path.name for path in logs.directory.glob("*.log")) == [
        "00000000000000000000.log", "00000000000000000004.log"]
    assert offsets(log.read(4, 1 << 20, at_least_one=True)) == [4]


def test_segment_when_it_is_too_old_by_the_time_of_its_records_then_a_new_one_is_begun(logs: Logs) -> None:
    log = logs.open(segment_ms=5000)  # batches are a second apart, and the first one's newest record is at 1 ms
    fill(log, 6)
    assert len(list(logs.directory.glob("*.log"))) == 1
    append(log, 6)
    assert sorted(path.name for path in logs.directory.glob("*.log")) == [
        "00000000000000000000.log", "00000000000000000012.log"]


def test_bytes_after_counts_from_the_batch_of_the_offset(logs: Logs) -> None:
    log = logs.open()
    fill(log, 4)
    size = batch(0).size_bytes
    assert [log.bytes_after(offset, 1 << 20) for offset in (0, 1, 2, 6, 7, 8)] == [
        4 * size, 4 * size, 3 * size, size, size, 0]
    assert log.bytes_after(0, 10) == 10


def test_bytes_after_when_the_offset_is_in_a_later_segment_then_nothing_before_it_counts(logs: Logs) -> None:
    size = batch(0).size_bytes
    log = logs.open(segment_bytes=3 * size)
    fill(log, 8)
    assert [log.bytes_after(2 * number, 1 << 20) for number in range(9)] == [
        (8 - number) * size for number in range(9)]
    assert log.bytes_after(8, 2 * size) == 2 * size
    assert log.bytes_after(8, 1 << 20, up_to_offset=8) == 0
    assert [log.bytes_after(4, 1 << 20, up_to_offset=2 * number) for number in range(2, 9)] == [
        number * size for number in range(7)], "nothing behind it counts"


@pytest.mark.parametrize("index_interval_bytes", [0, 500, 4096])
@pytest.mark.parametrize("segment_bytes", [1 << 30, 1000])
def test_batch_for_timestamp_finds_the_first_batch_that_reaches_it(
        logs: Logs, segment_bytes: int, index_interval_bytes: int) -> None:
    log = logs.open(segment_bytes=segment_bytes, index_interval_bytes=index_interval_bytes)
    fill(log, 10)
    for number in range(10):
        found = next(log.batches_for_timestamp(START_MS + 1000 * number), None)
        assert found is not None
        assert found.base_offset == 2 * number
    assert next(log.batches_for_timestamp(START_MS + 9002), None) is None
    newest = log.batch_with_max_timestamp()
    assert newest is not None
    assert newest.base_offset == 18


def test_batch_for_timestamp_with_timestamps_that_go_back(logs: Logs) -> None:
    log = logs.open(index_interval_bytes=0)
    for number in (5, 1, 7, 2, 3):
        append(log, number)
    for timestamp, offset in ((0, 0), (START_MS + 5001, 0), (START_MS + 5002, 4), (START_MS + 7000, 4)):
        found = next(log.batches_for_timestamp(timestamp), None)
        assert found is not None
        assert found.base_offset == offset


def test_open_again_finds_everything(logs: Logs) -> None:
    log = logs.open(segment_bytes=1000)
    for number in range(20):
        append(log, number, producer_id=4, producer_epoch=1, base_sequence=2 * number)
    log.close()
    again = logs.open(segment_bytes=1000)
    assert (again.log_start_offset, again.log_end_offset) == (0, 40)
    repeated = again.append(batch(19, producer_id=4, producer_epoch=1, base_sequence=38), leader_epoch=0)
    assert repeated == AppendResult(38, START_MS + 19001, is_duplicate=True)
    assert append(again, 20, producer_id=4, producer_epoch=1, base_sequence=40) == 40


def test_open_again_cuts_a_tail_torn_at_any_byte(logs: Logs) -> None:
    log = logs.open()
    for number in range(5):
        append(log, number, value_bytes=1)
    log.close()
    path = logs.directory / "00000000000000000000.log"
    whole = path.read_bytes()
    size = batch(0, value_bytes=1).size_bytes
    for torn_bytes in range(size):
        path.write_bytes(whole[:4 * size + torn_bytes])
        again = logs.open()
        assert again.log_end_offset == 8
        assert path.stat().st_size == 4 * size
        assert append(again, 5, value_bytes=1) == 8
        assert offsets(again.read(0, 1 << 20, at_least_one=True)) == list(range(10))
        again.close()


def test_open_again_when_a_batch_of_the_last_segment_is_damaged_then_it_is_refused(logs: Logs) -> None:
    log = logs.open()
    fill(log, 5)
    log.close()
    path = logs.directory / "00000000000000000000.log"
    data = bytearray(path.read_bytes())
    data[3 * batch(0).size_bytes + 100] ^= 0xFF
    path.write_bytes(bytes(data))
    with pytest.raises(ConfigError, match=f"{path} is damaged"):
        logs.open()
    assert path.read_bytes() == data


@pytest.mark.parametrize("garbage", [bytes(40), bytes(4096), b"\xff" * 100, b"garbage" * 50],
                         ids=["zeros", "a page of zeros", "ones", "text"])
def test_open_again_cuts_garbage_behind_the_last_batch(logs: Logs, garbage: bytes) -> None:
    log = logs.open()
    fill(log, 5)
    log.close()
    with (logs.directory / "00000000000000000000.log").open("ab") as file:
        file.write(garbage)
    again = logs.open()
    assert again.log_end_offset == 10
    assert append(again, 5) == 10


def test_open_again_when_a_segment_in_the_middle_is_damaged_then_it_is_refused_and_every_file_stays(
        logs: Logs) -> None:
    log = logs.open(segment_bytes=1000)
    fill(log, 12)
    log.close()
    _, second, *_ = sorted(logs.directory.glob("*.log"))
    with second.open("r+b") as file:
        file.truncate(second.stat().st_size - 1)
    before = {path: path.read_bytes() for path in logs.directory.iterdir()}
    with pytest.raises(ConfigError, match=f"{second} is damaged"):
        logs.open(segment_bytes=1000)
    assert {path: path.read_bytes() for path in logs.directory.iterdir()} == before


# ---- a disk that is full

class FullDisk:
    """Stands before what is written: takes part of each batch and of each small file, then fails, while it is full."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.is_full = False
        self.can_cut = True
        self.takes_batches = False
        self._write, self._ftruncate = os.write, os.ftruncate
        self._write_bytes = Path.write_bytes
        monkeypatch.setattr(os, "writev", self._writev)
        monkeypatch.setattr(os, "ftruncate", self._cut)
        monkeypatch.setattr(Path, "write_bytes", lambda path, data: self._file(path, data))
        monkeypatch.setattr(Path, "write_text", lambda path, text, *_: self._file(path, text.encode()))

    def _writev(self, fd: int, chunks: list[bytes]) -> int:
        data = b"".join(chunks)
        if not self.is_full or self.takes_batches:
            return self._write(fd, data)
        self._write(fd, data[:len(data) // 2])
        raise OSError(errno.ENOSPC, "No space left on device")

    def _cut(self, fd: int, size_bytes: int) -> None:
        if not self.can_cut:
            raise OSError(errno.EIO, "Input/output error")
        self._ftruncate(fd, size_bytes)

    def _file(self, path: Path, data: bytes) -> int:
        if not self.is_full:
            return self._write_bytes(path, data)
        self._write_bytes(path, data[:len(data) // 2])
        raise OSError(errno.ENOSPC, "No space left on device")


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> FullDisk:
    return FullDisk(monkeypatch)


@pytest.mark.parametrize("can_cut", [True, False], ids=["cut at once", "cut later"])
@pytest.mark.parametrize("is_clean", [True, False], ids=["closed", "killed"])
def test_append_when_it_failed_half_way_and_the_next_one_rolls_then_all_that_was_acknowledged_is_there(
        logs: Logs, disk: FullDisk, can_cut: bool, is_clean: bool) -> None:
    """The torn bytes stayed in a segment that is not the last one, and the next start removed all behind it."""
    log = logs.open(segment_bytes=2000)
    fill(log, 4)
    disk.is_full, disk.can_cut = True, can_cut
    for _ in range(2):
        with pytest.raises(OSError, match=r"No space left on device|Input/output error"):
            append(log, 4)
    disk.is_full, disk.can_cut = False, True
    assert append(log, 5, value_bytes=1500) == 8, "does not fit into the first segment"
    fill(log, 3)
    assert len(list(logs.directory.glob("*.log"))) > 1
    if is_clean:
        assert log.close()
    again = logs.open(segment_bytes=2000)
    assert again.log_end_offset == 16
    found = [offset for start in (8, 10) for offset in offsets(again.read(start, 1 << 20, at_least_one=True))]
    assert found == [8, 9, 10, 11, 12, 13, 14, 15]


def test_roll_when_what_a_failed_write_left_cannot_be_cut_then_nothing_is_appended(logs: Logs, disk: FullDisk) -> None:
    log = logs.open(segment_bytes=2000)
    fill(log, 4)
    disk.is_full, disk.can_cut = True, False
    with pytest.raises(OSError, match="No space"):
        append(log, 4)
    disk.is_full = False
    with pytest.raises(OSError, match="Input/output error"):
        append(log, 5, value_bytes=1500)
    assert len(list(logs.directory.glob("*.log"))) == 1
    assert not log.close(), "the next start must look for the torn bytes"
    disk.can_cut = True
    assert logs.open(segment_bytes=2000).log_end_offset == 8


def test_append_when_its_epoch_cannot_be_written_then_nothing_is_appended(logs: Logs, disk: FullDisk) -> None:
    """The batch was in the file, counted by its segment, but not by the log: the next one got the same offset."""
    log = logs.open()
    append(log, 0)
    disk.is_full, disk.takes_batches = True, True
    with pytest.raises(OSError, match="No space"):
        log.append(batch(1), leader_epoch=4)
    disk.is_full = False
    assert log.append(batch(2), leader_epoch=4) == AppendResult(2)
    assert offsets(log.read(0, 1 << 20, at_least_one=True)) == [0, 1, 2, 3]
    assert log.epochs.entries == ((3, 0), (4, 2))
    log.close()
    assert (logs.directory / "leader-epoch-checkpoint").read_text() == "0\n2\n3 0\n4 2\n"
    assert logs.open().log_end_offset == 4


def test_roll_when_the_index_cannot_be_written_then_the_append_fails_and_later_ones_do_not(
        logs: Logs, disk: FullDisk) -> None:
    log = logs.open(segment_bytes=1000)
    fill(log, 3)
    disk.is_full, disk.takes_batches = True, True
    with pytest.raises(OSError, match="No space"):
        append(log, 3)
    disk.is_full = False
    assert append(log, 3) == 6
    log.close()
    assert logs.open(segment_bytes=1000).log_end_offset == 8


def test_close_when_the_disk_is_full_then_the_log_is_closed_all_the_same(logs: Logs, disk: FullDisk) -> None:
    """Indexes are made anew at the next start."""
    log = logs.open(segment_bytes=1000)
    fill(log, 5)
    disk.is_full = True
    assert log.close(), "all records are there"
    disk.is_full = False
    assert logs.open(segment_bytes=1000).log_end_offset == 10


def test_delete_old_segments_when_the_disk_is_full_then_their_space_is_free(logs: Logs, disk: FullDisk) -> None:
    """The new start of the epochs is written, too, and there was no space for that: so none was ever made."""
    log = logs.open(segment_bytes=1000, retention_bytes=0)
    fill(log, 8)
    disk.is_full = True
    with pytest.raises(OSError, match="No space"):
        log.delete_old_segments(START_MS)
    assert len(list(logs.directory.glob("*.log"))) == 1


def test_log_start_when_asked_to_move_to_where_it_is_then_nothing_is_written(logs: Logs, disk: FullDisk) -> None:
    """Of an epoch without records the file need not tell yet: a full disk is no reason to refuse what is no change."""
    log = logs.open()
    fill(log, 3)
    assert log.increment_log_start_offset(2) == 2
    log.end_offset_for_epoch(4, leader_epoch=4)
    disk.is_full = True
    assert log.increment_log_start_offset(2) == 2
    assert (logs.directory / "leader-epoch-checkpoint").read_text() == "0\n1\n3 2\n"
    with pytest.raises(OSError, match="No space"):
        log.increment_log_start_offset(3)


def test_close_writes_kafkas_index_files(logs: Logs) -> None:
    log = logs.open(index_interval_bytes=0)
    fill(log, 3)
    log.close()
    size = batch(0).size_bytes
    index = (logs.directory / "00000000000000000000.index").read_bytes()
    assert [int.from_bytes(index[at:at + 4], "big") for at in range(0, len(index), 4)] == [3, size, 5, 2 * size]
    times = (logs.directory / "00000000000000000000.timeindex").read_bytes()
    assert [(int.from_bytes(times[at:at + 8], "big"), int.from_bytes(times[at + 8:at + 12], "big"))
            for at in range(0, len(times), 12)] == [(START_MS + 1001, 3), (START_MS + 2001, 5)]


def test_close_when_batches_share_the_largest_timestamp_then_the_time_index_names_the_first(logs: Logs) -> None:
    """As Kafka's: who looks for that time must not begin behind records that have it."""
    log = logs.open()
    for number in (0, 1, 1, 0):
        append(log, number)
    log.close()
    times = (logs.directory / "00000000000000000000.timeindex").read_bytes()
    assert [(int.from_bytes(times[:8], "big"), int.from_bytes(times[8:], "big"))] == [(START_MS + 1001, 3)]


def test_close_when_somebody_still_has_a_segment_then_its_file_is_closed_all_the_same(logs: Logs) -> None:
    log = logs.open(segment_bytes=300)
    fill(log, 3)
    segments = list(log._view[0])
    assert len(segments) > 1
    log.close()
    for segment in segments:
        with pytest.raises(OSError, match="Bad file descriptor"):
            segment.file.read(0, 1)


def test_delete_removes_the_folder_and_readers_keep_what_they_have(logs: Logs) -> None:
    log = logs.open()
    fill(log, 3)
    (segment,) = log._view[0]
    log.delete()
    assert not logs.directory.exists()
    assert log.log_end_offset == 0
    assert offsets(segment.file.read(0, segment.size_bytes)) == list(range(6)), "who has the file reads on"


def test_delete_when_the_folder_is_gone_already_then_nothing_is_raised(logs: Logs) -> None:
    log = logs.open()
    log.delete()
    log.delete()
    log.close()
    assert not logs.directory.exists()


def test_open_when_the_folder_above_is_missing_too_then_both_are_made(tmp_path: Path) -> None:
    log = Log(tmp_path / "data" / "orders-0", LogConfig())
    log.close()
    assert (tmp_path / "data" / "orders-0").is_dir()


def test_appends_and_reads_at_once_never_see_half_a_batch(logs: Logs) -> None:
    log = logs.open(segment_bytes=50_000, index_interval_bytes=1000)
    done = threading.Event()
    faults: list[str] = []

    def read() -> None:
        position = 0
        while position < log.log_end_offset or not done.is_set():
            for one in read_batches(log.read(position, 3000, at_least_one=True)):
                if one.base_offset != position or not one.is_valid():
                    faults.append(f"offset {one.base_offset} where {position} is next")
                position = one.next_offset

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    fill(log, 2000)
    done.set()
    for reader in readers:
        reader.join()
    assert faults == []


# ---- indexes of closed segments

def index_bytes(log: Log) -> int:
    """Memory of all indexes."""
    return sum(sys.getsizeof(column) for segment in log._view[0] for column in (
        *segment._lookup, segment._offset_entries, segment._time_entries))


@pytest.mark.parametrize("reopen", [False, True])
def test_indexes_of_closed_segments_when_there_are_many_then_they_take_a_thousandth_of_the_log(
        logs: Logs, reopen: bool) -> None:
    """They took a twentieth of it, for ever."""
    log = logs.open(segment_bytes=1 << 20)
    for number in range(1300):
        append(log, number, value_bytes=2000)
    if reopen:
        log.close()
        log = logs.open(segment_bytes=1 << 20)
    assert len(log.closed_segments()) == 5
    assert sum(segment.size_bytes for segment in log.closed_segments()) > 5_000_000
    active = log._view[0][-1]
    closed_bytes = index_bytes(log) - sum(sys.getsizeof(column) for column in (
        *active._lookup, active._offset_entries, active._time_entries))
    assert closed_bytes < 5_000_000 // 1000 + 5 * 600, "an empty column has some 80 bytes"
    for offset in (0, 1, 2, 777, 1600, 2599):
        assert offsets(log.read(offset, 1, at_least_one=True)) == [offset // 2 * 2, offset // 2 * 2 + 1]
    for number in (0, 1, 400, 900, 1299):
        found = next(log.batches_for_timestamp(START_MS + 1000 * number), None)
        assert found is not None
        assert found.base_offset == 2 * number
    position = 0
    while position < 2600:
        found_offsets = offsets(log.read(position, 100_000, at_least_one=True))
        assert found_offsets[0] == position
        position = found_offsets[-1] + 1


@pytest.mark.parametrize("damage", [
    pytest.param(lambda path: path.unlink(), id="missing"),
    pytest.param(lambda path: path.write_bytes(b""), id="empty"),
    pytest.param(lambda path: path.write_bytes(path.read_bytes()[:-3]), id="truncated"),
    pytest.param(lambda path: path.write_bytes(b"\xff" * len(path.read_bytes())), id="other bytes"),
])
@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_index_file_when_it_is_damaged_then_it_is_made_anew_at_the_start(
        logs: Logs, damage: Callable[[Path], object], suffix: str) -> None:
    settings = {"segment_bytes": 5000, "index_interval_bytes": 500}
    log = logs.open(**settings)
    fill(log, 60)
    log.close()
    paths = [logs.directory / f"{segment.base_offset:020d}{suffix}" for segment in log._view[0]]
    before = [path.read_bytes() for path in paths]
    assert len(paths) > 2
    for path in paths:
        damage(path)
    again = logs.open(**settings)
    assert [path.read_bytes() for path in paths[:-1]] == before[:-1]
    assert offsets(again.read(20, 1, at_least_one=True)) == [20, 21]
    again.close()
    assert [path.read_bytes() for path in paths] == before


def test_index_files_when_they_are_right_then_a_start_writes_none(logs: Logs, monkeypatch: pytest.MonkeyPatch) -> None:
    log = logs.open(segment_bytes=2000)
    fill(log, 20)
    log.close()
    written: list[Path] = []
    monkeypatch.setattr(Path, "write_bytes", lambda path, _: written.append(path))
    logs.open(segment_bytes=2000)
    assert written == []


# ---- two threads at once

class Gate:
    """Stands before the write of a batch: the first thread that writes lets the second one run, and waits for it.

    With the lock of the log nobody else gets to the write meanwhile; the wait is then in vain and short.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, second: Callable[[], object]) -> None:
        self._second = threading.Thread(target=second)
        self._is_second_writing = threading.Event()
        self._write = LogSegment.append
        monkeypatch.setattr(LogSegment, "append", lambda segment, *chunks, **fields: self._append(
            segment, *chunks, **fields))

    def _append(self, segment: LogSegment, *chunks: Any, **fields: Any) -> None:
        if threading.current_thread() is self._second:
            self._is_second_writing.set()
        else:
            self._second.start()
            self._is_second_writing.wait(0.2)
        self._write(segment, *chunks, **fields)

    def join(self) -> None:
        self._second.join()


def append_data(log: Log) -> int:
    return append(log, 1)


def append_marker(log: Log) -> int:
    result = log.append_marker(ControlRecordType.ABORT, producer_id=5, producer_epoch=0, coordinator_epoch=0,
                               leader_epoch=3, timestamp_ms=START_MS)
    assert isinstance(result, AppendResult)
    return result.base_offset


@pytest.mark.parametrize("second", [append_data, append_marker])
@pytest.mark.parametrize("first", [append_data, append_marker])
def test_append_when_another_comes_in_the_middle_of_it_then_offsets_are_dense_and_unique(
        logs: Logs, monkeypatch: pytest.MonkeyPatch, first: Callable[[Log], int],
        second: Callable[[Log], int]) -> None:
    """Without the lock both took the same end of the log for their offset, and readers skipped one of them."""
    log = logs.open()
    found: list[int] = []
    gate = Gate(monkeypatch, lambda: found.append(second(log)))
    found.insert(0, first(log))
    gate.join()
    sizes = [1 if each is append_marker else 2 for each in (first, second)]
    assert found == [0, sizes[0]]
    assert log.log_end_offset == sum(sizes)
    assert [one.base_offset for one in read_batches(log.read(0, 1 << 20, at_least_one=True))] == [0, sizes[0]]
    assert all(one.is_valid() for one in read_batches(log.read(0, 1 << 20, at_least_one=True)))


def test_append_when_the_same_batch_comes_in_the_middle_of_it_then_one_is_written_and_both_are_answered_with_it(
        logs: Logs, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch sent again over a new connection meets its first sending in another handler."""
    log = logs.open()
    sent = batch(0, producer_id=9, producer_epoch=0, base_sequence=0)
    found: list[AppendResult | BatchFault] = []
    gate = Gate(monkeypatch, lambda: found.append(log.append(sent, leader_epoch=3)))
    assert log.append(sent, leader_epoch=3) == AppendResult(0)
    gate.join()
    assert found == [AppendResult(0, START_MS + 1, is_duplicate=True)]
    assert log.log_end_offset == 2
    assert log.size_bytes == sent.size_bytes


def test_read_when_a_batch_is_being_written_then_it_gives_nothing_behind_the_high_watermark(
        logs: Logs, monkeypatch: pytest.MonkeyPatch) -> None:
    log = logs.open()
    append(log, 0)
    read: list[tuple[list[int], int]] = []
    reader = threading.Thread(target=lambda: read.append(
        (offsets(log.read(0, 1 << 20, at_least_one=True)), log.high_watermark)))
    write = LogSegment.append

    def write_and_let_read(segment: LogSegment, *chunks: Any, **fields: Any) -> None:
        write(segment, *chunks, **fields)
        reader.start()
        reader.join(0.2)  # in vain when it waits for this append to be over

    monkeypatch.setattr(LogSegment, "append", write_and_let_read)
    append(log, 1)
    reader.join()
    ((found, high_watermark),) = read
    assert found == list(range(high_watermark))


# ---- by time, where there is nothing

def test_times_when_the_log_is_empty_then_no_batch_is_found(logs: Logs) -> None:
    log = logs.open()
    assert log.batch_with_max_timestamp() is None
    assert next(log.batches_for_timestamp(0), None) is None


def test_times_when_records_have_none_then_the_first_batch_is_the_newest(logs: Logs) -> None:
    log = logs.open(index_interval_bytes=0)
    for _ in range(3):
        log.append(RecordBatch(build_batch([(-1, b"key", b"value", ())])), leader_epoch=0)
    found = log.batch_with_max_timestamp()
    assert found is not None
    assert (found.base_offset, found.max_timestamp) == (0, -1)
    assert next(log.batches_for_timestamp(0), None) is None
