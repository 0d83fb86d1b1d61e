"""EmbeddedBroker.records: segments that go, or are replaced, while they are read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pyproducer.broker.control.stored_record import read_topic_records
from pyproducer.record.batch_reader import RecordBatch
from pyproducer.record.batch_writer import build_batch
from pyproducer.record.layout import HEADER_SIZE_BYTES

FIRST, SECOND = f"{0:020}", f"{2:020}"


def write(path: Path, base_offset: int, *values: bytes) -> None:
    batch = bytearray(build_batch([(1, None, value, ()) for value in values]))
    batch[:8] = base_offset.to_bytes(8, "big")
    assert len(RecordBatch(bytes(batch)).data) > HEADER_SIZE_BYTES
    path.write_bytes(batch)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    directory = tmp_path / "orders-0"
    directory.mkdir()
    write(directory / f"{SECOND}.log", 2, b"c", b"d")
    return directory


def values(directory: Path, log_start_offsets: Callable[[], dict[int, int]]) -> list[bytes | None]:
    return [record.value for record in read_topic_records(directory.parent, "orders", log_start_offsets)]


def after_looks(count: int, change: Callable[[], object], start_offset: int = 0) -> Callable[[], dict[int, int]]:
    """Answer as the broker does, and let something happen with a question."""
    asked: list[int] = []

    def ask() -> dict[int, int]:
        asked.append(1)
        if len(asked) == count:
            change()
        return {0: start_offset}

    return ask


def test_records_when_they_are_before_the_start_of_the_log_then_they_are_not_told(directory: Path) -> None:
    write(directory / f"{FIRST}.log", 0, b"a", b"b")
    assert values(directory, lambda: {0: 0}) == [b"a", b"b", b"c", b"d"]
    assert values(directory, lambda: {0: 3}) == [b"d"]
    assert values(directory, dict) == []


def test_records_when_a_compacted_segment_takes_its_place_just_now_then_they_are_read_again(directory: Path) -> None:
    """The old file was removed and the new one not renamed yet: records that are there were not told."""
    swap = directory / f"{FIRST}.log.swap"
    write(swap, 0, b"a", b"b")
    ask = after_looks(4, lambda: swap.rename(directory / f"{FIRST}.log"))
    assert values(directory, ask) == [b"a", b"b", b"c", b"d"]


def test_records_when_a_segment_goes_while_they_are_read_then_they_are_read_again(directory: Path) -> None:
    """That was a FileNotFoundError."""
    gone = directory / f"{FIRST}.log"
    gone.symlink_to(directory / "deleted")  # it is in the list, and cannot be opened
    assert values(directory, after_looks(3, gone.unlink)) == [b"c", b"d"]
