"""A file whose reads and writes the system does only in part, as it may."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyproducer.broker.storage.file_handle import FileHandle

TEXT = bytes(range(100))


@pytest.fixture
def handle(tmp_path: Path) -> Iterator[FileHandle]:
    made = FileHandle(tmp_path / "file")
    made.write(0, [TEXT], len(TEXT))
    yield made
    made.close()


@pytest.mark.parametrize("at_once", [1, 7, 99, 1000])
def test_read_when_the_system_gives_less_than_asked_then_the_rest_is_read_too(
        handle: FileHandle, monkeypatch: pytest.MonkeyPatch, at_once: int) -> None:
    """Half a batch that is taken for all there is would be handed to a consumer as the end of the log."""
    pread = os.pread
    monkeypatch.setattr(os, "pread", lambda fd, size, position: pread(fd, min(size, at_once), position))
    assert handle.read(0, 100) == TEXT
    assert handle.read(30, 40) == TEXT[30:70]
    assert handle.read(90, 40) == TEXT[90:], "fewer only at the end of the file"
    assert handle.read(100, 10) == b""
    assert handle.read(0, 0) == b""


def test_read_when_it_is_given_whole_then_the_system_is_asked_once(
        handle: FileHandle, monkeypatch: pytest.MonkeyPatch) -> None:
    pread = os.pread
    asked: list[tuple[int, int]] = []

    def counted(fd: int, size: int, position: int) -> bytes:
        asked.append((size, position))
        return pread(fd, size, position)

    monkeypatch.setattr(os, "pread", counted)
    handle.read(10, 20)
    assert asked == [(20, 10)]
    del asked[:]
    handle.read(100, 20)
    assert asked == [(20, 100)], "also when there is nothing"


@pytest.mark.parametrize("at_once", [1, 7, 15])
def test_write_when_the_system_takes_less_than_given_then_the_rest_is_written_too(
        handle: FileHandle, monkeypatch: pytest.MonkeyPatch, at_once: int) -> None:
    write = os.write

    def write_in_part(fd: int, chunks: list[bytes]) -> int:
        return write(fd, b"".join(chunks)[:at_once])

    monkeypatch.setattr(os, "writev", write_in_part)
    monkeypatch.setattr(os, "write", lambda fd, data: write(fd, bytes(data)[:3]))
    handle.write(50, [b"0123456789", b"abcdefghij"], 20)
    assert handle.read(0, 200) == TEXT[:50] + b"0123456789abcdefghij" + TEXT[70:]


def test_write_goes_where_it_is_told(handle: FileHandle) -> None:
    handle.write(98, [b"xyz"], 3)
    assert handle.size_bytes() == 101
    handle.write(0, [b"ab", b"c"], 3)
    assert handle.read(0, 4) == b"abc" + TEXT[3:4]
    assert handle.read(97, 4) == TEXT[97:98] + b"xyz"


def test_file_is_readable_for_all_and_writable_for_its_owner(handle: FileHandle) -> None:
    umask = os.umask(0)
    os.umask(umask)
    assert handle.path.stat().st_mode & 0o777 == 0o644 & ~umask


def test_truncate_cuts(handle: FileHandle) -> None:
    handle.truncate(10)
    assert (handle.size_bytes(), handle.read(0, 100)) == (10, TEXT[:10])


def test_close_when_closed_already_then_no_other_files_descriptor_is_closed(handle: FileHandle, tmp_path: Path) -> None:
    """The number of a closed descriptor is the next file's: to close it again would close that one."""
    handle.close()
    with (tmp_path / "other").open("wb") as other:
        handle.close()
        del handle
        other.write(b"still open")
        other.flush()


class FailingDisk:
    """Takes some bytes of each write, then fails; cuts only when it is told to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, taken_bytes: int) -> None:
        self.is_failing = True
        self.can_cut = True
        write, ftruncate = os.write, os.ftruncate

        def writev(fd: int, chunks: list[bytes]) -> int:
            data = b"".join(chunks)
            if not self.is_failing:
                return write(fd, data)
            return write(fd, data[:taken_bytes]) if taken_bytes else self._fail()

        def truncate(fd: int, size_bytes: int) -> None:
            if not self.can_cut:
                self._fail()
            ftruncate(fd, size_bytes)

        monkeypatch.setattr(os, "writev", writev)
        monkeypatch.setattr(os, "write", lambda fd, data: self._fail() if self.is_failing else write(fd, data))
        monkeypatch.setattr(os, "ftruncate", truncate)

    def _fail(self) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("taken_bytes", [0, 1, 19])
def test_write_when_it_fails_half_way_then_nothing_of_it_stays(
        handle: FileHandle, monkeypatch: pytest.MonkeyPatch, taken_bytes: int) -> None:
    """The next batch may go to another file; torn bytes in the middle of a log ended it at the next start."""
    FailingDisk(monkeypatch, taken_bytes)
    with pytest.raises(OSError, match="No space"):
        handle.write(100, [b"0123456789", b"abcdefghij"], 20)
    assert (handle.size_bytes(), handle.read(0, 200)) == (100, TEXT)


def test_write_when_the_last_one_could_not_be_cut_then_it_is_refused_until_that_can_be_done(
        handle: FileHandle, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = FailingDisk(monkeypatch, 7)
    disk.can_cut = False
    with pytest.raises(OSError, match="No space"):
        handle.write(100, [b"0123456789"], 10)
    assert handle.size_bytes() == 107
    disk.is_failing = False
    for attempt in (lambda: handle.write(100, [b"xyz"], 3), lambda: handle.cut_leftovers(100)):
        with pytest.raises(OSError, match="No space"):
            attempt()
    assert handle.size_bytes() == 107
    disk.can_cut = True
    handle.write(100, [b"xyz"], 3)
    assert (handle.size_bytes(), handle.read(100, 10)) == (103, b"xyz")
    disk.can_cut = False
    handle.cut_leftovers(100)
    assert handle.size_bytes() == 103, "nothing is left to cut"
