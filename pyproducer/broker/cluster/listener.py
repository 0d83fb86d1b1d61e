"""Listeners: a name, a security protocol and an address each.

Road:    config -> [listener] -> acceptor, metadata
Thread:  values.
Source:  Java EndPoint, SocketServerConfigs.listenerListToEndPoints, KafkaConfig (4.1). Differs from Java: without
         advertised.listeners 0.0.0.0 is not refused; each client is told the address that it came in by.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from pyproducer.common.errors import ConfigError

_LISTENER = re.compile(r"^(?P<name>[A-Za-z0-9_-]+)://(?P<host>\[[0-9a-fA-F:%]*\]|[^:]*):(?P<port>-?[0-9]+)$")
SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
# Listened on, they are all of the machine's; a client that is told one looks for the broker on its own machine.
ALL_ADDRESSES = ("0.0.0.0", "::")


class EndPoint(NamedTuple):
    """Where one listener listens and what is spoken there. Port 0 means any free one."""

    listener_name: str
    security_protocol: str
    host: str
    port: int


def advertised_end_points(advertised: str | None, listeners: Sequence[EndPoint],
                          port_offset: int = 0) -> list[EndPoint]:
    """Read the setting `advertised.listeners`: the addresses that clients are told.

    Args:
        advertised: The setting; None for the listeners themselves.
        listeners: What is listened on, with the ports that are really used.
        port_offset: Added to the ports that are given; a port 0 is the listener's own.

    Raises:
        ConfigError: An address is not NAME://host:port, of no listener, twice there, or of all addresses (0.0.0.0).
    """
    if advertised is None:
        return list(listeners)
    by_name = {end_point.listener_name: end_point for end_point in listeners}
    found: dict[str, EndPoint] = {}
    for name, host, port in _entries("advertised.listeners", advertised):
        if name not in by_name:
            raise ConfigError("advertised.listeners", advertised, f"there is no such listener as {name}")
        if name in found:
            raise ConfigError("advertised.listeners", advertised, f"listener {name} appears twice")
        if host in ALL_ADDRESSES:
            raise ConfigError("advertised.listeners", advertised,
                              f"cannot use the nonroutable meta-address {host}. Use a routable IP address.")
        own = by_name[name]
        found[name] = own._replace(host=host or own.host, port=port + port_offset if port else own.port)
    return list(found.values())


def address_text(host: str) -> str:
    """Return a host as it stands before a port: an IPv6 address in brackets."""
    return f"[{host}]" if ":" in host and not host.startswith("[") else host


def without(names: str, entries: str) -> str:
    """Return `listeners` or `advertised.listeners` without those of `controller.listener.names`."""
    left_out = {name.strip().upper() for name in names.split(",")}
    return ",".join(entry for entry in entries.split(",") if entry.partition("://")[0].strip().upper() not in left_out)


def parse_listeners(listeners: str, protocol_map: str) -> list[EndPoint]:
    """Read the settings `listeners` and `listener.security.protocol.map`.

    Raises:
        ConfigError: A listener is not NAME://host:port, appears twice, or its protocol is not known.
    """
    protocols: dict[str, str] = {}
    for entry in filter(None, (part.strip() for part in protocol_map.split(","))):
        name, _, protocol = entry.partition(":")
        protocols[name.strip().upper()] = protocol.strip().upper()
    end_points: list[EndPoint] = []
    for name, host, port in _entries("listeners", listeners):
        protocol = protocols.get(name, name)
        if protocol not in SECURITY_PROTOCOLS:
            raise ConfigError("listener.security.protocol.map", protocol_map,
                              f"listener {name} has protocol {protocol}; known are {', '.join(SECURITY_PROTOCOLS)}")
        if any(end_point.listener_name == name for end_point in end_points):
            raise ConfigError("listeners", listeners, f"listener {name} appears twice")
        end_points.append(EndPoint(name, protocol, host or "127.0.0.1", port))
    if not end_points:
        raise ConfigError("listeners", listeners, "there must be at least one listener")
    return end_points


def _entries(key: str, text: str) -> Iterator[tuple[str, str, int]]:
    """Yield name, host ("" when there is none) and port of each entry.

    Raises:
        ConfigError: One is not NAME://host:port.
    """
    for entry in filter(None, (part.strip() for part in text.split(","))):
        match = _LISTENER.match(entry)
        if match is None or not -1 < int(match["port"]) < 65536:
            raise ConfigError(key, text, f"{entry!r} is not of the form NAME://host:port")
        yield match["name"].upper(), match["host"].strip("[]"), int(match["port"])
