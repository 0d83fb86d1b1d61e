"""Kafka's own message definitions, read from the kafka-clients jar: the second witness of our schemas.

Everything here is written from the JSON format alone and shares no code with pyproducer/protocol, so that a mistake
there is not repeated here.
"""

from __future__ import annotations

import json
import random
import re
import struct
import uuid
import zipfile
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

LATEST = 32767
FIXED = {"int8": ">b", "int16": ">h", "int32": ">i", "int64": ">q", "uint16": ">H", "uint32": ">I", "float64": ">d"}
NAMES = {"bool": "BOOLEAN", "string": "STRING", "bytes": "BYTES", "records": "RECORDS", "uuid": "UUID",
         "float64": "FLOAT64", "int8": "INT8", "int16": "INT16", "int32": "INT32", "int64": "INT64",
         "uint16": "UINT16", "uint32": "UINT32"}


class Leaf(NamedTuple):
    """One line of a flattened schema; arrays and structs have a line of their own before their content."""

    path: str
    wire_type: str
    nullable: bool
    tag: int | None


def snake_case(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def versions(text: str | None) -> tuple[int, int]:
    if text is None or text == "none":
        return (1, 0)
    if text.endswith("+"):
        return int(text[:-1]), LATEST
    first, _, last = text.partition("-")
    return int(first), int(last or first)


def within(version: int, text: str | None) -> bool:
    first, last = versions(text)
    return first <= version <= last


@cache
def load(jar: Path) -> dict[str, dict[str, Any]]:
    found = {}
    with zipfile.ZipFile(jar) as archive:
        for name in archive.namelist():
            if name.startswith("common/message/") and name.endswith(".json"):
                text = re.sub(r"^\s*//.*$", "", archive.read(name).decode(), flags=re.MULTILINE)
                definition = json.loads(text)
                found[definition["name"]] = definition
    return found


class KafkaMessage:
    """One JSON file: flattened, or as an encoder of random values."""

    def __init__(self, definition: dict[str, Any]) -> None:
        self.definition = definition
        self.name = definition["name"]
        self.valid = versions(definition["validVersions"])
        self.flexible = definition.get("flexibleVersions", "none")
        self.common = {entry["name"]: entry["fields"] for entry in definition.get("commonStructs", [])}

    def fields_at(self, fields: list[dict[str, Any]], version: int) -> list[dict[str, Any]]:
        # A field's own range may be wider than its parent's: being here means that the parent exists.
        return [field for field in fields if within(version, field["versions"])]

    def children(self, field: dict[str, Any]) -> list[dict[str, Any]] | None:
        kind = field["type"].removeprefix("[]")
        return field.get("fields") or self.common.get(kind)

    def is_tagged(self, field: dict[str, Any], version: int) -> bool:
        return "tag" in field and within(version, field["taggedVersions"])

    def is_compact(self, field: dict[str, Any], version: int) -> bool:
        return within(version, field.get("flexibleVersions", self.flexible))

    def flatten(self, version: int) -> list[Leaf]:
        return self._flatten(self.definition["fields"], version, "")

    def _flatten(self, fields: list[dict[str, Any]], version: int, path: str) -> list[Leaf]:
        present = self.fields_at(fields, version)
        plain = [field for field in present if not self.is_tagged(field, version)]
        tagged = sorted((field for field in present if self.is_tagged(field, version)), key=lambda field: field["tag"])
        leaves: list[Leaf] = []
        for field in (*plain, *tagged):
            kind = field["type"]
            nullable = within(version, field.get("nullableVersions"))
            name = path + snake_case(field["name"])
            tag = field["tag"] if self.is_tagged(field, version) else None
            prefix = "COMPACT_" if self.is_compact(field, version) else ""
            children = self.children(field)
            if kind.startswith("[]"):
                leaves.append(Leaf(name, prefix + "ARRAY", nullable, tag))
                if children is None:
                    leaves.append(Leaf(name + "[]", self._wire_type(kind[2:], prefix), False, None))
                else:
                    leaves += self._flatten(children, version, name + "[].")
            elif children is not None:
                leaves.append(Leaf(name, "STRUCT", nullable, tag))
                leaves += self._flatten(children, version, name + ".")
            else:
                leaves.append(Leaf(name, self._wire_type(kind, prefix), nullable, tag))
        if within(version, self.flexible):
            leaves.append(Leaf(path + "_tags", "TAGS", False, None))
        return leaves

    def _wire_type(self, kind: str, prefix: str) -> str:
        return (prefix if kind in ("string", "bytes", "records") else "") + NAMES[kind]

    # Random values and their bytes ---------------------------------------------------------------------------------

    def random_value(self, version: int, seed: random.Random) -> dict[str, Any]:
        return self._random_struct(self.definition["fields"], version, seed)

    def _random_struct(self, fields: list[dict[str, Any]], version: int, seed: random.Random) -> dict[str, Any]:
        return {snake_case(field["name"]): self._random(field, version, seed)
                for field in self.fields_at(fields, version)}

    def _random(self, field: dict[str, Any], version: int, seed: random.Random) -> Any:
        if within(version, field.get("nullableVersions")) and seed.random() < 0.3:
            return None
        kind, children = field["type"], self.children(field)
        if kind.startswith("[]"):
            element = {**field, "type": kind[2:], "nullableVersions": "none"}
            count = seed.choice([0, 1, 2, 200]) if children is None else seed.randrange(3)
            return [self._random(element, version, seed) for _ in range(count)]
        if children is not None:
            return self._random_struct(children, version, seed)
        if kind in ("bytes", "records"):
            return seed.randbytes(seed.choice([0, 1, 126, 127, 128, 5000]))
        if kind == "string":
            return seed.choice(["", "a", "orders", "\u00e9\u6d88\U0001f600", "x" * seed.choice([126, 127, 128, 300])])
        if kind == "bool":
            return seed.random() < 0.5
        if kind == "uuid":
            return uuid.UUID(bytes=seed.randbytes(16))
        size = struct.calcsize(FIXED[kind])
        if kind == "float64":
            return seed.choice((0.0, -1.5, seed.random()))  # not any eight bytes: what is no number equals nothing
        return struct.unpack(FIXED[kind], seed.choice([bytes(size), b"\xff" * size, seed.randbytes(size)]))[0]

    def encode(self, version: int, value: dict[str, Any]) -> bytes:
        return self._encode_struct(self.definition["fields"], version, value)

    def _encode_struct(self, fields: list[dict[str, Any]], version: int, value: dict[str, Any]) -> bytes:
        out, tags = b"", []
        for field in self.fields_at(fields, version):
            content = value[snake_case(field["name"])]
            if not self.is_tagged(field, version):
                out += self._encode(field, version, content)
            elif content != self.default_of(field, version):
                tags.append((field["tag"], self._encode(field, version, content)))
        if within(version, self.flexible):
            out += uvarint(len(tags))
            for tag, data in sorted(tags):
                out += uvarint(tag) + uvarint(len(data)) + data
        return out

    def _encode(self, field: dict[str, Any], version: int, value: Any) -> bytes:
        kind, children = field["type"], self.children(field)
        compact = self.is_compact(field, version)
        if kind.startswith("[]"):
            if value is None:
                return b"\0" if compact else b"\xff\xff\xff\xff"
            element = {**field, "type": kind[2:], "nullableVersions": "none"}
            head = uvarint(len(value) + 1) if compact else struct.pack(">i", len(value))
            return head + b"".join(self._encode(element, version, item) for item in value)
        if children is not None:
            nullable = within(version, field.get("nullableVersions"))
            if value is None:
                return b"\xff"
            return (b"\1" if nullable else b"") + self._encode_struct(children, version, value)
        if kind in ("string", "bytes", "records"):
            size = ">h" if kind == "string" else ">i"
            if value is None:
                return b"\0" if compact else struct.pack(size, -1)
            data = value.encode() if kind == "string" else value
            return (uvarint(len(data) + 1) if compact else struct.pack(size, len(data))) + data
        if kind == "bool":
            return b"\1" if value else b"\0"
        return value.bytes if kind == "uuid" else struct.pack(FIXED[kind], value)

    def default_of(self, field: dict[str, Any], version: int) -> Any:
        """The explicit or implied default, as a Python value."""
        kind, children, default = field["type"], self.children(field), field.get("default")
        if default == "null":
            return None
        if kind.startswith("[]"):
            return []
        if children is not None:
            return {snake_case(child["name"]): self.default_of(child, version)
                    for child in self.fields_at(children, version)}
        if kind == "string":
            return default or ""
        if kind == "bool":
            return str(default).lower() == "true"
        if kind == "uuid":
            return uuid.UUID(int=0)
        if kind in ("bytes", "records"):
            return b"" if kind == "bytes" else None
        return 0 if default is None else int(str(default), 0)


def uvarint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*out, value))
