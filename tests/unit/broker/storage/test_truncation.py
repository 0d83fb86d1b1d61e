"""A log whose end is cut, as where a replica leads that does not have it: what is left is as if the rest never was."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pyproducer.broker.storage import log as log_module
from pyproducer.broker.storage.compaction import compact
from pyproducer.broker.storage.damage import DamagedLogError
from pyproducer.broker.storage.file_handle import FileHandle
from pyproducer.broker.storage.log import AppendResult, Log
from pyproducer.broker.storage.log_config import LogConfig
from pyproducer.broker.storage.segment import LogSegment, segment_file_name
from pyproducer.broker.storage.swap import CLEANED_SUFFIX
from pyproducer.broker.storage.validation import BatchFault
from pyproducer.common.error_codes import ErrorCode
from pyproducer.record.batch_reader import RecordBatch, read_batches
from pyproducer.record.batch_writer import build_batch
from pyproducer.record.control import ControlRecordType

SMALL = LogConfig(segment_bytes=500)


def batch(sequence: int = -1, *, producer_id: int = -1, count: int = 2, transactional: bool = False) -> RecordBatch:
    return RecordBatch(build_batch(
        [(1000 + index, b"key", bytes(100), ()) for index in range(count)], producer_id=producer_id,
        producer_epoch=0 if producer_id >= 0 else -1, base_sequence=sequence, is_transactional=transactional))


def append(log: Log, one: RecordBatch, *, epoch: int = 0) -> int:
    result = log.append(one, leader_epoch=epoch)
    assert isinstance(result, AppendResult), result
    return result.base_offset


def offsets(log: Log) -> list[int]:
    found: list[int] = []
    while (data := log.read(found[-1] + 1 if found else log.log_start_offset, 1 << 20, at_least_one=True)):
        found += [record.offset for one in read_batches(data) for record in one]
    return found


@pytest.fixture
def open_log(tmp_path: Path) -> Iterator[Callable[..., Log]]:
    logs: list[Log] = []

    def open_one(config: LogConfig = SMALL) -> Log:
        logs.append(Log(tmp_path / "orders-0", config))
        return logs[-1]

    yield open_one
    for log in logs:
        log.close()


@pytest.mark.parametrize("offset", range(13))
def test_log_when_it_is_cut_then_what_is_left_is_read_written_and_opened_again(
        open_log: Callable[..., Log], offset: int) -> None:
    log = open_log()
    for _ in range(6):
        append(log, batch())
    end = offset - offset % 2  # a batch goes as a whole
    assert log.truncate_to(offset) == 12 - end
    assert (log.log_end_offset, offsets(log)) == (end, list(range(end)))
    assert append(log, batch()) == end
    assert offsets(log) == list(range(end + 2))
    log.close()
    again = open_log()
    assert offsets(again) == list(range(end + 2))
    assert log.truncate_to(0) == 0, "a closed log stays as it is"


def test_log_when_it_is_cut_then_producers_are_known_by_what_is_left(open_log: Callable[..., Log]) -> None:
    log = open_log()
    for sequence in (0, 2, 4):
        append(log, batch(sequence, producer_id=7))
    append(log, batch(0, producer_id=8))
    log.truncate_to(2)
    fault = log.append(batch(6, producer_id=7), leader_epoch=0)
    assert isinstance(fault, BatchFault)
    assert fault.error_code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, "its batches behind the first are lost"
    assert append(log, batch(2, producer_id=7)) == 2
    assert not log.producers.knows(8)


def test_log_when_it_is_cut_then_transactions_and_epochs_are_those_of_what_is_left(
        open_log: Callable[..., Log]) -> None:
    log = open_log()
    append(log, batch(0, producer_id=7, transactional=True), epoch=1)
    log.append_marker(ControlRecordType.ABORT, producer_id=7, producer_epoch=0, coordinator_epoch=0, leader_epoch=1,
                      timestamp_ms=1000)
    append(log, batch(2, producer_id=7, transactional=True), epoch=4)
    assert (log.last_stable_offset, log.log_end_offset) == (3, 5)
    assert log.end_offset_for_epoch(1, 4) == (1, 3)
    log.truncate_to(3)
    assert log.last_stable_offset == 3
    assert len(log.aborted_transactions(0, 3)) == 1
    log.truncate_to(2)
    assert log.last_stable_offset == 0, "the transaction is open again: its marker is lost"
    assert log.aborted_transactions(0, 3) == []
    append(log, batch(), epoch=6)
    assert [entry.epoch for entry in log.epochs.entries] == [1, 6]
    assert log.end_offset_for_epoch(4, 6) == (1, 2), "that is how a consumer learns what was lost"


def test_log_when_an_epoch_is_cut_off_and_goes_on_then_it_begins_where_its_first_record_is_now(
        open_log: Callable[..., Log]) -> None:
    """The log looks at its epochs where another one writes, and the one that writes next was cut off with its records.

    A consumer that asks where epoch 0 ended would be told that all records there are of it.
    """
    log = open_log()
    append(log, batch(), epoch=0)
    append(log, batch(), epoch=1)
    assert log.truncate_to(2) == 2
    assert append(log, batch(), epoch=1) == 2
    append(log, batch(), epoch=1)
    assert log.end_offset_for_epoch(0, 1) == (0, 2)
    assert log.end_offset_for_epoch(1, 1) == (1, 6)


def test_log_when_the_file_cannot_be_cut_then_it_goes_on_with_what_is_there(
        open_log: Callable[..., Log], monkeypatch: pytest.MonkeyPatch) -> None:
    log = open_log(LogConfig())
    for _ in range(3):
        append(log, batch())

    def refuse(*_arguments: object) -> None:
        raise OSError(30, os.strerror(30))

    with monkeypatch.context() as patched:
        patched.setattr("pyproducer.broker.storage.file_handle.FileHandle.truncate", refuse)
        with pytest.raises(OSError, match="Read-only"):
            log.truncate_to(2)
    assert offsets(log) == list(range(6))
    assert append(log, batch()) == 6
    assert log.truncate_to(2) == 6


FAILURES: list[Exception] = [OSError(24, os.strerror(24)), DamagedLogError(Path("orders-0"), "a test says so")]


def refuse_to_open(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def refuse(*_arguments: object, **_fields: object) -> None:
        raise error

    monkeypatch.setattr(log_module, "recover_segments", refuse)


@pytest.mark.parametrize("failure", FAILURES, ids=["too many files", "damaged"])
def test_log_when_a_cut_one_cannot_be_read_again_then_nothing_is_read_or_written_until_it_can(
        open_log: Callable[..., Log], monkeypatch: pytest.MonkeyPatch, failure: Exception) -> None:
    """It was appended to behind its old end: after a hole of zeros, which nobody can read and no start takes."""
    log = open_log()
    for sequence in range(0, 12, 2):
        append(log, batch(sequence, producer_id=7))
    closed = log.closed_segments()
    assert closed
    with monkeypatch.context() as patched:
        refuse_to_open(patched, failure)
        with pytest.raises(type(failure)):
            log.truncate_to(5)
        uses: list[Callable[[], object]] = [
            lambda: log.append(batch(), leader_epoch=0),
            lambda: log.append_marker(ControlRecordType.ABORT, producer_id=7, producer_epoch=0, coordinator_epoch=0,
                                      leader_epoch=0, timestamp_ms=1000),
            lambda: log.pretend_append(batch()),
            lambda: log.read(0, 1 << 20, at_least_one=True),
            lambda: next(log.batches_for_timestamp(0), None),
            log.batch_with_max_timestamp]
        for use in uses:
            with pytest.raises(OSError, match=r"Too many open files|a test says so"):
                use()
        with pytest.raises(type(failure)):
            log.truncate_to(2)
        assert log.delete_old_segments(1 << 40) == 0
        assert log.replace_segments(closed[:1], []) is False
        assert log.closed_segments() == [], "there is nothing to compact"
    assert append(log, batch()) == 4, "a batch goes as a whole"
    assert offsets(log) == list(range(6))
    fault = log.append(batch(12, producer_id=7), leader_epoch=0)
    assert isinstance(fault, BatchFault)
    assert fault.error_code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, "its last batches are lost"
    assert log.close()
    assert offsets(open_log()) == list(range(6))


def test_log_when_a_cut_one_is_only_read_then_that_reads_it_again(
        open_log: Callable[..., Log], monkeypatch: pytest.MonkeyPatch) -> None:
    log = open_log()
    for _ in range(6):
        append(log, batch())
    with monkeypatch.context() as patched:
        refuse_to_open(patched, FAILURES[0])
        with pytest.raises(OSError, match="Too many"):
            log.truncate_to(5)
    assert offsets(log) == list(range(4))
    assert log.size_bytes == sum(path.stat().st_size for path in log.directory.glob("*.log"))


def test_log_when_it_is_closed_before_it_was_read_again_then_the_next_start_looks_at_it(
        open_log: Callable[..., Log], monkeypatch: pytest.MonkeyPatch) -> None:
    log = open_log()
    for _ in range(6):
        append(log, batch())
    with monkeypatch.context() as patched:
        refuse_to_open(patched, FAILURES[0])
        with pytest.raises(OSError, match="Too many"):
            log.truncate_to(5)
        assert not log.close(), "where it ends is not known"
    again = open_log()
    assert offsets(again) == list(range(4))
    assert {int(path.stem) for path in again.directory.glob("*.*index")} <= {
        int(path.stem) for path in again.directory.glob("*.log")}, "no index of a segment that is gone"


# ---- a log with offsets that are missing

COMPACTED = LogConfig(segment_bytes=300, is_compacted=True, is_deleted=False, min_cleanable_ratio=0.0)
COUNT = 20


def compacted(log: Log) -> list[int]:
    """Fill a log with batches of three keys, compact it, and return the offsets that are left."""
    for number in range(COUNT):
        record = (1000, b"key %d" % (number % 3), bytes(10), ())
        append(log, RecordBatch(build_batch([record] * (1 + number % 2))))
    assert compact(log, 1_000_000) > 0
    return offsets(log)


@pytest.mark.parametrize("later", [COMPACTED, COMPACTED._replace(is_compacted=False, segment_bytes=10_000)],
                         ids=["compacted", "compacted no more"])
@pytest.mark.parametrize("offset", range(31))
def test_log_when_a_compacted_one_is_cut_then_what_is_left_is_read_written_and_opened_again(
        open_log: Callable[..., Log], offset: int, later: LogConfig) -> None:
    """Offsets were missing in the last segment then: the log was refused, in the middle of an election and for ever."""
    log = open_log(COMPACTED)
    left = compacted(log)
    assert log.log_end_offset == 30 > len(left)
    spans = [(header.base_offset, header.last_offset) for segment in log._view[0] for _, header in segment.headers()]
    end = next((first for first, last in spans if first < offset <= last), offset)  # a batch goes as a whole
    log.config = later
    assert log.truncate_to(offset) == 30 - end
    assert log.log_end_offset == end
    expected = [one for one in left if one < end]
    assert offsets(log) == expected
    log.close()
    log = open_log(later)
    assert (log.log_end_offset, offsets(log)) == (end, expected)
    assert append(log, batch()) == end
    assert offsets(log) == [*expected, end, end + 1]
    assert log.truncate_to(end) == 2
    assert (log.log_end_offset, offsets(log)) == (end, expected)
    log.close()
    assert open_log(later).log_end_offset == end


@pytest.mark.parametrize("offset", [0, 1, 7, 14])
def test_log_when_a_compacted_one_cannot_be_cut_to_the_end_then_whatever_was_done_leaves_a_log(
        open_log: Callable[..., Log], monkeypatch: pytest.MonkeyPatch, offset: int) -> None:
    """As where the broker dies in between."""
    steps = 0

    def limited(function: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arguments: Any, **fields: Any) -> Any:
            nonlocal left_steps
            left_steps -= 1
            if left_steps < 0:
                raise OSError(30, os.strerror(30))
            return function(*arguments, **fields)
        return run

    is_done = False
    while not is_done:
        log = open_log(COMPACTED)
        left = compacted(log)
        left_steps = steps
        with monkeypatch.context() as patched:
            patched.setattr(FileHandle, "truncate", limited(FileHandle.truncate))
            patched.setattr(LogSegment, "delete", limited(LogSegment.delete))
            patched.setattr(Path, "rename", limited(Path.rename))
            try:
                log.truncate_to(offset)
                is_done = True
            except OSError:
                steps += 1
        end, found = log.log_end_offset, offsets(log)
        assert found == left[:len(found)], "nothing is missing in the middle"
        assert set(found) >= {one for one in left if one < offset - 1}
        assert append(log, batch()) == end
        log.close()
        again = open_log(COMPACTED)
        assert offsets(again) == [*found, end, end + 1]
        again.delete()
    assert steps > 3


def test_log_when_it_is_cut_while_a_compaction_gives_up_then_a_file_that_is_gone_already_is_no_error(
        open_log: Callable[..., Log], monkeypatch: pytest.MonkeyPatch) -> None:
    """Both remove what was being written, and one of them is faster."""
    log = open_log(COMPACTED)
    left = compacted(log)
    being_written = log.directory / segment_file_name(0, CLEANED_SUFFIX)
    being_written.touch()
    unlink = Path.unlink

    def unlink_late(path: Path, missing_ok: bool = False) -> None:
        if path == being_written:
            unlink(path)
        unlink(path, missing_ok=missing_ok)

    monkeypatch.setattr(Path, "unlink", unlink_late)
    assert log.truncate_to(7) == 23
    assert offsets(log) == [one for one in left if one < 7]
