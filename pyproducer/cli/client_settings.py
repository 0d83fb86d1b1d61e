"""Options that all commands with a producer have: where brokers are, a file of settings, single settings.

Road:    command line -> [settings] -> KafkaProducer
Thread:  the main thread.
Source:  Apache Kafka's console producer: --bootstrap-server, --command-config, --command-property (4.1).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, TypeVar

import click

from pyproducer.common.errors import ConfigError
from pyproducer.common.settings.properties import read_properties
from pyproducer.producer.config.other_keys import STRING_SERIALIZER_KEYS
from pyproducer.producer.config.other_names import is_given, laid_over
from pyproducer.producer.kafka_producer import KafkaProducer

_BYTES_ALREADY = "ByteArraySerializer"
F = TypeVar("F", bound=Callable[..., object])
WRONG = 2
INTERRUPTED = 130


class Number(click.FloatRange):
    """A number in a range; NaN is in every range to click, as it is neither below nor above one."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Read a number, and refuse what is none."""
        found = super().convert(value, param, ctx)
        if found != found:
            self.fail(f"{value} is no number", param, ctx)
        return found


def pairs(_context: click.Context, _parameter: click.Parameter, values: Sequence[str]) -> dict[str, str]:
    """Read options of the form KEY=VALUE."""
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
            click.option("--property", "-P", "properties", multiple=True, metavar="KEY=VALUE", callback=pairs,
                         help="A setting that stands above the file's; may be given several times."),
            click.option("--config", "config_file", type=click.Path(exists=True, dir_okay=False), metavar="FILE",
                         help="A client.properties, as Java's."),
            click.option("--bootstrap-server", "-b", metavar="HOST:PORT", help="A broker, several with commas.")):
        command = option(command)
    return command


def cluster_options(command: F) -> F:
    """Add the options of a command that looks at a cluster, and sends nothing of its own accord; see `props_of`."""
    for option in (
            click.option("--property", "-P", "properties", multiple=True, metavar="KEY=VALUE",
                         help="One more setting; may be given several times, and stands above the file's."),
            click.option("--config", "path", metavar="FILE", type=click.Path(dir_okay=False),
                         help="The producer's settings, a Java .properties file."),
            click.option("--bootstrap-server", "-b", "servers", metavar="HOST:PORT[,...]",
                         help="Where to begin; stands above bootstrap.servers of --config.")):
        command = option(command)
    return command


def props_of(servers: str | None, path: str | None, properties: Sequence[str]) -> dict[str, object]:
    """Return the settings that these options come to, or end the command with what is wrong with one."""
    props: dict[str, object] = {}
    try:
        if path is not None:
            props.update(read_properties(path))
    except (OSError, ConfigError) as error:
        raise click.BadParameter(f"it cannot be read: {error}", param_hint="--config") from error
    above: dict[str, object] = {}
    for text in properties:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise click.BadParameter("it must be KEY=VALUE", param_hint="--property")
        above[key.strip()] = value.strip()
    if servers is not None:
        above["bootstrap.servers"] = servers
    props = laid_over(props, above)
    if not is_given(props, "bootstrap.servers"):
        raise click.UsageError("give --bootstrap-server, or --config with bootstrap.servers")
    return props


def settings_of(bootstrap_server: str | None, config_file: str | None, properties: dict[str, str],
                **defaults: object) -> dict[str, object]:
    """Return the settings: the command's own, the file's above them, then single ones, then --bootstrap-server."""
    found: dict[str, object] = dict(defaults)
    if config_file is not None:
        try:
            found = laid_over(found, read_properties(config_file))
        except (OSError, ConfigError) as error:
            refuse(f"{config_file}: {error}")
    found = laid_over(found, properties)
    if bootstrap_server is not None:
        found = laid_over(found, {"bootstrap.servers": bootstrap_server})
    if not is_given(found, "bootstrap.servers"):
        refuse("no broker is named: give --bootstrap-server HOST:PORT, or bootstrap.servers in --config FILE")
    return found


def sending_settings(settings: dict[str, object]) -> dict[str, object]:
    """Return the settings for a command that sends bytes, outside of transactions.

    Serializers are ignored with a warning: a client.properties of an application has them, and lines are bytes already.
    A transactional.id is refused: the application's own producer with this id would be fenced.
    """
    if settings.get("transactional.id"):
        refuse("transactional.id is set, and this command begins no transaction; the producer that has this id would "
               "be fenced: leave it out")
    found = dict(settings)
    for key in STRING_SERIALIZER_KEYS:
        found.pop(key, None)
    for key in ("key.serializer", "value.serializer"):
        given = str(found.pop(key, None) or "")
        if given and not given.endswith(_BYTES_ALREADY):
            tell(f"pyproducer {click.get_current_context().info_name}: {key} is ignored: bytes are sent as they are")
    return found


def make_producer(settings: dict[str, object]) -> KafkaProducer[Any, Any]:
    """Make the producer, or end the command with what is wrong with its settings."""
    try:
        return KafkaProducer(settings)
    except ConfigError as error:
        refuse(str(error))


def how_it_ended(producer: KafkaProducer[Any, Any]) -> str:
    """Return what can be said of records that have not failed: with acks=0 no broker answers."""
    return "sent, unconfirmed (acks=0)" if producer.config()["acks"] == "0" else "stored"


def refuse(why: str) -> NoReturn:
    """End the command: it cannot be done as it was asked for."""
    name = click.get_current_context().info_name
    tell(f"pyproducer {name}: {why}")
    sys.exit(WRONG)


def tell(text: str) -> None:
    """Write a line to standard error; where nobody reads it any more, the command goes on all the same."""
    try:
        click.echo(text, err=True)
    except OSError:
        _silence_stderr()


def _silence_stderr() -> None:
    """Let all that is still to be written go nowhere, also what the interpreter flushes at its end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    os.close(nowhere)
