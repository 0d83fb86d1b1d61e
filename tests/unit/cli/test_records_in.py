"""Lines to records: one that makes none costs itself alone, and is kept as it came."""

from __future__ import annotations

import io
import os
from typing import Any

import pytest

from pyproducer.cli.records_in import Format, LineError, Record, lines_of, records_of


class Parts:
    """A stream that gives what the test says at each read."""

    def __init__(self, *parts: bytes) -> None:
        self.parts = list(parts)

    def read1(self, _count: int) -> bytes:
        return self.parts.pop(0) if self.parts else b""

    read = read1


def read(text: bytes, form: Format) -> list[Record | LineError]:
    return list(records_of(lines_of(io.BytesIO(text)), form))


def told(found: list[Record | LineError]) -> list[tuple[int, bytes | None]]:
    """The number and value of each record, and the number of each line without one."""
    return [(each.number, each.value if isinstance(each, Record) else None) for each in found]


def test_lines_when_a_line_end_comes_in_two_reads_then_it_is_no_part_of_the_line() -> None:
    stream = Parts(b"a\r\nb\r", b"\nc", b"d\n", b"e\r", b"f\n", b"rest")
    assert list(lines_of(stream)) == [[b"a"], [b"b"], [b"cd"], [b"e\rf"], [b"rest"]]  # type: ignore[arg-type]  # a stub


class Counting(bytes):
    """Bytes that count how many others they were put behind."""

    copied = 0

    def __radd__(self, other: bytes) -> bytes:
        Counting.copied += len(other)
        return other + bytes(self)


def test_lines_when_one_is_long_then_nothing_is_copied_again_with_each_read() -> None:
    """A line of 256 MiB was put together anew with each MiB of it."""
    stream = Parts(*([Counting(b"x" * 100)] * 50), b"\n")
    assert list(lines_of(stream)) == [[b"x" * 5_000]]  # type: ignore[arg-type]  # a stub
    assert Counting.copied == 0


class Late(io.FileIO):
    """The end of a pipe that does not block; into the other one the next part goes when nothing was there to read."""

    def __init__(self, *parts: bytes) -> None:
        reading, self.writing = os.pipe()
        os.set_blocking(reading, False)
        super().__init__(reading)
        self.parts = list(parts)

    def _or_more(self, found: Any) -> Any:
        if found is None and self.parts:
            os.write(self.writing, self.parts.pop(0))
        elif found is None:
            os.close(self.writing)
        return found

    def read(self, size: int | None = -1, /) -> Any:
        return self._or_more(super().read(size))

    def readinto(self, buffer: Any, /) -> Any:
        return self._or_more(super().readinto(buffer))


def test_lines_when_the_stream_does_not_block_then_those_that_come_later_are_read_and_it_stays_so() -> None:
    """Another program that has the same standard input may have set it so; that nothing was there yet was the end."""
    with io.BufferedReader(Late(b"a\nb", b"\n", b"c\n", b"rest")) as stream:
        assert list(lines_of(stream)) == [[b"a"], [b"b"], [b"c"], [b"rest"]]
        assert not os.get_blocking(stream.fileno())


@pytest.mark.parametrize("line", [b'{"value": "\\ud800"}', b"[" * 100_000, b'{"key": "\\udfff", "value": 1}', b"\xff"])
def test_json_when_a_line_makes_no_record_then_the_others_do(line: bytes) -> None:
    found = read(b'{"value": 1}\n' + line + b'\n{"value": 3}\n', Format("json"))
    assert told(found) == [(1, b"1"), (2, None), (3, b"3")]
    assert found[1].line == line


@pytest.mark.parametrize(("line", "why"), [
    (b"{'value': 1}", "it is no JSON: Expecting property name"), (b"", "it is no JSON: Expecting value"),
    (b'{"value": NaN}', "it is no JSON: NaN is none of its numbers"), (b'{"value": -Infinity}', "-Infinity is none"),
    (b"\xff", "it is no JSON: 'utf-8' codec can't decode"), (b"1 2", "it is no JSON: Extra data"),
    (b'{"value": "\\ud800"}', "it makes no record: "), (b"[" * 100_000, "it makes no record: "),
    (b'{"key": "a", "valeu": 1, "n": 2}', """it has no "value", and 'n', 'valeu': "value": null is a tombstone""")])
def test_json_when_a_line_makes_no_record_then_it_says_whether_it_is_json_at_all(line: bytes, why: str) -> None:
    (refused,) = read(line + b"\n", Format("json"))
    assert isinstance(refused, LineError)
    assert why in str(refused)


@pytest.mark.parametrize(("written", "sent"), [
    (b"0.1", b"0.1"), (b"1.10", b"1.1"), (b"1e3", b"1000.0"), (b"-0.0", b"-0.0"), (b"0.1e1", b"1.0"),
    (b"123456789012345678901234567890", b"123456789012345678901234567890")])
def test_json_when_a_number_is_a_double_or_whole_then_it_is_sent(written: bytes, sent: bytes) -> None:
    assert told(read(b'{"value": [' + written + b']}\n{"value": ' + written + b"}", Format("json"))) == [
        (1, b"[" + sent + b"]"), (2, sent)]


@pytest.mark.parametrize("written", [b"1e400", b"-1E400", b"1e-400", b"0.12345678901234567890", b"12345678901234567.5",
                                     b"1e9999999999999999999999", b"0e9999999999999999999999"])
def test_json_when_a_number_is_beyond_a_double_then_the_line_is_refused_and_not_another_number_sent(
        written: bytes) -> None:
    """1e400 was sent as Infinity, which is no JSON, and of 20 digits 16 were."""
    line = b'{"id": 1, "price": {"amount": ' + written + b"}}"
    (refused,) = read(line, Format("json", value_field="price"))
    assert isinstance(refused, LineError)
    assert refused.line == line
    assert f"it makes no record: the number {written.decode()} would be sent as " in str(refused)
    assert told(read(line, Format("json", key_field="id"))) == [(1, line)], "as it is, where all of it is the value"


def test_csv_when_columns_that_are_not_read_have_one_name_then_the_rows_are_records() -> None:
    """Spreadsheets write commas behind the last column."""
    found = read(b"id,name,,\n1,a,,\n2,b,,\n", Format("csv", key_field="id", value_field="name"))
    assert told(found) == [(2, b"a"), (3, b"b")]
    (refused,) = read(b"id,name,name\n1,a,b\n", Format("csv", key_field="id", value_field="name"))
    assert "2 columns are called 'name'" in str(refused)


def test_json_when_members_are_added_to_a_value_or_there_is_a_key_alone_then_it_is_a_record() -> None:
    found = read(b'{"key": "a", "value": "v", "offset": 5}\n{"key": "a"}\n', Format("json"))
    assert told(found) == [(1, b"v"), (2, None)]
    assert [record.key for record in found if isinstance(record, Record)] == [b"a", b"a"]


@pytest.mark.parametrize("row", [b"1,a\rb", b"1", b"1,2,3"])
def test_csv_when_a_row_makes_no_record_then_the_others_do(row: bytes) -> None:
    found = read(b"id,name\n" + row + b"\n2,after\n", Format("csv", value_field="name"))
    assert told(found) == [(2, None), (3, b"after")]
    assert (found[0].head, found[0].line) == (b"id,name", row)


def test_csv_when_a_field_is_long_then_it_is_taken() -> None:
    """csv's own limit is 131,072."""
    found = read(b"id,name\n1," + b"x" * 140_000 + b"\n", Format("csv", value_field="name"))
    assert told(found) == [(2, b"x" * 140_000)]


def test_csv_when_bytes_are_no_utf_8_then_they_are_stored_as_they_are_and_in_json_refused() -> None:
    text = b"id,name\n\xe9,caf\xe9\n2,after\n"
    first, _ = read(text, Format("csv", key_field="id", value_field="name"))
    assert isinstance(first, Record)
    assert (first.key, first.value) == (b"\xe9", b"caf\xe9")
    found = read(text, Format("csv"))
    assert told(found) == [(2, None), (3, b'{"id":"2","name":"after"}')]
    assert found[0].line == b"\xe9,caf\xe9"


def test_csv_when_lines_are_blank_or_rows_have_several_then_numbers_are_those_of_the_file() -> None:
    text = b'\xef\xbb\xbfid,name\n\n1,"a\nb"\n\n2,after\n3\n\n'
    found = read(text, Format("csv", value_field="name"))
    assert told(found) == [(3, b"a\nb"), (6, b"after"), (7, None)]
    assert found[0].line == b'1,"a\nb"'
    assert found[0].head == b"id,name"


def test_csv_when_the_row_of_names_is_none_then_nothing_below_it_is_read() -> None:
    (refused,) = read(b"id\rx,name\n1,a\n", Format("csv"))
    assert isinstance(refused, LineError)
    assert refused.number == 1


@pytest.mark.parametrize("end", ["", "\n", "\r\n", '\n""', '"" and more\n\n'])
@pytest.mark.parametrize("opened", ['2,"two', '2,"', '"2,two', '2,"a"" b'])
def test_csv_when_a_quote_is_not_closed_then_its_row_is_refused(opened: str, end: str) -> None:
    """All that stood below the quote was stored as one record."""
    tail = f"{opened}\n3,three{end}"
    found = read(f"id,name\n1,one\n{tail}".encode(), Format("csv", value_field="name"))
    assert told(found) == [(2, b"one"), (3, None)]
    assert "a quote in it is not closed" in str(found[1])
    assert found[1].line == tail.replace("\r", "").removesuffix("\n").encode()
    assert found[1].head == b"id,name"


def test_csv_when_the_row_of_names_has_a_quote_that_is_not_closed_then_it_is_refused() -> None:
    (refused,) = read(b'id,"name\n1,one\n', Format("csv"))
    assert "a quote in it is not closed" in str(refused)


@pytest.mark.parametrize("last", ['2,"two"', '2,"two" and more', '2,two "and', '2,"a"" b"'])
def test_csv_when_the_last_row_has_quotes_that_are_closed_or_text_then_it_is_taken(last: str) -> None:
    found = read(f"id,name\n1,one\n{last}".encode(), Format("csv", key_field="id", value_field="name"))
    assert [each.key for each in found if isinstance(each, Record)] == [b"1", b"2"]


@pytest.mark.parametrize(("names", "twice"), [(b"id,name,id", "id"), (b'a,"id","id",a', "a"), (b",", "")])
def test_csv_when_two_columns_have_one_name_then_nothing_below_it_is_read(names: bytes, twice: str) -> None:
    """The last of them was sent alone, as if the others were not there."""
    (refused,) = read(names + b"\n1,2,3,4\n", Format("csv"))
    assert f"line 1: 2 columns are called {twice!r}" in str(refused)
    assert refused.line == names


def test_csv_when_several_columns_have_no_name_then_they_are_left_out_and_text_there_is_refused() -> None:
    """Spreadsheets write commas behind the last column: the whole file was refused."""
    found = read(b"id,,name,\n1,,one,\n2,,two,note\n3,,three,\n", Format("csv", key_field="id"))
    assert told(found) == [(2, b'{"id":"1","name":"one"}'), (3, None), (4, b'{"id":"3","name":"three"}')]
    assert "line 3: it has text in column 4, which has no name" in str(found[1])
    assert (found[1].line, found[1].head) == (b"2,,two,note", b"id,,name,")


def test_csv_when_one_column_has_no_name_then_that_is_its_name() -> None:
    """As the index that pandas writes."""
    assert told(read(b",id\n0,1\n", Format("csv"))) == [(2, b'{"":"0","id":"1"}')]


def test_csv_when_there_is_no_such_column_then_each_row_says_so() -> None:
    (refused,) = read(b"id,name\n1,a\n", Format("csv", key_field="nme"))
    assert "there is no column 'nme'" in str(refused)
