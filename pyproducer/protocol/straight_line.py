"""The codec of one schema as one function: Python source written from the schema's types, then compiled.

Walking a schema costs a call or two per field, and a synchronous send waits for all of them. So the second use of
a schema writes the code that one would write by hand for it: nested structs are nested loops, neighbouring fields of
fixed size (with the length byte behind them) are one call of `struct`, lengths of one byte need no call. For
{error_code:INT16,name:COMPACT_STRING} and no tags yet, the text is:

    def read(buffer):                                   def write(buffer, value):
        data, end, p = buffer.data, buffer.end, ...         tail, closed = buffer.tail, buffer.closed
        s1 = new(Struct)                                    if type(value) is not dict: value = plain(value)
        s1.schema = schema2                                 x1 = value['error_code']
        s1['error_code'], n3, = unpack4(data, p)            x2 = value['name']
        p += 3                                              tail += pack3(x1 if type(x1) is int else check4(x1))
        ...

This code tells no errors. Whatever does not fit (a cut frame, a wrong value, a missing key) raises something; the
schema then does the work again field by field, which names the field. So it must refuse all that the types refuse;
`tests/property` compares both on values, damaged frames and wrong values.

Road:    Schema, at its second use or first large frame -> [reader_of, writer_of] -> Schema.read, Schema.write
Thread:  any; building one twice is harmless. What is built is a pure function.
Source:  ours; the idea is Kafka's generated message classes (4.3, MessageDataGenerator), made when they are needed.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from pyproducer.common.kafka_string import MAX_STRING_LENGTH_BYTES
from pyproducer.protocol.buffer import INLINE_PAYLOAD_LIMIT_BYTES, ByteReader, ByteWriter
from pyproducer.protocol.schema import NullableStruct, Schema, Struct
from pyproducer.protocol.types import (
    UUID,
    ArrayOf,
    BytesType,
    FixedType,
    SizedType,
    StringType,
    Type,
    VarintType,
    size_of_buffer,
    uuid_of,
)

_UUID_CODE = "16s"
_PYTHON_TYPES = {"?": "bool", "d": "float"}


class _Refused(Exception):  # noqa: N818 - not an error: the sign to go field by field
    """Something does not fit."""


class _Code:
    """The lines of one function, the objects that they name, and fixed-size items that wait to be fused."""

    def __init__(self) -> None:
        self.names: dict[str, Any] = {"Refused": _Refused, "new": Struct.__new__, "Struct": Struct}
        self._lines: list[str] = []
        self._depth = 0
        self._count = 0
        self._waiting: list[tuple[str, str]] = []  # struct letter, and where to or where from

    def line(self, text: str) -> None:
        self._lines.append("    " * self._depth + text)

    @contextmanager
    def block(self, header: str) -> Iterator[None]:
        """Indent what follows; nothing is fused across the edge of a block."""
        self.flush()
        self.line(header)
        self._depth += 1
        yield
        self.flush()
        self._depth -= 1

    def fresh(self, stem: str) -> str:
        self._count += 1
        return f"{stem}{self._count}"

    def constant(self, stem: str, value: Any) -> str:
        name = self.fresh(stem)
        self.names[name] = value
        return name

    def fixed(self, code: str, place: str) -> None:
        """Put one item of fixed size next, fused with its neighbours."""
        self._waiting.append((code, place))

    def flush(self) -> None:
        """Write the line for all items that wait."""
        waiting, self._waiting = self._waiting, []
        if waiting:
            compiled = struct.Struct(">" + "".join(code for code, _ in waiting))
            self.move(compiled, waiting)

    def move(self, compiled: struct.Struct, items: list[tuple[str, str]]) -> None:
        raise NotImplementedError

    def function(self, name: str) -> Callable[..., Any]:
        """Compile the lines; the function of that name is returned."""
        exec("\n".join(self._lines), self.names)  # the text is ours, and field names are quoted in it
        made: Callable[..., Any] = self.names[name]
        return made


def reader_of(schema: Schema) -> Callable[[ByteReader], Struct]:
    """Return the reader of a schema; it raises anything at bytes that do not fit."""
    return _ReadCode(schema).function("read")


def writer_of(schema: Schema) -> Callable[[ByteWriter, Any], None]:
    """Return the writer of a schema; it raises anything at values that do not fit, and leaves half of them written."""
    return _WriteCode(schema).function("write")


@lru_cache(maxsize=256)
def _run_of(code: str, count: int) -> struct.Struct:
    return struct.Struct(f">{count}{code}")


def _long_uvarint(buffer: ByteReader, position: int) -> tuple[int, int]:
    buffer.position = position
    value = buffer.read_uvarint()
    return value, buffer.position


class _ReadCode(_Code):
    """Reading: `p` is the position; a target is what stands left of `=`."""

    def __init__(self, schema: Schema) -> None:
        super().__init__()
        self.names.update(uuid_of=uuid_of, run_of=_run_of, long_uvarint=_long_uvarint)
        with self.block("def read(buffer):"):
            self.line("data, end, p = buffer.data, buffer.end, buffer.position")
            result = self._struct(schema)
            self.flush()
            self.line("buffer.position = p")
            self.line(f"return {result}")

    def move(self, compiled: struct.Struct, items: list[tuple[str, str]]) -> None:
        if compiled.format == ">B":
            self.line(f"{items[0][1]} = data[p]")
        else:
            targets = "".join(f"{target}, " for _, target in items)
            self.line(f"{targets}= {self.constant('unpack', compiled.unpack_from)}(data, p)")
        self.line(f"p += {compiled.size}")
        for code, target in items:
            if code == _UUID_CODE:
                self.line(f"{target} = uuid_of({target})")

    def _struct(self, schema: Schema) -> str:
        result = self.fresh("s")
        self.line(f"{result} = new(Struct)")
        self.line(f"{result}.schema = {self.constant('schema', schema)}")
        for field in schema.fields:
            self._value(field.type, f"{result}[{field.name!r}]")
        if schema.tagged is not None:
            count = self.fresh("n")
            self.fixed("B", count)
            self.flush()
            with self.block(f"if {count}:"):
                self.line("buffer.position = p - 1")
                self.line(f"{self.constant('tags', schema.read_tagged)}(buffer, {result})")
                self.line("p = buffer.position")
            if schema.tagged:
                with self.block("else:"):
                    for field in schema.tagged.values():
                        self.line(f"{result}[{field.name!r}] = {self.constant('default', field.default)}")
        return result

    def _value(self, type_: Type, target: str) -> None:
        if isinstance(type_, FixedType):
            self.fixed(type_.struct_code, target)
        elif type_ is UUID:
            self.fixed(_UUID_CODE, target)
        elif isinstance(type_, Schema):
            self.flush()  # a dict keeps the order of its lines
            self.line(f"{target} = {self._struct(type_)}")
        elif isinstance(type_, NullableStruct):
            self._nullable_struct(type_, target)
        elif isinstance(type_, ArrayOf):
            self._array(type_, target)
        elif isinstance(type_, VarintType):  # of no message of Kafka's: it costs a call
            self.flush()
            self.line("buffer.position = p")
            self.line(f"{target} = {self.constant('varint', type_.read)}(buffer)")
            self.line("p = buffer.position")
        else:
            assert isinstance(type_, (StringType, BytesType))
            self._text_or_bytes(type_, target)

    def _length(self, type_: SizedType) -> tuple[str, int]:
        """Read a length or count; return its name and what is to be taken off: 1 when compact."""
        length = self.fresh("n")
        if not type_.is_compact:
            self.fixed(type_.length_type.struct_code, length)
            self.flush()
            return length, 0
        self.fixed("B", length)
        with self.block(f"if {length} > 127:"):
            self.line(f"{length}, p = long_uvarint(buffer, p - 1)")
        return length, 1

    def _null(self, type_: Type, target: str) -> None:
        with self.block("else:"):
            self.line(f"{target} = None" if type_.is_nullable else "raise Refused")

    def _nullable_struct(self, type_: NullableStruct, target: str) -> None:
        marker = self.fresh("n")
        self.fixed("B", marker)
        with self.block(f"if {marker} < 128:"):
            self.line(f"{target} = {self._struct(type_.schema)}")
        self._null(type_, target)

    def _text_or_bytes(self, type_: StringType | BytesType, target: str) -> None:
        length, extra = self._length(type_)
        limit = f" or {length} > {MAX_STRING_LENGTH_BYTES + extra}" if isinstance(type_, StringType) else ""
        with self.block(f"if {length} >= {extra}:"):
            self.line("start = p")
            self.line(f"p += {length} - {extra}")
            with self.block(f"if p > end{limit}:"):
                self.line("raise Refused")
            slice_ = "data[start:p]"
            self.line(f"{target} = " + (f"str({slice_}, 'utf-8')" if isinstance(type_, StringType) else slice_))
        self._null(type_, target)

    def _array(self, type_: ArrayOf, target: str) -> None:
        length, extra = self._length(type_)
        element = type_.element
        with self.block(f"if {length} > {extra}:"):
            with self.block(f"if ({length} - {extra}) * {element.min_size_bytes} > end - p:"):
                self.line("raise Refused")
            self.line(f"buffer.elements_left -= {length} - {extra}")
            with self.block("if buffer.elements_left < 0:"):
                self.line("raise Refused")
            if isinstance(element, FixedType):
                self.line(f"{target} = list(run_of({element.struct_code!r}, {length} - {extra}).unpack_from(data, p))")
                self.line(f"p += ({length} - {extra}) * {element.min_size_bytes}")
            else:
                items, item = self.fresh("a"), self.fresh("e")
                self.line(f"{target} = {items} = []")
                with self.block(f"for _ in range({length} - {extra}):"):
                    if isinstance(element, Schema):
                        item = self._struct(element)
                    else:
                        self._value(element, item)
                    self.flush()
                    self.line(f"{items}.append({item})")
        with self.block(f"elif {length} == {extra}:"):
            self.line(f"{target} = []")
        self._null(type_, target)


def _plain(value: Any) -> dict[str, Any]:
    if isinstance(value, Mapping):
        return dict(value)
    raise _Refused


def _array_or_none(value: Any) -> Any:
    if value is None or isinstance(value, (list, tuple)):
        return value
    raise _Refused


class _WriteCode(_Code):
    """Writing: `tail` is the buffer's, taken anew after each call that may have closed it."""

    def __init__(self, schema: Schema) -> None:
        super().__init__()
        self.names.update(
            plain=_plain, array_or_none=_array_or_none, size_of_buffer=size_of_buffer, run_of=_run_of
        )
        with self.block("def write(buffer, value):"):
            self.line("tail, closed = buffer.tail, buffer.closed")
            self._struct(schema, "value")

    def move(self, compiled: struct.Struct, items: list[tuple[str, str]]) -> None:
        if compiled.format == ">x":
            self.line("tail.append(0)")
        else:
            values = ", ".join(value for _, value in items if value)
            self.line(f"tail += {self.constant('pack', compiled.pack)}({values})")

    def _struct(self, schema: Schema, value: str) -> None:
        with self.block(f"if type({value}) is not dict:"):
            self.line(f"{value} = plain({value})")
        if schema.absent:
            with self.block("if " + " or ".join(f"{name!r} in {value}" for name in schema.absent) + ":"):
                self.line(f"{self.constant('refuse_lost', schema.refuse_lost_values)}({value})")
        for field in schema.fields:
            content = self.fresh("x")
            if field.has_default:
                self.line(f"{content} = {value}.get({field.name!r}, {self.constant('default', field.default)})")
            else:
                self.line(f"{content} = {value}[{field.name!r}]")
            self._value(field.type, content)
        if schema.tagged is None:
            return
        if not schema.tagged:
            self.fixed("x", "")
            return
        names = (field.name for field in schema.tagged.values())
        with self.block("if " + " or ".join(f"{name!r} in {value}" for name in names) + ":"):
            self._call(f"{self.constant('tags', schema.write_tagged)}(buffer, {value})")
        with self.block("else:"):
            self.line("tail.append(0)")

    def _call(self, text: str) -> None:
        self.flush()
        self.line(text)
        self.line("tail = buffer.tail")

    def _value(self, type_: Type, value: str) -> None:
        if isinstance(type_, FixedType):
            self.fixed(type_.struct_code, self._checked(type_, value))
        elif type_ is UUID:
            is_one = f"type({value}) is {self.constant('uuid', uuid.UUID)}"
            checked = f"{value} if {is_one} else {self.constant('check', type_.validate)}({value})"
            self.fixed(_UUID_CODE, f"({checked}).int.to_bytes(16, 'big')")
        elif isinstance(type_, Schema):
            self._struct(type_, value)
        elif isinstance(type_, NullableStruct):
            with self.block(f"if {value} is None:"):
                self.line("tail.append(255)")
            with self.block("else:"):
                self.line("tail.append(1)")
                self._struct(type_.schema, value)
        elif isinstance(type_, ArrayOf):
            self._array(type_, value)
        elif isinstance(type_, StringType):
            self._text(type_, value)
        elif isinstance(type_, VarintType):
            self._call(f"{self.constant('varint', type_.write)}(buffer, {value})")
        else:
            assert isinstance(type_, BytesType)
            self._bytes(type_, value)

    def _checked(self, type_: FixedType, value: str) -> str:
        expected = _PYTHON_TYPES.get(type_.struct_code, "int")
        return f"{value} if type({value}) is {expected} else {self.constant('check', type_.validate)}({value})"

    def _length(self, type_: SizedType, length: str) -> None:
        if not type_.is_compact:
            self.fixed(type_.length_type.struct_code, length)
            self.flush()
            return
        self.line(f"n = {length} + 1")
        with self.block("while n > 127:"):
            self.line("tail.append(n & 127 | 128)")
            self.line("n >>= 7")
        self.line("tail.append(n)")

    @contextmanager
    def _unless_null(self, type_: SizedType, value: str) -> Iterator[None]:
        """Write null where the value is None, and otherwise what follows; None fits in no other type."""
        self.flush()
        if not type_.is_nullable:
            yield
            return
        null = "00" if type_.is_compact else "ff" * type_.min_size_bytes
        with self.block(f"if {value} is None:"):
            self.line(f"tail += {bytes.fromhex(null)!r}")
        with self.block("else:"):
            yield

    def _text(self, type_: StringType, value: str) -> None:
        with self._unless_null(type_, value):
            encode = self.constant("encode", type_.encode)
            self.line(f"text = {value}.encode() if type({value}) is str else {encode}({value})")
            with self.block(f"if len(text) > {MAX_STRING_LENGTH_BYTES}:"):
                self.line("raise Refused")
            self._length(type_, "len(text)")
            self.line("tail += text")

    def _bytes(self, type_: BytesType, value: str) -> None:
        with self._unless_null(type_, value):
            self.line(f"size = len({value}) if type({value}) is bytearray else size_of_buffer({value})")
            with self.block("if size < 0:"):  # pieces of records, or nonsense
                self._call(f"{self.constant('write', type_.write)}(buffer, {value})")
            with self.block("else:"):
                self._length(type_, "size")
                with self.block(f"if size > {INLINE_PAYLOAD_LIMIT_BYTES}:"):
                    self.line("closed.append(tail)")
                    self.line(f"closed.append({value})")
                    self.line("buffer.tail = tail = bytearray()")
                with self.block("else:"):
                    self.line(f"tail += {value}")

    def _array(self, type_: ArrayOf, value: str) -> None:
        self.flush()
        with self.block(f"if type({value}) is not list:"):
            self.line(f"{value} = array_or_none({value})")
        with self._unless_null(type_, value):
            self._length(type_, f"len({value})")
            element = type_.element
            item = self.fresh("e")
            if isinstance(element, FixedType):
                items = f"[{self._checked(element, item)} for {item} in {value}]"
                self.line(f"tail += run_of({element.struct_code!r}, len({value})).pack(*{items})")
            else:
                with self.block(f"for {item} in {value}:"):
                    self._value(element, item)
