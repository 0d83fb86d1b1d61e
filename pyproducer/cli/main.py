"""python -m pyproducer COMMAND: all commands.

Road:    __main__ -> [commands] -> *_command.py
Thread:  the main thread.
Source:  ours.
"""

from __future__ import annotations

import importlib.metadata
import io
import platform
import sys

import click

from pyproducer import IMPL, __version__
from pyproducer.cli.broker_command import broker
from pyproducer.cli.config_command import config
from pyproducer.cli.doctor_command import doctor
from pyproducer.cli.perf_command import perf
from pyproducer.cli.send_command import send
from pyproducer.cli.txn_command import txn
from pyproducer.cli.why_command import why
from pyproducer.common.errors import ConfigError
from pyproducer.hotpath import REFUSAL
from pyproducer.record import checksum
from pyproducer.record.compression import PACKAGES, package_for


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """A Kafka producer for Python, and an embedded broker.

    \b
    Completion of commands and options, for bash (zsh and fish alike):
      eval "$(_PYPRODUCER_COMPLETE=bash_source pyproducer)"
    """  # noqa: D301 - click reads the backspace
    if isinstance(sys.stdout, io.TextIOWrapper):  # as standard error is from the start
        sys.stdout.reconfigure(errors="backslashreplace")


@main.command()
def version() -> None:
    """Print the version, whether the compiled build runs, and which package serves which codec."""
    click.echo(f"pyproducer {__version__} ({IMPL})")
    if REFUSAL is not None:
        click.echo(f"the compiled build is here, but was refused: {REFUSAL}")
    click.echo(f"{platform.python_implementation()} {platform.python_version()}, {platform.platform()}")
    click.echo(f"crc32c: {_with_version(checksum.PACKAGE)}")
    for codec in PACKAGES:
        try:
            click.echo(f"{codec}: {_with_version(package_for(codec).name)}")
        except ConfigError as absent:
            click.echo(f"{codec}: {absent.why}")


def _with_version(package: str) -> str:
    try:
        return f"{package} {importlib.metadata.version(package)}"
    except importlib.metadata.PackageNotFoundError:
        return f"{package}, Python's own"


main.add_command(broker)
main.add_command(config)
main.add_command(doctor)
main.add_command(perf)
main.add_command(send)
main.add_command(txn)
main.add_command(why)
