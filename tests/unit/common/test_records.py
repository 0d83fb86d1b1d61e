"""Records are checked where they are made."""

from __future__ import annotations

import copy
import enum
import inspect
import math
import pickle
import weakref
from datetime import datetime, timedelta, timezone
from types import MappingProxyType
from typing import Any

import pytest

from pyproducer.common.records import Header, ProducerRecord, RecordMetadata, to_headers


def test_record_keeps_its_parts_and_normalises_headers():
    record = ProducerRecord("t", b"v", b"k", partition=3, timestamp=5, headers=[("a", b"1"), ("a", None)])
    assert record.headers == (Header("a", b"1"), Header("a", None))
    assert record == ProducerRecord("t", b"v", b"k", partition=3, timestamp=5, headers=[("a", b"1"), ("a", None)])
    assert len({record, ProducerRecord("t", b"v", b"k", partition=3, timestamp=5,
                                       headers=(("a", b"1"), ("a", None)))}) == 1
    assert record != ProducerRecord("t", b"v")


@pytest.mark.parametrize(("arguments", "error", "words"), [
    ({"topic": 5}, TypeError, "topic must be str, got int"),
    ({"topic": ""}, ValueError, "topic must not be empty"),
    ({"partition": -1}, ValueError, "partition -1 is out of range"),
    ({"partition": True}, TypeError, "partition must be int"),
    ({"partition": 2**31}, ValueError, "2147483647"),
    ({"timestamp": -5}, ValueError, "timestamp -5 is out of range"),
    ({"timestamp": 1.5}, TypeError, "timestamp must be int"),
    ({"headers": [("k",)]}, TypeError, "a header must be a pair"),
    ({"headers": [(b"k", b"v")]}, TypeError, "key must be str, got bytes"),
    ({"headers": [("k", "v")]}, TypeError, "header 'k' must be bytes or None, got str"),
    ({"headers": [5]}, TypeError, "a header must be a pair"),
    ({"headers": {"ab": "1"}}, TypeError, "header 'ab' must be bytes or None, got str"),
    ({"timestamp": 1_700_000_000}, ValueError, "is in seconds, it seems.*Give 1700000000000"),
    ({"timestamp": datetime(1960, 1, 1, tzinfo=timezone.utc)}, ValueError, "out of range"),
    ({"headers": ("key", b"1")}, TypeError, r"got \('key', b'1'\): write \[\(key, value\)\], also for one"),
    ({"headers": "ab"}, TypeError, "must be a list of pairs .* got str: 'ab'"),
    ({"headers": b"ab"}, TypeError, "must be a list of pairs .* got bytes"),
    ({"headers": 5}, TypeError, "must be a list of pairs .* got int: 5"),
    ({"timestamp": True}, TypeError, "timestamp must be int"), ({"timestamp": 2**63}, ValueError, "out of range"),
    ({"timestamp": "1"}, TypeError, "timestamp must be int"), ({"partition": 1.0}, TypeError, "partition must be int"),
])
def test_record_when_a_part_is_wrong_names_it(arguments, error, words):
    with pytest.raises(error, match=words):
        ProducerRecord(**{"topic": "t", "value": b"v", **arguments})


RECORD = ProducerRecord("t", b"v", b"k", partition=3, timestamp=5, headers=[("a", b"1")])


class Marked(ProducerRecord):
    """A record with something of its own, as interceptors use it."""

    def __init__(self, topic: str, mark: str) -> None:
        super().__init__(topic, b"v", headers=[("a", b"1")])
        self.mark = mark


@pytest.mark.parametrize("name", ["topic", "value", "key", "partition", "timestamp", "headers"])
def test_record_when_a_checked_part_is_changed_then_refused_and_nothing_happened(name):
    """A timestamp of 1.5, written after the check, poisoned its partition on one twin and was cut on the other."""
    record = copy.copy(RECORD)
    with pytest.raises(AttributeError, match=f"{name} of a ProducerRecord cannot be changed: .*{name}=1.5"):
        setattr(record, name, 1.5)
    with pytest.raises(AttributeError, match=f"{name} of a ProducerRecord cannot be deleted"):
        delattr(record, name)
    assert record == RECORD


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, *(
    lambda record, protocol=protocol: pickle.loads(pickle.dumps(record, protocol))
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1))], ids=["copy", "deepcopy", 0, 1, 2, 3, 4, 5])
def test_record_when_copied_or_pickled_then_it_is_equal_and_as_firm(again):
    other = again(RECORD)
    assert other == RECORD
    assert hash(other) == hash(RECORD)
    assert repr(other) == repr(RECORD)
    with pytest.raises(AttributeError):
        other.timestamp = 6
    marked = again(Marked("t", "mine"))
    assert (type(marked), marked.topic, marked.headers, marked.mark) == (Marked, "t", RECORD.headers, "mine")
    marked.mark = "other"
    with pytest.raises(AttributeError):
        marked.topic = "u"


class Slotted(ProducerRecord):
    """A record with slots as they may be written: private, and for weak references."""

    __slots__ = ("__hidden", "__weakref__", "mark")

    def hide(self, what):
        self.__hidden = what

    def hidden(self):
        return self.__hidden


class OneSlot(ProducerRecord):
    """A record whose slots are one name."""

    __slots__ = "mark"


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda record: pickle.loads(pickle.dumps(record))])
def test_record_when_a_subclass_has_slots_then_a_copy_has_what_is_in_them(again):
    """They were looked up by the names in the source: a private one was lost, `__weakref__` could not be written."""
    record = Slotted("t", b"v")
    record.hide(1)
    record.mark = 2
    seen = weakref.ref(record)
    other = again(record)
    assert (other, other.hidden(), other.mark, seen()) == (record, 1, 2, record)
    short = OneSlot("t", b"v")
    short.mark = 3
    assert again(short).mark == 3


def test_record_when_a_subclass_has_methods_of_any_name_then_they_are_its_own():
    """The constructor called public methods of its own, `checked` and `fill`, and a subclass's took their place."""
    class Named(ProducerRecord):
        def checked(self):
            return "mine"

        def fill(self, glass):
            return glass

    record = Named("t", b"v", headers=[("a", b"1")])
    assert (record.topic, record.headers, record.checked(), record.fill(7)) == ("t", RECORD.headers, "mine", 7)
    assert {name for name in dir(ProducerRecord) if not name.startswith("_")} == {
        "topic", "value", "key", "partition", "timestamp", "headers"}


@pytest.mark.parametrize("headers", [5, (5,), ((),), (("a",),), (("a", "text"),)])
def test_record_when_its_state_is_no_records_then_it_is_refused(headers):
    """Compiled code read them as pairs: the process died (SIGSEGV) when the record was sent."""
    with pytest.raises(TypeError):
        copy.copy(RECORD).__setstate__(({}, ("t", None, None, b"k", b"v", headers)))


class Level(enum.IntEnum):
    """An int that is none exactly."""

    TWO = 2


class Odd(str):
    """A str whose length is another."""

    __slots__ = ()

    def __len__(self):
        return 3


def test_record_when_its_parts_are_of_subclasses_then_they_are_kept_plain():
    """The twins told different partitions (2 and Level.TWO) and sizes."""
    record = ProducerRecord("t", partition=Level.TWO, timestamp=Level.TWO, headers=[(Odd("k"), b"1")])
    assert [type(part) for part in (record.partition, record.timestamp, record.headers[0].key)] == [int, int, str]


def test_record_when_a_subclass_has_a_constructor_then_that_ones_signature_is_told():
    class Plain(ProducerRecord):
        pass

    assert list(inspect.signature(Marked).parameters) == ["topic", "mark"]
    assert inspect.signature(Plain) == inspect.signature(ProducerRecord)


def test_record_when_headers_are_none_then_a_type_checker_says_so_before() -> None:
    """The constructor was inherited with `headers: Any`; an ignore that is not needed is an error of mypy."""
    with pytest.raises(TypeError):
        ProducerRecord("t", headers=5)  # type: ignore[arg-type]  # the point
    key: str = RECORD.headers[0].key
    assert key == "a"


def test_record_when_asked_for_its_signature_then_it_tells_its_parts():
    assert list(inspect.signature(ProducerRecord).parameters) == [
        "topic", "value", "key", "partition", "timestamp", "headers"]


def test_metadata_tells_whether_the_offset_is_known():
    assert RecordMetadata("t", 0, 5, 1, 2, 3).has_offset
    assert not RecordMetadata("t", 0, -1, 1, 2, 3).has_offset


def test_metadata_tells_whether_there_is_a_timestamp():
    assert RecordMetadata("t", 0, -1, 0, 2, 3).has_timestamp
    assert not RecordMetadata("t", 0, -1, -1, -1, -1).has_timestamp


@pytest.mark.parametrize("headers", [{"ab": b"1", "c": None}, MappingProxyType({"ab": b"1", "c": None})])
def test_headers_when_they_are_a_dict_then_its_items_are_kept_in_order(headers: Any) -> None:
    assert ProducerRecord("t", headers=headers).headers == (Header("ab", b"1"), Header("c", None))


class Moment:
    """What another library has for a datetime; NaT of pandas is not a number."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def timestamp(self) -> float:
        return self._seconds


@pytest.mark.parametrize("given", [
    datetime.min, datetime.max.replace(tzinfo=timezone(timedelta(hours=-1))), Moment(math.nan), Moment(math.inf),
    Moment(-math.inf)])
def test_timestamp_when_no_time_is_like_that_then_the_error_says_so(given: Any) -> None:
    with pytest.raises(ValueError, match=r"^timestamp .* is out of range: it is epoch milliseconds"):
        ProducerRecord("t", timestamp=given)


@pytest.mark.parametrize(("given", "expected"), [
    (datetime(2026, 11, 22, 12, 0, 0, 123_456, tzinfo=timezone.utc), 1_795_348_800_123),
    (datetime(2026, 11, 22, 12, 0, 0, 123_999, tzinfo=timezone.utc), 1_795_348_800_123),  # not rounded, as in Java
    (datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=timezone.utc), 253_402_300_799_999),
    (Moment(1_795_348_800.001), 1_795_348_800_001), (Moment(1_795_348_800.001999), 1_795_348_800_001),
    (datetime(1970, 2, 1, tzinfo=timezone.utc), 2_678_400_000), (0, 0), (999_999_999, 999_999_999),
    (10**10, 10**10)])
def test_timestamp_when_it_is_a_datetime_or_no_seconds_then_it_is_epoch_ms(given: Any, expected: int) -> None:
    assert ProducerRecord("t", timestamp=given).timestamp == expected


class Short(bytes):
    """Bytes whose length, and bytes, are others."""

    def __len__(self):
        return 1

    def __bytes__(self):
        return b"other"

    def __getitem__(self, _index):
        return b"item"


class Pair(tuple):
    """A header whose items are others when it is iterated."""

    __slots__ = ()

    def __iter__(self):
        return iter(("other", b"1"))


def test_headers_when_their_values_are_of_subclasses_then_they_are_kept_plain():
    """A length of its own made the record one that no broker reads, and with it failed all of its batch."""
    values = [header.value for header in to_headers([("a", Short(b"hello")), ("b", bytearray(b"x")), ("c", b"y")])]
    assert ([type(value) for value in values], values) == ([bytes] * 3, [b"hello", b"x", b"y"])


def test_headers_when_a_keys_class_says_it_is_ascii_then_its_text_is_looked_at():
    class Ascii(str):
        __slots__ = ()

        def isascii(self):
            return True

    with pytest.raises(ValueError, match="cannot be written in UTF-8"):
        to_headers([(Ascii("\ud800"), b"1")])


def test_headers_when_one_is_a_tuple_that_iterates_as_another_then_that_is_what_counts():
    assert to_headers([Pair(("a", b"0"))]) == (("other", b"1"),)


@pytest.mark.parametrize("headers", [0, False, 0.0])
def test_headers_when_they_are_nothing_but_false_then_refused(headers):
    with pytest.raises(TypeError, match="headers must be a list of pairs"):
        ProducerRecord("t", b"v", headers=headers)


class Undecided(list):
    """As NumPy's arrays: it has no truth."""

    def __bool__(self):
        raise ValueError("the truth value is ambiguous")


def test_headers_when_they_have_no_truth_then_they_are_iterated():
    assert to_headers(Undecided()) == ()
    assert to_headers(Undecided([("a", b"1")])) == RECORD.headers


@pytest.mark.parametrize("of", [("ProducerRecord",), ("Mixin", "ProducerRecord")])
def test_record_when_a_subclass_overrides_a_part_then_the_class_is_refused(of):
    """The compiled text did not look at it, and sent what the constructor was given."""
    class Mixin:
        value = property(lambda _record: b"other")

    bases = tuple({"Mixin": Mixin, "ProducerRecord": ProducerRecord}[name] for name in of)
    own = {} if Mixin in bases else {"value": Mixin.value}
    with pytest.raises(TypeError, match="Own overrides value of ProducerRecord"):
        type("Own", bases, own)
