"""What a log is opened with: batches that make no sense end it, whatever follows them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pyproducer.broker.storage.batch_header import BatchHeader, checksum, read_header
from pyproducer.broker.storage.leader_epochs import LeaderEpochs
from pyproducer.broker.storage.producer_state import ProducerStateManager
from pyproducer.broker.storage.recovery import CLEAN_SHUTDOWN_FILE, RecoveredLog, recover_segments
from pyproducer.broker.storage.transaction_index import TransactionIndex
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

    def __init__(self, directory: Path) -> None:
        self.producers = ProducerStateManager()
        self.epochs = LeaderEpochs(directory)
        self.found: RecoveredLog = recover_segments(directory, self.producers, self.epochs, TransactionIndex(),
                                                    index_interval_bytes=0)

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


Recover = Callable[[], Opened]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    made = tmp_path / "orders-0"
    made.mkdir()
    return made


@pytest.fixture
def recover(directory: Path) -> Iterator[Recover]:
    opened: list[Opened] = []

    def open_one() -> Opened:
        opened.append(Opened(directory))
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


@pytest.mark.parametrize("batch", [
    pytest.param(stored(2, magic=1), id="old magic"),
    pytest.param(stored(2, magic=3), id="unknown magic"),
    pytest.param(stored(2, batch_length=48, fix_crc=False), id="shorter than a header"),
    pytest.param(stored(2, batch_length=-12, fix_crc=False), id="no length"),
    pytest.param(stored(2, last_offset_delta=-1), id="ends before it begins"),
    pytest.param(stored(2, batch_length=10_000, fix_crc=False), id="longer than the file"),
    pytest.param(stored(1), id="an offset that was there"),
    pytest.param(stored(0), id="begins again"),
    pytest.param(stored(2, crc=1, fix_crc=False), id="wrong checksum"),
    pytest.param(stored(2)[:-5], id="torn in the records"),
    pytest.param(stored(2)[:60], id="torn in the header"),
    pytest.param(stored(2)[:3], id="torn at once"),
])
@pytest.mark.parametrize("behind", [b"", stored(4)], ids=["at the end", "before a good one"])
def test_batch_when_it_makes_no_sense_then_the_log_ends_before_it(
        directory: Path, recover: Recover, batch: bytes, behind: bytes) -> None:
    first = stored(0)
    path = write(directory, 0, first, batch, behind)
    opened = recover()
    assert (opened.end, opened.base_offsets) == (2, [0])
    assert path.read_bytes() == first, "the rest is cut"


def test_gap_of_offsets_when_found_then_it_is_kept(directory: Path, recover: Recover) -> None:
    """Compaction leaves gaps, inside a segment and between two."""
    write(directory, 0, stored(0), stored(7))
    write(directory, 20, stored(25), stored(30, records=1))
    opened = recover()
    assert (opened.end, opened.base_offsets, opened.segments) == (31, [0, 7, 25, 30], [0, 20])


def test_last_segment_when_it_is_empty_then_the_next_offset_is_its_own(directory: Path, recover: Recover) -> None:
    write(directory, 0, stored(0))
    write(directory, 20)
    assert recover().end == 20


def test_batch_when_it_lies_before_its_segment_then_the_log_ends_there(directory: Path, recover: Recover) -> None:
    write(directory, 0, stored(0))
    write(directory, 20, stored(10))
    assert (recover().end, (directory / f"{20:020d}.log").read_bytes()) == (20, b"")


def test_segments_when_an_earlier_one_is_cut_then_they_are_removed_with_their_indexes(
        directory: Path, recover: Recover) -> None:
    write(directory, 0, stored(0), b"torn")
    for base_offset in (2, 4):
        write(directory, base_offset, stored(base_offset))
        for suffix in (".index", ".timeindex", ".txnindex"):
            (directory / f"{base_offset:020d}{suffix}").write_bytes(b"")
    opened = recover()
    assert (opened.end, opened.segments) == (2, [0])
    assert [path.name for path in directory.iterdir()] == [f"{0:020d}.log"]


def test_checksums_when_the_broker_died_then_those_of_the_last_segment_are_checked(
        directory: Path, recover: Recover) -> None:
    """The others were complete when it was begun; to read all of a large log would take minutes."""
    write(directory, 0, stored(0), stored(2, crc=1, fix_crc=False))
    write(directory, 4, stored(4), stored(6, crc=1, fix_crc=False), stored(8))
    opened = recover()
    assert (opened.end, opened.base_offsets) == (6, [0, 2, 4])


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
          stored(4, leader_epoch=5, base_sequence=4, crc=1, fix_crc=False, **counted))
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
