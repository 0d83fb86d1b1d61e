"""The per-record work, from the compiled twin where it was built, else from its Python text.

`PYPRODUCER_IMPL=native|python` forces one and fails loudly when it cannot be had; `IMPL` tells which one runs.

A compiled module belongs to the first interpreter of a process that imports it. In any other (mod_wsgi runs one for
each application) the Python text runs.

Road:    [application] -> [hotpath] -> accumulator, record
Thread:  see _python.py, the definition.
Source:  ours. Imports nothing of ours.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from typing import TYPE_CHECKING, Any

_BUILT_FILES = ("_native", "_native_columns", "_native_ledger", "_native_road", "_native_role")
_SOCKET_FILE = "_native_socket"


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
    if all(map(_is_built, _BUILT_FILES)):
        return "native"
    if wanted == "native":
        raise ImportError("PYPRODUCER_IMPL=native, but the compiled twin was not built: install pyproducer where a "
                          "C compiler is present, or unset PYPRODUCER_IMPL to run the Python text")
    return "python"


def _is_built(name: str) -> bool:
    return importlib.util.find_spec(f"pyproducer.hotpath.{name}") is not None


def _why_not_loaded(wanted: str | None) -> str | None:
    """Load the compiled files; return why that was refused, None when they are there.

    Raises:
        ImportError: It was refused, and PYPRODUCER_IMPL asks for them.
    """
    try:
        for name in (*_BUILT_FILES, *filter(_is_built, [_SOCKET_FILE])):
            importlib.import_module(f"pyproducer.hotpath.{name}")
    except ImportError as cause:
        if wanted == "native":
            raise ImportError(f"PYPRODUCER_IMPL=native, but the compiled twin cannot be loaded: {cause}. In a second "
                              "interpreter of a process it never can: unset PYPRODUCER_IMPL to run the Python text "
                              "there") from cause
        return str(cause)
    return None


_wanted = os.environ.get("PYPRODUCER_IMPL")
IMPL: str = _choose(_wanted)
# Why the compiled twin does not run although it was built.
REFUSAL: str | None = _why_not_loaded(_wanted) if IMPL == "native" else None
if REFUSAL is not None:
    IMPL = "python"
# Nobody asked for the Python text: the compiled twin was not built, or was refused. wiring.py says so, once.
IS_FALLBACK: bool = IMPL == "python" and not _wanted

if TYPE_CHECKING:
    from pyproducer.hotpath._python import (
        HEADER_SIZE_BYTES,
        FutureRecordMetadata,
        OpenBatch,
        encode_headers,
        murmur2,
        record_size_upper_bound,
        run_callbacks,
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
    from pyproducer.hotpath._python_ledger import (
        BUCKETS,
        CALLBACK,
        CODEC,
        COLUMNS,
        CONNECTION,
        FAILED,
        LATE,
        METADATA,
        NAME,
        NO_WAIT,
        ORDER,
        SLOT,
        STORED,
        THROTTLE,
        Histogram,
        Ledger,
        NodeRow,
        Story,
        Timeline,
        TopicRow,
        bucket_end,
    )
    from pyproducer.hotpath._python_road import (
        AS_IS,
        CALLED,
        CRC32,
        MURMUR2,
        NO_HASH,
        TEXT,
        Acknowledgement,
        AsyncProducerBase,
        ProducerBase,
        RecordParts,
        Road,
        Route,
        RouteTable,
        StickyPartition,
    )
    from pyproducer.hotpath._python_role import Role
# Calls to a socket without giving up the interpreter; None where they were not compiled: no Python text could do that,
# so socket.socket's own methods stand for PromptSocket's. Windows, whose sockets are no files, has none either.
_socket = (importlib.import_module(f"pyproducer.hotpath.{_SOCKET_FILE}")
           if IMPL == "native" and _is_built(_SOCKET_FILE) else None)
PromptSocket: Any = getattr(_socket, "PromptSocket", None)
# Whether nothing from outside can end Role.run half way (it is compiled), and no two callers find the role free in the
# same moment (there is a GIL).
ROLE_IS_SAFE: bool = IMPL == "native" and getattr(sys, "_is_gil_enabled", lambda: True)()

__all__ = [
    "AS_IS",
    "BUCKETS",
    "CALLBACK",
    "CALLED",
    "CODEC",
    "COLUMNS",
    "CONNECTION",
    "CRC32",
    "FAILED",
    "HEADER_SIZE_BYTES",
    "IMPL",
    "IS_FALLBACK",
    "LATE",
    "METADATA",
    "MURMUR2",
    "NAME",
    "NO_HASH",
    "NO_WAIT",
    "ORDER",
    "REFUSAL",
    "ROLE_IS_SAFE",
    "SLOT",
    "STORED",
    "TEXT",
    "THROTTLE",
    "Acknowledgement",
    "AsyncProducerBase",
    "Column",
    "ColumnChunk",
    "FutureRecordMetadata",
    "Histogram",
    "Ledger",
    "NodeRow",
    "OpenBatch",
    "ProducerBase",
    "PromptSocket",
    "RecordParts",
    "Road",
    "Role",
    "Route",
    "RouteTable",
    "StickyPartition",
    "Story",
    "Timeline",
    "TopicRow",
    "binary_column",
    "bucket_end",
    "dictionary_column",
    "encode_header_rows",
    "encode_headers",
    "items_column",
    "murmur2",
    "record_size_upper_bound",
    "run_callbacks",
    "sort_rows",
    "store_rows",
]

if not TYPE_CHECKING:  # from the twin, what it is imported from above for a checker
    for _part in ("", "_columns", "_ledger", "_road", "_role"):
        _twin = importlib.import_module(f"pyproducer.hotpath._{IMPL}{_part}")
        globals().update((_name, getattr(_twin, _name)) for _name in __all__ if hasattr(_twin, _name))
