"""Types that begin with their length: strings, bytes, records, arrays.

In classic versions a length is an INT16 (strings) or INT32 and -1 is null; in flexible ("compact") ones it is an
unsigned varint of length + 1 and 0 is null.

Road:    message definitions -> [types] -> Field, Schema
Thread:  immutable; shared by all threads.
Shape:   bytes and records are read as memoryviews of the frame and written without a copy; lengths are compared with
         what is left of the frame before anything is allocated.
Source:  Java Type, ArrayOf, CompactArrayOf (4.1), KIP-482. Differs from Java: text that is not UTF-8 is an error,
         not replaced, because a topic or group would silently become another one.
"""

from __future__ import annotations

import struct
from typing import Any

from pyproducer.common.errors import SchemaError
from pyproducer.common.kafka_string import MAX_STRING_LENGTH_BYTES
from pyproducer.protocol.abstract_type import Type
from pyproducer.protocol.buffer import Buffer, ByteReader, ByteWriter

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")


def _read_int32(buffer: ByteReader) -> int:
    position = buffer.position
    if position + 4 > buffer.end:
        raise buffer.underflow(4)
    buffer.position = position + 4
    value: int = _INT32.unpack_from(buffer.data, position)[0]
    return value


class SizedType(Type):
    """A length, then the content. Subclasses say how the content looks."""

    def __init__(self, name: str, *, compact: bool, nullable: bool) -> None:
        self.name = name
        self.is_compact = compact
        self.is_nullable = nullable
        self.min_size_bytes = 1 if compact else 4

    def _read_length(self, buffer: ByteReader) -> int:
        return buffer.read_uvarint() - 1 if self.is_compact else _read_int32(buffer)

    def _write_length(self, buffer: ByteWriter, length: int) -> None:
        if self.is_compact:
            buffer.write_uvarint(length + 1)
        else:
            buffer.tail += _INT32.pack(length)


class StringType(SizedType):
    """Text as UTF-8; the classic length is an INT16."""

    def __init__(self, name: str, *, compact: bool, nullable: bool) -> None:
        super().__init__(name, compact=compact, nullable=nullable)
        self.min_size_bytes = 1 if compact else 2

    def write(self, buffer: ByteWriter, value: Any) -> None:
        """Append length and text."""
        if value is None and self.is_nullable:
            buffer.tail += b"\x00" if self.is_compact else b"\xff\xff"
            return
        data = self.encode(value)
        if self.is_compact:
            buffer.write_uvarint(len(data) + 1)
        else:
            buffer.tail += _INT16.pack(len(data))
        buffer.tail += data

    def read(self, buffer: ByteReader) -> str | None:
        """Read length and text."""
        if self.is_compact:
            length = buffer.read_uvarint() - 1
            start = buffer.position
        else:
            start = buffer.position + 2
            if start > buffer.end:
                raise buffer.underflow(2)
            length = _INT16.unpack_from(buffer.data, start - 2)[0]
            buffer.position = start
        if length < 0:
            if self.is_nullable:
                return None
            raise SchemaError(f"String length {length} cannot be negative")
        stop = start + length
        if stop > buffer.end:
            raise SchemaError(f"Error reading string of length {length}, only {buffer.remaining} bytes available")
        if length > MAX_STRING_LENGTH_BYTES:
            raise SchemaError(f"String length {length} is larger than the maximum string length.")
        buffer.position = stop
        try:
            return str(buffer.data[start:stop], "utf-8")
        except UnicodeDecodeError as error:
            raise SchemaError(f"String is not valid UTF-8: {error.reason} at byte {error.start}") from None

    def encode(self, value: Any) -> bytes:
        """Return the bytes of a text.

        Raises:
            SchemaError: It is none, or can not be written. Not sent.
        """
        if not isinstance(value, str):
            raise self.refuse(value, "a String")
        try:
            data = value.encode()
        except UnicodeEncodeError as error:
            raise SchemaError(
                f"String can not be written as UTF-8: {error.reason} at character {error.start}"
            ) from None
        if len(data) > MAX_STRING_LENGTH_BYTES:
            raise SchemaError(f"String length {len(data)} is larger than the maximum string length.")
        return data


def size_of_buffer(value: Any) -> int:
    """Return the number of bytes of a bytes-like value, or -1 when it is none."""
    if type(value) is bytes or type(value) is bytearray:
        return len(value)
    return (
        value.nbytes if isinstance(value, memoryview) else len(value) if isinstance(value, (bytes, bytearray)) else -1
    )


class BytesType(SizedType):
    """Bytes as they are."""

    _noun = "bytes, a bytearray or a memoryview"

    def write(self, buffer: ByteWriter, value: Any) -> None:
        """Append length and bytes; large ones are kept by reference."""
        if value is None and self.is_nullable:
            self._write_length(buffer, -1)
            return
        size_bytes = size_of_buffer(value)
        if size_bytes < 0:
            raise self.refuse(value, self._noun)
        self._write_length(buffer, size_bytes)
        buffer.write_payload(value, size_bytes)

    def read(self, buffer: ByteReader) -> memoryview | None:
        """Return the bytes as a view of the frame."""
        length = self._read_length(buffer)
        if length < 0:
            if self.is_nullable:
                return None
            raise SchemaError(f"Bytes size {length} cannot be negative")
        start = buffer.position
        stop = start + length
        if stop > buffer.end:
            raise SchemaError(f"Error reading bytes of size {length}, only {buffer.remaining} bytes available")
        buffer.position = stop
        return buffer.data[start:stop]


class _RecordsType(BytesType):
    """Record batches as they are; to write, also a list of pieces that follow each other."""

    _noun = "a records payload"

    def write(self, buffer: ByteWriter, value: Any) -> None:
        if not isinstance(value, (list, tuple)):
            super().write(buffer, value)
            return
        pieces: list[tuple[Buffer, int]] = [(piece, size_of_buffer(piece)) for piece in value]
        if any(size_bytes < 0 for _, size_bytes in pieces):
            raise self.refuse(value, self._noun)
        self._write_length(buffer, sum(size_bytes for _, size_bytes in pieces))
        for piece, size_bytes in pieces:
            buffer.write_payload(piece, size_bytes)


class ArrayOf(SizedType):
    """Values of one type behind their count; a list in Python, tuples are written too."""

    def __init__(self, element: Type, *, nullable: bool = False, compact: bool = False) -> None:
        prefix = ("COMPACT_" if compact else "") + ("NULLABLE_" if nullable else "")
        super().__init__(f"{prefix}ARRAY({element})", compact=compact, nullable=nullable)
        self.element = element
        self._read_many = element.read_many
        self._write_many = element.write_many

    def write(self, buffer: ByteWriter, value: Any) -> None:
        """Append the count and all elements."""
        if isinstance(value, (list, tuple)):
            self._write_length(buffer, len(value))
            if value:
                self._write_many(buffer, value)
        elif value is None and self.is_nullable:
            self._write_length(buffer, -1)
        else:
            raise self.refuse(value, "an array")

    def read(self, buffer: ByteReader) -> list[Any] | None:
        """Read the count, refuse one that the rest of the frame can not hold, read the elements."""
        count = self._read_length(buffer)
        if count <= 0:
            if count == 0:
                return []
            if self.is_nullable:
                return None
            raise SchemaError(f"Array size {count} cannot be negative")
        if count * self.element.min_size_bytes > buffer.end - buffer.position:
            raise SchemaError(f"Error reading array of size {count}, only {buffer.remaining} bytes available")
        buffer.spend(count)
        return self._read_many(buffer, count)


class CompactArrayOf(ArrayOf):
    """The array of flexible versions: an unsigned varint of count + 1."""

    def __init__(self, element: Type, *, nullable: bool = False) -> None:
        super().__init__(element, nullable=nullable, compact=True)


STRING = StringType("STRING", compact=False, nullable=False)
NULLABLE_STRING = StringType("NULLABLE_STRING", compact=False, nullable=True)
COMPACT_STRING = StringType("COMPACT_STRING", compact=True, nullable=False)
COMPACT_NULLABLE_STRING = StringType("COMPACT_NULLABLE_STRING", compact=True, nullable=True)
BYTES = BytesType("BYTES", compact=False, nullable=False)
NULLABLE_BYTES = BytesType("NULLABLE_BYTES", compact=False, nullable=True)
COMPACT_BYTES = BytesType("COMPACT_BYTES", compact=True, nullable=False)
COMPACT_NULLABLE_BYTES = BytesType("COMPACT_NULLABLE_BYTES", compact=True, nullable=True)
# Java's RECORDS is nullable too; every field of this type may be null in Kafka's definitions.
RECORDS = _RecordsType("RECORDS", compact=False, nullable=True)
COMPACT_RECORDS = _RecordsType("COMPACT_RECORDS", compact=True, nullable=True)
