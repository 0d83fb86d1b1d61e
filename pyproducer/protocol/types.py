"""The wire types: how values look as bytes.

Numbers, booleans and UUIDs have a fixed size; strings, bytes, records and arrays begin with their length. In classic
versions a length is an INT16 (strings) or INT32 and -1 is null; in flexible ("compact") ones it is an unsigned varint
of length + 1 and 0 is null.

Road:    message definitions -> [types] -> Field, Schema
Thread:  immutable after construction; shared by all threads.
Shape:   bytes and records are read as memoryviews of the frame and written without a copy; lengths are compared with
         what is left of the frame before anything is allocated.
Source:  Java org.apache.kafka.common.protocol.types.{Type,ArrayOf,CompactArrayOf} (4.1): names and the nouns of the
         error texts; KIP-482. Differs from Java: text that is not UTF-8 is an error, not replaced, because a topic or
         group would silently become another one.
"""

from __future__ import annotations

import struct
import uuid
from abc import ABC, abstractmethod
from functools import lru_cache
from typing import Any

from pyproducer.common.errors import SchemaError
from pyproducer.common.kafka_string import MAX_STRING_LENGTH_BYTES
from pyproducer.protocol.buffer import Buffer, ByteReader, ByteWriter

ZERO_UUID = uuid.UUID(int=0)

_SHOWN_LIMIT = 120


def shown(value: object) -> str:
    """Return a value as error texts show it, cut where it is long."""
    if isinstance(value, (str, bytes, bytearray)) and len(value) > _SHOWN_LIMIT:
        value = value[:_SHOWN_LIMIT]
    elif isinstance(value, (list, tuple, dict)) and len(value) > _SHOWN_LIMIT:
        return f"{type(value).__name__} of {len(value)} items"
    text = str(value)
    return text if len(text) <= _SHOWN_LIMIT else text[:_SHOWN_LIMIT] + "..."


class Type(ABC):
    """One wire type: how its values look as bytes.

    `write` and `read` move a buffer; `write` never puts a wrong value on the wire.

    Attributes:
        name: Kafka's name of the type, in error texts and in `str()`.
        is_nullable: Whether None is a value.
        min_size_bytes: The fewest bytes that a value takes; bounds what a count in a frame may claim.
    """

    name: str
    is_nullable: bool = False
    min_size_bytes: int = 1

    @abstractmethod
    def write(self, buffer: ByteWriter, value: Any) -> None:
        """Append a value.

        Raises:
            SchemaError: The value does not fit. Not sent.
        """

    @abstractmethod
    def read(self, buffer: ByteReader) -> Any:
        """Read the next value.

        Raises:
            SchemaError: The bytes are not a value of this type. Unknown.
        """

    def validate(self, value: Any) -> Any:
        """Return the value if it can be written.

        Raises:
            SchemaError: It can not; the text shows the value. Not sent.
        """
        self.write(ByteWriter(), value)
        return value

    def size_of(self, value: Any) -> int:
        """Return how many bytes a value takes on the wire.

        Raises:
            SchemaError: It can not be written. Not sent.
        """
        buffer = ByteWriter()
        self.write(buffer, value)
        return buffer.size

    def read_many(self, buffer: ByteReader, count: int) -> list[Any]:
        """Read several values in a row, the elements of an array."""
        read = self.read
        return [read(buffer) for _ in range(count)]

    def write_many(self, buffer: ByteWriter, values: list[Any] | tuple[Any, ...]) -> None:
        """Append several values in a row, the elements of an array."""
        write = self.write
        for value in values:
            write(buffer, value)

    def refuse(self, value: object, noun: str) -> SchemaError:
        """Build the error of a value that can not be written: `<value> is not a Short.`."""
        return SchemaError(f"{shown(value)} is not {noun}.")

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return self.name


class FixedType(Type):
    """A value that `struct` reads and writes, of `min_size_bytes` always; straight_line.py fuses runs of them.

    Attributes:
        struct_code: The letter of the `struct` module.
    """

    def __init__(self, name: str, code: str, noun: str) -> None:
        compiled = struct.Struct(">" + code)
        self.name = name
        self.struct_code: str = code
        self.min_size_bytes: int = compiled.size
        self._noun = noun
        self._pack = compiled.pack
        self._unpack_from = compiled.unpack_from

    @abstractmethod
    def validate(self, value: Any) -> Any:
        """Return the value if it can be written: `struct` alone would take others, too.

        Raises:
            SchemaError: It can not; the text shows the value. Not sent.
        """

    def write(self, buffer: ByteWriter, value: Any) -> None:
        """Append a value."""
        buffer.tail += self._pack(self.validate(value))

    def read(self, buffer: ByteReader) -> Any:
        """Read a value."""
        position = buffer.position
        stop = position + self.min_size_bytes
        if stop > buffer.end:
            raise buffer.underflow(self.min_size_bytes)
        buffer.position = stop
        return self._unpack_from(buffer.data, position)[0]

    def read_many(self, buffer: ByteReader, count: int) -> list[Any]:
        """Read all with one call of `struct`."""
        size_bytes = count * self.min_size_bytes
        position = buffer.position
        if position + size_bytes > buffer.end:
            raise buffer.underflow(size_bytes)
        buffer.position = position + size_bytes
        return list(struct.unpack_from(f">{count}{self.struct_code}", buffer.data, position))

    def write_many(self, buffer: ByteWriter, values: list[Any] | tuple[Any, ...]) -> None:
        """Append all with one call of `struct`."""
        validate = self.validate
        buffer.tail += struct.pack(f">{len(values)}{self.struct_code}", *[validate(value) for value in values])


class _IntType(FixedType):
    def __init__(self, name: str, code: str, noun: str) -> None:
        super().__init__(name, code, noun)
        bits = self.min_size_bytes * 8
        signed = code.islower()
        self.minimum: int = -(1 << (bits - 1)) if signed else 0
        self.maximum: int = (1 << (bits - 1 if signed else bits)) - 1

    def validate(self, value: Any) -> int:
        if (type(value) is int or (isinstance(value, int) and not isinstance(value, bool))) and (
            self.minimum <= value <= self.maximum
        ):
            return value
        raise self.refuse(value, self._noun)


class _FloatType(FixedType):
    def validate(self, value: Any) -> float:
        if isinstance(value, float):
            return value
        raise self.refuse(value, self._noun)


class _BooleanType(FixedType):
    def validate(self, value: Any) -> bool:
        if isinstance(value, bool):
            return value
        raise self.refuse(value, self._noun)


@lru_cache(maxsize=4096)
def uuid_of(data: bytes) -> uuid.UUID:
    """Return the UUID of 16 bytes."""
    # Building a UUID costs more than a microsecond, and a producer sees the same few topic ids in every response.
    return uuid.UUID(bytes=data)


class _UuidType(Type):
    name = "UUID"
    min_size_bytes = 16

    def write(self, buffer: ByteWriter, value: Any) -> None:
        buffer.tail += self.validate(value).bytes

    def read(self, buffer: ByteReader) -> uuid.UUID:
        return uuid_of(bytes(buffer.take(16)))

    def validate(self, value: Any) -> uuid.UUID:
        if isinstance(value, uuid.UUID):
            return value
        raise self.refuse(value, "a UUID")


class VarintType(Type):
    """A number of as many bytes as it needs: zigzag, then seven bits a byte, the lowest first; records have them.

    Args:
        name: Kafka's.
        bits: How large it may be, sign included.
        noun: What it is in Java, for error texts.
    """

    def __init__(self, name: str, bits: int, noun: str) -> None:
        self.name = name
        self._bits = bits
        self._noun = noun

    def write(self, buffer: ByteWriter, value: Any) -> None:
        """Append a value."""
        limit = 1 << (self._bits - 1)
        if not isinstance(value, int) or isinstance(value, bool) or not -limit <= value < limit:
            raise self.refuse(value, self._noun)
        buffer.write_uvarint((value << 1) ^ (value >> (self._bits - 1)))

    def read(self, buffer: ByteReader) -> int:
        """Read a value."""
        most_bytes = -(-self._bits // 7)
        value = 0
        for index in range(most_bytes):
            byte = buffer.take(1)[0]
            value |= (byte & 0x7F) << (7 * index)
            if byte < 0x80:
                if value >> self._bits:
                    raise SchemaError(f"{self.name} {value} has more than {self._bits} bits")
                return (value >> 1) ^ -(value & 1)
        raise SchemaError(f"{self.name} is too long, the most significant bit in byte {most_bytes} is set")


INT8 = _IntType("INT8", "b", "a Byte")
INT16 = _IntType("INT16", "h", "a Short")
INT32 = _IntType("INT32", "i", "an Integer")
INT64 = _IntType("INT64", "q", "a Long")
UINT16 = _IntType("UINT16", "H", "an Integer (encoding an unsigned short)")
FLOAT64 = _FloatType("FLOAT64", "d", "a Double")
BOOLEAN = _BooleanType("BOOLEAN", "?", "a Boolean")
UUID = _UuidType()
VARINT = VarintType("VARINT", 32, "an Integer")
VARLONG = VarintType("VARLONG", 64, "a Long")


class SizedType(Type):
    """A length, then the content. Subclasses say how the content looks.

    Attributes:
        length_type: What a length is in classic versions.
    """

    length_type: FixedType = INT32

    def __init__(self, name: str, *, compact: bool, nullable: bool) -> None:
        self.name = name
        self.is_compact = compact
        self.is_nullable = nullable
        self.min_size_bytes: int = 1 if compact else self.length_type.min_size_bytes

    def _read_length(self, buffer: ByteReader) -> int:
        length: int = buffer.read_uvarint() - 1 if self.is_compact else self.length_type.read(buffer)
        return length

    def _write_length(self, buffer: ByteWriter, length: int) -> None:
        if self.is_compact:
            buffer.write_uvarint(length + 1)
        else:
            self.length_type.write(buffer, length)


class StringType(SizedType):
    """Text as UTF-8."""

    length_type: FixedType = INT16

    def write(self, buffer: ByteWriter, value: Any) -> None:
        """Append length and text."""
        if value is None and self.is_nullable:
            self._write_length(buffer, -1)
            return
        data = self.encode(value)
        self._write_length(buffer, len(data))
        buffer.tail += data

    def read(self, buffer: ByteReader) -> str | None:
        """Read length and text."""
        length = self._read_length(buffer)
        if length < 0:
            if self.is_nullable:
                return None
            raise SchemaError(f"String length {length} cannot be negative")
        start = buffer.position
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
