"""Where types read from and write to: a bounds-checked view, and a list of chunks.

Road:    frame -> [ByteReader] -> Struct; mapping -> [ByteWriter] -> chunks -> NetworkSend
Thread:  one at a time; a reader or writer belongs to the call that made it.
Source:  Java ByteBufferAccessor and SendBuilder (4.1): small fields share a buffer, payloads stay where they are.
"""

from __future__ import annotations

from typing import TypeAlias

from pyproducer.common.errors import SchemaError

Buffer: TypeAlias = bytes | bytearray | memoryview

# A payload up to this size is copied into the running chunk: cheaper than one more iovec entry for sendmsg.
INLINE_PAYLOAD_LIMIT_BYTES = 512

_UINT32_MAX = (1 << 32) - 1
_NO_LIMIT = 1 << 62


class ByteReader:
    """A position in received bytes. Nothing is copied: slices are views of the frame.

    Args:
        data: The frame.
        max_elements: Most elements of all arrays, and tags, that may be read from it. An element may take two bytes
            of the frame and a hundred in memory.

    Shape: `data` is the whole frame as bytes; `position` moves forward only; slices stay valid as long as the frame.
    """

    __slots__ = ("data", "elements_left", "end", "position")

    def __init__(self, data: Buffer, max_elements: int = _NO_LIMIT) -> None:
        view = memoryview(data)
        self.data: memoryview = view if type(data) is bytes or (view.format == "B" and view.ndim == 1) else (
            view.cast("B"))
        self.end: int = len(self.data)
        self.position: int = 0
        self.elements_left: int = max_elements

    @property
    def remaining(self) -> int:
        """How many bytes are left."""
        return self.end - self.position

    def take(self, size_bytes: int) -> memoryview:
        """Return the next bytes as a view and move behind them.

        Raises:
            SchemaError: Fewer bytes are left. Nothing was read.
        """
        start = self.position
        stop = start + size_bytes
        if size_bytes < 0 or stop > self.end:
            raise self.underflow(size_bytes)
        self.position = stop
        return self.data[start:stop]

    def spend(self, count: int) -> None:
        """Count elements that are to be read.

        Raises:
            SchemaError: They are more than are allowed. Nothing was read.
        """
        self.elements_left -= count
        if self.elements_left < 0:
            raise SchemaError(f"There are {-self.elements_left} more elements than one request may have")

    def underflow(self, size_bytes: int) -> SchemaError:
        """Build the error that says how many bytes were missing."""
        return SchemaError(f"{size_bytes} bytes are needed, only {self.remaining} available")

    def read_uvarint(self) -> int:
        """Read an unsigned varint of up to 32 bits: lengths, tags and counts of flexible versions.

        Raises:
            SchemaError: It does not end within five bytes or within the frame. Nothing was read.
        """
        position = self.position
        if position >= self.end:
            raise self.underflow(1)
        byte = self.data[position]
        if byte < 0x80:
            self.position = position + 1
            return byte
        return self._read_long_uvarint()

    def _read_long_uvarint(self) -> int:
        data, position, end = self.data, self.position, self.end
        value = 0
        for index in range(5):
            if position >= end:
                raise self.underflow(index + 1)
            byte = data[position]
            position += 1
            value |= (byte & 0x7F) << (7 * index)
            if byte < 0x80:
                if value > _UINT32_MAX:
                    raise SchemaError(f"Varint {value} is larger than {_UINT32_MAX}")
                self.position = position
                return value
        raise SchemaError("Varint is too long, the most significant bit in byte 5 is set")


class ByteWriter:
    """Bytes to send, as a list of chunks. Small fields gather in `tail`, large payloads are kept by reference.

    Attributes:
        closed: The chunks before the tail.
        tail: What grows; a payload that is not copied closes it and begins another one.

    Shape: a payload given to `write_payload` must not change until the chunks are sent.
    """

    __slots__ = ("closed", "tail")

    def __init__(self) -> None:
        self.closed: list[Buffer] = []
        self.tail: bytearray = bytearray()

    @property
    def size(self) -> int:
        """How many bytes were written, payloads included."""
        return sum(memoryview(chunk).nbytes for chunk in self.closed) + len(self.tail)

    def chunks(self) -> list[Buffer]:
        """Return the bytes in order; large payloads are the objects that were given."""
        return [*self.closed, self.tail] if self.tail else list(self.closed)

    def to_bytes(self) -> bytes:
        """Return everything as one copy."""
        return b"".join(self.chunks())

    def write_uvarint(self, value: int) -> None:
        """Append an unsigned varint; the value is not negative."""
        tail = self.tail
        while value > 0x7F:
            tail.append(value & 0x7F | 0x80)
            value >>= 7
        tail.append(value)

    def write_payload(self, payload: Buffer, size_bytes: int) -> None:
        """Append bytes whose size is known: copied when small, otherwise kept as their own chunk."""
        if size_bytes <= INLINE_PAYLOAD_LIMIT_BYTES:
            self.tail += payload
            return
        if self.tail:
            self.closed.append(self.tail)
            self.tail = bytearray()
        self.closed.append(payload)

    def rewind(self, tail: bytearray, size_bytes: int) -> None:
        """Forget what was written since `tail` was the tail and so long."""
        if self.tail is not tail:
            del self.closed[next(index for index, chunk in enumerate(self.closed) if chunk is tail) :]
            self.tail = tail
        del tail[size_bytes:]
