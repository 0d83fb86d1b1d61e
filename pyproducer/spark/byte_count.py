"""How many bytes rows of Arrow are by themselves: a slice's `nbytes` has much that is not the slice's.

    dictionary      nbytes has the whole dictionary, of which the rows may be a few, or the same one many times
    views of text   nbytes has all text that any row of the column looks at
    runs            nbytes has a value once, and the rows have it as often as it comes

Road:    arrow, frame writer -> [byte count] -> pieces of a size that a call, and memory, take
Thread:  any; no state.
Source:  Arrow columnar format 1.5.
"""

from __future__ import annotations

import functools
import re
from typing import Any

_MORE = re.compile("dictionary|view|run_end")
_KINDS_KNOWN = 256
_VIEW_BYTES = 16
_LIST_BYTES = 4


def byte_count(rows: Any) -> int:
    """Return how many bytes the rows of a pyarrow RecordBatch are, about; each value counts where it stands."""
    if not any(map(_has_more, rows.schema.types)):
        return int(rows.nbytes)
    return sum(map(_of_column, rows.columns))


@functools.lru_cache(_KINDS_KNOWN)
def _has_more(kind: Any) -> bool:
    """Whether `nbytes` may have more than the rows: looking at each part of a type costs more than a small call."""
    return _MORE.search(str(kind)) is not None


def _of_column(column: Any) -> int:
    import pyarrow
    import pyarrow.compute as pc
    from pyarrow import types

    kind = column.type
    if not _has_more(kind):
        return int(column.nbytes)
    if types.is_dictionary(kind):
        return int(column.indices.nbytes) + (
            _total(_lengths(column.dictionary).take(column.indices)) if _has_length(kind.value_type) else 0)
    if types.is_run_end_encoded(kind):
        if not _has_length(kind.value_type):
            return int(column.nbytes)
        lengths = _lengths(column.values)
        return _total(pc.run_end_decode(pyarrow.RunEndEncodedArray.from_buffers(
            pyarrow.run_end_encoded(kind.run_end_type, lengths.type), len(column), [None], offset=column.offset,
            children=[column.run_ends, lengths])))
    if _is_view(kind):
        return _VIEW_BYTES * len(column) + _total(_lengths(column))
    if types.is_map(kind):
        first, last = (column.offsets[place].as_py() for place in (0, -1))
        return sum(_of_column(part.slice(first, last - first)) for part in (column.keys, column.items))
    if types.is_struct(kind):
        return sum(map(_of_column, column.flatten()))
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind) or (
            str(kind).startswith(("list_view<", "large_list_view<"))):
        return _LIST_BYTES * len(column) + _of_column(column.flatten())
    return int(column.nbytes)


def _is_view(kind: Any) -> bool:
    return str(kind) in ("string_view", "binary_view")  # for which pyarrow 15 has no function


def _has_length(kind: Any) -> bool:
    from pyarrow import types

    return bool(_is_view(kind) or types.is_string(kind) or types.is_large_string(kind) or types.is_binary(kind)
                or types.is_large_binary(kind))


def _lengths(column: Any) -> Any:
    """Return the length of each value of a column of text or bytes."""
    import pyarrow
    import pyarrow.compute as pc

    if not _is_view(column.type):
        return pc.binary_length(column)
    # Arrow has no function for it: the first of the four numbers of a view is its length; where it is null, anything.
    numbers = pyarrow.Array.from_buffers(pyarrow.int32(), 4 * len(column), [None, column.buffers()[1]],
                                         offset=4 * column.offset)
    lengths = pc.list_element(pyarrow.FixedSizeListArray.from_arrays(numbers, 4), 0)
    return pc.if_else(column.is_valid(), lengths, 0) if column.null_count else lengths


def _total(lengths: Any) -> int:
    import pyarrow.compute as pc

    return pc.sum(lengths).as_py() or 0
