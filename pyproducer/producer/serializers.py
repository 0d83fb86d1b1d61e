"""Turns keys and values into bytes.

Road:    send() -> [serializer] -> partitioner
Thread:  any caller; the serializers here have no state.
Source:  Java org.apache.kafka.common.serialization (4.1); its StringSerializer's charsets as probed there.

A serializer is called as `serializer(topic, headers, data)` and returns bytes or None. None passes through all of those
below: a None value is a tombstone. Whatever a serializer raises becomes a SerializationError of send().
"""

from __future__ import annotations

import codecs
import inspect
import re
import struct
import sys
from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeVar, runtime_checkable
from urllib.parse import urlsplit
from uuid import UUID

from pyproducer.common.callback import is_coroutine_function
from pyproducer.common.class_names import (
    close_parts,
    closed_if_refused,
    configure_instance,
    import_object,
    make_instance,
)
from pyproducer.common.cluster import address_text
from pyproducer.common.errors import ConfigError
from pyproducer.common.public import public
from pyproducer.common.records import Header, plain_bytes
from pyproducer.producer.config.other_keys import LIST_SERDE_KEYS
from pyproducer.producer.json_serializer import JsonSerializer

Headers = list[Header]

_JAVA_PACKAGE = "org.apache.kafka.common.serialization."
_ENCODING = "serializer.encoding"


@public
@runtime_checkable
class Serializer(Protocol):
    """Anything that is called with topic, headers and data and gives bytes or None."""

    def __call__(self, topic: str, headers: Headers, data: Any) -> bytes | None:
        """Return the bytes of a key or value.

        Args:
            topic: Where the record goes.
            headers: Its headers, in a list of this call's own: what is done to it is done to the record.
            data: The key or value; may be None.
        """


T = TypeVar("T")
Serializing = Callable[[str, Headers, "T | None"], "bytes | None"]
"""A serializer of T; for type checkers."""


class _Named:
    """Shows a serializer by its class alone in messages."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


@public
class BytesSerializer(_Named):
    """Bytes stay as they are; bytearray and memoryview are copied. Java: ByteArraySerializer, ByteBufferSerializer."""

    def __call__(self, topic: str, headers: Headers, data: bytes | bytearray | memoryview | None) -> bytes | None:
        """Return the bytes."""
        if data is None or type(data) is bytes:
            return data
        if isinstance(data, (bytes, bytearray, memoryview)):
            return plain_bytes(data)
        raise TypeError(f"expected bytes, got {type(data).__name__}")


@public
class StringSerializer:
    """Str to bytes.

    Made by its name, it has the charset of key.serializer.encoding or value.serializer.encoding, then that of
    serializer.encoding, by the names that Java has for it, and writes what Java's does: UTF-16 is FE FF and big endian.

    Args:
        encoding: A codec of Python, UTF-8 as in Java.

    Differs from Java: a character that the encoding cannot write is an error, not a question mark.
    """

    def __init__(self, encoding: str = "utf-8") -> None:
        self.encoding = encoding

    def __call__(self, topic: str, headers: Headers, data: str | None) -> bytes | None:
        """Return the encoded text."""
        if data is None:
            return None
        if not isinstance(data, str):
            raise TypeError(f"expected str, got {type(data).__name__}")
        return data.encode(self.encoding)

    def __repr__(self) -> str:
        return f"StringSerializer({self.encoding!r})"


class _Utf16Serializer(StringSerializer):
    """Java's UTF-16, which a setting names: FE FF, then big endian; nothing for no text. Python's is the machine's."""

    def __init__(self) -> None:
        super().__init__("utf-16-be")

    def __call__(self, topic: str, headers: Headers, data: str | None) -> bytes | None:
        encoded = super().__call__(topic, headers, data)
        return b"\xfe\xff" + encoded if encoded else encoded


class _IntegerSerializer(_Named):
    _struct: struct.Struct
    _low: int
    _high: int

    def __call__(self, topic: str, headers: Headers, data: Any) -> bytes | None:
        """Return the number in big-endian two's complement."""
        if data is None:
            return None
        if isinstance(data, bool) or not hasattr(data, "__index__"):
            raise TypeError(f"expected int, got {type(data).__name__}")
        number = data.__index__()
        if not self._low <= number <= self._high:
            raise ValueError(f"{number} is out of range: it must be from {self._low} to {self._high}")
        return self._struct.pack(number)


class ShortSerializer(_IntegerSerializer):
    """Int to 2 bytes."""

    _struct, _low, _high = struct.Struct(">h"), -(2**15), 2**15 - 1


@public
class IntegerSerializer(_IntegerSerializer):
    """Int to 4 bytes."""

    _struct, _low, _high = struct.Struct(">i"), -(2**31), 2**31 - 1


@public
class LongSerializer(_IntegerSerializer):
    """Int to 8 bytes."""

    _struct, _low, _high = struct.Struct(">q"), -(2**63), 2**63 - 1


class _FloatingSerializer(_Named):
    _struct: struct.Struct

    def __call__(self, topic: str, headers: Headers, data: Any) -> bytes | None:
        """Return the number in IEEE 754, big-endian."""
        if data is None:
            return None
        if isinstance(data, (bool, str, bytes)):
            raise TypeError(f"expected float, got {type(data).__name__}")
        return self._struct.pack(data)


@public
class FloatSerializer(_FloatingSerializer):
    """Float to 4 bytes; what does not fit single precision is rounded, what is too large is an error."""

    _struct = struct.Struct(">f")


@public
class DoubleSerializer(_FloatingSerializer):
    """Float to 8 bytes."""

    _struct = struct.Struct(">d")


class BooleanSerializer(_Named):
    """Bool to 1 byte."""

    def __call__(self, topic: str, headers: Headers, data: bool | None) -> bytes | None:
        """Return one byte, 1 or 0."""
        if data is None:
            return None
        if not isinstance(data, bool):
            raise TypeError(f"expected bool, got {type(data).__name__}")
        return b"\x01" if data else b"\x00"


class UUIDSerializer(_Named):
    """UUID to the 36 characters of its text, as Java does."""

    def __call__(self, topic: str, headers: Headers, data: UUID | None) -> bytes | None:
        """Return the text in ASCII."""
        if data is None:
            return None
        if not isinstance(data, UUID):
            raise TypeError(f"expected UUID, got {type(data).__name__}")
        return str(data).encode()


class VoidSerializer(_Named):
    """Only None."""

    def __call__(self, topic: str, headers: Headers, data: Any) -> None:
        """Return None."""
        if data is not None:
            raise TypeError(f"expected None, got {type(data).__name__}")


class ListSerializer(_Named):
    """List or tuple to the bytes of Java's ListSerializer, each item by another serializer; items may be None.

    Args:
        inner: That of the items.

    Shape: one byte, 0 where all items have one length (short, int, long, float, double, UUID), else 1. With 0, the
        number of items that are None and their indices. The number of items. Then the items; with 1 each behind its
        length, or -1 for None. Numbers are INT32.
    """

    def __init__(self, inner: Serializer) -> None:
        self._inner = inner
        self._is_of_one_length = isinstance(inner, _OF_ONE_LENGTH)

    def __call__(self, topic: str, headers: Headers, data: Any) -> bytes | None:
        """Return the bytes of all items."""
        if data is None:
            return None
        if not isinstance(data, (list, tuple)):
            raise TypeError(f"expected list or tuple, got {type(data).__name__}")
        items = [item if item is None else self._serialized(topic, headers, item) for item in data]
        if self._is_of_one_length:
            nothing = [index for index, item in enumerate(items) if item is None]
            parts = [b"\0", _INT32(len(nothing)), *map(_INT32, nothing), _INT32(len(items)), *filter(None, items)]
        else:
            parts = [b"\1", _INT32(len(items))]
            for item in items:
                parts += [_INT32(-1)] if item is None else [_INT32(len(item)), item]
        return b"".join(parts)

    def close(self) -> None:
        """Close that of the items."""
        close_parts(self._inner)

    def _serialized(self, topic: str, headers: Headers, item: Any) -> bytes:
        found = self._inner(topic, headers, item)
        if not isinstance(found, bytes):
            raise TypeError(f"the serializer {self._inner!r} gave a {type(found).__name__} for an item: it must give "
                            "bytes")
        return found

    def __repr__(self) -> str:
        return f"ListSerializer({self._inner!r})"


_OF_ONE_LENGTH = (ShortSerializer, IntegerSerializer, LongSerializer, FloatSerializer, DoubleSerializer, UUIDSerializer)
_INT32 = struct.Struct(">i").pack


class _OneArgument:
    """A callable that takes only the data, as `str.encode`; None does not reach it."""

    def __init__(self, function: Callable[[Any], bytes | None]) -> None:
        self._function = function

    def __call__(self, topic: str, headers: Headers, data: Any) -> bytes | None:
        return None if data is None else self._function(data)

    def __repr__(self) -> str:
        return repr(self._function)


_DATA = ("data", "value")
_PORTS = {"http": 80, "https": 443}
_HOW_ASYNC = ("Leave it out of the producer and send its bytes: await serializer(value, SerializationContext(topic, "
              "MessageField.VALUE))")


def _address_asked(cause: Exception) -> str | None:
    """Return where a request went that had no answer; None where an error is none of httpx or requests, or had one."""
    try:
        if getattr(cause, "response", None) is not None:
            return None
        parts = urlsplit(str(getattr(getattr(cause, "request", None), "url", "")))
        if not parts.hostname:
            return None
        return f"{parts.scheme}://{address_text(parts.hostname, parts.port or _PORTS.get(parts.scheme, 0))}"
    except Exception:  # httpx raises where it knows no request, and a URL may be none
        return None


class _InContext:
    """A serializer of confluent-kafka: it is called with the data and what it calls their context.

    The context has the record's headers in the list that is the record's while it is serialized, so one that adds a
    header (header_schema_id_serializer) does.
    """

    def __init__(self, serializer: Callable[..., Any], confluent: Any, *, is_key: bool) -> None:
        self._serializer = serializer
        self._context = confluent.SerializationContext
        self._field = confluent.MessageField.KEY if is_key else confluent.MessageField.VALUE

    def __call__(self, topic: str, headers: Headers, data: Any) -> bytes | None:
        try:
            serialized = self._serializer(data, self._context(topic, self._field, headers))
        except Exception as cause:
            address = _address_asked(cause)
            if address is None:
                raise
            raise ConnectionError(f"the schema registry at {address} did not answer: {cause}") from cause
        if inspect.iscoroutine(serialized):  # which the call of AsyncAvroSerializer does not show before
            serialized.close()
            raise TypeError(f"it is asynchronous, and a serializer is called, not awaited. {_HOW_ASYNC}, or give the "
                            "one without Async")
        return serialized  # type: ignore[no-any-return]  # what is no bytes is refused by who calls

    def __repr__(self) -> str:
        return repr(self._serializer)


_SHORT_NAMES: dict[str, type[Serializer]] = {
    "bytes": BytesSerializer, "string": StringSerializer, "short": ShortSerializer, "int": IntegerSerializer,
    "integer": IntegerSerializer, "long": LongSerializer, "float": FloatSerializer, "double": DoubleSerializer,
    "boolean": BooleanSerializer, "uuid": UUIDSerializer, "void": VoidSerializer, "json": JsonSerializer,
    "list": ListSerializer,
}
_JAVA_NAMES: dict[str, type[Serializer]] = {
    "ByteArraySerializer": BytesSerializer, "ByteBufferSerializer": BytesSerializer,
    "BytesSerializer": BytesSerializer, "StringSerializer": StringSerializer, "ShortSerializer": ShortSerializer,
    "IntegerSerializer": IntegerSerializer, "LongSerializer": LongSerializer, "FloatSerializer": FloatSerializer,
    "DoubleSerializer": DoubleSerializer, "BooleanSerializer": BooleanSerializer, "UUIDSerializer": UUIDSerializer,
    "VoidSerializer": VoidSerializer, "ListSerializer": ListSerializer,
}
_SERDE = re.compile(rf"(?:{re.escape(_JAVA_PACKAGE)})?Serdes\$([A-Za-z]+)Serde")


def resolve_serializer(value: object, key: str = "value.serializer",
                       props: Mapping[str, object] | None = None) -> Serializer | None:
    """Return the serializer that a setting means.

    Args:
        value: None; a short name ("string", "json", ...), a Java class name, "module:Class"; a class or an instance
            that is called with (topic, headers, data); one of confluent-kafka's (Avro, JSON Schema, Protobuf); or a
            callable that takes only the data.
        key: The setting, for messages: "key.serializer" or "value.serializer".
        props: The producer's properties, for `configure(props, is_key)` of a class that is made here, and for
            StringSerializer and ListSerializer. As in Java, an instance that is given is not configured.

    Returns:
        The serializer, or None when bytes should pass through as they are.

    Raises:
        ConfigError: There is no such serializer, no such charset, or its `configure` failed. Nothing was started.
    """
    if value is None:
        return None
    if isinstance(value, str):
        value = _by_name(key, value.strip())
    if inspect.iscoroutine(value):
        value.close()
        raise ConfigError(key, value, f"it is not made yet: what makes it is asynchronous. {_HOW_ASYNC}")
    of_settings = _OF_SETTINGS.get(value) if isinstance(value, type) else None
    instance: Any = make_instance(key, value) if of_settings is None else of_settings(key, props or {})
    with closed_if_refused(value, instance):
        if not callable(instance):
            raise ConfigError(key, value, "a serializer must be callable as (topic, headers, data) or as (data), or be "
                                          f"one of these names: {', '.join(_SHORT_NAMES)}")
        if instance is not value:
            configure_instance(key, value, instance, props or {}, key == "key.serializer")
        return _with_three_arguments(key, instance)


def encodings_not_read(props: Mapping[str, object], key_serializer: object, value_serializer: object) -> list[str]:
    """Return those settings of StringSerializer that are given and that nothing is made to read.

    Args:
        props: The producer's properties.
        key_serializer: What is to be resolved; a name is not imported, and may be of a class that reads them.
        value_serializer: The same.
    """
    not_read = []
    is_common_read = False
    for key, value in (("key.serializer", key_serializer), ("value.serializer", value_serializer)):
        reads = _may_read_settings(value)
        if props.get(f"{key}.encoding") is None:
            is_common_read |= reads
        elif not reads:
            not_read.append(f"{key}.encoding")
    if props.get(_ENCODING) is not None and not is_common_read:
        not_read.append(_ENCODING)
    return not_read


def _may_read_settings(value: object) -> bool:
    if isinstance(value, str):
        value = _known(value.strip())
        return value in (None, StringSerializer, ListSerializer)
    return value is StringSerializer or (isinstance(value, type) and hasattr(value, "configure"))


def _string_serializer(key: str, props: Mapping[str, object]) -> StringSerializer:
    """Return the serializer of the charset that the settings name."""
    for setting in (f"{key}.encoding", _ENCODING):
        charset = props.get(setting)
        if charset is not None:
            return _of_charset(setting, charset)
    return StringSerializer()


def _list_serializer(key: str, props: Mapping[str, object]) -> ListSerializer:
    """Return the serializer of lists whose items are what the settings name."""
    setting = LIST_SERDE_KEYS[key != "key.serializer"]
    inner = props.get(setting)
    if isinstance(inner, str):
        serde = _SERDE.fullmatch(inner.strip())
        inner = f"{serde[1]}Serializer" if serde else inner.strip()
    if inner is None or inner is ListSerializer or (isinstance(inner, str) and _known(inner) is ListSerializer):
        raise ConfigError(setting, props.get(setting),
                          f"it says what the items of the lists of {key} are: name a serde of Java's, as "
                          f"{_JAVA_PACKAGE}Serdes$StringSerde, or what {key} could be, but no list")
    try:
        serializer = resolve_serializer(inner, key, props)
    except ConfigError as refusal:
        if refusal.key != key:  # a charset
            raise
        raise ConfigError(setting, props[setting], refusal.why) from refusal.__cause__
    assert serializer is not None, "there is one"
    return ListSerializer(serializer)


_OF_SETTINGS: dict[type, Callable[[str, Mapping[str, object]], Serializer]] = {
    StringSerializer: _string_serializer, ListSerializer: _list_serializer}
"""What makes those that settings of their own belong to."""


def _of_charset(setting: str, charset: object) -> StringSerializer:
    if not isinstance(charset, str):
        raise ConfigError(setting, charset, f"it must be the name of a charset, as 'UTF-8', not a "
                                            f"{type(charset).__name__}")
    try:
        codec = codecs.lookup(charset.strip()).name
        "a".encode(codec)  # there are codecs of Python's that are none of text
    except (LookupError, ValueError):
        raise ConfigError(setting, charset, "there is no such charset: use UTF-8, UTF-16, UTF-16LE, ISO-8859-1, "
                                            "US-ASCII, or another that Python has a codec of") from None
    if codec == "utf-16":
        return _Utf16Serializer()
    # Java's UTF-32 is big endian without a mark, Python's is the machine's with one.
    return StringSerializer("utf-32-be" if codec == "utf-32" else codec)


def _by_name(key: str, name: str) -> object:
    found = _known(name)
    if found is not None:
        return found
    simple_name = name.removeprefix(_JAVA_PACKAGE)
    if simple_name != name or ("." not in name and ":" not in name):
        raise ConfigError(key, name, f"there is no such serializer here: use one of {', '.join(_SHORT_NAMES)}, a Java "
                                     "class name of these, a callable, or 'module:Class'")
    return import_object(key, name)


def _known(name: str) -> type[Serializer] | None:
    """Return the serializer here that a short name or one of Java's means."""
    return _SHORT_NAMES.get(name.lower()) or _JAVA_NAMES.get(name.removeprefix(_JAVA_PACKAGE))


def _with_three_arguments(key: str, function: Callable[..., bytes | None]) -> Serializer:
    """Return a serializer; a callable with one required argument (or without a signature) is given only the data.

    One of three arguments, the last of which is called data or value, gets all, whichever have defaults.
    """
    if is_coroutine_function(function):
        raise ConfigError(key, function, "it is a coroutine function, and a serializer is called, not awaited: give "
                                         "one that returns bytes")
    confluent = sys.modules.get("confluent_kafka.serialization")  # who has one has imported it
    if confluent is not None and isinstance(function, confluent.Serializer):
        return _InContext(function, confluent, is_key=key == "key.serializer")
    try:
        found = inspect.signature(function)
    except (TypeError, ValueError):
        return _OneArgument(function)
    parameters = found.parameters.values()
    required = [parameter for parameter in parameters if parameter.default is parameter.empty
                and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)]
    names = [parameter.name for parameter in parameters
             if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)]
    takes_all = len(names) == 3 and names[2] in _DATA and names[0] not in _DATA
    by_position = all(parameter.kind is not parameter.KEYWORD_ONLY for parameter in required)
    if by_position and (len(required) == 3 or (takes_all and len(required) < 3)):
        return function
    if by_position and len(required) <= 1:
        if (names[:1] == ["topic"] and len(parameters) > 1) or any(name in _DATA for name in names[1:]):
            # The data alone might be taken for something else, and the wrong value sent without a word.
            raise ConfigError(key, function, f"it takes {found}, which does not tell whether it is to get the topic "
                                             "and the headers, too: write it as (topic, headers, data) or (data), or "
                                             "give a function that calls it")
        return _OneArgument(function)
    raise ConfigError(key, function, f"it takes {len(required)} arguments: a serializer takes (topic, headers, data) "
                                     "or (data), by position")
