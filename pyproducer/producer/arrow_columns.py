"""Arrow arrays as columns: their buffers are read where they lie.

pyarrow is imported only when somebody gives an Arrow object; arrays of other libraries (polars, nanoarrow, arro3) come
through the Arrow C data interface.

Road:    send_batch() -> [arrays] -> columns -> ColumnChunk
Thread:  the caller's; Arrow arrays do not change.
Source:  Arrow columnar format 1.5; the Arrow PyCapsule interface.
"""

from __future__ import annotations

from array import array
from typing import Any

from pyproducer.common.records import LEAST_MS, LEAST_SECONDS, to_timestamp
from pyproducer.hotpath import Column, binary_column, dictionary_column, encode_header_rows, items_column

_PER_UNIT = {"s": (1000, 1), "ms": (1, 1), "us": (1, 1000), "ns": (1, 1_000_000)}
"""How many ms a unit of a timestamp is: times this, by that."""


def is_arrow(column: object) -> bool:
    """Whether an object is an Arrow array or a chunked one, of whatever library."""
    return hasattr(type(column), "__arrow_c_array__") or hasattr(type(column), "__arrow_c_stream__")


def chunks_of(name: str, column: Any) -> list[Any]:
    """Return an Arrow object's arrays, as pyarrow's.

    Args:
        name: What the column is, for messages.
        column: What `is_arrow` found to be one.

    Raises:
        TypeError: It is not an array, or pyarrow is not installed. Not sent.
    """
    try:
        import pyarrow
    except ImportError as cause:
        raise TypeError(f"{name} is an Arrow object ({type(column).__name__}), and pyarrow, which reads it, is not "
                        "installed: pip install pyarrow, or pass a list") from cause
    if not isinstance(column, (pyarrow.Array, pyarrow.ChunkedArray)):
        try:
            column = (pyarrow.array(column) if hasattr(type(column), "__arrow_c_array__")
                      else pyarrow.chunked_array(column))
        except (pyarrow.ArrowException, TypeError) as cause:
            raise TypeError(f"{name} must be a list or an Arrow array, got {type(column).__name__}") from cause
    chunks = column.chunks if isinstance(column, pyarrow.ChunkedArray) else [column]
    return [chunk.storage if isinstance(chunk, pyarrow.ExtensionArray) else chunk for chunk in chunks]


def bytes_chunks(name: str, column: Any) -> list[Any]:
    """Return the arrays of an Arrow object that holds bytes or text; see `chunks_of`.

    Raises:
        TypeError: It holds neither, or cannot be read. Not sent.
    """
    chunks = chunks_of(name, column)
    from pyarrow import types

    for chunk in chunks:
        kind = chunk.type
        value_kind = kind.value_type if types.is_dictionary(kind) else kind
        if not (_is_plain(value_kind) or _is_castable(value_kind)):
            raise TypeError(f"{name} must be an Arrow array of binary, large_binary, string, large_string or a "
                            f"dictionary of these, got {kind}")
    return chunks


def header_chunks(column: Any) -> list[Any]:
    """Return the arrays of an Arrow object that holds a list of key and value for each row; see `chunks_of`.

    Raises:
        TypeError: It holds something else, or cannot be read. Not sent.
    """
    chunks = chunks_of("headers", column)
    for chunk in chunks:
        if not _is_of_headers(chunk.type):
            raise TypeError("headers must be an Arrow array of list<struct<key: string, value: binary>>, got "
                            f"{chunk.type}")
    return chunks


def items_of(name: str, chunks: list[Any]) -> list[Any]:
    """Return the rows of arrays as Python objects.

    Raises:
        ValueError: Text is not UTF-8. Not sent.
    """
    items: list[Any] = []
    for chunk in chunks:
        for item in chunk:
            try:
                items.append(item.as_py())
            except UnicodeDecodeError as error:
                raise ValueError(f"{name}, row {len(items)}: the text {error.object!r} is not UTF-8, as Arrow wants "
                                 f"it: {error.reason} (position {error.start})") from None
    return items


def bytes_column(chunk: Any, dictionaries: dict[Any, Column]) -> Column:
    """Return the column of an array whose type was checked.

    Args:
        chunk: The array.
        dictionaries: Columns of the dictionaries that were read for the same call, by where these lie. Added to: pieces
            of an array have one dictionary, as arrays of a ChunkedArray may have.

    Raises:
        ValueError: Its buffers contradict each other. Not sent.
    """
    import pyarrow
    from pyarrow import types

    if types.is_null(chunk.type):
        return items_column((None,) * len(chunk), 0, len(chunk))
    if types.is_dictionary(chunk.type):
        indices = chunk.indices
        if not types.is_signed_integer(indices.type):
            indices = indices.cast(pyarrow.int64())
        validity, numbers = indices.buffers()
        values = chunk.dictionary
        place = (values.offset, len(values), *(buffer is not None and buffer.address for buffer in values.buffers()))
        if place not in dictionaries:
            dictionaries[place] = bytes_column(values, dictionaries)
        return dictionary_column(validity, numbers, indices.type.bit_width // 8, indices.offset, len(indices),
                                 dictionaries[place])
    if _is_castable(chunk.type):
        chunk = chunk.cast(pyarrow.large_binary())
    validity, offsets, data = chunk.buffers()
    return binary_column(validity, offsets, data, _is_wide(chunk.type), chunk.offset, len(chunk))


def header_rows(chunk: Any, first_row: int) -> tuple[bytes, array[int], array[int]]:
    """Encode the headers of a list<struct<key, value>> array; see `encode_header_rows`.

    Raises:
        TypeError: A key is null. Not sent.
        ValueError: A key is not UTF-8, or its buffers contradict each other. Not sent.
    """
    from pyarrow import compute, types

    if types.is_null(chunk.type) or not len(chunk):
        return b"\x00" * len(chunk), array("q", range(len(chunk) + 1)), array("q", (0,)) * len(chunk)
    pairs, offsets = chunk.values, chunk.offsets
    first, end = offsets[0].as_py(), offsets[-1].as_py()
    if 0 <= first <= end <= len(pairs) and end - first < len(pairs):
        # A slice has the pairs of the whole array, and all of them would be read with each slice.
        chunk = type(chunk).from_arrays(compute.subtract(offsets, first), pairs.slice(first, end - first),
                                        mask=chunk.is_null())
    # flatten() hands a null struct down to its fields, so that it is found as a null key.
    keys, values = (bytes_column(field, {}) for field in chunk.values.flatten())
    validity, offset_numbers = chunk.buffers()[:2]
    return encode_header_rows(validity, offset_numbers, types.is_large_list(chunk.type), chunk.offset, len(chunk), keys,
                              values, first_row)


def int_column(name: str, chunks: list[Any], form: str, default: int, highest: int) -> array[int]:
    """Return numbers of Arrow arrays as an array; null becomes a default.

    Args:
        name: "timestamps" or "partitions"; timestamps may have a time type, and become epoch ms: without a zone they
            are UTC.
        chunks: The arrays.
        form: "q" or "i".
        default: For null.
        highest: Numbers are refused when they are above it or negative.

    Raises:
        TypeError: The arrays hold no integers. Not sent.
        ValueError: A number is out of range, or must be in seconds. Not sent.
    """
    import pyarrow
    import pyarrow.compute as compute
    from pyarrow import types

    numbers = array(form)
    first_row = 0
    for chunk in chunks:
        kind, most, unit = chunk.type, highest, ""
        if name == "timestamps" and types.is_timestamp(kind):
            # As they are: a cast to ms lets what does not fit wrap around, and rounds what is negative up to 0.
            most, unit = highest // _PER_UNIT[kind.unit][0], f" {kind.unit}"
            chunk = chunk.cast(pyarrow.int64())
        elif types.is_null(kind):
            chunk = chunk.cast(pyarrow.int64())
        elif not types.is_integer(kind):
            allowed = "int64 or timestamp" if name == "timestamps" else "int32 or int64"
            raise TypeError(f"{name} must be a list of int or None, or an Arrow array of {allowed}, got {kind}")
        # Arrow compares int64 with uint64 only where both fit.
        least, limit, least_seconds, least_ms = pyarrow.array(
            (0, most, LEAST_SECONDS, LEAST_MS), pyarrow.uint64() if types.is_uint64(kind) else pyarrow.int64())
        if name == "timestamps" and types.is_integer(kind):
            in_seconds = compute.and_(compute.greater_equal(chunk, least_seconds), compute.less(chunk, least_ms))
            row = in_seconds.index(True).as_py()
            if row >= 0:
                _refuse_seconds(first_row + row, chunk[row].as_py())
        outside = compute.or_(compute.less(chunk, least), compute.greater(chunk, limit))
        row = outside.index(True).as_py()
        if row >= 0:
            raise ValueError(f"{name}, row {first_row + row}: {chunk[row].as_py()}{unit} is out of range: it must be "
                             f"from 0 to {most}, or null")
        if unit:
            factor, divisor = _PER_UNIT[kind.unit]
            chunk = compute.divide(compute.multiply(chunk, factor), divisor)
        wide = chunk.cast(pyarrow.int64() if form == "q" else pyarrow.int32()).fill_null(default)
        if len(wide):
            view = memoryview(wide.buffers()[1]).cast("B")
            width = numbers.itemsize
            numbers.frombytes(view[wide.offset * width:(wide.offset + len(wide)) * width])
        first_row += len(chunk)
    return numbers


def _refuse_seconds(row: int, number: int) -> None:
    try:
        to_timestamp(number)
    except ValueError as error:
        raise ValueError(f"timestamps, row {row}: {error}") from None


def _is_of_headers(kind: Any) -> bool:
    from pyarrow import types

    if types.is_null(kind):
        return True
    if not (types.is_list(kind) or types.is_large_list(kind)):
        return False
    pair = kind.value_type
    if not types.is_struct(pair) or [field.name for field in pair] != ["key", "value"]:
        return False
    key, value = pair[0].type, pair[1].type
    return (bool(types.is_string(key) or types.is_large_string(key) or str(key) == "string_view")
            and (_is_plain(value) or _is_castable(value)))


def _is_plain(kind: Any) -> bool:
    from pyarrow import types

    return bool(types.is_binary(kind) or types.is_large_binary(kind) or types.is_string(kind)
                or types.is_large_string(kind))


def _is_wide(kind: Any) -> bool:
    from pyarrow import types

    return bool(types.is_large_binary(kind) or types.is_large_string(kind))


def _is_castable(kind: Any) -> bool:
    from pyarrow import types

    return bool(types.is_null(kind) or types.is_fixed_size_binary(kind)
                or str(kind) in ("string_view", "binary_view"))  # for which pyarrow 15 has no function
