"""Options that all commands with a producer have: where brokers are, a file of settings, single settings.

Road:    command line -> [settings] -> KafkaProducer
Thread:  the main thread.
Source:  Apache Kafka's console producer: --bootstrap-server, --command-config, --command-property (4.1).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, TypeVar

import click

from pyproducer.common.errors import ConfigError
from pyproducer.common.settings.properties import read_properties
from pyproducer.producer.kafka_producer import KafkaProducer

F = TypeVar("F", bound=Callable[..., object])
WRONG = 2
INTERRUPTED = 130


def _pairs(_context: click.Context, _parameter: click.Parameter, values: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in values:
        key, equals, value = text.partition("=")
        if not equals:
            raise click.BadParameter("it must be KEY=VALUE")  # what it is may be a secret
        found[key.strip()] = value.strip()
    return found


def client_options(command: F) -> F:
    """Add the options to a command."""
    for option in (
            click.option("--property", "-P", "properties", multiple=True, metavar="KEY=VALUE", callback=_pairs,
                         help="A setting that stands above the file's; may be given several times."),
            click.option("--config", "config_file", type=click.Path(exists=True, dir_okay=False), metavar="FILE",
                         help="A client.properties, as Java's."),
            click.option("--bootstrap-server", "-b", metavar="HOST:PORT", help="A broker, several with commas.")):
        command = option(command)
    return command


def settings_of(bootstrap_server: str | None, config_file: str | None, properties: dict[str, str],
                **defaults: object) -> dict[str, object]:
    """Return the settings: the command's own, the file's above them, then single ones, then --bootstrap-server."""
    found: dict[str, object] = dict(defaults)
    if config_file is not None:
        try:
            found.update(read_properties(config_file))
        except (OSError, ConfigError) as error:
            refuse(f"{config_file}: {error}")
    found.update(properties)
    if bootstrap_server is not None:
        found["bootstrap.servers"] = bootstrap_server
    if "bootstrap.servers" not in found:
        refuse("no broker is named: give --bootstrap-server HOST:PORT, or bootstrap.servers in --config FILE")
    return found


def make_producer(settings: dict[str, object]) -> KafkaProducer[Any, Any]:
    """Make the producer, or end the command with what is wrong with its settings."""
    try:
        return KafkaProducer(settings)
    except ConfigError as error:
        refuse(str(error))


def refuse(why: str) -> NoReturn:
    """End the command: it cannot be done as it was asked for."""
    name = click.get_current_context().info_name
    click.echo(f"pyproducer {name}: {why}", err=True)
    sys.exit(WRONG)
