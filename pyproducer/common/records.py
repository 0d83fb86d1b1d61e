"""A record as the application gives it, and what the broker told of it.

Road:    [application] -> send() ... completion -> [future, callback]
Thread:  immutable values; any thread.
Source:  Java ProducerRecord, RecordMetadata, Header (4.1).
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Union

from pyproducer.hotpath import RecordParts

if TYPE_CHECKING:
    from datetime import datetime

MAX_PARTITION = 2**31 - 1
# Epoch seconds from 2001 to 2286; as ms they are in the first months of 1970.
LEAST_SECONDS, LEAST_MS = 10**9, 10**10


class Header(NamedTuple):
    """One header of a record. Keys may repeat; a value may be None."""

    key: str
    value: bytes | None


HeaderLike = Union[Header, "tuple[str, bytes | bytearray | memoryview | None]"]
HeadersLike = Union["Iterable[HeaderLike]", "Mapping[str, bytes | bytearray | memoryview | None]"]
NO_HEADERS: tuple[Header, ...] = ()
_PARTS = frozenset({"headers", "key", "partition", "timestamp", "topic", "value"})


def to_headers(headers: Iterable[Any] | Mapping[str, Any] | None,
               topic: str | None = None) -> tuple[Header, ...]:
    """Check headers, pairs or a dict, and return them as a tuple, in order.

    Args:
        headers: What was given.
        topic: Where the record goes, for messages.

    Raises:
        TypeError: A header is not a pair of str and bytes or None. Not sent.
        ValueError: A key cannot be written in UTF-8. Not sent.
    """
    if headers is None:
        return NO_HEADERS
    checked: list[Header] = []
    try:
        pairs: Iterator[Any] = iter(headers.items() if isinstance(headers, Mapping) else headers)
    except TypeError:
        raise _refusal(headers, "headers cannot be iterated") from None
    for header in pairs:
        try:
            key, value = header
        except (TypeError, ValueError):
            raise _refusal(headers, f"a header must be a pair (str, bytes or None), got {header!r}") from None
        if not isinstance(key, str):
            raise _refusal(headers, f"a header's key must be str, got {type(key).__name__}: {key!r}")
        # A subclass may have a length of its own, which compiled code does not ask for.
        key = key if type(key) is str else str.__str__(key)
        if not key.isascii():
            _ensure_utf_8(key, topic)
        if value is not None and type(value) is not bytes:
            if not isinstance(value, (bytes, bytearray, memoryview)):
                raise _refusal(headers,
                               f"the value of header {key!r} must be bytes or None, got {type(value).__name__}")
            value = plain_bytes(value)
        checked.append(Header(key, value))
    return tuple(checked)


def plain_bytes(data: bytes | bytearray | memoryview) -> bytes:
    """Return data as bytes and no subclass: one may have a length, or bytes, of its own."""
    return bytes.__getitem__(data, slice(None)) if isinstance(data, bytes) else memoryview(data).tobytes()


def _ensure_utf_8(key: str, topic: str | None) -> None:
    try:
        key.encode()
    except UnicodeEncodeError as error:
        where = "" if topic is None else f" of the record for topic {topic!r}"
        raise ValueError(f"the header key {key!r}{where} cannot be written in UTF-8, as Kafka wants it: {error.reason} "
                         f"(position {error.start})") from None


def _refusal(headers: Any, why: str) -> TypeError:
    """Return the error for headers that are none; where another form was meant, with what to write instead."""
    if isinstance(headers, (tuple, list)) and isinstance(headers[0], str):
        return TypeError(f"headers must be a list of pairs (str, bytes or None), got {headers!r}: write "
                         "[(key, value)], also for one")
    if isinstance(headers, (str, bytes, bytearray)) or not hasattr(headers, "__iter__"):
        return TypeError(f"headers must be a list of pairs (str, bytes or None), got {type(headers).__name__}: "
                         f"{headers!r}")
    return TypeError(why)


class _Signature:
    """The signature of the constructor; a subclass with another constructor has that one's."""

    def __get__(self, _record: object, kind: type[RecordParts]) -> inspect.Signature:
        if kind.__init__ is not RecordParts.__init__:
            raise AttributeError("__signature__")
        return inspect.signature(_constructor)


def _slots(kind: type[Any]) -> Iterator[str]:
    """Name the slots of a subclass, as its instances have them."""
    for base in kind.__mro__:
        names = base.__dict__.get("__slots__", ())
        for name in [names] if isinstance(names, str) else names:
            is_private = name.startswith("__") and not name.endswith("__")
            if name not in _PARTS and name not in ("__dict__", "__weakref__"):
                yield f"_{base.__name__.lstrip('_')}{name}" if is_private else name


def _constructor(topic: str, value: Any = None, key: Any = None, *, partition: int | None = None,
                 timestamp: int | datetime | None = None, headers: HeadersLike | None = None) -> None:
    """What ProducerRecord is called with; for its signature."""


class ProducerRecord(RecordParts):
    """A record to send: topic and value, and what else is known of it.

    What was checked when it was made cannot be changed after, nor overridden by a subclass; an interceptor makes
    another record.

    Args:
        topic: Name of the topic, not empty.
        value: The value before serialization; None is a tombstone.
        key: The key before serialization; None when the record has none.
        partition: Index of the partition, or None to let the partitioner choose.
        timestamp: Creation time in epoch ms or as a datetime, or None for the time of send().
        headers: Pairs of str and bytes or None, in order, where keys may repeat; or a dict.

    Raises:
        TypeError: A part has the wrong type. Not sent.
        ValueError: A part is out of range. Not sent.

    Source: Java ProducerRecord (4.1). Differs from Java: the headers cannot be changed either.
    """

    __slots__ = ()
    # The constructor is inherited, compiled where that is possible, and compiled code has no signature to ask for.
    __signature__: _Signature = _Signature()

    if TYPE_CHECKING:  # of what is inherited, in words that it does not know
        headers: tuple[Header, ...]

        def __init__(self, topic: str, value: Any = None, key: Any = None, *, partition: int | None = None,
                     timestamp: int | datetime | None = None, headers: HeadersLike | None = None) -> None: ...

    def __init_subclass__(cls, **named: Any) -> None:
        super().__init_subclass__(**named)
        for name in sorted(_PARTS):
            if getattr(cls, name) is not getattr(RecordParts, name):
                raise TypeError(f"{cls.__name__} overrides {name} of ProducerRecord, which compiled code would not "
                                "look at: give it to the constructor")

    @staticmethod
    def _checked(topic: str, partition: int | None, timestamp: int | datetime | None,
                headers: HeadersLike | None) -> tuple[str, int | None, int | None, tuple[Header, ...]]:
        """Return parts as they are kept, or raise; the constructor's."""
        topic = to_topic(topic)
        if partition is not None:
            partition = ensure_partition(partition)
        if timestamp is not None:
            timestamp = to_timestamp(timestamp)
        return topic, partition, timestamp, to_headers(headers, topic)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _PARTS:
            raise AttributeError(f"{name} of a ProducerRecord cannot be changed: make another record with "
                                 f"{name}={value!r}")
        object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        if name in _PARTS:
            raise AttributeError(f"{name} of a ProducerRecord cannot be deleted: make another record without it")
        object.__delattr__(self, name)

    def __getstate__(self) -> tuple[dict[str, Any], tuple[Any, ...]]:
        """Return what pickle and copy keep: the attributes of a subclass, and ours."""
        own = dict(getattr(self, "__dict__", {}))
        own.update((name, getattr(self, name)) for name in _slots(type(self)) if hasattr(self, name))
        return own, self._parts()

    def __reduce_ex__(self, protocol: Any) -> Any:
        # The protocols before 2 know no compiled base class, and would call its constructor with the record.
        return super().__reduce_ex__(max(protocol, 2))

    def __setstate__(self, state: tuple[dict[str, Any], tuple[Any, ...]]) -> None:
        own, (topic, partition, timestamp, key, value, headers) = state
        RecordParts.__init__(self, topic, value, key, partition=partition, timestamp=timestamp, headers=headers)
        for name, attribute in own.items():
            object.__setattr__(self, name, attribute)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ProducerRecord):
            return NotImplemented
        return self._parts() == other._parts()

    def __hash__(self) -> int:
        return hash(self._parts())

    def __repr__(self) -> str:
        return (f"ProducerRecord(topic={self.topic!r}, partition={self.partition}, timestamp={self.timestamp}, "
                f"key={self.key!r}, value={self.value!r}, headers={self.headers!r})")

    def _parts(self) -> tuple[Any, ...]:
        return (self.topic, self.partition, self.timestamp, self.key, self.value, self.headers)


def ensure_made(record: ProducerRecord) -> None:
    """Refuse a record that has nothing in it.

    Raises:
        TypeError: Its constructor did not run. Not sent.
    """
    if getattr(record, "topic", None) is None:
        raise TypeError(f"this {type(record).__name__} was never made: its __init__ did not run, or did not call that "
                        "of ProducerRecord")


def to_topic(topic: str) -> str:
    """Check a topic's name as far as it costs nothing, and return it as a plain str.

    A subclass of str (an Enum of names) may have a str() and a hash of its own; compiled code takes str alone.

    Raises:
        TypeError: It is not a str. Not sent.
        ValueError: It is empty. Not sent.
    """
    if not isinstance(topic, str):
        raise TypeError(f"topic must be str, got {type(topic).__name__}: {topic!r}")
    if not topic:
        raise ValueError("topic must not be empty")
    return topic if type(topic) is str else str.__str__(topic)


def ensure_callable(callback: Any, name: str) -> None:
    """Check a callback when it is given: called later, it would only fail in a log line.

    Raises:
        TypeError: It cannot be called.
    """
    if not callable(callback):
        raise TypeError(f"{name} must be callable, got {type(callback).__name__}: {callback!r}")


def ensure_partition(partition: int) -> int:
    """Check an explicit partition, and return it as a plain int.

    Raises:
        TypeError: It is not an int. Not sent.
        ValueError: It is negative or above 2147483647. Not sent.
    """
    index = _plain_int(partition)
    if index is None:
        raise TypeError(f"partition must be int or None, got {type(partition).__name__}: {partition!r}")
    if not 0 <= index <= MAX_PARTITION:
        raise ValueError(f"partition {partition} is out of range: it must be from 0 to {MAX_PARTITION}, "
                         "or None to let the partitioner choose")
    return index


def _plain_int(number: Any) -> int | None:
    """Return a whole number of any kind, NumPy's, too, as a plain int; None of what is none, and of a bool.

    A subclass of int (an Enum) may have a str() of its own.
    """
    if isinstance(number, bool):
        return None
    try:
        return operator.index(number)
    except TypeError:
        return None


def to_timestamp(timestamp: int | datetime) -> int:
    """Check an explicit timestamp, epoch ms or a datetime, and return it in epoch ms.

    A datetime without a zone is in local time, as everywhere in Python.

    Raises:
        TypeError: It is neither. Not sent.
        ValueError: It is negative, does not fit 63 bits, or must be in seconds. Not sent.
    """
    whole = _plain_int(timestamp)
    if whole is not None:
        epoch_ms = whole
        if LEAST_SECONDS <= epoch_ms < LEAST_MS:
            raise ValueError(f"timestamp {epoch_ms} is in seconds, it seems: as epoch milliseconds it is in 1970, and "
                             f"retention would delete the record. Give {epoch_ms * 1000}, or a datetime")
    else:
        try:
            epoch_ms = _floor_ms(timestamp)
        except AttributeError:
            raise TypeError("timestamp must be int (epoch ms), a datetime or None, got "
                            f"{type(timestamp).__name__}: {timestamp!r}") from None
        except (OverflowError, ValueError, OSError):  # NaT of pandas; local times that no time zone has
            epoch_ms = -1
    if not 0 <= epoch_ms < 2**63:
        raise ValueError(f"timestamp {timestamp} is out of range: it is epoch milliseconds, from 0 to 2**63 - 1, "
                         "or None for the time of send()")
    return epoch_ms


def given_time(epoch_ms: int) -> int | datetime:
    """Return a timestamp that was checked, so that it is not taken for seconds: one in 1970 was a datetime."""
    if not LEAST_SECONDS <= epoch_ms < LEAST_MS:
        return epoch_ms
    from datetime import datetime, timedelta, timezone  # here, as below

    return datetime.fromtimestamp(0, timezone.utc) + timedelta(milliseconds=epoch_ms)


def _floor_ms(moment: Any) -> int:
    """Return the epoch ms that a datetime, Python's or another library's, lies in; as Java's Instant.toEpochMilli."""
    from datetime import datetime, timedelta, timezone  # who has one has imported it

    if type(moment) is datetime:  # without floating point, which rounds
        return (moment.astimezone(timezone.utc) - datetime.fromtimestamp(0, timezone.utc)) // timedelta(milliseconds=1)
    return int(round(moment.timestamp() * 1_000_000) // 1000)


class RecordMetadata(NamedTuple):
    """Where a record was stored.

    Shape: offset is -1 when acks=0 or when the broker recognised a duplicate whose offset it no longer knows;
    timestamp is epoch ms (the broker's where the topic uses LogAppendTime); sizes are bytes, -1 for None.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int
    serialized_key_size: int
    serialized_value_size: int

    @property
    def has_offset(self) -> bool:
        """Whether the broker told the offset."""
        return self.offset >= 0

    @property
    def has_timestamp(self) -> bool:
        """Whether there is a timestamp: not of a record that failed, of which interceptors are told."""
        return self.timestamp >= 0
