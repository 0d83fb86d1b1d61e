"""The per-record work, from the compiled twin where it was built, else from its Python text.

`PYPRODUCER_IMPL=native|python` forces one and fails loudly when it cannot be had; `IMPL` tells which one runs.

Road:    partitioner, accumulator -> [hotpath] -> record
Thread:  see _python.py, the definition.
Source:  ours. Imports nothing of ours.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
from typing import TYPE_CHECKING, Any

_NAMES = ("BatchBuffer", "OpenBatch", "FutureRecordMetadata", "encode_headers", "encode_uvarint", "encode_varint",
          "murmur2", "record_size_upper_bound", "run_callbacks", "varint")
_COLUMN_NAMES = ("Column", "ColumnChunk", "binary_column", "dictionary_column", "encode_header_rows", "items_column",
                 "sort_rows", "store_rows")
_BUILT_FILES = ("_native", "_native_columns", "_native_road")
HEADER_SIZE_BYTES = 61


def _choose(wanted: str | None) -> str:
    """Return "native" or "python".

    Raises:
        ImportError: PYPRODUCER_IMPL names an implementation that does not exist or was not built.
    """
    if wanted not in (None, "", "native", "python"):
        raise ImportError(f"PYPRODUCER_IMPL={wanted!r} is not known: use 'native' or 'python', or leave it unset")
    if wanted == "python":
        return "python"
    # All or none: the others read the fields of the first's classes.
    if all(importlib.util.find_spec(f"pyproducer.hotpath.{name}") is not None for name in _BUILT_FILES):
        return "native"
    if wanted == "native":
        raise ImportError("PYPRODUCER_IMPL=native, but the compiled twin was not built: install pyproducer where a "
                          "C compiler is present, or unset PYPRODUCER_IMPL to run the Python text")
    return "python"


IMPL: str = _choose(os.environ.get("PYPRODUCER_IMPL"))
# Nobody asked for the Python text: the compiled twin was not built. wiring.py says so, once in a process.
IS_FALLBACK: bool = IMPL == "python" and not os.environ.get("PYPRODUCER_IMPL")

if TYPE_CHECKING:
    from pyproducer.hotpath._python import (
        BatchBuffer,
        FutureRecordMetadata,
        OpenBatch,
        encode_headers,
        encode_uvarint,
        encode_varint,
        murmur2,
        record_size_upper_bound,
        run_callbacks,
        varint,
    )
    from pyproducer.hotpath._python_columns import (
        Column,
        ColumnChunk,
        binary_column,
        dictionary_column,
        encode_header_rows,
        items_column,
        sort_rows,
        store_rows,
    )
else:
    _twin = importlib.import_module(f"pyproducer.hotpath._{IMPL}")
    for _name in _NAMES:
        globals()[_name] = getattr(_twin, _name)
    _columns = importlib.import_module(f"pyproducer.hotpath._{IMPL}_columns")
    for _name in _COLUMN_NAMES:
        globals()[_name] = getattr(_columns, _name)

# The whole of a plain send() as one native call. It has no Python text of its own: what it does is defined by
# RecordSender in producer/do_send.py, to which it hands everything that is not plain.
FastRoad: Any = importlib.import_module("pyproducer.hotpath._native_road").FastRoad if IMPL == "native" else None

# Calls to a socket without giving up the interpreter; None where they were not compiled: no Python text could do that,
# so socket.socket's own methods stand for PromptSocket's. Windows, whose sockets are no files, has none either.
_socket = (importlib.import_module("pyproducer.hotpath._native_socket")
           if IMPL == "native" and importlib.util.find_spec("pyproducer.hotpath._native_socket") is not None else None)
PromptSocket: Any = getattr(_socket, "PromptSocket", None)

__all__ = [
    "HEADER_SIZE_BYTES",
    "IMPL",
    "IS_FALLBACK",
    "BatchBuffer",
    "Column",
    "ColumnChunk",
    "FastRoad",
    "FutureRecordMetadata",
    "OpenBatch",
    "PromptSocket",
    "binary_column",
    "dictionary_column",
    "encode_header_rows",
    "encode_headers",
    "encode_uvarint",
    "encode_varint",
    "items_column",
    "murmur2",
    "record_size_upper_bound",
    "run_callbacks",
    "sort_rows",
    "store_rows",
    "varint",
]
