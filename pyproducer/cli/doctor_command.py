"""`python -m pyproducer doctor`: what is between this machine and a record in a topic, step by step.

Exit status: 0 where nothing stops a producer (there may be warnings), 1 where something does, 2 for a wrong command.

Road:    command line -> [doctor] -> doctor/examination.py
Thread:  the main thread.
Source:  ours.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence

import click

from pyproducer.cli.client_settings import Number, cluster_options, props_of
from pyproducer.cli.doctor.examination import examine
from pyproducer.cli.doctor.report import Line, Report
from pyproducer.common.clock import SystemClock

_LONGEST_TIMEOUT_S = 24 * 60 * 60


def _checked_topic(_context: click.Context, _option: click.Parameter, topic: str | None) -> str | None:
    """Refuse what no request can hold; whether a name is allowed is the broker's to say."""
    if topic is not None and (not topic or not topic.isprintable()):
        raise click.BadParameter("it must be the name of a topic")
    return topic


@click.command()
@cluster_options
@click.option("--topic", metavar="NAME", callback=_checked_topic, help="Look at this topic, too. It is not created.")
@click.option("--write", "writes", is_flag=True, help="Write one record to --topic.")
@click.option("--timeout", "timeout_s", type=Number(0.1, _LONGEST_TIMEOUT_S), default=10, show_default=True,
              help="Longest wait for each step, in seconds.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object at the end instead of lines.")
def doctor(servers: str | None, path: str | None, properties: Sequence[str], topic: str | None, writes: bool,
           timeout_s: float, as_json: bool) -> None:
    """Find out, step by step, why a producer cannot send; nothing is written without --write.

    Exit status: 0 where nothing stops a producer; 1 where something does; 2 where the command line is wrong.

    \b
    Examples:
      pyproducer doctor -b kafka:9092 --topic orders
      pyproducer doctor --config client.properties --topic orders --write
    """  # noqa: D301 - click reads the backspace
    if writes and topic is None:
        raise click.UsageError("--write needs --topic")
    props = props_of(servers, path, properties)
    logging.getLogger("pyproducer").addHandler(logging.NullHandler())  # what is logged, the lines say too

    def tell(line: Line) -> None:
        if not as_json:
            click.echo(line.text())

    report = Report(tell)
    examine(props, topic, writes=writes, timeout_ms=int(timeout_s * 1000), clock=SystemClock(), report=report)
    if as_json:
        click.echo(report.json())
    sys.exit(report.exit_status)
