"""Every wire type under one roof, as Kafka's documentation lists them.

Road:    message definitions -> [types] -> Field, Schema
Thread:  constants; shared by all threads.
Source:  Java org.apache.kafka.common.protocol.types.Type (4.1); https://kafka.apache.org/protocol#protocol_types.
"""

from __future__ import annotations

from pyproducer.protocol.abstract_type import Type
from pyproducer.protocol.number_types import (
    BOOLEAN,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    UINT16,
    UUID,
    ZERO_UUID,
)
from pyproducer.protocol.sized_types import (
    BYTES,
    COMPACT_BYTES,
    COMPACT_NULLABLE_BYTES,
    COMPACT_NULLABLE_STRING,
    COMPACT_RECORDS,
    COMPACT_STRING,
    NULLABLE_BYTES,
    NULLABLE_STRING,
    RECORDS,
    STRING,
    ArrayOf,
    CompactArrayOf,
)

__all__ = [
    "BOOLEAN",
    "BYTES",
    "COMPACT_BYTES",
    "COMPACT_NULLABLE_BYTES",
    "COMPACT_NULLABLE_STRING",
    "COMPACT_RECORDS",
    "COMPACT_STRING",
    "FLOAT64",
    "INT8",
    "INT16",
    "INT32",
    "INT64",
    "NULLABLE_BYTES",
    "NULLABLE_STRING",
    "RECORDS",
    "STRING",
    "UINT16",
    "UUID",
    "ZERO_UUID",
    "ArrayOf",
    "CompactArrayOf",
    "Type",
]
