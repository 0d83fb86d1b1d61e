"""`python -m pyproducer broker`: a broker, or several, on a laptop or in a container, until Ctrl-C.

Road:    command line -> [broker] -> InProcessCluster
Thread:  the main thread waits for a signal.
Source:  ours.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType

import click

from pyproducer.broker.cluster.config import BrokerConfig
from pyproducer.broker.cluster.listener import address_text, parse_listeners, without
from pyproducer.broker.control.control_calls import ControlCalls
from pyproducer.broker.control.control_port import ControlPort
from pyproducer.broker.control.in_process import ClusterOptions, InProcessCluster
from pyproducer.common.errors import ConfigError
from pyproducer.common.settings.properties import read_properties

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 9092
CONTROL_TOKEN = "PYPRODUCER_CONTROL_TOKEN"
LOG_LEVELS = ("debug", "info", "warning", "error")


def _topics(_context: click.Context, _parameter: click.Parameter, values: Sequence[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for text in values:
        name, _, count = text.partition(":")
        if count and not count.isdecimal():
            raise click.BadParameter(f"{text!r} is not NAME:PARTITIONS")
        found[name] = int(count) if count else 1
    return found


def _settings(_context: click.Context, _parameter: click.Parameter, values: Sequence[str]) -> dict[str, str]:
    """Read KEY=VALUE and files in the order in which they are given; the later counts."""
    found: dict[str, str] = {}
    for text in values:
        key, equals, value = text.partition("=")
        if equals and not Path(text).exists():
            found[key.strip()] = value.strip()
            continue
        try:
            found.update(read_properties(text))
        except (OSError, ConfigError) as error:
            raise click.BadParameter(f"{text!r} is neither KEY=VALUE nor a file of settings: {error}") from error
    return found


@click.command()
@click.option("--brokers", type=click.IntRange(min=1), default=1, show_default=True,
              help="How many brokers the cluster has; each has the port after the one before.")
@click.option("--host", help=f"Address to listen on; 0.0.0.0 is all.  [default: {DEFAULT_HOST}]")
@click.option("--port", type=click.IntRange(0, 65535),
              help=f"Port of the first broker, 0 for any.  [default: {DEFAULT_PORT}]")
@click.option("--advertised-host", metavar="HOST",
              help="Name or address that clients are told (advertised.listeners), where they cannot use that of "
                   "--host.")
@click.option("--data-dir", help="Where the logs are kept.  [default: log.dirs of --config, else a temporary "
                                 "folder, removed at the end]")
@click.option("--salvage", is_flag=True,
              help="Set damaged logs aside under another name and go on empty where they ended, instead of not "
                   "starting.")
@click.option("--topic", "topics", multiple=True, metavar="NAME[:PARTITIONS]", callback=_topics,
              help="Create this topic, or give it more partitions where it has fewer; may be given several times.")
@click.option("--config", "settings", multiple=True, metavar="FILE|KEY=VALUE", callback=_settings,
              help="A file like server.properties, or a setting under Kafka's name; may be given several times.")
@click.option("--control-port", type=click.IntRange(0, 65535),
              help="Also listen for tests in any language: faults, clock, nodes, requests over HTTP; 0 for any port.")
@click.option("--control-host", default="127.0.0.1", show_default=True,
              help="Where --control-port is; on an address that others reach it asks for the token in "
                   "PYPRODUCER_CONTROL_TOKEN.")
@click.option("--log-level", type=click.Choice(LOG_LEVELS), default="warning", show_default=True,
              help="What is logged to stderr.")
def broker(brokers: int, host: str | None, port: int | None, advertised_host: str | None, data_dir: str | None,
           salvage: bool, topics: Mapping[str, int], settings: Mapping[str, str], control_port: int | None,
           control_host: str, log_level: str) -> None:
    """Run a Kafka broker for tests, laptops and containers until Ctrl-C.

    \b
    Examples:
      pyproducer broker --port 9092 --data-dir ./data --topic orders:3
      pyproducer broker --brokers 3 --config default.replication.factor=3 --topic orders:3
    """  # noqa: D301 - click reads the backspace
    logging.basicConfig(level=log_level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    if salvage:
        settings = {**settings, "salvage.damaged.logs": "true"}
    control = None
    try:
        cluster = InProcessCluster(ClusterOptions(
            brokers, data_dir, topics, cluster_settings(settings, host, port, advertised_host)))
        # The interpreter writes to this pipe whichever thread a signal comes to. A threading.Event would not do: the
        # second of two signals may come in the middle of the first one's set(), which has a lock then that nobody
        # gives back, and a signal that comes to another thread wakes nobody who waits in the main one.
        wanted, want = os.pipe()
        os.set_blocking(want, False)
        signal.set_wakeup_fd(want, warn_on_full_buffer=False)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, _on_signal)
        cluster.start()
        if control_port is not None:
            try:
                control = ControlPort(ControlCalls(cluster), control_host, control_port,
                                      os.environ.get(CONTROL_TOKEN) or None)
            except ConfigError:
                cluster.stop()
                raise
    except ConfigError as error:
        click.echo(f"pyproducer broker: {error}", err=True)
        sys.exit(2)
    try:
        click.echo(f"pyproducer broker listens on {_addresses(cluster)}; data in {cluster.data_dir}; topics: "
                   f"{_topics_text(cluster.topics())}; "
                   + (f"control port {address_text(control_host)}:{control.port}; " if control is not None else "")
                   + "Ctrl-C stops it")
        os.read(wanted, 1)
    finally:  # also where standard output takes nothing
        if control is not None:
            control.stop()
        cluster.stop()


def _on_signal(_number: int, _frame: FrameType | None) -> None:
    """Nothing is left to do: the interpreter wrote to the pipe."""


def cluster_settings(settings: Mapping[str, str], host: str | None, port: int | None,
                     advertised_host: str | None) -> dict[str, object]:
    """Return the settings with what the options say about addresses, which stands above a file.

    Raises:
        ConfigError: A listener makes no sense.
    """
    found: dict[str, object] = dict(settings)
    if "listeners" not in found or host is not None or port is not None:
        found["listeners"] = (f"PLAINTEXT://{address_text(host or DEFAULT_HOST)}:"
                              f"{DEFAULT_PORT if port is None else port}")
        if advertised_host is None and host is not None:
            found.pop("advertised.listeners", None)  # the file's are of the file's listeners
    if advertised_host is not None:
        config = BrokerConfig(found)
        listeners = parse_listeners(without(config.text("controller.listener.names"), config.text("listeners")),
                                    config.text("listener.security.protocol.map"))
        found["advertised.listeners"] = ",".join(
            f"{end_point.listener_name}://{address_text(advertised_host)}:0" for end_point in listeners)
    return found


def _addresses(cluster: InProcessCluster) -> str:
    return ", ".join(f"{name}://{address_text(host)}:{port}" for name, found in cluster.addresses().items()
                     for host, port in found)


def _topics_text(topics: Mapping[str, int]) -> str:
    return ", ".join(f"{name}:{count}" for name, count in sorted(topics.items())) or "none"
