"""Which column of a row is what, and what a column may hold.

    column     type in the DataFrame                      null
    value      string | binary, required                  a tombstone
    key        string | binary                            no key
    topic      string, unless the sink's topic is set     refused, naming the option
    partition  int                                        the partitioner chooses
    headers    array<struct<key:string,value:binary>>     none; a header's value may be null, its key not
    timestamp  timestamp | bigint, epoch ms; of the name  the time of the call
               that pyproducer.timestamp.column gives

Names are case-sensitive; other columns are ignored.

Road:    Spark row -> [columns] -> rows
Thread:  immutable values; any.
Source:  Spark's KafkaWriter.validateQuery and KafkaRowWriter (4.0), with their sentences.
         Where there is a schema, schema.py checks it first. A row in Python carries none, so here types are checked
         value by value: a bigint partition passes while it fits an int, and a column of nulls may be of any type.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from pyproducer.common.records import MAX_PARTITION, NO_HEADERS, Header, given_time
from pyproducer.spark.errors import ColumnError

COLUMNS = ("key", "value", "topic", "partition", "headers")
TIMESTAMP_COLUMN = "pyproducer.timestamp.column"
HEADERS_TYPE = "array<struct<key:string,value:binary>>"
_HEADER_FIELDS = ["key", "value"]
_NULL_HEADER = "Null header keys are not permitted"

logger: logging.Logger = logging.getLogger(__name__)

# datetime before date and bool before int: the first match counts, and each is a subclass of the other.
_SPARK_TYPES: tuple[tuple[type, str], ...] = (
    (bool, "boolean"), (int, "int"), (float, "double"), (str, "string"), (bytes, "binary"), (bytearray, "binary"),
    (Decimal, "decimal"), (datetime, "timestamp"), (date, "date"), (dict, "map"), (list, "array"), (tuple, "struct"))


@dataclass(frozen=True)
class ColumnContract:
    """The position of each column in a row; None for a column that is not there.

    `fixed_topic` is the sink's own topic, which wins over the column. Where it is None there is a column `topic`;
    where it is not, `topic` is not looked at. `timestamp_name` is the column of timestamps, which has no name of its
    own: one called `timestamp` is what reading a topic gives, and Spark's sink ignores it.
    """

    value: int
    key: int | None = None
    topic: int = -1
    partition: int | None = None
    headers: int | None = None
    fixed_topic: str | None = None
    timestamp: int | None = None
    timestamp_name: str | None = None

    @classmethod
    def of(cls, names: Sequence[str], fixed_topic: str | None, timestamp_name: str | None = None) -> ColumnContract:
        """Find the columns of the contract among the names of a row.

        Args:
            names: The row's `__fields__`, in order.
            fixed_topic: The topic option of the sink, or None.
            timestamp_name: Its column of timestamps, or None.

        Raises:
            ColumnError: No `value`, no topic at all, no such column of timestamps, or a column that is there twice. Not
                sent.
        """
        for name in COLUMNS if timestamp_name is None else (*COLUMNS, timestamp_name):
            if names.count(name) > 1:
                raise ColumnError(f"Reference '{name}' is ambiguous: the DataFrame has {names.count(name)} columns "
                                  "of that name")
        if "value" not in names:
            raise ColumnError("Required attribute 'value' not found" + _looks_like("value", names))
        if fixed_topic is None and "topic" not in names:
            raise ColumnError("topic option required when no 'topic' attribute is present. "
                              "Use the topic option for setting a topic." + _looks_like("topic", names))
        if timestamp_name is not None and timestamp_name not in names:
            raise ColumnError(f"{TIMESTAMP_COLUMN} is {timestamp_name!r}, and there is no such column"
                              f"{_looks_like(timestamp_name, names)}")
        for name in ("key", "partition", "headers"):
            if name not in names and _looks_like(name, names):
                logger.warning("the DataFrame has no column %r%s; it is ignored", name, _looks_like(name, names))
        index = {name: names.index(name) for name in COLUMNS if name in names}
        return cls(value=index["value"], key=index.get("key"),
                   topic=index.get("topic", -1),
                   partition=index.get("partition"), headers=index.get("headers"), fixed_topic=fixed_topic,
                   timestamp=None if timestamp_name is None else names.index(timestamp_name),
                   timestamp_name=timestamp_name)

    def taken(self) -> list[str]:
        """Return the names of the columns that are sent or looked at, in no particular order."""
        there = {"value": self.value, "key": self.key, "partition": self.partition, "headers": self.headers,
                 "topic": self.topic if self.fixed_topic is None else None, self.timestamp_name: self.timestamp}
        return [name for name, index in there.items() if name is not None and index is not None]


def column_bytes(name: str, value: Any) -> bytes | None:
    """Return a string or binary column as bytes; Spark 4.0 gives bytearray for binary, 4.1 and later bytes.

    Raises:
        ColumnError: The value is of another type. Not sent.
    """
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytearray):
        return bytes(value)
    raise _unsupported(name, value, "string or binary")


def column_topic(value: Any) -> str:
    """Return the topic of a row.

    Raises:
        ColumnError: It is null, empty or not a string. Not sent.
    """
    if value is None:
        raise ColumnError("null topic present in the data. Use the topic option for setting a default topic.")
    if not isinstance(value, str):
        raise _unsupported("topic", value, "string")
    if not value:
        raise ColumnError("empty topic present in the data. Use the topic option for setting a default topic.")
    return value


def column_partition(value: Any) -> int | None:
    """Return the partition of a row; None lets the partitioner choose.

    Raises:
        ColumnError: It is not an int, or out of an int's range. Not sent.
    """
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool):
        raise _unsupported("partition", value, "int")
    if not 0 <= value <= MAX_PARTITION:
        raise ColumnError(f"partition {value} is out of range: it must be from 0 to {MAX_PARTITION}, or null")
    return value


def column_timestamp(name: str, value: Any) -> int | datetime | None:
    """Return the timestamp of a row in epoch ms; None lets the producer look at its clock.

    Of an instant in the first months of 1970 it is a datetime: the producer takes such a number for seconds, as it
    should where it is the user's own.

    Args:
        name: The column's.
        value: A datetime, as PySpark makes it of a timestamp: in the time zone of the process where it has none; or an
            int, in epoch ms.

    Raises:
        ColumnError: It is neither, or before 1970. Not sent.
    """
    if value is None:
        return None
    is_instant = isinstance(value, datetime)
    if is_instant:
        milliseconds = int(value.replace(microsecond=0).timestamp()) * 1000 + value.microsecond // 1000
    elif isinstance(value, int) and not isinstance(value, bool):
        milliseconds = value
    else:
        raise _unsupported(name, value, "timestamp or bigint")
    if milliseconds < 0:
        raise ColumnError(f"{name} is {value}: a record's timestamp is not before 1970; or null for now")
    return given_time(milliseconds) if is_instant else milliseconds


def column_headers(value: Any) -> tuple[Header, ...]:
    """Return the headers of a row, in order.

    Raises:
        ColumnError: It is not an array of (key, value), or a header's key is null. Not sent.
    """
    if not value:
        if value is None or isinstance(value, (list, tuple)):
            return NO_HEADERS
        raise _unsupported("headers", value, HEADERS_TYPE)
    if not isinstance(value, (list, tuple)):
        raise _unsupported("headers", value, HEADERS_TYPE)
    headers: list[Header] = []
    for header in value:
        if header is None:
            raise ColumnError(_NULL_HEADER)
        if not isinstance(header, tuple) or len(header) != 2:
            raise _unsupported("headers", value, HEADERS_TYPE)
        names = getattr(header, "__fields__", _HEADER_FIELDS)
        if names != _HEADER_FIELDS and [name.lower() for name in names] != _HEADER_FIELDS:
            raise ColumnError(f"headers attribute unsupported type array<struct<{','.join(names)}>>. headers must be "
                              f"a(n) {HEADERS_TYPE}")
        key, content = header
        if key is None:
            raise ColumnError(_NULL_HEADER)
        if isinstance(content, bytearray):
            content = bytes(content)
        if not isinstance(key, str) or not (content is None or isinstance(content, bytes)):
            raise ColumnError(f"headers attribute unsupported type array<struct<key:{spark_type(key)},"
                              f"value:{spark_type(content)}>>. headers must be a(n) {HEADERS_TYPE}")
        headers.append(Header(key, content))
    return tuple(headers)


def spark_type(value: Any) -> str:
    """Return Spark's name for the type of a value, for messages."""
    for python_type, name in _SPARK_TYPES:
        if isinstance(value, python_type):
            return name
    return type(value).__name__


def _unsupported(name: str, value: Any, wanted: str) -> ColumnError:
    return ColumnError(f"{name} attribute unsupported type {spark_type(value)}. {name} must be a(n) {wanted}")


def _looks_like(name: str, names: Sequence[str]) -> str:
    """Name a column that differs only in case: Spark's sink ignores it without a word, and the key is lost."""
    for other in names:
        if other != name and other.lower() == name.lower():
            return f" (there is {other!r}: names are case-sensitive)"
    return ""
