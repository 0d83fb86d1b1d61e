"""One frame on its way out: four bytes of size, then the pieces it was built from, never joined.

Road:    NetworkClient / Processor -> [send] -> TransportLayer
Thread:  the thread that polls the selector.
Source:  Java NetworkSend, ByteBufferSend (4.1); seed 001 (`remaining -= written; pending = hasPendingWrites`).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from pyproducer.network.transport import IOV_MAX, Buffer, TransportLayer

_SIZE = struct.Struct(">i")


class NetworkSend:
    """A frame for one connection.

    Shape: the chunks are referenced, not copied, until the last byte is written, and let go then. Their owner must
    not change them before that. A memoryview among them must be one of bytes (item size 1).

    Args:
        destination: Connection id.
        chunks: The frame without its size, in pieces.

    Attributes:
        size_bytes: Bytes on the wire, with the four of the size.
        completed: Everything is with the kernel.
    """

    __slots__ = ("_chunks", "_remaining_bytes", "completed", "destination", "size_bytes")

    def __init__(self, destination: str, chunks: Sequence[Buffer]) -> None:
        payload_bytes = 0
        for chunk in chunks:
            payload_bytes += len(chunk)
        self.destination: str = destination
        self.size_bytes: int = payload_bytes + _SIZE.size
        self._remaining_bytes = self.size_bytes
        self.completed: bool = False
        self._chunks: list[Buffer] = [_SIZE.pack(payload_bytes), *chunks]

    @classmethod
    def raw(cls, destination: str, data: Buffer) -> NetworkSend:
        """Return a send of these very bytes, whatever size they announce: for a broker that means to misbehave."""
        send = cls(destination, ())
        send._chunks = [data]
        send.size_bytes = send._remaining_bytes = len(data)
        return send

    def write_to(self, transport: TransportLayer, *, is_alone: bool = False) -> int:
        """Write as much as the transport takes.

        Args:
            transport: A connection's.
            is_alone: Whether no other connection has anything to write.

        Returns:
            How many bytes of the frame it accepted; the frame is `completed` when they are also all with the kernel.

        Raises:
            OSError: The connection is broken. Unknown, unless nothing was written before.
        """
        if not self._remaining_bytes:
            transport.flush()
            self.completed = not transport.has_pending_writes
            return 0
        total = 0
        while True:
            written = (transport.write_on if is_alone else transport.write_chunks)(self._chunks)
            total += written
            if written == self._remaining_bytes:
                self._remaining_bytes = 0
                self._chunks = []
                self.completed = not transport.has_pending_writes
                return total
            many = len(self._chunks) > IOV_MAX
            self._advance(written)
            # Less than everything means that the socket is full, unless there were more pieces than one call takes.
            if not (many and written):
                return total

    def _advance(self, written: int) -> None:
        """Drop what is written; of a piece that went out in part, keep a view of the rest."""
        self._remaining_bytes -= written
        chunks = self._chunks
        index = 0
        while written >= len(chunks[index]):
            written -= len(chunks[index])
            index += 1
        if written:
            chunks[index] = memoryview(chunks[index])[written:]
        if index:
            del chunks[:index]
