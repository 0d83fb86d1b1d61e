"""A transport whose peer is a script: what each read delivers, how much each write takes."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from typing import cast

from pyproducer.network.transport import Buffer


class ScriptedTransport:
    """Delivers pieces one per read, then nothing, the end or an error; takes as many bytes per write as told."""

    def __init__(self, pieces: Sequence[bytes] = (), *, at_end: bool = False, write_sizes: Sequence[int] = (),
                 error: OSError | None = None) -> None:
        self.sock = cast(socket.socket, None)
        self.ready = True
        self.has_pending_reads = False
        self.has_pending_writes = False
        self.wants_write = False
        self.principal_name: str | None = None
        self.pieces = list(pieces)
        self.at_end = at_end
        self.error = error
        self.write_sizes = list(write_sizes)  # of the next writes; when used up, everything is taken
        self.written = bytearray()
        self.read_sizes: list[int] = []
        self.write_calls = 0
        self.flush_calls = 0
        self.is_closed = False

    def handshake(self) -> None:
        raise AssertionError("it is ready")

    def read_into(self, view: memoryview) -> int:
        self.read_sizes.append(len(view))
        if not self.pieces:
            if self.error is not None:
                raise self.error
            return -1 if self.at_end else 0
        piece = self.pieces[0][:len(view)]
        self.pieces[0] = self.pieces[0][len(piece):]
        if not self.pieces[0]:
            del self.pieces[0]
        view[:len(piece)] = piece
        return len(piece)

    def write_chunks(self, chunks: Sequence[Buffer]) -> int:
        self.write_calls += 1
        data = b"".join(chunks)
        if self.write_sizes:
            data = data[:self.write_sizes.pop(0)]
        self.written += data
        return len(data)

    def write_on(self, chunks: Sequence[Buffer]) -> int:
        return self.write_chunks(chunks)

    def flush(self) -> None:
        self.flush_calls += 1
        self.has_pending_writes = False

    def close(self) -> None:
        self.is_closed = True
