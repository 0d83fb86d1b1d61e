"""write(): all rows of a frame to a topic, by columns, and wait until each is acknowledged.

Road:    frame -> Arrow record batches -> json text, or columns as they are -> [frame writer] -> send_batch
Thread:  the caller's.
Source:  ours.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from itertools import chain
from typing import Any

from pyproducer.common.errors import ConfigError, SerializationError
from pyproducer.common.records import Header, plain_bytes, to_headers
from pyproducer.frames.json_text import as_it_is, is_plain, json_objects, json_values, without_views
from pyproducer.producer.kafka_producer import KafkaProducer
from pyproducer.producer.serializers import Serializer, resolve_serializer
from pyproducer.spark.arrow import NULL_HEADER, send_record_batches
from pyproducer.spark.byte_count import byte_count
from pyproducer.spark.errors import ColumnError
from pyproducer.spark.row_producer import RowProducer
from pyproducer.spark.task_numbers import TaskNumbers

_ROWS_AT_ONCE = 65_536
_BYTES_AT_ONCE = 16 << 20
"""So much is text at one time: a frame may be as large as memory, and its text a multiple of that."""

_UNNAMED_INDEX = re.compile(r"__index_level_\d+__")
"""What pandas calls an index without a name, where it is no range."""


def write(producer: RowProducer | Mapping[str, object], frame: Any, topic: str, *, key: str | None = None,
          value: str | Sequence[str] | Callable[..., Any] = "json", headers: str | None = None,
          partition: str | None = None, timestamp: str | None = None) -> TaskNumbers:
    """Write all rows of a frame to a topic, in order, and wait until each is acknowledged.

        frames.write({"bootstrap.servers": "broker:9092"}, frame, "orders", key="id")            # rows as JSON objects
        frames.write(producer, frame, "orders", key="id", value=["id", "price"])                 # of these columns
        frames.write(producer, frame, "orders", value="payload")                                 # a column as it is
        frames.write(producer, frame, "orders", key="id", value=AvroSerializer(registry, schema))    # row by row

    Args:
        producer: A KafkaProducer, which stays open; or the settings of one that is made for this call. It has no
            serializers, interceptors or partitioner that need rows one by one, or pays for them.
        frame: Whatever has `__arrow_c_stream__`: a polars, pandas or Daft frame, a DuckDB relation, an Arrow table,
            record batch or reader. A reader is read as it is sent.
        topic: The topic of every row.
        key: Name of the column of keys. Text and bytes go as they are, anything else as JSON; null is no key.
        value: "json" for a JSON object of each row's columns, without those that are named as headers, partition or
            timestamp, and without an index of pandas that has no name; names of columns for an object of these, in
            this order; the name of one column of text or bytes, which goes as it is, and whose nulls are tombstones;
            or any serializer that a KafkaProducer takes, which is called with a dict of the same columns as "json",
            maps as dicts, one row after another.
        headers: Name of a column of list<struct<key: string, value: binary>>.
        partition: Name of a column of int32 or int64; the partitioner chooses where it is null.
        timestamp: Name of a column of timestamps, which are UTC where they have no zone, or of int64 in epoch ms; the
            time of the call where it is null.

    Returns:
        How many rows were stored, and what that took.

    Raises:
        TypeError: This is no frame or no name, or a column is of a type that is no JSON. Not sent.
        ConfigError: A column is not there, or a setting is wrong. Not sent.
        ValueError: A number is NaN or infinite, which is no JSON, or a header's key is no UTF-8; the rows of earlier
            pieces are stored.
        SerializationError: The serializer failed; the rows of earlier pieces are stored.
        ColumnError: A header that is for the serializer has no key; the rows of earlier pieces are stored.
        RowsFailedError: Some rows were not stored; it says how many were, and why.
        DeliveryFailedError: With pyproducer.on.unretrieved=raise: all rows are stored, and other records that were
            given to this producer are not.
        ImportError: pyarrow is not installed. Not sent.
    """
    try:
        import pyarrow
    except ImportError as error:
        raise ImportError("frames.write() reads frames as Arrow, and pyarrow is not installed: pip install "
                          "pyarrow") from error
    send_batch = getattr(producer, "send_batch", None)
    if isinstance(producer, type) or not (isinstance(producer, Mapping) or (
            send_batch is not None and not inspect.iscoroutinefunction(send_batch))):
        raise TypeError(f"rows are written by a KafkaProducer, or by one that is made of settings, not by "
                        f"{producer!r}")
    if not isinstance(topic, str):
        raise TypeError(f"topic must be a str, got {topic!r}")
    others = {"key": key, "headers": headers, "partition": partition, "timestamp": timestamp}
    for role, name in others.items():
        if not (name is None or isinstance(name, str)):
            raise TypeError(f"{role} must be the name of one column, or None, got {name!r}")
    serializer = resolve_serializer(value, "value") if callable(value) else None
    if serializer is None and (
            not isinstance(value, (str, Sequence)) or not all(isinstance(name, str) for name in value)):
        raise TypeError('value must be "json", the name of a column, names of columns or a serializer, got '
                        f"{value!r}")
    if isinstance(frame, type) or not hasattr(frame, "__arrow_c_stream__"):
        raise TypeError(f"a frame has __arrow_c_stream__ (polars, pandas 2.2, DuckDB, Arrow, Daft), and "
                        f"{type(frame).__name__} has not{': call its collect()' if hasattr(frame, 'collect') else ''}")
    try:
        reader = pyarrow.RecordBatchReader.from_stream(frame)
    except pyarrow.ArrowInvalid as error:
        raise TypeError(f"a frame has columns of Arrow's types, and this {type(frame).__name__} has not: {error}. Give "
                        "the frame that it is of, or cast such columns") from error
    plan = _Plan(reader.schema, topic, others, "json" if serializer is not None else value, serializer)
    batches = iter(reader)
    first = next(batches, None)
    if first is None:
        first = pyarrow.RecordBatch.from_arrays([pyarrow.nulls(0, kind) for kind in reader.schema.types],
                                                names=reader.schema.names)
    plan.columns_of(first.slice(0, 0))  # what is no JSON is told before anything is sent, also where there are no rows
    with KafkaProducer(producer) if isinstance(producer, Mapping) else nullcontext(producer) as open_producer:
        return send_record_batches(plan.rows_of(chain((first,), batches)), open_producer, topic, is_task=False,
                                   timestamp_name=None if timestamp is None else "timestamp")


class _Plan:
    """Which columns of a frame become what; made before anything is sent.

    Args:
        schema: The frame's.
        topic: Where the rows go.
        others: The names of columns by what they are, as in write().
        value: "json", names, or a name.
        serializer: What makes a row's value of a dict of the columns; None where it is JSON, or a column as it is.
    """

    def __init__(self, schema: Any, topic: str, others: Mapping[str, str | None], value: Any,
                 serializer: Serializer | None) -> None:
        names = list(schema.names)
        self._topic = topic
        self._serializer = serializer
        self._row_count = 0  # that were serialized
        self._is_json = value == "json" or not isinstance(value, str)
        self._others = {role: name for role, name in others.items() if name is not None}
        beside = {name for role, name in self._others.items() if role != "key"}
        if b"pandas" in (schema.metadata or {}):
            beside.update(filter(_UNNAMED_INDEX.fullmatch, names))
        self._columns = ([name for name in names if name not in beside] if value == "json"
                         else [value] if isinstance(value, str) else list(value))
        for role, name in (*self._others.items(), *(("value", name) for name in self._columns)):
            if names.count(name) != 1:
                raise ConfigError(role, name, f"the frame has {names.count(name)} columns of that name; there are "
                                              + ", ".join(names))
        if len(set(self._columns)) < len(self._columns):
            raise ConfigError("value", value, "a column is named twice")
        if not self._columns:
            raise ConfigError("value", value, "no column is left for it")
        kind = schema.field(self._columns[0]).type
        if not self._is_json and not is_plain(kind):
            raise TypeError(f"column {value!r} is {kind}: a column that goes as it is has text or bytes; for a "
                            f"JSON object of it write value=[{value!r}]")
        for role, fits, says in _FITTING:
            name = self._others.get(role)
            if name is not None and not fits(schema.field(name).type):
                raise TypeError(f"column {name!r} is {schema.field(name).type}: {says}")
        key = self._others.get("key")
        self._key_is_json = key is not None and not is_plain(schema.field(key).type)

    def rows_of(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Yield record batches of columns by the names of the contract."""
        for batch in batches:
            waiting = [self._taken(batch)]
            while waiting:
                rows = waiting.pop()
                half = rows.num_rows // 2
                if rows.num_rows > _ROWS_AT_ONCE or (half and byte_count(rows) > _BYTES_AT_ONCE):
                    waiting += [rows.slice(half), rows.slice(0, half)]
                elif rows.num_rows:
                    yield self.columns_of(rows)

    def _taken(self, batch: Any) -> Any:
        """Return the columns that are written; dictionaries, which each piece of a batch has whole, are ready."""
        import pyarrow
        from pyarrow import types

        names = list(dict.fromkeys((*self._columns, *self._others.values())))
        columns = [batch.column(name) for name in names]
        return pyarrow.RecordBatch.from_arrays(
            [without_views(column) if types.is_dictionary(column.type) else column for column in columns], names=names)

    def columns_of(self, rows: Any) -> Any:
        """Return a record batch of the columns of the contract.

        Raises:
            TypeError: A column is of a type that is no JSON.
            ValueError: A number is no JSON.
            SerializationError: The serializer failed.
            ColumnError: A header that is for it has no key.
        """
        import pyarrow

        columns = self._serialized(rows) if self._serializer is not None else {
            "value": json_objects(rows.select(self._columns)) if self._is_json
            else as_it_is(rows.column(self._columns[0]))}
        for role, name in self._others.items():
            column = rows.column(name)
            if role == "key":
                columns[role] = json_values(column, name) if self._key_is_json else as_it_is(column)
            elif role not in columns:
                columns[role] = _headers(column, name) if role == "headers" else column
        return pyarrow.RecordBatch.from_arrays(list(columns.values()), names=list(columns))

    def _serialized(self, rows: Any) -> dict[str, Any]:
        """Return the column of values that the serializer makes, and that of headers, to which it may add some."""
        import pyarrow

        serializer = self._serializer
        assert serializer is not None, "it was asked"
        named = self._others.get("headers")
        given = [None] * rows.num_rows if named is None else _headers(rows.column(named), named).to_pylist()
        values, all_headers = [], []
        for row, pairs in zip(_python_rows(rows.select(self._columns)), given, strict=True):
            if any(pair is None or pair["key"] is None for pair in pairs or ()):
                raise ColumnError(f"Row {self._row_count}: {NULL_HEADER}")
            headers = [Header(pair["key"], pair["value"]) for pair in pairs or ()]
            try:
                value = serializer(self._topic, headers, row)
                if not (value is None or isinstance(value, (bytes, bytearray, memoryview))):
                    raise TypeError(f"it gave a {type(value).__name__}, and must give bytes or None")
                checked = to_headers(headers)
            except Exception as cause:
                raise SerializationError(f"The serializer {serializer!r} failed on row {self._row_count} for topic "
                                         f"{self._topic!r}: {cause}") from cause
            self._row_count += 1
            values.append(value if value is None else plain_bytes(value))
            all_headers.append([{"key": key, "value": content} for key, content in checked])
        columns = {"value": pyarrow.array(values, pyarrow.binary())}
        if named is not None or any(all_headers):
            columns["headers"] = pyarrow.array(all_headers, _headers_type())
        return columns


def _python_rows(rows: Any) -> list[dict[str, Any]]:
    """Return rows as a serializer gets them, maps as dicts: pyarrow makes lists of pairs of them."""
    found: list[dict[str, Any]] = rows.to_pylist()
    for field in rows.schema:
        if "map<" in str(field.type):
            for row in found:
                row[field.name] = _with_dicts(row[field.name], field.type)
    return found


def _with_dicts(value: Any, kind: Any) -> Any:
    from pyarrow import types

    if value is None:
        return None
    if types.is_map(kind) and not types.is_nested(kind.key_type):
        return {key: _with_dicts(item, kind.item_type) for key, item in value}
    if types.is_struct(kind):
        return {field.name: _with_dicts(value[field.name], field.type) for field in kind}
    if isinstance(value, list) and not types.is_map(kind):
        return [_with_dicts(item, kind.value_type) for item in value]
    return value


def _is_headers(kind: Any) -> bool:
    from pyarrow import types

    if not (types.is_list(kind) or types.is_large_list(kind)) or not types.is_struct(kind.value_type):
        return False
    fields = {field.name: field.type for field in kind.value_type}
    return [*fields] == ["key", "value"] and all(is_plain(field) and _can_be_cast(field) for field in fields.values())


def _can_be_cast(kind: Any) -> bool:
    """Whether Arrow makes text or bytes of it inside a list: it does not of runs, nor of a dictionary of views."""
    from pyarrow import types

    return not (types.is_run_end_encoded(kind)
                or (types.is_dictionary(kind) and str(kind.value_type).endswith("_view")))


def _is_timestamp(kind: Any) -> bool:
    from pyarrow import types

    return bool(types.is_timestamp(kind) or types.is_int64(kind))


_FITTING: tuple[tuple[str, Callable[[Any], bool], str], ...] = (
    ("partition", lambda kind: str(kind) in ("int32", "int64"), "partitions are int32 or int64"),
    ("headers", _is_headers, "headers are list<struct<key: string, value: binary>>"),
    ("timestamp", _is_timestamp, "timestamps are of Arrow's timestamp types, or int64 in epoch ms"))


def _headers_type() -> Any:
    import pyarrow

    return pyarrow.large_list(pyarrow.struct([("key", pyarrow.string()), ("value", pyarrow.binary())]))


def _headers(column: Any, name: str) -> Any:
    """Return a column of headers as send_batch() takes it.

    Raises:
        ValueError: A key that came as bytes is no text.
    """
    import pyarrow

    try:
        return column.cast(_headers_type())
    except pyarrow.ArrowInvalid as error:
        raise ValueError(f"column {name!r} has a header's key that is no UTF-8, as Kafka wants it: {error}") from error
