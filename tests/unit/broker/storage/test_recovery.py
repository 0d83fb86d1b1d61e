"""What a log is opened with: an unfinished write is cut; with damage before its end it is not opened at all."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pyproducer.broker.storage.batch_header import BatchHeader, checksum, read_header
from pyproducer.broker.storage.file_handle import FileHandle
from pyproducer.broker.storage.leader_epochs import LeaderEpochs
from pyproducer.broker.storage.producer_state import ProducerStateManager
from pyproducer.broker.storage.recovery import CLEAN_SHUTDOWN_FILE, RecoveredLog, recover_segments
from pyproducer.broker.storage.swap import COMPACTED_FILE
from pyproducer.broker.storage.transaction_index import TransactionIndex
from pyproducer.common.errors import ConfigError
from pyproducer.record.batch_writer import build_batch
from pyproducer.record.layout import HEADER

START_MS = 1_700_000_000_000


def stored(base_offset: int, *, records: int = 2, leader_epoch: int = 0, fix_crc: bool = True,
           **fields: int) -> bytes:
    """Return a batch as it lies in a log, with some fields of its header changed."""
    batch = build_batch([(START_MS + number, b"key", b"value", ()) for number in range(records)])
    header = read_header(batch)._replace(base_offset=base_offset, partition_leader_epoch=leader_epoch, **fields)
    changed = HEADER.pack(*header) + bytes(batch[HEADER.size:])
    return HEADER.pack(*header._replace(crc=checksum(changed))) + changed[HEADER.size:] if fix_crc else changed


class Opened:
    """What recovery found in a directory."""

    def __init__(self, directory: Path, **arguments: Any) -> None:
        self.producers = ProducerStateManager()
        self.epochs = LeaderEpochs(directory)
        self.found: RecoveredLog = recover_segments(directory, self.producers, self.epochs, TransactionIndex(),
                                                    index_interval_bytes=0, **arguments)

    @property
    def end(self) -> int:
        return self.found.log_end_offset

    def headers(self) -> list[BatchHeader]:
        return [header for segment in self.found.segments for _, header in segment.headers()]

    @property
    def base_offsets(self) -> list[int]:
        return [header.base_offset for header in self.headers()]

    @property
    def segments(self) -> list[int]:
        return [segment.base_offset for segment in self.found.segments]

    def close(self) -> None:
        for segment in self.found.segments:
            segment.file.close()


Recover = Callable[..., Opened]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    made = tmp_path / "orders-0"
    made.mkdir()
    return made


@pytest.fixture
def recover(directory: Path) -> Iterator[Recover]:
    opened: list[Opened] = []

    def open_one(**arguments: Any) -> Opened:
        opened.append(Opened(directory, **arguments))
        return opened[-1]

    yield open_one
    for each in opened:
        each.close()


def write(directory: Path, base_offset: int, *batches: bytes) -> Path:
    path = directory / f"{base_offset:020d}.log"
    path.write_bytes(b"".join(batches))
    return path


def test_empty_directory_when_opened_then_there_is_one_segment_at_0(recover: Recover) -> None:
    opened = recover()
    assert (opened.end, opened.segments, opened.base_offsets) == (0, [0], [])


def test_first_segment_when_it_is_empty_and_not_at_0_then_the_log_begins_there(
        directory: Path, recover: Recover) -> None:
    write(directory, 40)
    opened = recover()
    assert (opened.end, opened.segments) == (40, [40])


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


# What a write leaves that was under way when the broker was killed, or the machine lost its power.
TORN = [
    pytest.param(stored(2)[:3], id="torn at once"),
    pytest.param(stored(2)[:60], id="torn in the header"),
    pytest.param(stored(2)[:-5], id="torn in the records"),
    pytest.param(stored(2, records=900)[:5000] + bytes(500), id="torn, then zeros"),
    pytest.param(bytes(5000), id="zeros"),
    pytest.param(b"garbage" * 50, id="what is no batch"),
    pytest.param(b"\x02" * 500, id="what is full of magic bytes"),
]
# What was a batch once: one byte is another one.
DAMAGED = [
    pytest.param(stored(2, magic=1), id="old magic"),
    pytest.param(stored(2, magic=3), id="unknown magic"),
    pytest.param(stored(2, batch_length=48, fix_crc=False), id="shorter than a header"),
    pytest.param(stored(2, batch_length=-12, fix_crc=False), id="no length"),
    pytest.param(stored(2, last_offset_delta=-1), id="ends before it begins"),
    pytest.param(stored(2, batch_length=10_000, fix_crc=False), id="longer than the file"),
    pytest.param(stored(1), id="an offset that was there"),
    pytest.param(stored(0), id="begins again"),
    pytest.param(stored(3), id="an offset is missing"),
    pytest.param(stored(2 + (1 << 40)), id="an offset far away"),
    pytest.param(stored(2, crc=1, fix_crc=False), id="wrong checksum"),
    pytest.param(stored(2)[:-1] + b"x", id="wrong record"),
]


@pytest.mark.parametrize("batch", TORN)
def test_last_segment_when_a_write_was_under_way_then_its_bytes_are_cut(
        directory: Path, recover: Recover, batch: bytes) -> None:
    write(directory, 0, stored(0, records=1))
    path = write(directory, 1, stored(1, records=1), batch)
    opened = recover()
    assert (opened.end, opened.base_offsets) == (2, [0, 1])
    assert path.read_bytes() == stored(1, records=1), "the rest is cut"


@pytest.mark.parametrize("batch", DAMAGED)
@pytest.mark.parametrize("behind", [b"", stored(4)], ids=["at the end", "before a good one"])
def test_last_segment_when_a_whole_batch_makes_no_sense_then_it_is_not_opened(
        directory: Path, recover: Recover, batch: bytes, behind: bytes) -> None:
    """It was acknowledged, and what is behind it too; all of it was cut without a word."""
    path = write(directory, 0, stored(0), batch, behind)
    before = contents(directory)
    with pytest.raises(ConfigError, match=f"{re.escape(str(path))} is damaged: at byte {len(stored(0))}"):
        recover()
    assert contents(directory) == before


@pytest.mark.parametrize("batch", TORN)
def test_last_segment_when_a_sound_batch_is_behind_what_is_torn_then_it_is_not_opened(
        directory: Path, recover: Recover, batch: bytes) -> None:
    path = write(directory, 0, stored(0), batch, stored(4), b"torn")
    with pytest.raises(ConfigError, match=f"{re.escape(str(path))} is damaged"):
        recover()
    assert path.read_bytes() == stored(0) + batch + stored(4) + b"torn"


def test_sound_batch_behind_torn_bytes_when_it_lies_across_the_pieces_that_are_read_then_it_is_found(
        directory: Path, recover: Recover) -> None:
    for distance in (0, 1, 16, 17, 60, 61, 62, 200):
        torn = stored(2)[:100] + bytes((1 << 20) - 100 - distance)
        write(directory, 0, stored(0), torn, stored(4))
        with pytest.raises(ConfigError, match="is damaged"):
            recover()


@pytest.mark.parametrize("batch", [*TORN, *DAMAGED])
@pytest.mark.parametrize("is_last", [True, False], ids=["last", "not the last"])
def test_segment_when_the_broker_was_stopped_cleanly_then_nothing_is_cut(
        directory: Path, recover: Recover, batch: bytes, is_last: bool) -> None:
    (directory.parent / CLEAN_SHUTDOWN_FILE).touch()
    path = write(directory, 0, stored(0), batch)
    if not is_last:
        write(directory, 4, stored(4))
    before = contents(directory)
    if header_is_sound(batch, 2):  # to read all records of all logs would take minutes; readers look at the checksum
        assert recover().end in (4, 6)
        before.update({name: data for name, data in contents(directory).items() if "index" in name})
    else:
        with pytest.raises(ConfigError, match=f"{re.escape(str(path))} is damaged"):
            recover()
    assert contents(directory) == before


@pytest.mark.parametrize("batch", [*TORN, *DAMAGED])
def test_segment_when_it_is_not_the_last_then_nothing_is_cut_or_removed(
        directory: Path, recover: Recover, batch: bytes) -> None:
    """A byte in the second of twelve segments: the ten behind it were deleted, with one warning of torn bytes."""
    path = write(directory, 0, stored(0), batch)
    for base_offset in (4, 6):
        write(directory, base_offset, stored(base_offset))
        for suffix in (".index", ".timeindex", ".txnindex"):
            (directory / f"{base_offset:020d}{suffix}").write_bytes(b"")
    before = contents(directory)
    if header_is_sound(batch, 2):  # Kafka does not read their records either
        assert recover().end == 8
        before.update({name: data for name, data in contents(directory).items() if "index" in name})
    else:
        with pytest.raises(ConfigError, match=f"{re.escape(str(path))} is damaged"):
            recover()
    assert contents(directory) == before


def header_is_sound(batch: bytes, offset: int) -> bool:
    """Whether only the checksum tells that something is wrong."""
    if len(batch) < HEADER.size:
        return False
    header = read_header(batch)
    return (header.base_offset, header.magic, header.size_bytes, header.last_offset_delta) == (
        offset, 2, len(batch), 1)


def test_gap_of_offsets_when_segments_were_compacted_then_it_is_kept(directory: Path, recover: Recover) -> None:
    """Compaction leaves gaps, inside a segment and between two; the last one is never compacted."""
    (directory / COMPACTED_FILE).touch()
    write(directory, 0, stored(0), stored(7))
    write(directory, 20, stored(25), stored(30, records=1))
    write(directory, 31, stored(31))
    opened = recover()
    assert (opened.end, opened.base_offsets, opened.segments) == (33, [0, 7, 25, 30, 31], [0, 20, 31])
    write(directory, 31, stored(32))
    with pytest.raises(ConfigError, match="is damaged: at byte 0, where offset 31 is next, a batch has offset 32"):
        recover()


@pytest.mark.parametrize("is_compacted", [True, False])
def test_gap_of_offsets_when_the_log_is_compacted_now_then_it_is_kept(
        directory: Path, recover: Recover, is_compacted: bool) -> None:
    write(directory, 0, stored(0), stored(7))
    write(directory, 9)
    if is_compacted:
        assert recover(is_compacted=True).end == 9
    else:
        with pytest.raises(ConfigError, match="is damaged: at byte 91, where offset 2 is next"):
            recover()


@pytest.mark.parametrize(("base_offset", "why"), [(20, "begins at offset 20, where 2 is next"),
                                                  (1, "begins at offset 1, where 2 is next")])
def test_segment_when_it_does_not_continue_the_one_before_then_it_is_not_opened(
        directory: Path, recover: Recover, base_offset: int, why: str) -> None:
    """Somebody removed a file."""
    write(directory, 0, stored(0))
    write(directory, base_offset, stored(base_offset))
    with pytest.raises(ConfigError, match=why):
        recover()


def test_last_segment_when_it_is_empty_then_the_next_offset_is_its_own(directory: Path, recover: Recover) -> None:
    write(directory, 0, stored(0))
    write(directory, 20)
    assert recover(is_compacted=True).end == 20


def test_batch_when_it_lies_before_its_segment_then_the_log_is_not_opened(directory: Path, recover: Recover) -> None:
    write(directory, 0, stored(0))
    write(directory, 20, stored(10))
    with pytest.raises(ConfigError, match="is damaged: at byte 0, where offset 20 is next, a batch has offset 10"):
        recover(is_compacted=True)


@pytest.mark.parametrize(("expected", "is_opened"), [(None, True), (4, True), (3, False), (6, False)])
def test_end_of_the_log_when_it_is_known_then_another_one_is_not_opened(
        directory: Path, recover: Recover, expected: int | None, is_opened: bool) -> None:
    path = write(directory, 0, stored(0), stored(2))
    if is_opened:
        assert recover(expected_end_offset=expected).end == 4
    else:
        with pytest.raises(ConfigError, match=f"{re.escape(str(path))} is damaged: the log ends at offset 4, .* "
                                              f"it ended at {expected}"):
            recover(expected_end_offset=expected)


def test_files_when_the_log_is_not_opened_then_none_is_left_open(
        directory: Path, recover: Recover, monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[Path] = []
    close = FileHandle.close
    monkeypatch.setattr(FileHandle, "close", lambda handle: (closed.append(handle.path), close(handle)))
    paths = [write(directory, 0, stored(0)), write(directory, 2, stored(3))]
    with pytest.raises(ConfigError):
        recover()
    assert [path for path in closed if path.parent == directory][:2] == paths  # the collector may close others' now


@pytest.mark.parametrize("damage", [slice(16, 17), slice(0, 8), slice(8, 12), slice(70, 71)],
                         ids=["magic", "offset", "length", "record"])
def test_compacted_file_when_it_is_damaged_then_nothing_is_replaced_by_it(
        directory: Path, recover: Recover, damage: slice) -> None:
    """The broker died while it put a compacted segment in the place of others."""
    write(directory, 0, stored(0), stored(2))
    write(directory, 4, stored(4))
    swap = bytearray(stored(2))
    swap[damage] = b"\xff" * len(swap[damage])
    path = directory / f"{0:020d}.log.swap"
    path.write_bytes(swap)
    before = contents(directory)
    with pytest.raises(ConfigError, match=f"{re.escape(str(path))} is damaged: at byte 0"):
        recover()
    assert contents(directory) == before
    path.write_bytes(stored(2))
    assert recover(is_compacted=True).base_offsets == [2, 4]


def test_checksums_when_the_broker_died_then_those_of_the_last_segment_are_checked(
        directory: Path, recover: Recover) -> None:
    """The others were complete when it was begun; to read all of a large log would take minutes."""
    write(directory, 0, stored(0), stored(2, crc=1, fix_crc=False))
    path = write(directory, 4, stored(4), stored(6))
    assert recover().end == 8
    write(directory, 4, stored(4), stored(6, crc=1, fix_crc=False))
    with pytest.raises(ConfigError, match=f"{re.escape(str(path))} is damaged: .* a batch has a wrong checksum"):
        recover()


def test_checksums_when_the_broker_was_stopped_cleanly_then_none_is_checked(
        directory: Path, recover: Recover) -> None:
    (directory.parent / CLEAN_SHUTDOWN_FILE).touch()
    write(directory, 0, stored(0), stored(2, crc=1, fix_crc=False))
    assert recover().end == 4


def test_epochs_and_producers_when_opened_then_they_are_those_of_the_batches_that_stay(
        directory: Path, recover: Recover) -> None:
    counted: dict[str, Any] = {"producer_id": 7, "producer_epoch": 1}
    write(directory, 0, stored(0, leader_epoch=1, base_sequence=0, **counted),
          stored(2, leader_epoch=3, base_sequence=2, **counted),
          stored(4, leader_epoch=5, base_sequence=4, **counted)[:-1])
    opened = recover()
    assert opened.epochs.entries == ((1, 0), (3, 2))
    (producer,) = opened.producers.active_producers()
    assert (producer.producer_id, producer.producer_epoch, producer.last_sequence, producer.last_timestamp) == (
        7, 1, 3, START_MS + 1)


def test_indexes_when_opened_then_batches_are_found_by_offset_and_time(directory: Path, recover: Recover) -> None:
    batches = [stored(2 * number, max_timestamp=START_MS + 1000 * number) for number in range(200)]
    write(directory, 0, *batches)
    (segment,) = recover().found.segments
    size = len(batches[0])
    assert [segment.position_of(offset) for offset in (0, 1, 2, 199, 399, 400)] == [
        0, 0, size, 99 * size, 199 * size, 200 * size]
    assert segment.position_before_timestamp(START_MS + 50_000) == 50 * size
    assert (segment.max_timestamp, segment.first_timestamp) == (START_MS + 199_000, START_MS)
