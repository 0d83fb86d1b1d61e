"""What every wire type can do.

Road:    message definitions -> [Type] -> Field, Schema
Thread:  immutable after construction; shared by all threads.
Source:  Java org.apache.kafka.common.protocol.types.Type (4.1).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from pyproducer.common.errors import SchemaError
from pyproducer.protocol.buffer import ByteReader, ByteWriter

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
