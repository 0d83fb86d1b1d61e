"""A record as the application gives it, and what the broker told of it.

Road:    [application] -> send() ... completion -> [future, callback]
Thread:  immutable values; any thread.
Source:  Java ProducerRecord, RecordMetadata, Header (4.1).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple, Union

MAX_PARTITION = 2**31 - 1


class Header(NamedTuple):
    """One header of a record. Keys may repeat; a value may be None."""

    key: str
    value: bytes | None


HeaderLike = Union[Header, "tuple[str, bytes | None]"]
NO_HEADERS: tuple[Header, ...] = ()


def to_headers(headers: Iterable[Any] | None) -> tuple[Header, ...]:
    """Check headers and return them as a tuple, in order.

    Raises:
        TypeError: A header is not a pair of str and bytes or None. Not sent.
    """
    if not headers:
        return NO_HEADERS
    checked: list[Header] = []
    for header in headers:
        try:
            key, value = header
        except (TypeError, ValueError) as cause:
            raise TypeError(f"a header must be a pair (str, bytes or None), got {header!r}") from cause
        if not isinstance(key, str):
            raise TypeError(f"a header's key must be str, got {type(key).__name__}: {key!r}")
        if isinstance(value, (bytearray, memoryview)):
            value = bytes(value)
        elif value is not None and not isinstance(value, bytes):
            raise TypeError(f"the value of header {key!r} must be bytes or None, got {type(value).__name__}")
        checked.append(Header(key, value))
    return tuple(checked)


class ProducerRecord:
    """A record to send: topic and value, and what else is known of it.

    Args:
        topic: Name of the topic, not empty.
        value: The value before serialization; None is a tombstone.
        key: The key before serialization; None when the record has none.
        partition: Index of the partition, or None to let the partitioner choose.
        timestamp: Creation time in epoch ms, or None for the time of send().
        headers: Pairs of str and bytes or None, in order; keys may repeat.

    Raises:
        TypeError: A part has the wrong type. Not sent.
        ValueError: A part is out of range. Not sent.

    Source: Java ProducerRecord (4.1).
    """

    __slots__ = ("headers", "key", "partition", "timestamp", "topic", "value")

    def __init__(self, topic: str, value: Any = None, key: Any = None, *, partition: int | None = None,
                 timestamp: int | None = None, headers: Iterable[HeaderLike] | None = None) -> None:
        self.topic = to_topic(topic)
        if partition is not None:
            ensure_partition(partition)
        if timestamp is not None:
            ensure_timestamp(timestamp)
        self.value = value
        self.key = key
        self.partition = partition
        self.timestamp = timestamp
        self.headers: tuple[Header, ...] = to_headers(headers)

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


def ensure_partition(partition: int) -> None:
    """Check an explicit partition.

    Raises:
        TypeError: It is not an int. Not sent.
        ValueError: It is negative or above 2147483647. Not sent.
    """
    if not isinstance(partition, int) or isinstance(partition, bool):
        raise TypeError(f"partition must be int or None, got {type(partition).__name__}: {partition!r}")
    if not 0 <= partition <= MAX_PARTITION:
        raise ValueError(f"partition {partition} is out of range: it must be from 0 to {MAX_PARTITION}, "
                         "or None to let the partitioner choose")


def ensure_timestamp(timestamp: int) -> None:
    """Check an explicit timestamp in epoch ms.

    Raises:
        TypeError: It is not an int. Not sent.
        ValueError: It is negative or does not fit 63 bits. Not sent.
    """
    if not isinstance(timestamp, int) or isinstance(timestamp, bool):
        raise TypeError(f"timestamp must be int (epoch ms) or None, got {type(timestamp).__name__}: {timestamp!r}")
    if not 0 <= timestamp < 2**63:
        raise ValueError(f"timestamp {timestamp} is out of range: it is epoch milliseconds, from 0 to 2**63 - 1, "
                         "or None for the time of send()")


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
