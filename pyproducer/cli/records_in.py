"""Lines of a stream to records: plain, with a key and headers before a separator, JSON, CSV.

Road:    standard input -> [records] -> send
Thread:  the main thread.
Source:  Apache Kafka's console producer: parse.key, key.separator, parse.headers, headers.delimiter, null.marker (4.1).
"""

from __future__ import annotations

import contextlib
import csv
import json
import select
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal
from typing import BinaryIO, NamedTuple, NoReturn, cast

_READ_BYTES = 1 << 20
_LONGEST_FIELD = 1 << 27
"""Of CSV, in characters: more than brokers take, and little enough where a quote is never closed. csv's own limit is
131,072, which is less than a record may have."""
_BOM = b"\xef\xbb\xbf"


class LineError(ValueError):
    """A line makes no record, and `why`; `line` is it, `number` counts from 1, `head` is the row of names above it.

    `is_head` says that it would be that row.
    """

    def __init__(self, number: int, line: bytes, why: str, head: bytes | None = None, *, is_head: bool = False) -> None:
        super().__init__(f"line {number}: {why}")
        self.number = number
        self.line = line
        self.why = why
        self.head = head
        self.is_head = is_head


class Record(NamedTuple):
    """What becomes of one line; `line`, and `head` above it, are kept for the file of failed ones."""

    number: int
    line: bytes
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]] | None
    head: bytes | None = None


class Format(NamedTuple):
    """How lines are read.

    Attributes:
        kind: "lines", "json" (an object with key, value, headers) or "csv".
        key_separator: What stands between key and value; None where there are no keys.
        headers_separator: What stands behind the headers, which are `name:value` with commas; None without headers.
        null_marker: What stands for no value.
        key_field: Of JSON and CSV: the field that is the key. Of JSON without it, the whole object is the value.
        value_field: ... and the value; None for all of them, as JSON.
    """

    kind: str = "lines"
    key_separator: bytes | None = None
    headers_separator: bytes | None = None
    null_marker: bytes | None = None
    key_field: str | None = None
    value_field: str | None = None


def lines_of(stream: BinaryIO) -> Iterator[list[bytes]]:
    """Yield the lines of a stream without their ends, as many at a time as came together: a terminal's each alone."""
    parts: list[bytes] = []  # of a line whose end has not come
    read = _reader_of(stream)
    while chunk := read(_READ_BYTES):
        begin, *lines = chunk.split(b"\n")
        parts.append(begin)
        if not lines:
            continue
        lines.insert(0, b"".join(parts))
        parts = [lines.pop()]
        if b"\r" in chunk or lines[0].endswith(b"\r"):
            lines = [line.removesuffix(b"\r") for line in lines]
        yield lines
    if rest := b"".join(parts):
        yield [rest]


def _reader_of(stream: BinaryIO) -> Callable[[int], bytes]:
    """Return what reads at most so many bytes as soon as some are there, and none at the end alone.

    A buffer says the same of the end and of a descriptor that does not block and has nothing yet. Such a descriptor is
    waited for, and not set to block: others may share it, and expect it as they made it.
    """
    raw = getattr(stream, "raw", None)
    if raw is None:
        return getattr(stream, "read1", stream.read)

    def read(count: int) -> bytes:
        while (chunk := raw.read(count)) is None:
            select.select([raw], [], [])
        return cast("bytes", chunk)
    return read


def records_of(chunks: Iterable[list[bytes]], form: Format) -> Iterator[Record | LineError]:
    """Yield a record for each line, or why there is none."""
    if form.kind == "csv":
        yield from _csv(chunks, form)
        return
    read = _json if form.kind == "json" else _line
    number = 0
    for lines in chunks:
        for line in lines:
            number += 1
            try:
                yield read(number, line, form)
            except LineError as error:
                yield error
            except (ValueError, RecursionError) as error:  # a lone surrogate; brackets without end
                yield LineError(number, line, f"it makes no record: {error}")


def _line(number: int, line: bytes, form: Format) -> Record:
    rest, headers, key = line, None, None
    if form.headers_separator is not None:
        text, found, rest = rest.partition(form.headers_separator)
        if not found:
            raise LineError(number, line, f"it has no {_shown(form.headers_separator)} behind its headers")
        headers = _headers(number, line, text)
    if form.key_separator is not None:
        key, found, rest = rest.partition(form.key_separator)
        if not found:
            raise LineError(number, line, f"it has no {_shown(form.key_separator)} between key and value")
    marker = form.null_marker
    return Record(number, line, None if marker is not None and key == marker else key,
                  None if marker is not None and rest == marker else rest, headers)


def _shown(separator: bytes) -> str:
    return repr(separator.decode(errors="surrogateescape"))


def _headers(number: int, line: bytes, text: bytes) -> list[tuple[str, bytes | None]]:
    found: list[tuple[str, bytes | None]] = []
    for pair in text.split(b",") if text else ():
        name, colon, value = pair.partition(b":")
        if not colon:
            raise LineError(number, line, f"the header {pair!r} is not name:value")
        try:
            found.append((name.decode(), value))
        except UnicodeDecodeError as error:
            raise LineError(number, line, f"the header's name {name!r} is no UTF-8") from error
    return found


def _json(number: int, line: bytes, form: Format) -> Record:
    try:
        read = json.loads(line, parse_float=_Number, parse_constant=_refuse)
    except ValueError as error:
        raise LineError(number, line, f"it is no JSON: {error}") from error
    if form.key_field is not None or form.value_field is not None:
        return _of_fields(number, line, read, form)
    if not isinstance(read, dict) or not {"value", "key", "headers"} & read.keys():
        raise LineError(number, line, 'it has none of "key", "value" and "headers"; for a line that is the value '
                        "itself leave --format json out, or name --key-field")
    others = read.keys() - {"value", "key", "headers"}
    if others and "value" not in read:  # misspelled, perhaps: it would be a tombstone
        raise LineError(number, line, f'it has no "value", and {", ".join(map(repr, sorted(others)))}: '
                        '"value": null is a tombstone')
    headers = read.get("headers")
    if headers is not None and not isinstance(headers, dict):
        raise LineError(number, line, '"headers" is no object')
    return Record(number, line, _bytes(read.get("key")), _bytes(read.get("value")),
                  None if headers is None else [(str(name), _bytes(value)) for name, value in headers.items()])


def _of_fields(number: int, line: bytes, read: object, form: Format) -> Record:
    if not isinstance(read, dict):
        raise LineError(number, line, "it is no object")
    for field in (form.key_field, form.value_field):
        if field is not None and field not in read:
            raise LineError(number, line, f"it has no field {field!r}")
    key = None if form.key_field is None else _bytes(read[form.key_field])
    value = line if form.value_field is None else _bytes(read[form.value_field])
    return Record(number, line, key, value, None)


class _Number:
    """A number with a fraction or an exponent, as it is written: json reads it as a double, which may be another."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def to_double(self) -> float:
        """Return it as json writes it.

        Raises:
            ValueError: That would be another number.
        """
        number = float(self._text)
        with contextlib.suppress(ArithmeticError):  # an exponent beyond all reason
            if Decimal(self._text) == Decimal(repr(number)):
                return number
        raise ValueError(f"the number {self._text} would be sent as {number!r}, for it is no double: write it as text, "
                         "or send the line as it is")


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is none of its numbers")


def _bytes(value: object) -> bytes | None:
    if value is None:
        return None
    if isinstance(value, str):
        return value.encode()
    return json.dumps(value, separators=(",", ":"), default=_Number.to_double).encode()


def _csv(chunks: Iterable[list[bytes]], form: Format) -> Iterator[Record | LineError]:
    """The first row has the names; a value in quotes may hold line ends. Blank lines are no rows."""
    taken: list[bytes] = []  # the lines of the row that is being read, as they came
    is_open = False  # the input ended in the middle of a row: only within quotes does a line's end not end it

    def texts() -> Iterator[str]:
        nonlocal is_open
        for lines in chunks:
            for line in lines:
                taken.append(line)
                yield _text(line)
        is_open = bool(taken)

    csv.field_size_limit(_LONGEST_FIELD)
    names: list[str] = []
    head, number = None, 1
    rows = csv.reader(_without_bom(texts()))
    while True:
        taken.clear()
        row, why = _next_row(rows)
        if is_open:  # csv takes it for closed; `strict` would refuse more than that
            is_open = False
            why = "a quote in it is not closed: close it, or double it where it is text in a field that has quotes"
        if row and not names:
            why = why or _why_no_names(row, form)
        line = b"\n".join(taken)
        if why is not None:
            yield LineError(number, line, why, head, is_head=not names)
        elif row is None:
            return
        elif row and not names:
            names, head = row, line.removeprefix(_BOM)
        elif row:
            try:
                fields = dict(zip(names, row, strict=True))
                if form.value_field is None and names.count("") > 1:
                    _leave_out_unnamed(number, line, fields, names, row)
                yield _csv_record(number, line, fields, form)._replace(head=head)
            except LineError as error:
                error.head = head
                yield error
            except ValueError:
                yield LineError(number, line, f"it has {len(row)} values, and there are {len(names)} names", head)
        number = rows.line_num + 1
        if why is not None and not names:
            return  # what is below means nothing without names


def names_of(head: bytes) -> list[str]:
    """Return the names of a row of them, which may be quoted or not."""
    return next(csv.reader(_text(line) for line in head.split(b"\n")))


def _text(line: bytes) -> str:
    return line.decode("utf-8", errors="surrogateescape") + "\n"


def _without_bom(texts: Iterator[str]) -> Iterator[str]:
    for text in texts:
        yield text.removeprefix("\ufeff")
        yield from texts


def _next_row(rows: Iterator[list[str]]) -> tuple[list[str] | None, str | None]:
    """Return the next row, None at the end; or why there is none. What follows can be read all the same."""
    try:
        return next(rows, None), None
    except csv.Error as error:
        return None, f"it is no CSV: {error}"


def _why_no_names(row: list[str], form: Format) -> str | None:
    sent = (form.key_field, form.value_field)
    read = [name for name in row if (name in sent if form.value_field is not None else name or not any(row))]
    (name, count), *_ = [*Counter(read).most_common(1), ("", 0)]
    if count <= 1:
        return None
    return f"{count} columns are called {name!r}: give each a name of its own; nothing below them is sent"


def _leave_out_unnamed(number: int, line: bytes, fields: dict[str, str], names: list[str], row: list[str]) -> None:
    """Take out columns without a name, as spreadsheets write them behind the last: nothing is lost of empty ones."""
    for column, (name, text) in enumerate(zip(names, row), 1):  # noqa: B905 - as many
        if text and not name:
            raise LineError(number, line, f"it has text in column {column}, which has no name, as others have none: "
                            "give it one, or name --value-field")
    del fields[""]


def _csv_record(number: int, line: bytes, fields: dict[str, str], form: Format) -> Record:
    for field in (form.key_field, form.value_field):
        if field is not None and field not in fields:
            raise LineError(number, line, f"there is no column {field!r}")
    key = None if form.key_field is None else _field_bytes(fields[form.key_field])
    if form.value_field is not None:
        return Record(number, line, key, _field_bytes(fields[form.value_field]), None)
    try:
        "".join(text for pair in fields.items() for text in pair).encode()
    except UnicodeEncodeError as error:
        raise LineError(number, line, "it is no UTF-8, and JSON is: name --value-field, whose bytes are sent as they "
                        "are") from error
    return Record(number, line, key, _bytes(fields), None)


def _field_bytes(text: str) -> bytes:
    """Return the bytes of the file, UTF-8 or not."""
    return text.encode("utf-8", errors="surrogateescape")
