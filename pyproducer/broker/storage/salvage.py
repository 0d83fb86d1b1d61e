"""Where a log ended that cannot be opened: offsets from there on were never given to anybody.

Road:    topic life, which sets a damaged log aside -> [salvage] -> the empty log in its place
Thread:  the one that opens the logs.
Source:  ours; Java cuts such a log and goes on with offsets that others were told.
"""

from __future__ import annotations

from pathlib import Path

from pyproducer.broker.storage.file_handle import FileHandle
from pyproducer.broker.storage.segment import segment_file_name
from pyproducer.broker.storage.torn_tail import find_batch, sound_header


def end_offset_told(directory: Path) -> int:
    """Return the offset behind all that the files of a log tell of, with a right checksum or by their names."""
    offset = 0
    for path in sorted(directory.glob("*.log")):
        offset = max(offset, int(path.stem))
        file = FileHandle(path)
        try:
            offset = _end_offset_of(file, offset)
        finally:
            file.close()
    return offset


def _end_offset_of(file: FileHandle, offset: int) -> int:
    """Return the offset behind the last sound batch of a file that has it or a later one; else the offset."""
    position: int | None = 0
    while position is not None:
        header = sound_header(file, position, offset)
        if header is None:
            position = find_batch(file, position + 1, offset)
        else:
            offset = header.last_offset + 1
            position += header.size_bytes
    return offset


def begin_at(directory: Path, offset: int) -> None:
    """Make the directory of a log that is empty and begins at an offset.

    Raises:
        OSError: It cannot be made.
    """
    directory.mkdir()
    (directory / segment_file_name(offset, ".log")).touch()
