"""Replacing segments by rewritten ones so that a death in between loses nothing and doubles nothing.

    <base>.log.cleaned   is being written; at start it is removed
    <base>.log.swap      is complete, by one rename: it stands for every segment from its base to its last offset;
                         at start those are removed and it takes its place
    <base>.log           has taken its place

Before the first swap a log's directory gets a file, `compacted`, which says that offsets may be missing in it.

Road:    compaction -> [swap] -> disk; at start: [swap] -> recovery
Thread:  under the log's lock, or before anybody else has the log.
Source:  Java LocalLog.replaceSegments, LogLoader.completeSwapOperations (4.1).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from pyproducer.broker.storage.batch_header import checksum, read_header
from pyproducer.broker.storage.damage import DamagedLogError
from pyproducer.broker.storage.segment import remove_segment_files, segment_file_name
from pyproducer.record.layout import HEADER_SIZE_BYTES, MAGIC

CLEANED_SUFFIX = ".log.cleaned"
SWAP_SUFFIX = ".log.swap"
# Ours: else offsets that are missing mean that records are lost.
COMPACTED_FILE = "compacted"


def swap_in(directory: Path, base_offsets: Sequence[int]) -> None:
    """Put the cleaned file of the first of these segments in the place of all of them."""
    first = base_offsets[0]
    swap = directory / segment_file_name(first, SWAP_SUFFIX)
    (directory / COMPACTED_FILE).touch()
    os.replace(directory / segment_file_name(first, CLEANED_SUFFIX), swap)
    for base_offset in base_offsets:
        remove_segment_files(directory, base_offset)
    os.replace(swap, directory / segment_file_name(first, ".log"))


def finish_swaps(directory: Path) -> None:
    """Finish or undo what a broker was doing when it died.

    Raises:
        ConfigError: A file that is to take the place of others is damaged; no file was changed.
    """
    for path in directory.glob(f"*{CLEANED_SUFFIX}"):
        path.unlink(missing_ok=True)  # in a log that is cut, a compaction that gives up may be faster
    for swap in directory.glob(f"*{SWAP_SUFFIX}"):
        first = int(swap.name.partition(".")[0])
        next_offset = _next_offset(swap, first)
        for path in directory.glob("*.log"):
            base_offset = int(path.stem)
            if base_offset == first or first < base_offset < next_offset:
                remove_segment_files(directory, base_offset)
        os.replace(swap, directory / segment_file_name(first, ".log"))


def _next_offset(path: Path, first: int) -> int:
    """Return the offset after the last batch of a file that was written whole."""
    next_offset, position = first, 0
    size_bytes = path.stat().st_size
    with path.open("rb") as file:
        while position < size_bytes:
            file.seek(position)
            batch = file.read(HEADER_SIZE_BYTES)
            header = read_header(batch) if len(batch) == HEADER_SIZE_BYTES else None
            if header is not None and HEADER_SIZE_BYTES <= header.size_bytes <= size_bytes - position:
                batch += file.read(header.size_bytes - HEADER_SIZE_BYTES)
            if (header is None or len(batch) != header.size_bytes or header.base_offset < next_offset
                    or header.magic != MAGIC or header.crc != checksum(batch)):
                raise DamagedLogError(path, f"at byte {position} there is no sound batch")
            next_offset = header.last_offset + 1
            position += header.size_bytes
    return next_offset
