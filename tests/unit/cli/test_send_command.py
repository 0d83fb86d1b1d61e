"""`pyproducer send` without a broker: what it refuses, and what it keeps of lines that fail on two threads at once."""

from __future__ import annotations

import errno
import io
import os
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from click.testing import CliRunner

from pyproducer.cli import send_command
from pyproducer.cli.main import main
from pyproducer.cli.progress import Progress
from pyproducer.cli.records_in import Format, records_of
from pyproducer.cli.send_command import _Sending
from pyproducer.common.errors import DisconnectedError
from pyproducer.testing import MockProducer
from tests.support.patience import GIVE_UP_S


class WatchedLock:
    """A lock that calls who finds it taken."""

    def __init__(self, on_taken: Callable[[], None]) -> None:
        self._lock = threading.RLock()
        self._on_taken = on_taken

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            self._on_taken()
            self._lock.acquire()

    def __exit__(self, *_error: object) -> None:
        self._lock.release()


class Disk(io.BytesIO):
    """A file of failed lines, before whose first something else happens."""

    before_first: Callable[[], None] | None = None

    def write(self, content: Any, /) -> int:
        before_first, self.before_first = self.before_first, None
        if before_first is not None:
            before_first()
        return super().write(content)


def test_failed_lines_when_the_producer_tells_of_one_while_another_is_kept_then_each_is_whole_and_names_come_first(
        capsys: pytest.CaptureFixture[str]) -> None:
    """With its fields' names below a line, a csv file could not be sent again."""
    producer = MockProducer(auto_complete=False)
    disk, waits_or_is_through = Disk(), threading.Event()
    run = _Sending(cast("Any", producer), "orders", None, disk)
    run._lock = cast("Any", WatchedLock(waits_or_is_through.set))

    def fail() -> None:
        producer.error_next(DisconnectedError("the broker is gone"))
        waits_or_is_through.set()

    teller = threading.Thread(target=fail)

    def fail_beside() -> None:
        teller.start()
        assert waits_or_is_through.wait(GIVE_UP_S)

    disk.before_first = fail_beside
    run.send_records(records_of([[b"id,name", b"1,one", b"2,two,many"]], Format("csv", key_field="id")), Progress())
    teller.join(GIVE_UP_S)
    assert disk.getvalue() == b"id,name\n2,two,many\n1,one\n"
    assert [line.partition(":")[0] for line in capsys.readouterr().err.splitlines()] == ["line 3", "line 2"]


@pytest.mark.parametrize(("kind", "option", "fits"), [
    ("lines", "--key-field", "json or csv"), ("lines", "--value-field", "json or csv"),
    *((kind, option, "lines") for kind in ("json", "csv")
      for option in ("--key-separator", "--headers-separator", "--null-marker"))])
def test_option_when_it_has_no_meaning_in_the_format_then_it_is_refused(kind: str, option: str, fits: str) -> None:
    """With --key-field and without --format every line was stored, and none had a key."""
    done = CliRunner().invoke(main, ["send", "-b", "x:1", "--format", kind, option, "id", "orders"], input="a\n")
    assert done.exit_code == 2, done.output
    assert f"{option} is an option of --format {fits}, and the format is {kind}" in done.output


def places(said: str) -> list[str]:
    """Where each line was that is told of."""
    return re.findall(r"^(.*\d): ", said, re.MULTILINE)


@pytest.fixture
def producer(monkeypatch: pytest.MonkeyPatch) -> Iterator[MockProducer[Any, Any]]:
    """The producer of the command."""
    with MockProducer({"max.request.size": 1000}) as producer:
        monkeypatch.setattr(send_command, "make_producer", lambda _settings: producer)
        yield producer


FORMATS = {"lines": ([], f"one\n\n{'x' * 2_000}\n"),
           "keys": (["--key-separator", ":"], "k:one\nk:two\nthree\n"),
           "json": (["--format", "json"], '{"value": 1}\n{"value": 2}\n[]\n'),
           "csv": (["--format", "csv"], "id,name\n1,one\n2\n")}


@pytest.mark.parametrize("kind", FORMATS)
def test_line_when_there_are_several_files_then_it_is_named_with_its_own_and_counted_there(
        producer: MockProducer[Any, Any], tmp_path: Path, kind: str) -> None:
    """Whose line 3 it was nobody could say; of plain lines it was no file's."""
    options, text = FORMATS[kind]
    first, second = tmp_path / "first.txt", tmp_path / "second.txt"
    first.write_text(text)
    second.write_text(text)
    done = CliRunner().invoke(main, ["send", "-b", "x:1", *options, "orders", str(first), "-", str(second)], input=text)
    assert places(done.output) == [f"{first}:3", "<stdin>:3", f"{second}:3"], done.output


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("is_file", [True, False])
def test_line_when_there_is_one_file_or_standard_input_then_its_number_is_its_name(
        producer: MockProducer[Any, Any], tmp_path: Path, kind: str, is_file: bool) -> None:
    options, text = FORMATS[kind]
    (tmp_path / "lines.txt").write_text(text)
    files = [str(tmp_path / "lines.txt")] if is_file else []
    done = CliRunner().invoke(main, ["send", "-b", "x:1", *options, "orders", *files], input=text)
    assert places(done.output) == ["line 3"], done.output


@pytest.mark.parametrize("kind", ["lines", "json"])
def test_line_when_it_fails_after_the_next_file_began_then_it_is_named_with_its_own(
        capsys: pytest.CaptureFixture[str], kind: str) -> None:
    producer = MockProducer(auto_complete=False)
    run = _Sending(cast("Any", producer), "orders", None, None)
    for name in ("first", "second"):
        run.begin(name, is_alone=False)
        if kind == "lines":
            run.send_lines(iter([[b"1"], [b"2"]]), Progress())
        else:
            run.send_records(records_of([[b'{"value": 1}', b'{"value": 2}']], Format("json")), Progress())
    while producer.error_next(DisconnectedError("the broker is gone")):
        pass
    run.settle()
    assert places(capsys.readouterr().err) == ["first:1", "first:2", "second:1", "second:2"]


class Broken(io.RawIOBase):
    """A stream that breaks behind the lines that it has, when the producer has failed with them."""

    def __init__(self, text: bytes, producer: MockProducer[Any, Any], error: BaseException | None = None) -> None:
        self.text = text
        self.producer = producer
        self.error = error

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        if not self.text:
            while self.producer.error_next(DisconnectedError("the broker is gone")):
                pass
            raise self.error or OSError(errno.EIO, os.strerror(errno.EIO))
        size = len(self.text)
        buffer[:size], self.text = self.text, b""
        return size


@pytest.mark.parametrize(("kind", "text", "kept"), [
    ([], b"1\n2\n3", b"1\n2\n"), (["--format", "json"], b'{"value": 1}\n[]\n{"va', b'[]\n{"value": 1}\n'),
    (["--format", "csv"], b'id\n"1\n1"\n"2', b'id\n"1\n1"\n')])
def test_input_when_it_cannot_be_read_on_then_that_is_told_and_what_was_sent_before_is_settled(
        producer: MockProducer[Any, Any], tmp_path: Path, kind: list[str], text: bytes, kept: bytes) -> None:
    """It ended with a traceback: nobody was told what was stored, and lines that failed were not kept."""
    failed, producer.auto_complete = tmp_path / "failed.txt", False
    done = CliRunner().invoke(main, ["send", "-q", "-b", "x:1", *kind, "--failed", str(failed), "orders"],
                              input=cast("Any", io.BufferedReader(Broken(text, producer))))
    assert done.exit_code == 1, done.output
    number = 3 if "csv" in kind else 2
    assert (f"pyproducer send: <stdin>: it cannot be read on behind line {number}, and what stands there is not sent: "
            "Input/output error\n") in done.output
    assert f"0 stored, {1 if 'csv' in kind else 2} failed in " in done.output
    assert failed.read_bytes() == kept


def test_input_when_a_file_cannot_be_read_on_then_the_next_one_is_sent_and_the_status_is_1(
        producer: MockProducer[Any, Any], tmp_path: Path) -> None:
    (tmp_path / "lines.txt").write_text("3\n4\n")
    done = CliRunner().invoke(main, ["send", "-q", "-b", "x:1", "orders", "-", str(tmp_path / "lines.txt")],
                              input=cast("Any", io.BufferedReader(Broken(b"1\n2", producer))))
    assert done.exit_code == 1, done.output
    assert "it cannot be read on behind line 1, " in done.output
    assert "3 stored, 0 failed in " in done.output
    assert [record.value for record in producer.history()] == [b"1", b"3", b"4"]


@pytest.mark.parametrize("kind", FORMATS)
def test_line_when_the_producer_takes_no_more_then_it_is_kept_as_others_that_fail(
        producer: MockProducer[Any, Any], tmp_path: Path, kind: str) -> None:
    """It ended with a traceback, and no line was kept."""
    options, text = FORMATS[kind]
    failed = tmp_path / "failed.txt"
    producer.close()
    done = CliRunner().invoke(main, ["send", "-b", "x:1", *options, "--failed", str(failed), "orders"], input=text)
    assert done.exit_code == 1, done.output
    assert "0 stored, " in done.output
    assert failed.read_text() == text


def test_send_when_lines_that_failed_are_still_pending_at_ctrl_c_then_they_are_told_and_kept(
        monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """With pyproducer.on.unretrieved=raise, as an application's settings may have it, the command ended there."""
    producer = MockProducer({"pyproducer.on.unretrieved": "raise"}, auto_complete=False)
    monkeypatch.setattr(send_command, "make_producer", lambda _settings: producer)
    failed = tmp_path / "failed.txt"
    done = CliRunner().invoke(
        main, ["send", "-b", "x:1", "--failed", str(failed), "orders"],
        input=cast("Any", io.BufferedReader(Broken(b"1\n2\n", producer, KeyboardInterrupt()))))
    assert done.exit_code == 130, done.output
    assert places(done.output) == ["line 1", "line 2"]
    assert "interrupted: 0 stored, 2 failed" in done.output
    assert failed.read_bytes() == b"1\n2\n"


def test_csv_when_files_have_other_columns_then_those_are_not_sent_where_failed_rows_are_kept(
        producer: MockProducer[Any, Any], tmp_path: Path) -> None:
    """The second row of names stood among the failed rows, and was a record when they were sent again."""
    texts = {"first": "id,name\n1,one\n2\n", "same": '"id","name"\n3,three\n4\n', "other": "name,id\nfive,5\n6\n"}
    files = []
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
        files.append(str(tmp_path / name))
    command = ["send", "-b", "x:1", "--format", "csv", "--key-field", "id", "orders", *files]
    failed = tmp_path / "failed.csv"
    done = CliRunner().invoke(main, [*command, "--failed", str(failed)])
    assert done.exit_code == 1, done.output
    assert f"pyproducer send: {files[2]}: its columns are not those of the files before" in done.output
    assert "2 stored, 2 failed in " in done.output
    assert failed.read_text() == "id,name\n2\n4\n"
    assert [record.key for record in producer.history()] == [b"1", b"3"]


def test_csv_when_files_have_other_columns_and_failed_rows_are_not_kept_then_all_are_sent(
        producer: MockProducer[Any, Any], tmp_path: Path) -> None:
    (tmp_path / "first").write_text("id,name\n1,one\n")
    (tmp_path / "other").write_text("name,id\nfive,5\n")
    done = CliRunner().invoke(main, ["send", "-b", "x:1", "--format", "csv", "--key-field", "id", "orders",
                                     str(tmp_path / "first"), str(tmp_path / "other")])
    assert done.exit_code == 0, done.output
    assert [record.key for record in producer.history()] == [b"1", b"5"]


def test_csv_when_a_later_file_has_no_row_of_names_then_what_it_has_is_not_kept_among_the_rows_of_others(
        producer: MockProducer[Any, Any], tmp_path: Path) -> None:
    (tmp_path / "first").write_text("id,name\n1\n")
    (tmp_path / "other").write_text("id,id\n2,two\n")
    failed = tmp_path / "failed.csv"
    done = CliRunner().invoke(main, ["send", "-b", "x:1", "--format", "csv", "--failed", str(failed), "orders",
                                     str(tmp_path / "first"), str(tmp_path / "other")])
    assert done.exit_code == 1, done.output
    assert "0 stored, 2 failed in " in done.output
    assert failed.read_text() == "id,name\n1\n"


@pytest.mark.parametrize(("good", "kept"), [("id,name\n1\n", "id,name\n1\n"), ("id,name\n1,one\n", "id,id\n")])
def test_csv_when_the_first_file_has_no_row_of_names_then_what_it_has_does_not_stand_above_the_rows_of_others(
        producer: MockProducer[Any, Any], tmp_path: Path, good: str, kept: str) -> None:
    """It stood above the good row of names, so nothing of the file could be sent again."""
    (tmp_path / "bad").write_text("id,id\n2,two\n")
    (tmp_path / "good").write_text(good)
    failed = tmp_path / "failed.csv"
    done = CliRunner().invoke(main, ["send", "-b", "x:1", "--format", "csv", "--failed", str(failed), "orders",
                                     str(tmp_path / "bad"), str(tmp_path / "good")])
    assert done.exit_code == 1, done.output
    assert failed.read_text() == kept


@pytest.mark.parametrize("separator", ["\udcff", "\\t\udce9", "\u20ac"], ids=ascii)
def test_separator_when_it_is_any_bytes_of_the_command_line_then_lines_are_parted_at_it(
        producer: MockProducer[Any, Any], separator: str) -> None:
    """A shell in another encoding than UTF-8 has an option's bytes as they were typed: a traceback."""
    between = separator.encode("utf-8", "surrogateescape").replace(b"\\t", b"\t")
    done = CliRunner().invoke(main, ["send", "-b", "x:1", "--key-separator", separator, "--headers-separator",
                                     f"|{separator}", "orders"],
                              input=b"a:1|" + between + b"k" + between + b"v\nbad\n|" + between + b"worse\n")
    assert done.exit_code == 1, done.output
    assert [(record.key, record.value, list(record.headers)) for record in producer.history()] == [
        (b"k", b"v", [("a", b"1")])]
    assert places(done.output) == ["line 2", "line 3"]
