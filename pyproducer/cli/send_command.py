"""`pyproducer send`: lines of standard input, or of files, into a topic.

Exit status: 0 where all were stored, 1 where some were not, 2 for a wrong command, 130 after Ctrl-C.

Road:    standard input -> records_in -> [send] -> KafkaProducer
Thread:  the main thread; callbacks of failed lines on the producer's.
Source:  Apache Kafka's kafka-console-producer.sh (4.1). Differs from Java: failed lines are told, and kept on demand.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any, BinaryIO

import click

from pyproducer.accumulator.batch_future import BatchFuture
from pyproducer.cli.client_settings import INTERRUPTED, client_options, make_producer, settings_of
from pyproducer.cli.progress import Progress
from pyproducer.cli.records_in import Format, LineError, Record, lines_of, records_of
from pyproducer.common.delivery_summary import DeliverySummary
from pyproducer.common.errors import KafkaError
from pyproducer.common.printable import printable
from pyproducer.producer.kafka_producer import KafkaProducer

_FAILED = 1
_MOST_TOLD = 10
_MOST_PENDING = 64
"""So many chunks of plain lines are on their way; their lines are kept until they are stored, for the failed ones."""


@click.command()
@client_options
@click.argument("topic")
@click.argument("files", nargs=-1, type=click.File("rb"))
@click.option("--format", "kind", type=click.Choice(("lines", "json", "csv")), default="lines", show_default=True,
              help="What a line is: the value; an object with key, value, headers; or a row below a row of names.")
@click.option("--key-separator", metavar="TEXT", help="A key stands before this in each line, as '\\t' or ':'.")
@click.option("--headers-separator", metavar="TEXT",
              help="Headers stand before this in each line, as name:value,name:value.")
@click.option("--null-marker", metavar="TEXT", help="This text is no value: a tombstone.")
@click.option("--key-field", metavar="NAME", help="Of json and csv: the field that is the key.")
@click.option("--value-field", metavar="NAME", help="Of json and csv: the field that is the value; else all, as JSON.")
@click.option("--partition", type=click.IntRange(min=0), help="Send all to this partition.")
@click.option("--failed", "failed_file", type=click.File("wb", lazy=True), metavar="FILE",
              help="Write lines that were not stored to this file.")
@click.option("--quiet", "-q", is_flag=True, help="No summary where all went well.")
def send(topic: str, files: tuple[BinaryIO, ...], bootstrap_server: str | None, config_file: str | None,
         properties: dict[str, str], kind: str, key_separator: str | None, headers_separator: str | None,
         null_marker: str | None, key_field: str | None, value_field: str | None, partition: int | None,
         failed_file: BinaryIO | None, quiet: bool) -> None:
    """Send the lines of standard input, or of FILES, to TOPIC.

    \b
    Examples:
      seq 100 | pyproducer send -b localhost:9092 numbers
      pyproducer send --config client.properties --key-separator : orders lines.txt --failed failed.txt
      pyproducer send -b localhost:9092 --format csv --key-field id orders orders.csv
    """  # noqa: D301 - click reads the backspace
    form = Format(kind, _text(key_separator), _text(headers_separator), _text(null_marker), key_field, value_field)
    settings = settings_of(bootstrap_server, config_file, properties, **{"client.id": "pyproducer-send"})
    run = _Sending(make_producer(settings), topic, partition, failed_file)
    interrupted = False
    progress = Progress()
    try:
        for stream in files or (sys.stdin.buffer,):
            if form == Format():
                run.send_lines(lines_of(stream), progress)
            else:
                run.send_records(records_of(lines_of(stream), form), progress)
        run.settle()
    except KeyboardInterrupt:
        interrupted = True
    summary, interrupted = _close(run.producer, interrupted)
    run.settle()
    took_s = progress.end()
    failed = sum(summary.failed.values()) + run.refused
    if failed > _MOST_TOLD:
        click.echo(f"... {failed - _MOST_TOLD:,} more failed", err=True)
    if failed or interrupted or not quiet:
        rate = f", {summary.delivered / took_s:,.0f} a second" if took_s > 0 else ""
        click.echo(f"{'interrupted: ' if interrupted else ''}{summary.delivered:,} stored, {failed:,} failed in "
                   f"{took_s:.1f} s{rate}", err=True)
    sys.exit(INTERRUPTED if interrupted else _FAILED if failed else 0)


def _close(producer: KafkaProducer[Any, Any], interrupted: bool) -> tuple[DeliverySummary, bool]:
    """Send what was handed over, and end; another Ctrl-C gives up on it."""
    try:
        return producer.close(), interrupted
    except KeyboardInterrupt:
        return producer.close(0), True


class _Sending:
    """What is sent, and what became of it."""

    def __init__(self, producer: KafkaProducer[Any, Any], topic: str, partition: int | None,
                 failed_file: BinaryIO | None) -> None:
        self.producer = producer
        self.refused = 0
        self._topic = topic
        self._partition = partition
        self._failed_file = failed_file
        self._told = 0
        self._count = 0
        self._pending: list[tuple[int, list[bytes], BatchFuture]] = []

    def send_lines(self, chunks: Iterator[list[bytes]], progress: Progress) -> None:
        """Send plain lines: columns of them, which cost no step for each."""
        for lines in chunks:
            partitions = None if self._partition is None else [self._partition] * len(lines)
            future = self.producer.send_batch(self._topic, lines, partitions=partitions)
            self._pending.append((self._count + 1, lines, future))
            self._count += len(lines)
            progress.step(self._count)
            if len(self._pending) >= _MOST_PENDING:
                self._settle_first()

    def send_records(self, records: Iterator[Record | LineError], progress: Progress) -> None:
        """Send records one by one, with a callback for those that fail."""
        for record in records:
            if isinstance(record, LineError):
                self.refused += 1
                self._on_failed(record.number, record.line, record)
                continue
            self._count += 1
            self.producer.send(self._topic, record.value, key=record.key, headers=record.headers,
                               partition=self._partition, on_completion=self._teller(record))
            if not self._count & 0xFF:
                progress.step(self._count)

    def settle(self) -> None:
        """Look at what became of all chunks."""
        while self._pending:
            self._settle_first()

    def _settle_first(self) -> None:
        first, lines, future = self._pending[0]
        result = future.result()
        del self._pending[0]
        for row, error in result.errors.items():
            self._on_failed(first + row, lines[row], error)

    def _teller(self, record: Record) -> Any:
        def tell(_metadata: object, error: KafkaError | None) -> None:
            if error is not None:
                self._on_failed(record.number, record.line, error)
        return tell

    def _on_failed(self, number: int, line: bytes, error: BaseException) -> None:
        if self._failed_file is not None:
            self._failed_file.write(line + b"\n")
        self._told += 1
        if self._told <= _MOST_TOLD:
            where = str(error) if isinstance(error, LineError) else f"line {number}: {error}"
            click.echo(printable(where), err=True)


def _text(option: str | None) -> bytes | None:
    r"""Return an option as bytes; what shells cannot say is written as \t, \n, \0."""
    if option is None:
        return None
    return option.replace("\\t", "\t").replace("\\n", "\n").replace("\\0", "\0").encode()
