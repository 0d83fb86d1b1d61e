"""python -m pyproducer COMMAND: all commands.

Road:    __main__ -> [commands] -> broker_command.py, config_command.py, doctor_command.py
Thread:  the main thread.
Source:  ours.
"""

from __future__ import annotations

import click

from pyproducer import IMPL, __version__
from pyproducer.cli.broker_command import broker
from pyproducer.cli.config_command import config
from pyproducer.cli.doctor_command import doctor


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """A Kafka producer for Python, and an embedded broker."""


@main.command()
def version() -> None:
    """Print the version and which twin of the per-record code runs."""
    click.echo(f"pyproducer {__version__} ({IMPL})")


main.add_command(broker)
main.add_command(config)
main.add_command(doctor)
