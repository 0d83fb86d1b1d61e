"""`pyproducer send`: lines of standard input, or of files, into a topic.

Exit status: 0 where all were stored, 1 where some were not or could not be read, 2 for a wrong command, 130 after
Ctrl-C or SIGTERM.

Road:    standard input -> records_in -> [send] -> KafkaProducer
Thread:  the main thread; callbacks of failed lines on the producer's.
Source:  Apache Kafka's kafka-console-producer.sh (4.1). Differs from Java: failed lines are told, and kept on demand.
"""

from __future__ import annotations

import contextlib
import os
import signal
import stat
import sys
import threading
from collections.abc import Iterator
from typing import Any, BinaryIO, cast

import click

from pyproducer.accumulator.batch_future import BatchFuture
from pyproducer.cli.client_settings import (
    INTERRUPTED,
    client_options,
    how_it_ended,
    make_producer,
    refuse,
    sending_settings,
    settings_of,
    tell,
)
from pyproducer.cli.progress import Progress
from pyproducer.cli.records_in import Format, LineError, Record, lines_of, names_of, records_of
from pyproducer.common.delivery_summary import DeliverySummary
from pyproducer.common.errors import DeliveryFailedError, KafkaError
from pyproducer.common.printable import printable
from pyproducer.producer.kafka_producer import KafkaProducer

_FAILED = 1
_LINE_FORMATS = ("lines",)
_FIELD_FORMATS = ("json", "csv")
_MOST_TOLD = 10
_REFUSALS = (KafkaError, ValueError)
"""What send() and send_batch() raise, and nothing was sent: of a line that cannot be, or of a producer that is dead."""
_MOST_PENDING = 64
"""So many chunks of plain lines are on their way; their lines are kept until they are stored, for the failed ones."""


def _separator(_context: click.Context, _parameter: click.Parameter, text: str | None) -> str | None:
    if not text and text is not None:
        raise click.BadParameter("it is empty, and would stand everywhere")
    return text


class _Source(click.File):
    """A file to read; click itself fails where `-` is standard input that is closed."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "-" and sys.stdin is None:
            self.fail("standard input is closed: name a file with the lines", param, ctx)
        return super().convert(value, param, ctx)


@click.command()
@client_options
@click.argument("topic")
@click.argument("files", nargs=-1, type=_Source("rb"))
@click.option("--format", "kind", type=click.Choice(("lines", "json", "csv")), default="lines", show_default=True,
              help="What a line is: the value; an object with key, value, headers; or a row below a row of names.")
@click.option("--key-separator", metavar="TEXT", callback=_separator,
              help="Of lines: a key stands before this in each, as '\\t' or ':'.")
@click.option("--headers-separator", metavar="TEXT", callback=_separator,
              help="Of lines: headers stand before this in each, as name:value,name:value.")
@click.option("--null-marker", metavar="TEXT", help="Of lines: this text is no value (a tombstone), or no key.")
@click.option("--key-field", metavar="NAME", help="Of json and csv: the field that is the key.")
@click.option("--value-field", metavar="NAME", help="Of json and csv: the field that is the value; else all, as JSON.")
@click.option("--partition", type=click.IntRange(min=0), help="Send all to this partition.")
@click.option("--failed", "failed_file", type=click.Path(dir_okay=False, allow_dash=True), metavar="FILE",
              help="Write lines that were not stored to this file; after a second Ctrl-C also lines of which nobody "
                   "knows whether they are stored. Of csv, the row of names stands above them, and FILES must have the "
                   "same.")
@click.option("--quiet", "-q", is_flag=True, help="No summary where all went well.")
def send(topic: str, files: tuple[BinaryIO, ...], bootstrap_server: str | None, config_file: str | None,
         properties: dict[str, str], kind: str, key_separator: str | None, headers_separator: str | None,
         null_marker: str | None, key_field: str | None, value_field: str | None, partition: int | None,
         failed_file: str | None, quiet: bool) -> None:
    """Send the lines of standard input, or of FILES, to TOPIC.

    \b
    Examples:
      seq 100 | pyproducer send -b localhost:9092 numbers
      pyproducer send --config client.properties --key-separator : orders lines.txt --failed failed.txt
      pyproducer send -b localhost:9092 --format csv --key-field id orders orders.csv
    """  # noqa: D301 - click reads the backspace
    _refuse_unfitting(kind, {"--key-separator": key_separator, "--headers-separator": headers_separator,
                             "--null-marker": null_marker, "--key-field": key_field, "--value-field": value_field})
    form = Format(kind, _text(key_separator), _text(headers_separator), _text(null_marker), key_field, value_field)
    settings = sending_settings(
        settings_of(bootstrap_server, config_file, properties, **{"client.id": "pyproducer-send"}))
    if not files and sys.stdin is None:
        raise click.UsageError("standard input is closed: name FILES with the lines")
    sources = files or (sys.stdin.buffer,)
    producer = make_producer(settings)
    run = _Sending(producer, topic, partition, _opened(failed_file, sources, producer))
    progress = Progress()
    with _sigterm_as_ctrl_c():
        interrupted = _send_all(run, sources, form, progress)
        summary, interrupted = _close(run.producer, interrupted)
        run.settle()
        run.end()
    took_s = progress.end()
    failed = sum(summary.failed.values()) + run.refused
    if failed > _MOST_TOLD:
        tell(f"... {failed - _MOST_TOLD:,} more failed")
    if failed or interrupted or run.is_cut_off or not quiet:
        rate = f", {summary.delivered / took_s:,.0f} a second" if took_s > 0 else ""
        tell(f"{'interrupted: ' if interrupted else ''}{summary.delivered:,} {how_it_ended(producer)}, "
             f"{failed:,} failed in {took_s:.1f} s{rate}")
    sys.exit(INTERRUPTED if interrupted else _FAILED if failed or run.is_cut_off else 0)


def _refuse_unfitting(kind: str, given: dict[str, str | None]) -> None:
    """Refuse what means nothing in a format, such as a key's field of plain lines, none of which would have a key."""
    for option, text in given.items():
        formats = _FIELD_FORMATS if option.endswith("-field") else _LINE_FORMATS
        if text is not None and kind not in formats:
            raise click.UsageError(f"{option} is an option of --format {' or '.join(formats)}, and the format is "
                                   f"{kind}: leave it out, or change --format")


def _opened(path: str | None, sources: tuple[BinaryIO, ...], producer: KafkaProducer[Any, Any]) -> BinaryIO | None:
    """Open the file of failed lines, before any line is sent that could not be kept there."""
    if path is None:
        return None
    try:
        if path == "-" and sys.stdout is None:
            raise OSError("standard output is closed: name a file")
        if any(_is_kept_in(path, stream) for stream in sources):
            raise OSError("its lines are to be sent, and failed ones would overwrite them, or be sent without end: "
                          "name another file")
        return cast("BinaryIO", click.open_file(path, "wb"))
    except OSError as error:
        producer.close(0)
        refuse(f"--failed {path}: {error.strerror or error}")


def _is_kept_in(path: str, stream: BinaryIO) -> bool:
    """Whether a stream is read from the regular file at a path, `-` for that of standard output."""
    try:
        found = os.fstat(sys.stdout.fileno()) if path == "-" else os.stat(path)
        return stat.S_ISREG(found.st_mode) and os.path.samestat(found, os.fstat(stream.fileno()))
    except OSError:  # there is none, or the stream has no descriptor
        return False


@contextlib.contextmanager
def _sigterm_as_ctrl_c() -> Iterator[None]:
    """Have SIGTERM interrupt: Python would end at once, and what was read and what failed would be nowhere."""
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGTERM) != signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _send_all(run: _Sending, sources: tuple[BinaryIO, ...], form: Format, progress: Progress) -> bool:
    """Send what all sources have; return whether that was interrupted."""
    try:
        for stream in sources:
            run.begin(getattr(stream, "name", "<stdin>"), is_alone=len(sources) == 1)
            try:
                if form == Format():
                    run.send_lines(lines_of(stream), progress)
                else:
                    run.send_records(records_of(lines_of(stream), form), progress)
            except OSError as error:
                run.on_unreadable(error)
        run.settle()
    except KeyboardInterrupt:
        return True
    return False


def _close(producer: KafkaProducer[Any, Any], interrupted: bool) -> tuple[DeliverySummary, bool]:
    """Send what was handed over, and end; another Ctrl-C gives up on it."""
    timeout_s = None
    while True:
        try:
            return producer.close(timeout_s), interrupted
        except KeyboardInterrupt:
            timeout_s, interrupted = 0, True
        except DeliveryFailedError:  # of pyproducer.on.unretrieved=raise, once; each line is told by itself
            pass


class _Sending:
    """What is sent, and what became of it.

    Thread: the main one; `_on_failed` also the producer's.
    """

    def __init__(self, producer: KafkaProducer[Any, Any], topic: str, partition: int | None,
                 failed_file: BinaryIO | None) -> None:
        self.producer = producer
        self.refused = 0
        self.is_cut_off = False
        self._topic = topic
        self._partition = partition
        self._lock = threading.RLock()  # guards the next five
        self._failed_file = failed_file
        self._head: bytes | None = None  # the first one
        self._is_head_kept = False
        self._refused_heads: list[bytes] = []
        self._told = 0
        self._count = 0
        self._name = ""
        self._source = "line "
        self._lines = 0  # of this source alone
        self._pending: list[tuple[str, int, list[bytes], BatchFuture]] = []

    def begin(self, name: str, *, is_alone: bool) -> None:
        """Say what the next lines are read from; where there are others, too, it is told with each line's number."""
        self._name = name
        self._source = "line " if is_alone else f"{name}:"
        self._lines = 0

    def send_lines(self, chunks: Iterator[list[bytes]], progress: Progress) -> None:
        """Send plain lines: columns of them, which cost no step for each."""
        for lines in chunks:
            partitions = None if self._partition is None else [self._partition] * len(lines)
            first = self._lines + 1
            self._lines += len(lines)
            self._count += len(lines)
            try:
                future = self.producer.send_batch(self._topic, lines, partitions=partitions)
            except _REFUSALS:  # no row was sent
                self._send_each(first, lines)
            else:
                self._pending.append((self._source, first, lines, future))
            progress.step(self._count)
            if len(self._pending) >= _MOST_PENDING:
                self._settle_first()

    def _send_each(self, first: int, lines: list[bytes]) -> None:
        """Send lines one by one, where one of them cannot be sent at all."""
        for number, line in enumerate(lines, first):
            self._send_one(Record(number, line, None, line, None))

    def _send_one(self, record: Record) -> None:
        try:
            self.producer.send(self._topic, record.value, key=record.key, headers=record.headers,
                               partition=self._partition, on_completion=self._teller(record))
        except _REFUSALS as error:
            self.refused += 1
            self._on_failed(self._source, record.number, record.line, error, record.head)

    def send_records(self, records: Iterator[Record | LineError], progress: Progress) -> None:
        """Send records one by one, with a callback for those that fail."""
        head: bytes | None = None
        for record in records:
            if record.head is not head:
                head = record.head
                if head is not None and not self._takes(head):
                    return
            self._lines = record.number + record.line.count(b"\n")
            if isinstance(record, LineError):
                self.refused += 1
                self._on_failed(self._source, record.number, record.line, record, record.head)
                continue
            self._count += 1
            self._send_one(record)
            if not self._count & 0xFF:
                progress.step(self._count)

    def _takes(self, head: bytes) -> bool:
        """Whether failed rows below these names could be sent again: all that are kept stand below one row of names."""
        with self._lock:
            if self._head is None:
                self._head = head
            if self._failed_file is None or names_of(head) == names_of(self._head):
                return True
        self._cut_off("its columns are not those of the files before, and --failed has one row of names above all "
                      "rows: it is not sent; send it by itself, or leave --failed out")
        return False

    def on_unreadable(self, error: OSError) -> None:
        """Note that a source ends before its end, as on a disk that is broken; what was sent of it is settled."""
        self._cut_off(f"it cannot be read on behind line {self._lines}, and what stands there is not sent: "
                      f"{error.strerror or error}")

    def _cut_off(self, why: str) -> None:
        self.is_cut_off = True
        tell(printable(f"pyproducer send: {self._name}: {why}"))

    def settle(self) -> None:
        """Look at what became of all chunks."""
        while self._pending:
            self._settle_first()

    def _settle_first(self) -> None:
        source, first, lines, future = self._pending[0]
        result = future.result()
        del self._pending[0]
        for row, error in result.errors.items():
            self._on_failed(source, first + row, lines[row], error)

    def _teller(self, record: Record) -> Any:
        source = self._source  # it may have ended when its record fails

        def told(_metadata: object, error: KafkaError | None) -> None:
            if error is not None:
                self._on_failed(source, record.number, record.line, error, record.head)
        return told

    def _on_failed(self, source: str, number: int, line: bytes, error: BaseException,
                   head: bytes | None = None) -> None:
        with self._lock:
            if isinstance(error, LineError) and error.is_head:
                self._refused_heads.append(line)
            else:
                if head is not None and not self._is_head_kept:
                    self._is_head_kept = True
                    self._keep(head)
                self._keep(line)
            self._told += 1
            if self._told <= _MOST_TOLD:
                why = error.why if isinstance(error, LineError) else error
                tell(printable(f"{source}{number}: {why}"))

    def _keep(self, line: bytes) -> None:
        if self._failed_file is not None:
            try:
                self._failed_file.write(line + b"\n")
            except OSError as error:
                self._give_up_keeping(error)

    def end(self) -> None:
        """Nothing more is sent: write what failed to the disk."""
        with self._lock:
            if not self._is_head_kept:  # above the rows of others it would be their names, and below them a row
                for line in self._refused_heads:
                    self._keep(line)
            if self._failed_file is not None:
                try:
                    self._failed_file.flush()
                    self._failed_file.close()
                except OSError as error:
                    self._give_up_keeping(error)

    def _give_up_keeping(self, error: OSError) -> None:
        """The file takes no more, as on a full disk: sending goes on."""
        self._failed_file = None
        tell(f"pyproducer send: --failed is not complete: {error}")


def _text(option: str | None) -> bytes | None:
    r"""Return an option as the bytes that were typed; what shells cannot say is written as \t, \n, \0."""
    if option is None:
        return None
    return os.fsencode(option.replace("\\t", "\t").replace("\\n", "\n").replace("\\0", "\0"))
