"""Neighbouring fields of fixed size, read and written by one call of `struct`.

Road:    Schema -> [FixedRun] -> struct
Thread:  immutable; shared by all threads.
Source:  ours. Most fields of a Produce response are numbers; one unpack for five of them is what keeps it cheap.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from pyproducer.protocol.buffer import ByteReader, ByteWriter

if TYPE_CHECKING:
    from pyproducer.protocol.schema import Field

_PYTHON_TYPES: dict[str, type] = {"?": bool, "d": float}


class FixedRun:
    """Two or more neighbouring fixed-size fields of one schema."""

    def __init__(self, fields: Sequence[Field]) -> None:
        compiled = struct.Struct(">" + "".join(field.type.struct_code or "" for field in fields))
        self.fields = tuple(fields)
        self.size_bytes = compiled.size
        self._unpack_from = compiled.unpack_from
        self._pack = compiled.pack
        self._values_of = itemgetter(*(field.name for field in fields))
        self._python_types = tuple(_PYTHON_TYPES.get(field.type.struct_code or "", int) for field in fields)

    def read(self, buffer: ByteReader) -> tuple[Any, ...]:
        """Read all fields; nothing is read when the frame is too short."""
        position = buffer.position
        stop = position + self.size_bytes
        if stop > buffer.end:
            raise buffer.underflow(self.size_bytes)
        buffer.position = stop
        return self._unpack_from(buffer.data, position)

    def try_write(self, buffer: ByteWriter, value: Mapping[str, Any]) -> bool:
        """Write all fields if they are there, of exactly the expected Python types and in range.

        Otherwise nothing is written and False is returned: field by field, defaults are found and errors get names.
        """
        try:
            values = self._values_of(value)
            if tuple(map(type, values)) != self._python_types:
                return False
            buffer.tail += self._pack(*values)
        except (KeyError, struct.error):
            return False
        return True
