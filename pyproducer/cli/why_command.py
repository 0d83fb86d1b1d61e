"""`python -m pyproducer why FILE`: where records' time went, of what producer.why(save=...) wrote.

Road:    command line -> [why] -> observe/why.py
Thread:  the main thread.
Source:  ours.
"""

from __future__ import annotations

import datetime
import json
import socket
import stat
import sys
from pathlib import Path

import click

from pyproducer.observe.why import at, explain, from_json

_LONGEST_ANSWER_S = 30


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@click.option("--at", "moment", metavar="TIME", help="What happened around this time: 02:47, or 2026-11-24T02:47.")
def why(file: str, moment: str | None) -> None:
    """Say where the time of records went, and what to change.

    FILE is what `producer.why(save=FILE)` wrote; or the socket that pyproducer.why.socket names, of a producer that
    runs.

    \b
    Example:
      pyproducer why /tmp/why.json
      pyproducer why /run/app/why.sock --at 02:47
    """  # noqa: D301 - click reads the backspace
    try:
        material = from_json(_read(file))
        if moment is None:
            said = str(explain(material))
        else:
            saved = datetime.datetime.fromtimestamp(material.timestamp_ms / 1000)
            said = at(material, _timestamp_ms(moment, saved))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        click.echo(f"pyproducer why: {file}: it was not written by why(save=...), or is cut off: {error}", err=True)
        sys.exit(1)
    except (OSError, ValueError) as error:
        click.echo(f"pyproducer why: {file}: {error}", err=True)
        sys.exit(1)
    except (TypeError, LookupError, AttributeError, ArithmeticError, RecursionError) as error:
        click.echo(f"pyproducer why: {file}: it was not written by why(save=...), or is damaged: {error!r}", err=True)
        sys.exit(1)
    click.echo(said)


def _read(file: str) -> str:
    if not stat.S_ISSOCK(Path(file).stat().st_mode):
        return Path(file).read_text(encoding="utf-8")
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(_LONGEST_ANSWER_S)
        connection.connect(file)
        chunks = []
        while chunk := connection.recv(1 << 16):
            chunks.append(chunk)
    return b"".join(chunks).decode("utf-8")


def _timestamp_ms(moment: str, saved: datetime.datetime) -> int:
    """Return a time as people write it, in ms since 1970; a time of day is the last one before it was saved."""
    try:
        if "T" in moment or " " in moment:
            return int(datetime.datetime.fromisoformat(moment).timestamp() * 1000)
        time = datetime.time.fromisoformat(moment)
    except (ValueError, OverflowError, OSError) as error:  # the last two: years that this system cannot count from 1970
        raise click.BadParameter(f"{moment!r} is no time: write 02:47 or 2026-11-24T02:47") from error
    if time.tzinfo is not None:
        saved = saved.astimezone(time.tzinfo)
    found = datetime.datetime.combine(saved.date(), time)
    if found > saved:
        found -= datetime.timedelta(days=1)
    return int(found.timestamp() * 1000)
