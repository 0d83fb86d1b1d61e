"""The little language in which messages are written: fields with the versions that have them.

    message("ProduceRequest",
        f("transactional_id", STRING, "3+", nullable="3+", default=None),
        array("topic_data", f("name", STRING, "0-12", ignorable=True), ...))

"3+" means version 3 and all later ones, "0-12" both ends included, nothing means always. Types are written in their
classic form; flexible versions get the compact one, nullable versions the nullable one. A field without `default` must
be given when writing. `ignorable` (Kafka's word) fields of a request may be lost where the version lacks them; losing
another one raises UnsupportedVersionError. Differs from Java: responses may lose any field, because the requester chose
the version and has no place for it.

Road:    messages/*.py -> [message] -> Schema, by (message, version)
Thread:  definitions are immutable; schemas are built on first use and cached (building one twice is harmless).
Source:  the format of Kafka's common/message/*.json (4.3), generator MessageDataGenerator.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from pyproducer.common.errors import SchemaError
from pyproducer.protocol import types as t
from pyproducer.protocol.schema import NO_DEFAULT, Field, NullableStruct, Schema, Struct

_LAST = 32767  # versions are INT16

# classic type -> (compact, nullable) -> the type on the wire
_VARIANTS: dict[t.Type, dict[tuple[bool, bool], t.Type]] = {
    t.STRING: {
        (False, False): t.STRING,
        (False, True): t.NULLABLE_STRING,
        (True, False): t.COMPACT_STRING,
        (True, True): t.COMPACT_NULLABLE_STRING,
    },
    t.BYTES: {
        (False, False): t.BYTES,
        (False, True): t.NULLABLE_BYTES,
        (True, False): t.COMPACT_BYTES,
        (True, True): t.COMPACT_NULLABLE_BYTES,
    },
    t.RECORDS: {(False, True): t.RECORDS, (True, True): t.COMPACT_RECORDS},
}

# What Kafka takes a field to be when its definition names no default.
_ZERO_VALUES: dict[t.Type, Any] = {
    t.STRING: "",
    t.BYTES: b"",
    t.RECORDS: None,
    t.UUID: t.ZERO_UUID,
    t.BOOLEAN: False,
    t.FLOAT64: 0.0,
}


class Versions(NamedTuple):
    """A closed range of versions; both ends -1 means none."""

    first: int
    last: int

    @staticmethod
    def of(text: str | None, *, otherwise: Versions) -> Versions:
        """Parse "3+", "0-12" or "7"; None gives `otherwise`."""
        if text is None:
            return otherwise
        if text.endswith("+"):
            return Versions(int(text[:-1]), _LAST)
        first, _, last = text.partition("-")
        return Versions(int(first), int(last or first))

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.first <= version <= self.last


ALL = Versions(0, _LAST)
NONE = Versions(-1, -1)


class FieldDefinition(NamedTuple):
    """One field of a message in all its versions; built by `f`, `array` and `obj`.

    Attributes:
        element: The classic type, of the elements in an array; None for a struct or an array of structs.
        children: The fields of the struct or of the array's structs.
        tag: The tag number in flexible versions, or None; a field has a tag in all its versions.
        is_compactable: False for the header's client_id, which keeps its INT16 length in flexible versions.
    """

    name: str
    element: t.Type | None
    children: tuple[FieldDefinition, ...]
    is_array: bool
    versions: Versions
    nullable: Versions
    tag: int | None
    default: Any
    ignorable: bool
    is_compactable: bool
    doc: str

    def type_at(self, version: int, *, flexible: bool, strict: bool) -> t.Type:
        """Return the wire type of this field in a version."""
        nullable = version in self.nullable
        compact = flexible and self.is_compactable
        element: t.Type
        if self.element is None:
            element = _schema_of(self.children, version, flexible=flexible, strict=strict)
        elif self.element in _VARIANTS:
            # Nullable versions of an array do not apply to its elements.
            element = _VARIANTS[self.element][compact, nullable and not self.is_array]
        else:
            element = self.element
        if self.is_array:
            return (t.CompactArrayOf if compact else t.ArrayOf)(element, nullable=nullable)
        if isinstance(element, Schema) and nullable:
            return NullableStruct(element)
        return element

    def zero_value(self, type_: t.Type) -> Any:
        """Return Kafka's implied default: what a reader assumes when a tag or an old version lacks the field."""
        if self.default is not NO_DEFAULT:
            return self.default
        if self.is_array:
            return []
        if isinstance(type_, Schema):
            return Struct(type_, ((field.name, field.default) for field in type_.fields))
        return None if self.element is None else _ZERO_VALUES.get(self.element, 0)


def _schema_of(definitions: Iterable[FieldDefinition], version: int, *, flexible: bool, strict: bool) -> Schema:
    fields: list[Field] = []
    tagged: dict[int, Field] = {}
    absent: dict[str, Any] = {}
    for definition in definitions:
        if version not in definition.versions:
            if strict and not definition.ignorable:
                absent[definition.name] = definition.zero_value(t.INT8)
            continue
        type_ = definition.type_at(version, flexible=flexible, strict=strict)
        if definition.tag is None:
            fields.append(Field(definition.name, type_, definition.doc, definition.default))
        elif definition.tag in tagged:
            raise SchemaError(f"Tag {definition.tag} is given to {tagged[definition.tag].name} and {definition.name}")
        else:
            tagged[definition.tag] = Field(definition.name, type_, definition.doc, definition.zero_value(type_))
    return Schema(*fields, tagged=tagged if flexible else None, absent=absent)


class Message:
    """One message in all its versions.

    Attributes:
        name: Kafka's name, as its JSON file is called.
        definitions: The fields.
        is_strict: Whether losing a field that is not ignorable is an error: true for requests.
    """

    def __init__(self, name: str, definitions: tuple[FieldDefinition, ...]) -> None:
        self.name = name
        self.definitions = definitions
        self.is_strict: bool = name.endswith("Request")
        self._schemas: dict[tuple[int, bool], Schema] = {}

    def schema(self, version: int, *, flexible: bool) -> Schema:
        """Return the schema of a version, the same object each time."""
        key = (version, flexible)
        schema = self._schemas.get(key)
        if schema is None:
            built = _schema_of(self.definitions, version, flexible=flexible, strict=self.is_strict)
            schema = self._schemas.setdefault(key, built)
        return schema

    def __repr__(self) -> str:
        return self.name


def message(name: str, *definitions: FieldDefinition) -> Message:
    """Define a message by its fields in wire order."""
    return Message(name, definitions)


def f(
    name: str,
    type: t.Type,
    versions: str | None = None,
    *,
    nullable: str | None = None,
    tag: int | None = None,
    default: Any = NO_DEFAULT,
    ignorable: bool = False,
    compactable: bool = True,
    doc: str = "",
) -> FieldDefinition:
    """Define a field that is neither an array nor a struct."""
    return FieldDefinition(
        name=name,
        element=type,
        children=(),
        is_array=False,
        versions=Versions.of(versions, otherwise=ALL),
        nullable=Versions.of(nullable, otherwise=NONE),
        tag=tag,
        default=default,
        ignorable=ignorable,
        is_compactable=compactable,
        doc=doc,
    )


def array(
    name: str,
    *content: FieldDefinition | t.Type,
    versions: str | None = None,
    nullable: str | None = None,
    tag: int | None = None,
    default: Any = NO_DEFAULT,
    ignorable: bool = False,
    doc: str = "",
) -> FieldDefinition:
    """Define an array: of one type, or of structs with the given fields."""
    children = tuple(item for item in content if isinstance(item, FieldDefinition))
    elements = [item for item in content if isinstance(item, t.Type)]
    if len(elements) + bool(children) != 1:
        raise SchemaError(f"Array {name} needs one element type or the fields of its structs")
    base = f(name, t.INT8, versions, nullable=nullable, tag=tag, default=default, ignorable=ignorable, doc=doc)
    return base._replace(element=elements[0] if elements else None, children=children, is_array=True)


def obj(
    name: str,
    *children: FieldDefinition,
    versions: str | None = None,
    nullable: str | None = None,
    tag: int | None = None,
    default: Any = NO_DEFAULT,
) -> FieldDefinition:
    """Define a struct."""
    base = f(name, t.INT8, versions, nullable=nullable, tag=tag, default=default)
    return base._replace(element=None, children=children)
