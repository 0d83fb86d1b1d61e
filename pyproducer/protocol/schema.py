"""Field, Schema and Struct: what a message looks like, independent of Kafka's versions.

Strategy: a schema reads and writes twice over. Field by field is the definition, short, and says in which field an
error is, with the names of all fields around it, outermost first. What runs is the same as one compiled function
(straight_line.py), made at the schema's second use, or at its first large frame; where that one fails, the definition
does it again and tells why.

Road:    message definitions -> [Schema] -> headers, requests, responses
Thread:  schemas are immutable and shared; a Struct belongs to whoever read it.
Source:  Java org.apache.kafka.common.protocol.types.{Field,Schema,Struct} (4.1); tagged fields are KIP-482.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyproducer.common.errors import SchemaError, UnsupportedVersionError
from pyproducer.protocol.buffer import ByteReader, ByteWriter
from pyproducer.protocol.types import Type

# From here on reading field by field takes longer than compiling (a millisecond): 200,000 partitions in the first
# Metadata answer took a second more.
LARGE_FRAME_BYTES = 16_384


class _NoDefault:
    """The type of NO_DEFAULT; distinct from None, which is a default of nullable fields."""

    def __repr__(self) -> str:
        return "NO_DEFAULT"


NO_DEFAULT: Any = _NoDefault()


class Field:
    """A name and a type, and where they stand in a schema.

    Attributes:
        index: Position in the schema, tagged fields after the others; -1 while the field is in none.
        name: Kafka's name in snake_case.
        type: How values look on the wire.
        doc: One sentence for people.
        default: What is written when no value is given; NO_DEFAULT makes the field required.
        schema: The schema it stands in, or None.
    """

    __slots__ = ("default", "doc", "index", "name", "schema", "type")

    def __init__(
        self,
        name: str,
        type: Type,
        doc: str = "",
        default: Any = NO_DEFAULT,
        *,
        index: int = -1,
        schema: Schema | None = None,
    ) -> None:
        self.index: int = index
        self.name: str = name
        self.type: Type = type
        self.doc: str = doc
        self.default: Any = default
        self.schema: Schema | None = schema

    @property
    def has_default(self) -> bool:
        """Whether the field may be left out when writing."""
        return self.default is not NO_DEFAULT

    def value_in(self, value: Mapping[str, Any]) -> Any:
        """Return the field's value in a mapping, or its default.

        Raises:
            SchemaError: It is missing and required. Not sent.
        """
        found = value.get(self.name, self.default)
        if found is NO_DEFAULT:
            raise SchemaError(f"Missing value for field '{self.name}' which has no default value.")
        return found

    def __repr__(self) -> str:
        return f"Field({self.name}:{self.type})"


class Struct(dict[str, Any]):
    """What a schema read: a dict by field name that knows its schema.

    Fields that do not exist in the schema's version are not there: use `get` where versions differ. Values of
    absent tagged fields are their defaults, shared between structs: do not change them in place.
    """

    __slots__ = ("schema",)

    schema: Schema

    def __init__(self, schema: Schema, values: Any = ()) -> None:
        super().__init__(values)
        self.schema = schema

    def __reduce__(self) -> tuple[Any, ...]:
        # A schema is compiled code; what travels between processes is the plain dict.
        return dict, (dict(self),)


def _reason(error: Exception) -> str:
    """Return an exception's text, or its class name when it has none (as Java does)."""
    return str(error) or type(error).__name__


class Schema(Type):
    """An ordered list of fields, itself a type: its values are Structs, and any Mapping can be written.

    Args:
        fields: In wire order.
        tagged: Tag number to field, for flexible versions (an empty mapping where there are none yet); None means
            that the version is not flexible and has no tag section.
        absent: Fields which this version does not have and whose loss the peer would not forgive, with the value
            that may be lost; writing another one raises UnsupportedVersionError.
    """

    def __init__(
        self,
        *fields: Field,
        tagged: Mapping[int, Field] | None = None,
        absent: Mapping[str, Any] | None = None,
    ) -> None:
        placed: dict[str, Field] = {}
        for field in (*fields, *(tagged or {}).values()):
            if field.name in placed:
                raise SchemaError(f"Schema contains a duplicate field: {field.name}")
            placed[field.name] = Field(field.name, field.type, field.doc, field.default, index=len(placed), schema=self)
        self.fields_by_name = placed
        self.fields: tuple[Field, ...] = tuple(placed.values())[: len(fields)]
        self.tagged: dict[int, Field] | None = (
            None if tagged is None else {tag: placed[field.name] for tag, field in sorted(tagged.items())})
        self.name: str = "{" + ",".join(f"{field.name}:{field.type}" for field in self.fields) + "}"
        self.min_size_bytes: int = sum(field.type.min_size_bytes for field in self.fields) + (tagged is not None)
        self.absent: dict[str, Any] = dict(absent or {})
        self._reader: Callable[[ByteReader], Struct] | None = None
        self._writer: Callable[[ByteWriter, Any], None] | None = None
        self._was_read = self._was_written = False

    def field(self, name: str) -> Field | None:
        """Return a field by name, tagged ones included, or None."""
        return self.fields_by_name.get(name)

    def read(self, buffer: ByteReader) -> Struct:
        """Read one struct; an error names the field, and the fields around it before it."""
        start, elements_left = buffer.position, buffer.elements_left
        try:
            return (self._reader or self._first_readers(buffer))(buffer)
        except Exception:
            # The compiled code does not say what is wrong; reading again, field by field, does.
            buffer.position, buffer.elements_left = start, elements_left
        return self.read_by_field(buffer)

    def _first_readers(self, buffer: ByteReader) -> Callable[[ByteReader], Struct]:
        if not self._was_read and buffer.remaining < LARGE_FRAME_BYTES:
            # To compile takes a millisecond, and a short program uses most of its schemas once.
            self._was_read = True
            return self.read_by_field
        from pyproducer.protocol.straight_line import reader_of  # it knows all types, this one too

        self._reader = reader_of(self)
        return self._reader

    def read_by_field(self, buffer: ByteReader) -> Struct:
        """Read one struct field by field, as the schema says it: what `read` does, slowly."""
        struct = Struct(self)
        for field in self.fields:
            read = field.type.read_by_field if isinstance(field.type, Schema) else field.type.read
            try:
                struct[field.name] = read(buffer)
            except Exception as error:
                raise SchemaError(f"Error reading field '{field.name}': {_reason(error)}") from error
        if self.tagged is not None:
            self.read_tagged(buffer, struct)
        return struct

    def read_many(self, buffer: ByteReader, count: int) -> list[Any]:
        """Read the elements of an array, field by field: the compiled code of the schema around them has its own."""
        return [self.read_by_field(buffer) for _ in range(count)]

    def read_tagged(self, buffer: ByteReader, struct: Struct) -> None:
        """Read the tag section into a struct; absent tags get their defaults."""
        tagged = self.tagged or {}
        struct.update((field.name, field.default) for field in tagged.values())
        name = "_tagged_fields"
        try:
            count = buffer.read_uvarint()
            buffer.spend(count)
            for _ in range(count):
                name = "_tagged_fields"
                tag = buffer.read_uvarint()
                size_bytes = buffer.read_uvarint()
                payload = buffer.take(size_bytes)
                field = tagged.get(tag)
                if field is None:
                    continue
                name = field.name
                # Its own reader, so that a field can not reach behind the size it announced.
                inner = ByteReader(payload, buffer.elements_left)
                struct[name] = field.type.read(inner)
                buffer.elements_left = inner.elements_left
                if inner.remaining:
                    raise SchemaError(f"{inner.remaining} bytes of {size_bytes} are left over")
        except Exception as error:
            raise SchemaError(f"Error reading field '{name}': {_reason(error)}") from error

    def write(self, buffer: ByteWriter, value: Any) -> None:
        """Append a Struct or any Mapping; keys that this version does not know are passed over."""
        tail = buffer.tail
        size_bytes = len(tail)
        try:
            (self._writer or self._first_writers())(buffer, value)
            return
        except Exception:
            # As in `read`: what is wrong is told below.
            buffer.rewind(tail, size_bytes)
        self.write_by_field(buffer, value)

    def _first_writers(self) -> Callable[[ByteWriter, Any], None]:
        if not self._was_written:
            self._was_written = True
            return self.write_by_field
        from pyproducer.protocol.straight_line import writer_of  # it knows all types, this one too

        self._writer = writer_of(self)
        return self._writer

    def write_by_field(self, buffer: ByteWriter, value: Any) -> None:
        """Append a Mapping field by field, as the schema says it: what `write` does, slowly."""
        if not isinstance(value, Mapping):
            raise self.refuse(value, "a Struct")
        self.refuse_lost_values(value)
        for field in self.fields:
            write = field.type.write_by_field if isinstance(field.type, Schema) else field.type.write
            try:
                write(buffer, field.value_in(value))
            except UnsupportedVersionError:
                raise
            except Exception as error:
                raise SchemaError(f"Error writing field '{field.name}': {_reason(error)}") from error
        if self.tagged is not None:
            self.write_tagged(buffer, value)

    def write_many(self, buffer: ByteWriter, values: list[Any] | tuple[Any, ...]) -> None:
        """Append the elements of an array, field by field."""
        for value in values:
            self.write_by_field(buffer, value)

    def refuse_lost_values(self, value: Mapping[str, Any]) -> None:
        """Raise UnsupportedVersionError when this version has no field for a value that matters."""
        for name, default in self.absent.items():
            if name in value and value[name] != default:
                raise UnsupportedVersionError(f"Attempted to write a non-default {name} at a version without it")

    def _tags_of(self, value: Mapping[str, Any]) -> list[tuple[int, Field, Any]]:
        """Return the tagged fields to write: as in Kafka those that differ from their default."""
        found = []
        for tag, field in (self.tagged or {}).items():
            content = value.get(field.name, field.default)
            if type(content) is tuple:
                content = list(content)  # so that no elements equal the default, an empty list
            if content != field.default:
                found.append((tag, field, content))
        return found

    def write_tagged(self, buffer: ByteWriter, value: Mapping[str, Any]) -> None:
        """Append the tag section."""
        tags = self._tags_of(value)
        buffer.write_uvarint(len(tags))
        for tag, field, content in tags:
            try:
                # Aside, because its size stands before it; no tag of Kafka's holds a payload that should not be copied.
                inner = ByteWriter()
                field.type.write(inner, content)
                data = inner.to_bytes()
                buffer.write_uvarint(tag)
                buffer.write_uvarint(len(data))
                buffer.tail += data
            except UnsupportedVersionError:
                raise
            except Exception as error:
                raise SchemaError(f"Error writing field '{field.name}': {_reason(error)}") from error


class NullableStruct(Type):
    """A struct that may be null: an INT8 of -1 (null) or 1, then the fields."""

    is_nullable = True

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.name: str = f"NULLABLE_{schema.name}"

    def write(self, buffer: ByteWriter, value: Any) -> None:
        """Append the marker, and the fields when there are any."""
        if value is None:
            buffer.tail.append(0xFF)
        else:
            buffer.tail.append(1)
            self.schema.write_by_field(buffer, value)

    def read(self, buffer: ByteReader) -> Struct | None:
        """Read the marker; any negative byte is null, as in Kafka's generated code."""
        return None if buffer.take(1)[0] > 0x7F else self.schema.read_by_field(buffer)
