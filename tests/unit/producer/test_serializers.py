"""Serializers write what Java's write, and settings find them by many names."""

from __future__ import annotations

import dataclasses
import enum
import functools
import json
from collections.abc import AsyncIterator, Callable
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any
from unittest import mock
from uuid import UUID

import pytest

from pyproducer.common.errors import ConfigError
from pyproducer.common.records import Header
from pyproducer.producer import serializers
from pyproducer.producer.serializers import (
    BooleanSerializer,
    BytesSerializer,
    DoubleSerializer,
    FloatSerializer,
    IntegerSerializer,
    JsonSerializer,
    ListSerializer,
    LongSerializer,
    Serializer,
    ShortSerializer,
    StringSerializer,
    UUIDSerializer,
    VoidSerializer,
    resolve_serializer,
)

HEADERS = (Header("h", b"1"),)
ALL = [BooleanSerializer, BytesSerializer, DoubleSerializer, FloatSerializer, IntegerSerializer, JsonSerializer,
       LongSerializer, ShortSerializer, StringSerializer, UUIDSerializer, VoidSerializer]


def serialized(serializer: Serializer, data: object) -> bytes | None:
    return serializer("topic", HEADERS, data)


@pytest.mark.parametrize(("serializer", "data", "expected"), [
    (BytesSerializer(), b"x", b"x"), (BytesSerializer(), bytearray(b"x"), b"x"),
    (BytesSerializer(), memoryview(b"xyz")[1:], b"yz"), (BytesSerializer(), b"", b""),
    (StringSerializer(), "h\u00e9\U0001f600", "h\u00e9\U0001f600".encode()),
    (StringSerializer("utf-16-be"), "a", b"\0a"),
    (StringSerializer(), "", b""),
    (ShortSerializer(), -2, b"\xff\xfe"), (ShortSerializer(), 2**15 - 1, b"\x7f\xff"),
    (IntegerSerializer(), 1, b"\0\0\0\1"), (IntegerSerializer(), -(2**31), b"\x80\0\0\0"),
    (LongSerializer(), -1, b"\xff" * 8), (LongSerializer(), 2**63 - 1, b"\x7f" + b"\xff" * 7),
    (FloatSerializer(), 1.5, bytes.fromhex("3fc00000")), (FloatSerializer(), 1, bytes.fromhex("3f800000")),
    (DoubleSerializer(), 1.5, bytes.fromhex("3ff8000000000000")),
    (BooleanSerializer(), True, b"\x01"), (BooleanSerializer(), False, b"\x00"),
    (UUIDSerializer(), UUID("00112233-4455-6677-8899-aabbccddeeff"), b"00112233-4455-6677-8899-aabbccddeeff"),
    (JsonSerializer(), {"a": [1, "h\u00e9", None]}, '{"a":[1,"h\u00e9",null]}'.encode()), (JsonSerializer(), 0, b"0"),
])
def test_data_when_serialized_then_javas_bytes(serializer: Serializer, data: object, expected: bytes) -> None:
    result = serialized(serializer, data)
    assert result == expected
    assert type(result) is bytes


@pytest.mark.parametrize("serializer", ALL)
def test_none_when_serialized_then_a_tombstone(serializer: Callable[[], Serializer]) -> None:
    assert serialized(serializer(), None) is None
    assert serializer.__name__ in repr(serializer())  # type: ignore[attr-defined]  # classes have names


@pytest.mark.parametrize(("serializer", "data", "error", "why"), [
    (BytesSerializer(), "x", TypeError, "expected bytes, got str"),
    (StringSerializer(), b"x", TypeError, "expected str, got bytes"),
    (StringSerializer(), "\ud800", UnicodeEncodeError, "surrogates"),
    (StringSerializer("ascii"), "\u00e9", UnicodeEncodeError, "ascii"),
    (ShortSerializer(), 2**15, ValueError, "32768 is out of range: it must be from -32768 to 32767"),
    (IntegerSerializer(), 2**31, ValueError, "out of range"), (IntegerSerializer(), -(2**31) - 1, ValueError, "range"),
    (LongSerializer(), 2**63, ValueError, "out of range"), (IntegerSerializer(), True, TypeError, "got bool"),
    (IntegerSerializer(), 1.0, TypeError, "got float"), (IntegerSerializer(), "1", TypeError, "got str"),
    (DoubleSerializer(), "1", TypeError, "got str"), (FloatSerializer(), 1e300, OverflowError, "large"),
    (BooleanSerializer(), 1, TypeError, "expected bool"), (UUIDSerializer(), "x", TypeError, "expected UUID"),
    (VoidSerializer(), b"", TypeError, "expected None"),
    (JsonSerializer(), 1j, TypeError, r"\$ is complex 1j, which is no JSON: write it as one of"),
    (JsonSerializer(), float("nan"), ValueError, "not JSON compliant"),
])
def test_data_when_of_the_wrong_kind_then_the_serializer_raises(serializer: Serializer, data: object,
                                                                error: type[Exception], why: str) -> None:
    with pytest.raises(error, match=why):
        serialized(serializer, data)


@pytest.mark.parametrize(("name", "expected"), [
    ("string", StringSerializer), (" JSON ", JsonSerializer), ("int", IntegerSerializer), ("bytes", BytesSerializer),
    ("org.apache.kafka.common.serialization.StringSerializer", StringSerializer),
    ("org.apache.kafka.common.serialization.ByteArraySerializer", BytesSerializer),
    ("org.apache.kafka.common.serialization.UUIDSerializer", UUIDSerializer),
    ("LongSerializer", LongSerializer), (DoubleSerializer, DoubleSerializer), (FloatSerializer(), FloatSerializer),
    ("pyproducer.producer.serializers:VoidSerializer", VoidSerializer),
    ("pyproducer.producer.serializers.ShortSerializer", ShortSerializer),
])
def test_serializer_when_named_then_found(name: object, expected: type) -> None:
    assert type(resolve_serializer(name)) is expected


@pytest.mark.parametrize("serializer", ALL)
def test_serializer_when_named_as_its_class_or_as_its_type_then_found(serializer: type) -> None:
    title = serializer.__name__
    assert type(resolve_serializer(title.removesuffix("Serializer").lower())) is serializer
    if serializer is not JsonSerializer:  # which is none of Kafka's own
        assert type(resolve_serializer(title)) is serializer
        assert type(resolve_serializer(f"org.apache.kafka.common.serialization.{title}")) is serializer


@pytest.mark.parametrize(("name", "expected"), [
    ("int", IntegerSerializer), ("ByteArraySerializer", BytesSerializer), ("ByteBufferSerializer", BytesSerializer)])
def test_serializer_when_its_class_here_has_another_name_then_found(name: str, expected: type) -> None:
    assert type(resolve_serializer(name)) is expected


def test_names_when_listed_then_each_is_of_one_of_the_serializers() -> None:
    for table in (serializers._SHORT_NAMES, serializers._JAVA_NAMES):
        assert set(table.values()) <= {*ALL, ListSerializer}


INNER = {True: "default.list.key.serde.inner", False: "default.list.value.serde.inner"}
SERDE = "org.apache.kafka.common.serialization.Serdes$"
ONE = UUID("00112233-4455-6677-8899-aabbccddeeff")
LISTS_OF_JAVA: list[tuple[object, object, str]] = [  # what Java's ListSerializer (4.1) writes
    (SERDE + "IntegerSerde", [1, -2], "00000000000000000200000001fffffffe"),
    ("Serdes$ShortSerde", [1, None, 2, None], "000000000200000001000000030000000400010002"),
    ("uuid", [ONE, None], "0000000001000000010000000230303131323233332d343435352d363637372d383839392d6161626263636464"
                          "65656666"),
    ("double", (), "000000000000000000"), (LongSerializer(), [5], "0000000000000000010000000000000005"),
    (FloatSerializer, [1.5], "0000000000000000013fc00000"),
    (SERDE + "StringSerde", ["a", None, "", "\u00e9"], "01000000040000000161ffffffff0000000000000002c3a9"),
    ("bytes", [b"xy"], "0100000001000000027879"), ("boolean", [True], "01000000010000000101"),
    ("string", [], "0100000000")]


@pytest.mark.parametrize(("inner", "data", "of_java"), LISTS_OF_JAVA)
@pytest.mark.parametrize("name", ["org.apache.kafka.common.serialization.ListSerializer", "list", ListSerializer])
@pytest.mark.parametrize("is_key", [True, False])
def test_list_when_settings_name_the_serde_of_its_items_then_the_bytes_are_those_of_java(
        name: object, inner: object, data: object, of_java: str, is_key: bool) -> None:
    """There was no such serializer here, and an unknown setting."""
    serializer = resolve_serializer(name, "key.serializer" if is_key else "value.serializer", {INNER[is_key]: inner})
    assert serializer is not None
    assert serialized(serializer, data) == bytes.fromhex(of_java)
    assert serialized(serializer, None) is None
    with pytest.raises(TypeError, match="expected list or tuple, got str"):
        serialized(serializer, "text")


def test_list_when_its_items_are_text_then_their_charset_is_that_of_the_settings() -> None:
    charset = {"serializer.encoding": "UTF-16LE"}
    serializer = resolve_serializer("list", "value.serializer", {INNER[False]: "string", **charset})
    assert serializer is not None
    assert serialized(serializer, ["a"]) == bytes.fromhex("0100000001000000026100")
    assert serializers.encodings_not_read(charset, None, "list") == []
    with pytest.raises(ConfigError, match="no such charset") as caught:
        resolve_serializer("list", "value.serializer", {INNER[False]: "string", "serializer.encoding": "UTF-9"})
    assert (caught.value.key, caught.value.value) == ("serializer.encoding", "UTF-9")


@pytest.mark.parametrize(("inner", "why"), [
    (None, "what the items of the lists of value.serializer are"), ("list", "but no list"),
    (SERDE + "ListSerde", "but no list"), (ListSerializer, "but no list"), ("no_such", "there is no such serializer"),
    (SERDE + "BogusSerde", "Invalid value .*BogusSerde' for"),
    (5, "must be callable")])
def test_list_when_the_serde_of_its_items_is_none_then_config_error_with_its_key(inner: object, why: str) -> None:
    with pytest.raises(ConfigError, match=why) as caught:
        resolve_serializer("list", "value.serializer", {} if inner is None else {INNER[False]: inner})
    assert caught.value.key == INNER[False]


def test_list_when_an_item_cannot_be_serialized_then_it_raises_and_the_serializer_of_items_is_closed_with_it() -> None:
    class Nothing(_Opened):
        def __call__(self, topic: str, headers: object, data: object) -> bytes:
            return None  # type: ignore[return-value]  # that is the test

    serializer: Any = resolve_serializer("list", "value.serializer", {INNER[False]: Nothing})
    with pytest.raises(TypeError, match="gave a NoneType for an item"):
        serializer("topic", HEADERS, [1])
    serializer.close()
    assert Nothing.made[-1].close_count == 1


TEXT = "a\u00e9\u20ac\U0001f600"
OF_JAVA = [  # what Java's StringSerializer (4.1) writes
    ("UTF8", TEXT, "61c3a9e282acf09f9880"), ("UTF-8", TEXT, "61c3a9e282acf09f9880"),
    ("UTF-16", TEXT, "feff006100e920acd83dde00"), ("UTF_16", TEXT, "feff006100e920acd83dde00"),
    ("UTF-16LE", TEXT, "6100e900ac203dd800de"), ("UTF-16BE", TEXT, "006100e920acd83dde00"),
    ("UTF-32", TEXT, "00000061000000e9000020ac0001f600"), ("GB18030", TEXT, "61a8a6a2e39439fc36"),
    ("windows-1252", TEXT[:3], "61e980"), ("Cp1252", TEXT[:3], "61e980"), ("ISO-8859-1", TEXT[:2], "61e9"),
    ("ISO8859_1", TEXT[:2], "61e9"), ("latin1", TEXT[:2], "61e9"), ("Cp037", TEXT[:2], "8151"),
    ("US-ASCII", TEXT[:1], "61"), ("ASCII", TEXT[:1], "61")]


@pytest.mark.parametrize(("charset", "text", "of_java"), OF_JAVA)
@pytest.mark.parametrize("name", ["org.apache.kafka.common.serialization.StringSerializer", "string", StringSerializer])
def test_text_when_settings_name_the_charset_then_the_bytes_are_those_of_java(
        name: object, charset: str, text: str, of_java: str) -> None:
    """It was an unknown setting: did you mean value.serializer?"""
    serializer = resolve_serializer(name, "value.serializer", {"value.serializer.encoding": charset})
    assert serializer is not None
    assert serialized(serializer, text) == bytes.fromhex(of_java)
    assert serialized(serializer, "") == b""
    assert serialized(serializer, None) is None
    with pytest.raises(TypeError, match="expected str"):
        serialized(serializer, b"x")


def test_charset_when_several_settings_name_one_then_that_of_keys_or_values_comes_first_as_in_java() -> None:
    props = {"key.serializer.encoding": "UTF-16BE", "serializer.encoding": "UTF-16LE",
             "value.serializer.encoding": None}
    key, value = (resolve_serializer("string", f"{name}.serializer", props) for name in ("key", "value"))
    assert serialized(key, "a") == b"\0a"
    assert serialized(value, "a") == b"a\0"
    given = resolve_serializer(StringSerializer("ascii"), "key.serializer", props)
    assert serialized(given, "a") == b"a"  # as in Java, an instance is not configured


@pytest.mark.parametrize("charset", ["nonsense", "hex", "rot13", "", "a\0b", "undefined", 5, b"utf-8"])
@pytest.mark.parametrize("setting", ["key.serializer.encoding", "serializer.encoding"])
def test_charset_when_there_is_none_then_config_error_with_its_key(setting: str, charset: object) -> None:
    words = "there is no such charset: use UTF-8|must be the name of a charset"
    with pytest.raises(ConfigError, match=words) as caught:
        resolve_serializer("string", "key.serializer", {setting: charset})
    assert caught.value.key == setting


def test_nothing_when_given_then_bytes_pass_through() -> None:
    assert resolve_serializer(None) is None


@pytest.mark.parametrize("value", ["strings", "org.apache.kafka.common.serialization.SetSerializer", 5, b"string",
                                   "no.such.module.Serializer", "", lambda topic, data: b""])
def test_serializer_when_there_is_none_then_config_error_with_the_key(value: object) -> None:
    with pytest.raises(ConfigError) as caught:
        resolve_serializer(value, "key.serializer")
    assert caught.value.key == "key.serializer"


def test_unknown_name_when_given_then_the_known_ones_are_listed() -> None:
    with pytest.raises(ConfigError, match="use one of bytes, string, short, int"):
        resolve_serializer("strings")


def test_callable_when_it_takes_three_arguments_then_it_gets_all() -> None:
    def three(topic: str, headers: tuple[Header, ...], data: Any) -> bytes:
        return f"{topic}{headers[0].key}{data}".encode()

    serializer = resolve_serializer(three)
    assert serializer is three
    assert serialized(serializer, None) == b"topichNone"


@pytest.mark.parametrize("function", [
    str.encode, lambda data: data.encode(), lambda data, codec="ascii": data.encode(codec),
    lambda *args: args[0].encode(),
])
def test_callable_when_it_takes_the_data_then_only_that_and_no_none(function: Callable[..., bytes]) -> None:
    serializer = resolve_serializer(function)
    assert serializer is not None
    assert serialized(serializer, "x") == b"x"
    assert serialized(serializer, None) is None
    assert repr(serializer) == repr(function)


def of_defaults(topic: str, headers: Any = None, data: Any = None) -> bytes:
    return f"{topic}{headers[0].key}{data}".encode()


class OfValues:
    def __call__(self, topic: str, headers: Any, value: Any = None) -> bytes:
        return of_defaults(topic, headers, value)


@pytest.mark.parametrize("function", [
    of_defaults, OfValues, OfValues(), lambda topic="", headers=None, value=None: of_defaults(topic, headers, value),
    functools.partial(lambda more, topic, headers=None, data=None: of_defaults(topic, headers, data), 1)])
def test_callable_when_arguments_of_the_three_have_defaults_then_it_gets_all(function: Any) -> None:
    """It got the data alone, as the topic, and the wrong value was sent without a word."""
    serializer = resolve_serializer(function)
    assert serialized(serializer, "x") == b"topichx"
    assert serialized(serializer, None) == b"topichNone"


@pytest.mark.parametrize("function", [
    lambda topic, data=None: b"", lambda topic, headers=None, payload=None: b"", lambda topic, *rest: b"",
    lambda topic, headers=None, data=None, schema=None: b"", lambda topic, *, headers=None, data=None: b"",
    lambda schema, data=None: b"", lambda data, headers=None, value=None: b"",
    functools.partial(of_defaults, headers=None)])
def test_callable_when_it_does_not_tell_what_it_takes_then_it_is_refused(function: Any) -> None:
    with pytest.raises(ConfigError, match=r"it takes \(.*, which does not tell whether it is to get .* write it as "
                                          r"\(topic, headers, data\) or \(data\), or give a function that calls it"):
        resolve_serializer(function)


@pytest.mark.parametrize("function", [
    lambda data, headers=None, more=None: data.encode(), lambda value, codec="ascii", data_too=1: value.encode(),
    lambda topic: topic.encode(), lambda text, *, value=None: text.encode(), lambda data, *rest: data.encode()])
def test_callable_when_only_its_first_argument_may_be_the_data_then_it_gets_that(function: Any) -> None:
    assert serialized(resolve_serializer(function), "x") == b"x"


@pytest.mark.parametrize("function", [
    lambda data, *, codec: b"", lambda topic, headers, *, data: b"",
    lambda topic, headers=None, data=None, *, codec: b"", lambda topic, headers, data, *, codec: b""])
def test_callable_when_it_needs_more_than_it_gets_then_it_is_refused(function: Any) -> None:
    """Each record failed: missing 1 required keyword-only argument."""
    with pytest.raises(ConfigError, match=r"it takes [234] arguments: a serializer takes \(topic, headers, data\) or"):
        resolve_serializer(function)


def test_callable_when_it_tells_no_signature_then_it_gets_the_data() -> None:
    class Opaque:
        __signature__ = "none"

        def __call__(self, data: str) -> bytes:
            return data.encode()

    serializer = resolve_serializer(Opaque())
    assert serializer is not None
    assert serialized(serializer, "x") == b"x"


class Color(enum.Enum):
    RED = "red"


@dataclasses.dataclass
class Order:
    number: int
    color: Color


class Model:
    """As pydantic's models are."""

    def model_dump(self, *, mode: str) -> dict[str, str]:
        return {"mode": mode}


@pytest.mark.parametrize(("data", "text"), [
    (datetime(2026, 1, 2, 3, 4, tzinfo=timezone.utc), '"2026-01-02T03:04:00+00:00"'),
    (date(2026, 1, 2), '"2026-01-02"'),
    (Decimal("1.10"), '"1.10"'), (UUID(int=1), '"00000000-0000-0000-0000-000000000001"'),
    (Order(1, Color.RED), '{"number":1,"color":"red"}'), (Model(), '{"mode":"json"}'), ({3, 1, 2}, "[1,2,3]"),
    ([{"a": Order(2, Color.RED)}], '[{"a":{"number":2,"color":"red"}}]')])
def test_json_when_it_is_of_a_python_program_then_it_is_written(data: object, text: str) -> None:
    assert serialized(JsonSerializer(), data) == text.encode()


def test_json_when_there_is_a_default_then_it_is_asked_last_and_keys_may_be_sorted() -> None:
    serializer = JsonSerializer(default=lambda value: [value.real, value.imag], sort_keys=True)
    assert serialized(serializer, {"b": 1j, "a": Decimal(1)}) == b'{"a":"1","b":[0.0,1.0]}'


@pytest.mark.parametrize(("data", "kind", "words"), [
    ({"items": [{}, {"price": 1j}]}, TypeError, r"\$\.items\[1\]\.price is complex 1j"),
    ({"a b": {"c": float("nan")}}, ValueError, r"\$\['a b'\]\.c is float nan"),
    ({"order": Order(1, 1j)}, TypeError, r"\$\.order\.number|\$\.order\.color is complex 1j"),  # type: ignore[arg-type]
    ({"text": "\ud800"}, ValueError, r"\$\.text is str '\\ud800'"),
    ({"a": {(1, 2): 3}}, TypeError, r"\$\.a is dict")])
def test_json_when_a_part_cannot_be_written_then_the_error_names_its_place(
        data: object, kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words):
        serialized(JsonSerializer(), data)


def test_json_when_it_contains_itself_then_it_is_refused() -> None:
    data: dict[str, object] = {}
    data["self"] = data
    with pytest.raises(ValueError, match="Circular"):
        serialized(JsonSerializer(), data)


def test_json_when_read_back_then_the_same() -> None:
    data = {"nested": [{"a": 1.5}, True, "\u4e2d"]}
    assert json.loads(serialized(JsonSerializer(), data) or b"") == data


class _Configurable:
    """A serializer that takes settings."""

    def configure(self, props: dict[str, object], is_key: bool) -> None:
        if props.get("tenant") == "bad":
            raise ValueError("no such tenant")
        self.given = props, is_key

    def __call__(self, topic: str, headers: object, data: object) -> bytes:
        return b""


def test_class_when_it_has_configure_then_it_gets_the_properties_and_instances_do_not() -> None:
    for value in (_Configurable, f"{__name__}:_Configurable"):
        made = resolve_serializer(value, "key.serializer", {"tenant": "t"})
        assert made.given == ({"tenant": "t"}, True)
    assert resolve_serializer(_Configurable, "value.serializer").given == ({}, False)
    assert not hasattr(resolve_serializer(_Configurable(), "key.serializer", {"tenant": "t"}), "given")
    with pytest.raises(ConfigError, match=r"configure\(\) failed \(ValueError: no such tenant\)"):
        resolve_serializer(_Configurable, "key.serializer", {"tenant": "bad"})


class _Opened(_Configurable):
    """Holds something from its constructor on, as a client of a registry does."""

    made: list[_Opened] = []  # noqa: RUF012 - what the test finds again

    def __init__(self) -> None:
        self.close_count = 0
        self.made.append(self)

    def close(self) -> None:
        self.close_count += 1
        raise OSError("the registry is gone")


class _OpenedForTwo(_Opened):
    def __call__(self, one: object, other: object) -> bytes:  # type: ignore[override]  # that is what is wrong
        return b""


@pytest.mark.parametrize("kind", [_Opened, _OpenedForTwo])
def test_class_when_what_is_made_of_it_cannot_be_used_then_it_is_closed(
        kind: type[_Opened], caplog: pytest.LogCaptureFixture) -> None:
    """What it had opened stayed, and each attempt of the application opened more."""
    _Opened.made.clear()
    with pytest.raises(ConfigError, match="no such tenant" if kind is _Opened else "takes 2 arguments"):
        resolve_serializer(kind, "key.serializer", {"tenant": "bad" if kind is _Opened else "good"})
    assert [made.close_count for made in _Opened.made] == [1]
    assert "the registry is gone" in caplog.text
    given = _OpenedForTwo()
    with pytest.raises(ConfigError, match="takes 2 arguments"):
        resolve_serializer(given, "key.serializer")
    assert given.close_count == 0, "it is its maker's"


async def _never_awaited(_data: object) -> bytes:
    return b""


class _NeverAwaited:
    async def __call__(self, topic: str, headers: list[Header], data: object) -> bytes:
        return b""


async def _yielding(_data: object) -> AsyncIterator[bytes]:
    yield b""


@pytest.mark.parametrize("given", [
    _never_awaited, _NeverAwaited, _NeverAwaited(), _NeverAwaited().__call__, _yielding, mock.AsyncMock(),
    functools.partial(_never_awaited), functools.partial(_NeverAwaited(), "t"),
    functools.partial(functools.partial(_NeverAwaited(), "t"), []),
])
def test_serializer_when_it_is_a_coroutine_function_then_it_is_refused(given: object) -> None:
    """Each record failed, with a coroutine that nobody awaited; partials of objects and generators went on to do so."""
    with pytest.raises(ConfigError, match="called, not awaited"):
        resolve_serializer(given)
