"""One frame on its way in, whole or in parts: four bytes of size, then exactly that many.

Road:    TransportLayer -> [receive] -> NetworkClient / Processor
Thread:  the thread that polls the selector, until the frame is complete.
Source:  Java NetworkReceive (4.1); seed 003 (BoundedByteBufferReceive).

    size (4 bytes, signed)  -> checked before anything is allocated
    payload (size bytes)    -> into memory that grows with what has really arrived, so that a peer that announces
                               100 MB and sends nothing costs one step, not 100 MB
"""

from __future__ import annotations

import struct

from pyproducer.common.errors import InvalidReceiveError
from pyproducer.network.peer_guess import guess_sentence
from pyproducer.network.transport import END_OF_STREAM, TransportLayer

_SIZE = struct.Struct(">i")
# Covers nearly every frame in one step: the default of max.request.size is 1 MiB, of fetch.max.bytes more.
FIRST_STEP_BYTES = 1 << 20


def check_size(size: int, max_size_bytes: int | None, *, allow_empty: bool, peer: str) -> None:
    """Raise when a frame cannot have this size.

    Raises:
        InvalidReceiveError: Not positive, or above the limit. Unknown.
    """
    if size < 0 or (size == 0 and not allow_empty):
        raise InvalidReceiveError(f"Invalid receive (size = {size}).{guess_sentence(size, peer)}")
    if max_size_bytes is not None and size > max_size_bytes:
        raise InvalidReceiveError(
            f"Request of length {size} is not valid, it is larger than the maximum size of {max_size_bytes} bytes."
            f"{guess_sentence(size, peer)}")


class NetworkReceive:
    """A frame from one connection.

    Shape: a finished payload belongs to whoever holds the receive; nobody writes into it again. It is `bytes`, or a
    memoryview of a bytearray for a frame that arrived in several parts.

    Args:
        source: Connection id.
        max_size_bytes: Largest payload; None for no limit but the four bytes' own.
        allow_empty: Let a payload of nothing through (SASL tokens); otherwise it is an invalid size.
        peer: `host:port`, for messages.
        payload: The payload of a frame that is already complete.
    """

    __slots__ = ("_allow_empty", "_buffer", "_filled_bytes", "_header", "_max_size_bytes", "_peer", "_size_bytes",
                 "complete", "payload", "source")

    def __init__(self, source: str, max_size_bytes: int | None = None, allow_empty: bool = False, peer: str = "",
                 payload: bytes | None = None) -> None:
        self.source = source
        self.complete = payload is not None
        self.payload: bytes | memoryview = b"" if payload is None else payload
        if payload is not None:  # the fast road: nothing below is ever looked at
            return
        self._max_size_bytes = max_size_bytes
        self._allow_empty = allow_empty
        self._peer = peer or source
        self._header = b""
        self._size_bytes = -1  # not known yet
        self._filled_bytes = 0
        self._buffer = bytearray()

    @property
    def missing_bytes(self) -> int:
        """How many bytes of the payload are missing; 0 while its size is unknown."""
        return self._size_bytes - self._filled_bytes if self._size_bytes >= 0 else 0

    def feed(self, data: memoryview) -> int:
        """Take what belongs to this frame from the front of some bytes.

        Returns:
            How many bytes were taken; fewer than given only when the frame is complete.

        Raises:
            InvalidReceiveError: The size is not positive or above the limit. Unknown.
        """
        taken = 0
        if self._size_bytes < 0:
            taken = min(_SIZE.size - len(self._header), len(data))
            self._on_header(bytes(data[:taken]))
        while taken < len(data) and not self.complete:
            with self._room() as room:
                count = min(len(room), len(data) - taken)
                room[:count] = data[taken:taken + count]
            taken += count
            self._on_payload(count)
        return taken

    def read_from(self, transport: TransportLayer) -> int:
        """Read once what is there and belongs to this frame; never a byte beyond it.

        Returns:
            How many bytes were read, 0 when nothing is there now, END_OF_STREAM (-1) at the end of the stream.

        Raises:
            InvalidReceiveError: The size is not positive or above the limit. Unknown.
            OSError: The connection is broken. Unknown.
        """
        total = 0
        if self._size_bytes < 0:
            header = bytearray(_SIZE.size - len(self._header))
            count = transport.read_into(memoryview(header))
            if count <= 0:
                return count
            total = count
            self._on_header(bytes(header[:count]))
        if self._size_bytes > 0:
            count = self.read_payload_from(transport)
            if count == END_OF_STREAM:
                return total or END_OF_STREAM
            total += count
        return total

    def read_payload_from(self, transport: TransportLayer) -> int:
        """Read once into the payload; the size must be known and not everything be there."""
        with self._room() as room:  # released at once: a bytearray with a view on it can not grow
            count = transport.read_into(room)
        if count > 0:
            self._on_payload(count)
        return count

    def _on_header(self, data: bytes) -> None:
        self._header += data
        if len(self._header) == _SIZE.size:
            size: int = _SIZE.unpack(self._header)[0]
            check_size(size, self._max_size_bytes, allow_empty=self._allow_empty, peer=self._peer)
            self._size_bytes = size
            self.complete = size == 0

    def _room(self) -> memoryview:
        """Return the free part of the buffer, which doubles when it is full."""
        if self._filled_bytes == len(self._buffer):
            step = min(max(len(self._buffer), FIRST_STEP_BYTES), self._size_bytes - self._filled_bytes)
            if self._buffer:
                self._buffer += bytes(step)
            else:
                self._buffer = bytearray(step)
        return memoryview(self._buffer)[self._filled_bytes:]

    def _on_payload(self, count: int) -> None:
        self._filled_bytes += count
        if self._filled_bytes == self._size_bytes:
            self.payload = memoryview(self._buffer)
            self.complete = True
