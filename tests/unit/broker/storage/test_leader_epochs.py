from __future__ import annotations

from pathlib import Path

import pytest

from pyproducer.broker.storage.leader_epochs import FILE_NAME, EpochEntry, LeaderEpochs


@pytest.fixture
def epochs(tmp_path: Path) -> LeaderEpochs:
    return LeaderEpochs(tmp_path)


def entered(epochs: LeaderEpochs, *entries: tuple[int, int]) -> LeaderEpochs:
    for epoch, start_offset in entries:
        assert epochs.assign(epoch, start_offset)
    return epochs


def test_epochs_when_nothing_is_known_then_none_is_found(epochs: LeaderEpochs) -> None:
    assert (epochs.latest_epoch, epochs.entries) == (-1, ())
    assert epochs.end_offset_for(0, 10) == (-1, -1)


def test_assign_when_the_epoch_is_not_newer_then_nothing_changes(epochs: LeaderEpochs) -> None:
    entered(epochs, (2, 0))
    assert [epochs.assign(epoch, 5) for epoch in (-1, 0, 1, 2)] == [False] * 4
    assert epochs.entries == ((2, 0),)


def test_assign_when_an_epoch_had_no_record_then_its_entry_goes(epochs: LeaderEpochs) -> None:
    entered(epochs, (0, 0), (1, 5), (3, 5))
    assert epochs.entries == ((0, 0), (3, 5))
    assert epochs.latest_epoch == 3
    entered(epochs, (4, 2))
    assert epochs.entries == ((0, 0), (4, 2))


@pytest.mark.parametrize(("asked", "found"), [
    (-1, (-1, -1)), (0, (0, 5)), (1, (0, 5)), (2, (2, 8)), (3, (2, 8)), (4, (4, 20)), (5, (-1, -1))])
def test_end_offset_is_where_the_next_epoch_begins(
        epochs: LeaderEpochs, asked: int, found: tuple[int, int]) -> None:
    entered(epochs, (0, 0), (2, 5), (4, 8))
    assert epochs.end_offset_for(asked, 20) == found


def test_end_offset_when_the_epoch_is_older_than_all_then_it_ends_where_the_first_begins(
        epochs: LeaderEpochs) -> None:
    entered(epochs, (3, 7), (4, 9))
    assert epochs.end_offset_for(1, 20) == (1, 7)


@pytest.mark.parametrize(("start_offset", "left"), [
    (0, ((0, 0), (2, 5), (4, 8))), (3, ((0, 3), (2, 5), (4, 8))), (5, ((2, 5), (4, 8))), (7, ((2, 7), (4, 8))),
    (8, ((4, 8),)), (100, ((4, 100),))])
def test_truncate_from_start_keeps_the_epoch_of_the_start(
        epochs: LeaderEpochs, start_offset: int, left: tuple[tuple[int, int], ...]) -> None:
    entered(epochs, (0, 0), (2, 5), (4, 8))
    epochs.truncate_from_start(start_offset)
    assert epochs.entries == left


def test_truncate_from_start_when_all_begin_behind_it_then_nothing_changes(epochs: LeaderEpochs) -> None:
    entered(epochs, (1, 5))
    epochs.truncate_from_start(4)
    assert epochs.entries == (EpochEntry(1, 5),)


def test_write_when_something_changed_then_the_file_is_kafkas(epochs: LeaderEpochs, tmp_path: Path) -> None:
    entered(epochs, (0, 0), (2, 5))
    epochs.write()
    assert (tmp_path / FILE_NAME).read_text() == "0\n2\n0 0\n2 5\n"
    epochs.truncate_from_start(6)
    epochs.write()
    assert (tmp_path / FILE_NAME).read_text() == "0\n1\n2 6\n"
    assert [path.name for path in tmp_path.iterdir()] == [FILE_NAME], "nothing else is left there"


def test_write_when_nothing_changed_then_the_file_is_left_alone(epochs: LeaderEpochs, tmp_path: Path) -> None:
    """Every open and every deletion asks for it; a thousand partitions would write a thousand files for nothing."""
    epochs.write()
    assert not (tmp_path / FILE_NAME).exists()
    entered(epochs, (0, 0))
    epochs.write()
    (tmp_path / FILE_NAME).write_text("untouched")
    epochs.write()
    assert not epochs.assign(0, 3)
    epochs.write()
    assert (tmp_path / FILE_NAME).read_text() == "untouched"
