"""A log file's descriptor, closed when the last one who reads it lets go.

Road:    log -> [segment file] -> disk
Thread:  any reads; the partition's lock guards writing.
Source:  ours. Java keeps FileRecords open until the delayed delete of a topic; here the reference count does that:
         a Fetch that still reads a segment of a deleted topic keeps the file, and no other file can take
         over the descriptor's number under it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from pyproducer.record.layout import Buffer


class FileHandle:
    """One file, read by position and written at its end; made when it is missing, with these permissions."""

    def __init__(self, path: Path, *, mode: int = 0o644) -> None:
        self.path = path
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), mode)
        self._position = 0  # of the descriptor, which only writing moves; -1 when it is not known
        self._has_leftovers = False  # a write failed, and what it left could not be cut yet

    def size_bytes(self) -> int:
        """Return the file's size now."""
        return os.fstat(self._fd).st_size

    def read(self, position: int, size_bytes: int) -> bytes:
        """Return up to `size_bytes` bytes from `position`; fewer only at the end of the file."""
        data = os.pread(self._fd, size_bytes, position)
        if len(data) in (size_bytes, 0):
            return data
        pieces = [data]
        missing = size_bytes - len(data)
        position += len(data)
        while missing and (data := os.pread(self._fd, missing, position)):
            pieces.append(data)
            missing -= len(data)
            position += len(data)
        return b"".join(pieces)

    def write(self, position: int, chunks: Sequence[Buffer], size_bytes: int) -> None:
        """Write all chunks from `position`, which is the end of what is valid, or nothing.

        What a write that fails half-way has left is cut at once; where that fails too, nothing is written any more
        until it can be cut: bytes in the middle of a log would end it for whoever reads it at the next start.

        Raises:
            OSError: Nothing was written.
        """
        if self._has_leftovers:
            self.cut_leftovers(position)
        try:
            if position != self._position:
                os.lseek(self._fd, position, os.SEEK_SET)
            written = os.writev(self._fd, chunks)
            if written != size_bytes:
                rest = memoryview(b"".join(chunks))[written:]
                while rest:
                    rest = rest[os.write(self._fd, rest):]
            self._position = position + size_bytes
        except BaseException:
            self._position = -1
            self._has_leftovers = True
            with suppress(OSError):  # another time, before anything else is done
                self.cut_leftovers(position)
            raise

    def cut_leftovers(self, size_bytes: int) -> None:
        """Cut what a failed write has left behind the valid bytes, if that could not be done at once.

        Raises:
            OSError: It cannot be done now either.
        """
        if self._has_leftovers:
            self.truncate(size_bytes)
            self._has_leftovers = False

    def truncate(self, size_bytes: int) -> None:
        """Cut the file."""
        os.ftruncate(self._fd, size_bytes)

    def close(self) -> None:
        """Close now. Nobody may read any more."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def __del__(self) -> None:
        self.close()
