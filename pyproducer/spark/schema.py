"""The column contract checked against a DataFrame's schema, on the driver, before any task runs.

Road:    df.schema -> [schema] -> KafkaSink.write, the data source
Thread:  pure.
Source:  Spark's KafkaWriter.validateQuery (4.0), with its sentences. What is nullable does not matter, names of fields
         are compared without case, as there.
"""

from __future__ import annotations

from typing import Any

from pyproducer.spark.columns import HEADERS_TYPE, ColumnContract
from pyproducer.spark.errors import ColumnError

_TIMESTAMPS = ("timestamp", "bigint")
_ALLOWED = {
    "topic": ("string",),
    "key": ("string", "binary"),
    "value": ("string", "binary"),
    "headers": (HEADERS_TYPE,),
    "partition": ("int",),
}


def check_schema(schema: Any, fixed_topic: str | None, timestamp_name: str | None = None) -> list[str]:
    """Check the columns of a DataFrame.

    Args:
        schema: A pyspark StructType.
        fixed_topic: The sink's own topic, or None.
        timestamp_name: Its column of timestamps, or None.

    Returns:
        The columns that the sink takes, in their order. The others are ignored.

    Raises:
        ColumnError: A column is missing, is there twice, or has another type. No row was sent.
        TypeError: It is no StructType. No row was sent.
    """
    if not isinstance(getattr(schema, "fields", None), list):
        raise TypeError(f"pass df.schema, a StructType, got {type(schema).__name__}")
    types = {field.name: field.dataType.simpleString() for field in schema.fields}
    ColumnContract.of([field.name for field in schema.fields], fixed_topic, timestamp_name)
    allowed = _ALLOWED if timestamp_name is None else {**_ALLOWED, timestamp_name: _TIMESTAMPS}
    taken = [name for name in allowed if name in types and not (name == "topic" and fixed_topic is not None)]
    for name in taken:
        if types[name] not in allowed[name] and not (name == "headers" and types[name].lower() == HEADERS_TYPE):
            raise ColumnError(f"{name} attribute unsupported type {types[name]}. {name} must be a(n) "
                              f"{' or '.join(allowed[name])}{_instead(name, types[name], allowed[name])}")
    return [field.name for field in schema.fields if field.name in taken]


def _instead(name: str, found: str, wanted: tuple[str, ...]) -> str:
    """Say what to write instead, where Spark's sentence leaves one alone."""
    if name == "headers":
        return f": cast(headers as {HEADERS_TYPE}), where its fields are a key and a value"
    if wanted is _TIMESTAMPS:
        return f": cast({name if name.isidentifier() else _quoted(name)} as timestamp)"
    if name == "partition":
        return ": cast(partition as int)"
    if found.startswith(("struct", "map", "array")):
        return f": to_json({name})"
    return f": cast({name} as string)"


def _quoted(name: str) -> str:
    """Return a column's name so that Spark takes it for one, whatever is in it."""
    escaped = name.replace("`", "``")
    return f"`{escaped}`"
