"""`pyproducer perf`: how many records a second go through, and how long each takes.

Road:    command line -> [perf] -> KafkaProducer
Thread:  the main thread; the callback of each record on the producer's.
Source:  Apache Kafka's kafka-producer-perf-test.sh (4.1): --num-records, --record-size, --throughput.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from typing import Any

import click

from pyproducer.cli.client_settings import (
    INTERRUPTED,
    Number,
    client_options,
    how_it_ended,
    make_producer,
    refuse,
    sending_settings,
    settings_of,
    tell,
)
from pyproducer.cli.progress import Progress
from pyproducer.common.errors import KafkaError, RecordTooLargeError
from pyproducer.common.printable import printable
from pyproducer.hotpath import Histogram
from pyproducer.observe.registry import error_name
from pyproducer.observe.window import ENDS, Distribution

_PERCENTILES = (("p50", 0.5), ("p95", 0.95), ("p99", 0.99), ("p999", 0.999))
_CHART_WIDTH = 40
_DISTINCT = 1024
"""So many values are sent by turns; one alone would be compressed to nothing."""
_MOST_BYTES = 1 << 27
"""Of these values together, but for one: the first may be too large to be sent, which is said then."""


@click.command()
@client_options
@click.argument("topic")
@click.option("--records", "count", type=click.IntRange(min=1), default=1_000_000, show_default=True,
              help="How many records are sent.")
@click.option("--record-size", type=click.IntRange(min=1), default=100, show_default=True, help="Bytes of a value.")
@click.option("--rate", type=Number(min=0, min_open=True), help="Records a second; as fast as it goes, else.")
@click.option("--why", "says_why", is_flag=True, help="Say where the records' time went, and what to change.")
def perf(topic: str, bootstrap_server: str | None, config_file: str | None, properties: dict[str, str], count: int,
         record_size: int, rate: float | None, says_why: bool) -> None:
    """Send records to TOPIC, and print how many went through and how long each took.

    \b
    Example:
      pyproducer perf -b localhost:9092 --records 100000 --rate 5000 --why orders
    """  # noqa: D301 - click reads the backspace
    settings = sending_settings(
        settings_of(bootstrap_server, config_file, properties, **{"client.id": "pyproducer-perf"}))
    producer = make_producer(settings)
    values = [os.urandom(record_size) for _ in range(max(1, min(_DISTINCT, count, _MOST_BYTES // record_size)))]
    latency_us, failures, is_ended = Histogram(), _Failures(), False
    clock = time.perf_counter_ns

    def told(begin_ns: int) -> Any:
        def on_completion(_metadata: object, error: KafkaError | None) -> None:
            if error is None:
                latency_us.add((clock() - begin_ns) // 1000)
            else:
                failures.add(error)
        return on_completion

    progress, interrupted, sent = Progress(), False, 0
    began_ns = clock()
    why = None
    try:
        for sent in range(1, count + 1):
            if rate is not None:
                ahead_s = sent / rate - (clock() - began_ns) / 1e9
                if ahead_s > 0.001:
                    time.sleep(ahead_s)
            producer.send(topic, values[sent % len(values)], on_completion=told(clock()))
            if not sent & 0xFF:
                progress.step(sent, count)
        producer.flush()
    except KeyboardInterrupt:
        interrupted = True
    except RecordTooLargeError as error:  # as all of them are
        producer.close(0)
        progress.end()
        refuse(str(error))
    except KafkaError as error:  # the producer is dead, or can only be closed
        is_ended = True
        tell(f"pyproducer perf: {error}")
    took_s = (clock() - began_ns) / 1e9
    if says_why:
        why = producer.why(last=took_s + 1)
    try:
        producer.close(0 if interrupted else None)
    except KeyboardInterrupt:
        producer.close(0)
    progress.end()
    _print(Distribution.of(latency_us), failures, took_s, record_size, interrupted=interrupted,
           ended=how_it_ended(producer))
    if why is not None:
        click.echo(f"\n{why}")
    sys.exit(INTERRUPTED if interrupted else 1 if failures.count or is_ended else 0)


class _Failures:
    """How many records failed, of each kind of error, and the first error of each.

    Thread: callbacks are the producer's, and those of records that it does not take are the main thread's.
    """

    def __init__(self) -> None:
        self.count = 0
        self._lock = threading.Lock()  # guards both
        self._kinds: dict[str, tuple[int, str]] = {}

    def add(self, error: KafkaError) -> None:
        """Count a record that failed."""
        name = error_name(error)
        with self._lock:
            count, first = self._kinds.get(name, (0, ""))
            self._kinds[name] = count + 1, first or str(error)
            self.count += 1

    def lines(self) -> list[str]:
        """Return a line for each kind of error, the most frequent first."""
        return [f"  {count:>9,} {printable(first if first.startswith(name) else f'{name}: {first}')}"
                for name, (count, first) in sorted(self._kinds.items(), key=lambda kind: -kind[1][0])]


def _print(latency_us: Distribution, failures: _Failures, took_s: float, record_size: int, *,
           interrupted: bool, ended: str) -> None:
    stored = latency_us.number
    click.echo(f"{'interrupted: ' if interrupted else ''}{stored:,} records of {record_size} bytes {ended}, "
               f"{failures.count:,} failed, in {took_s:.2f} s: {stored / took_s:,.0f} records and "
               f"{stored * record_size / took_s / 1e6:,.1f} MB a second")
    if failures.count:
        click.echo("failed, by kind of error, with the first of each:")
    for line in failures.lines():
        click.echo(line)
    if not stored:
        return
    click.echo("latency, ms: " + ", ".join(
        f"{name} {latency_us.quantile(share) / 1000:.2f}" for name, share in _PERCENTILES)
        + f", mean {latency_us.mean / 1000:.2f}, longest {latency_us.peak / 1000:.2f}")
    for line in _chart(latency_us):
        click.echo(line)


def _chart(latency_us: Distribution) -> list[str]:
    """Draw how many records took how long; each line is twice as long a time as the one above."""
    found: list[tuple[int, int]] = []
    bound = 125
    seen = index = 0
    while seen < latency_us.number:
        here = 0
        while index < len(ENDS) and (ENDS[index] <= bound or bound > ENDS[-1]):
            here += latency_us.counts[index]
            index += 1
        seen += here
        if here or found:
            # What is in the last bucket is above any bound that it was compared with.
            found.append((max(bound, latency_us.peak) if index == len(ENDS) else bound, here))
        bound *= 2
    most = max(here for _, here in found)
    return [f"  to {bound / 1000:>9,.3f} ms {'#' * max(1, round(_CHART_WIDTH * here / most)) if here else '':<40} "
            f"{here:,}".rstrip() for bound, here in found]
