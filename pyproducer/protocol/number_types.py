"""Numbers, booleans and UUIDs.

Road:    message definitions -> [types] -> Field, Schema
Thread:  immutable; shared by all threads.
Source:  Java org.apache.kafka.common.protocol.types.Type (4.1): names and the nouns of the error texts.
"""

from __future__ import annotations

import struct
import uuid
from abc import abstractmethod
from functools import lru_cache
from typing import Any

from pyproducer.protocol.abstract_type import Type
from pyproducer.protocol.buffer import ByteReader, ByteWriter

ZERO_UUID = uuid.UUID(int=0)


class FixedType(Type):
    """A value that `struct` reads and writes; straight_line.py fuses runs of them.

    Attributes:
        struct_code: The letter of the `struct` module.
    """

    def __init__(self, name: str, code: str, noun: str) -> None:
        compiled = struct.Struct(">" + code)
        self.name = name
        self.struct_code: str = code
        self.size_bytes: int = compiled.size
        self.min_size_bytes: int = compiled.size
        self._noun = noun
        self._pack = compiled.pack
        self._unpack_from = compiled.unpack_from

    @abstractmethod
    def validate(self, value: Any) -> Any:
        """Return the value if it can be written: `struct` alone would take others too.

        Raises:
            SchemaError: It can not; the text shows the value. Not sent.
        """

    def write(self, buffer: ByteWriter, value: Any) -> None:
        """Append a value."""
        buffer.tail += self._pack(self.validate(value))

    def read(self, buffer: ByteReader) -> Any:
        """Read a value."""
        position = buffer.position
        stop = position + self.size_bytes
        if stop > buffer.end:
            raise buffer.underflow(self.size_bytes)
        buffer.position = stop
        return self._unpack_from(buffer.data, position)[0]

    def read_many(self, buffer: ByteReader, count: int) -> list[Any]:
        """Read all with one call of `struct`."""
        size_bytes = count * self.size_bytes
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
        bits = self.size_bytes * 8
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


INT8 = _IntType("INT8", "b", "a Byte")
INT16 = _IntType("INT16", "h", "a Short")
INT32 = _IntType("INT32", "i", "an Integer")
INT64 = _IntType("INT64", "q", "a Long")
UINT16 = _IntType("UINT16", "H", "an Integer (encoding an unsigned short)")
FLOAT64 = _FloatType("FLOAT64", "d", "a Double")
BOOLEAN = _BooleanType("BOOLEAN", "?", "a Boolean")
UUID = _UuidType()

__all__ = [
    "BOOLEAN",
    "FLOAT64",
    "INT8",
    "INT16",
    "INT32",
    "INT64",
    "UINT16",
    "UUID",
    "ZERO_UUID",
]
