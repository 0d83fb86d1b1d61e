"""Columns of Arrow to JSON text, column by column: no Python object for a cell.

    int, bool, float            number, true, false; 1.0 is 1; NaN and infinities are refused
    text, dictionaries of it    text, escaped
    date, time, timestamp       ISO 8601 text; with a zone as UTC, +00:00
    decimal                     text, every digit
    list, struct                array, object
    map with text for keys      object
    UUID                        text
    bytes, duration and others  refused, with the column's name
    null                        null

The same meaning as JsonSerializer's of the row as a dict, and as json.dumps' for what that can write.

Road:    frame writer -> [json text] -> send_batch
Thread:  any; no state.
Source:  RFC 8259. Arrow's compute functions do the work.
"""

from __future__ import annotations

import json
from typing import Any

_ESCAPED = '["\\\\\\x00-\\x1f]'
_CONTROL = "[\\x00-\\x1f]"


def json_objects(rows: Any) -> Any:
    """Return a column of text with a JSON object of each row.

    Args:
        rows: A pyarrow RecordBatch or Table.

    Raises:
        TypeError: A column is of a type that is no JSON.
        ValueError: A number is NaN or infinite.
    """
    import pyarrow

    columns = [column.combine_chunks() if isinstance(column, pyarrow.ChunkedArray) else column
               for column in rows.columns]
    return _joined("{", [(_label(name), _cells(column, name))
                         for name, column in zip(rows.schema.names, columns, strict=True)], "}", rows.num_rows)


def json_values(column: Any, name: str) -> Any:
    """Return a column of text with the JSON of each value; null stays null.

    Args:
        column: A pyarrow Array.
        name: What errors call it.

    Raises:
        TypeError: It is of a type that is no JSON.
        ValueError: A number is NaN or infinite.
    """
    import pyarrow

    if isinstance(column, pyarrow.ChunkedArray):
        column = column.combine_chunks()
    return _text(column, column.type, name).cast(pyarrow.large_string())


def is_plain(kind: Any) -> bool:
    """Whether a column of this type can be a key or a value as it is."""
    from pyarrow import types

    if types.is_dictionary(kind) or types.is_run_end_encoded(kind):
        kind = kind.value_type
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_binary(kind)
                or types.is_large_binary(kind) or str(kind).endswith("_view"))


def as_it_is(column: Any) -> Any:
    """Return a column of text or bytes in a form that send_batch takes, each value where it stands.

    Runs and views are for others, and of a dictionary each call would look at the whole.
    """
    import pyarrow
    import pyarrow.compute as pc
    from pyarrow import types

    if types.is_run_end_encoded(column.type):
        column = pc.run_end_decode(column)
    if types.is_dictionary(column.type):
        return without_views(column).dictionary_decode()
    if str(column.type).endswith("_view"):  # of which Arrow takes and compares nothing
        column = column.cast(pyarrow.large_string() if str(column.type) == "string_view" else pyarrow.large_binary())
    return column


def without_views(column: Any) -> Any:
    """Return a dictionary column whose dictionary is no views, of which Arrow brings none together."""
    import pyarrow

    return pyarrow.DictionaryArray.from_arrays(column.indices, as_it_is(column.dictionary))


def _joined(before: str, parts: list[tuple[str, Any]], after: str, count: int) -> Any:
    """Return for each row all parts, each behind its label, with commas between them."""
    import pyarrow

    if not parts:
        return pyarrow.array([before + after] * count, pyarrow.large_string())
    return _concatenated(*(piece for place, (label, cells) in enumerate(parts)
                           for piece in ((before if place == 0 else ",") + label, cells)), after)


def _cells(column: Any, name: str) -> Any:
    """Return the JSON text of each value, "null" where there is none."""
    import pyarrow
    import pyarrow.compute as pc

    text = _text(column, column.type, name).cast(pyarrow.large_string())
    return pc.fill_null(text, "null") if text.null_count else text


def _text(column: Any, kind: Any, name: str) -> Any:
    """Return the JSON text of each value; null where there is none."""
    import pyarrow
    import pyarrow.compute as pc
    from pyarrow import types

    if types.is_boolean(kind) or types.is_integer(kind) or types.is_null(kind):
        return column.cast(pyarrow.string())
    if types.is_floating(kind):
        column = column.cast(pyarrow.float64())  # all digits of a shorter float, as Python has it
        if pc.all(pc.is_finite(column)).as_py() not in (True, None):
            row = pc.index(pc.is_finite(column), False).as_py()
            raise ValueError(f"column {name!r} has {column[row].as_py()}, which is no JSON: fill it, or make it null")
        return column.cast(pyarrow.string())
    if types.is_dictionary(kind):
        # Of a slice it is that of the whole, and may have what no row has.
        if len(column.dictionary) > len(column) or types.is_floating(kind.value_type):
            decoded = as_it_is(column)
            return _text(decoded, decoded.type, name)
        text = _text(column.dictionary, kind.value_type, name)  # of each value once
        return pyarrow.DictionaryArray.from_arrays(column.indices, text).dictionary_decode()
    if types.is_string(kind) or types.is_large_string(kind) or str(kind) == "string_view":
        return _quoted(_escaped(column.cast(pyarrow.large_string())))
    if types.is_decimal(kind) or types.is_time(kind) or types.is_date(kind):
        return _quoted(_in_range(column.cast(pyarrow.string()), name))
    if types.is_timestamp(kind):
        # With a zone Arrow keeps UTC. Its text has a blank where ISO 8601 has a T.
        text = _in_range(column.cast(pyarrow.timestamp(kind.unit)).cast(pyarrow.string()), name)
        text = pc.replace_substring(text, " ", "T")
        return _quoted(text) if kind.tz is None else _concatenated('"', text.cast(pyarrow.large_string()), '+00:00"')
    if types.is_struct(kind):
        fields = [(_label(field.name), _cells(values, f"{name}.{field.name}"))
                  for field, values in zip(kind, column.flatten(), strict=True)]
        return _but_null(_joined("{", fields, "}", len(column)), column)
    if types.is_map(kind) and (types.is_string(kind.key_type) or types.is_large_string(kind.key_type)):
        offsets = column.offsets.cast(pyarrow.int64())
        first, last = offsets[0].as_py(), offsets[-1].as_py()
        keys, values = (pairs.slice(first, last - first) for pairs in (column.keys, column.items))
        cells = _concatenated(_cells(keys, name), ":", _cells(values, f"{name}{{}}"))
        return _but_null(_concatenated("{", _grouped(cells, pc.subtract(offsets, first)), "}"), column)
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind) or (
            str(kind).startswith(("list_view<", "large_list_view<"))):
        lengths = pc.fill_null(pc.list_value_length(column).cast(pyarrow.int64()), 0)
        offsets = pyarrow.concat_arrays([pyarrow.array([0], pyarrow.int64()), pc.cumulative_sum(lengths)])
        cells = _cells(column.flatten(), f"{name}[]")
        return _but_null(_concatenated("[", _grouped(cells, offsets), "]"), column)
    if types.is_run_end_encoded(kind):
        return _text(pc.run_end_decode(column), kind.value_type, name)
    if str(kind) == "extension<arrow.uuid>":
        return _quoted(pyarrow.array([value and str(value) for value in column.to_pylist()], pyarrow.large_string()))
    raise TypeError(f"column {name!r} is {kind}, which is no JSON: leave it out, or cast it to text")


def _in_range(text: Any, name: str) -> Any:
    """Return the text of times; what is beyond the years that Arrow can write, it writes as "<value out of range...".

    Raises:
        ValueError: One is.
    """
    import pyarrow.compute as pc

    if pc.any(pc.starts_with(text, "<")).as_py():
        row = pc.index(pc.starts_with(text, "<"), True).as_py()
        raise ValueError(f"column {name!r} has a time that no text stands for, {text[row].as_py()}: make it null")
    return text


def _label(name: str) -> str:
    return f"{json.dumps(name, ensure_ascii=False)}:"


def _grouped(cells: Any, offsets: Any) -> Any:
    """Return for each list its cells with commas between them; it begins at one offset and ends at the next."""
    import pyarrow
    import pyarrow.compute as pc

    return pc.binary_join(pyarrow.LargeListArray.from_arrays(offsets, cells),
                          pyarrow.scalar(",", pyarrow.large_string()))


def _concatenated(*parts: Any) -> Any:
    """Return for each row all parts, which are columns or the same text for all rows; null where one is null."""
    import pyarrow
    import pyarrow.compute as pc

    return pc.binary_join_element_wise(*(
        pyarrow.scalar(part, pyarrow.large_string()) if isinstance(part, str) else part for part in (*parts, "")))


def _quoted(text: Any) -> Any:
    import pyarrow

    return _concatenated('"', text.cast(pyarrow.large_string()), '"')


def _escaped(text: Any) -> Any:
    import pyarrow
    import pyarrow.compute as pc

    if not pc.any(pc.match_substring_regex(text, _ESCAPED)).as_py():
        return text
    text = pc.replace_substring(pc.replace_substring(text, "\\", "\\\\"), '"', '\\"')
    for letter, escape in (("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t")):
        text = pc.replace_substring(text, letter, escape)
    rest = pc.fill_null(pc.match_substring_regex(text, _CONTROL), False)
    if pc.any(rest).as_py():  # rare, so one after the other
        text = pc.replace_with_mask(text, rest, pyarrow.array(
            ["".join(f"\\u{ord(letter):04x}" if letter < " " else letter for letter in value)
             for value in text.filter(rest).to_pylist()], pyarrow.large_string()))
    return text


def _but_null(text: Any, column: Any) -> Any:
    """Return texts, and null where the column is."""
    import pyarrow
    import pyarrow.compute as pc

    if not column.null_count:
        return text
    return pc.if_else(column.is_null(), pyarrow.scalar(None, pyarrow.large_string()), text)
