"""Listeners: a name, a security protocol and an address each.

Road:    config -> [listener] -> acceptor, metadata
Thread:  values.
Source:  Java EndPoint, SocketServerConfigs.listenerListToEndPoints (4.1).
"""

from __future__ import annotations

import re
from typing import NamedTuple

from pyproducer.common.errors import ConfigError

_LISTENER = re.compile(r"^(?P<name>[A-Za-z0-9_-]+)://(?P<host>\[[0-9a-fA-F:%]*\]|[^:]*):(?P<port>-?[0-9]+)$")
SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL")


class EndPoint(NamedTuple):
    """Where one listener listens and what is spoken there. Port 0 means any free one."""

    listener_name: str
    security_protocol: str
    host: str
    port: int


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
    for entry in filter(None, (part.strip() for part in listeners.split(","))):
        match = _LISTENER.match(entry)
        if match is None or not -1 < int(match["port"]) < 65536:
            raise ConfigError("listeners", listeners, f"{entry!r} is not of the form NAME://host:port")
        name = match["name"].upper()
        protocol = protocols.get(name, name)
        if protocol not in SECURITY_PROTOCOLS:
            raise ConfigError("listener.security.protocol.map", protocol_map,
                              f"listener {name} has protocol {protocol}; known are {', '.join(SECURITY_PROTOCOLS)}")
        if any(end_point.listener_name == name for end_point in end_points):
            raise ConfigError("listeners", listeners, f"listener {name} appears twice")
        host = match["host"].strip("[]") or "127.0.0.1"
        end_points.append(EndPoint(name, protocol, host, int(match["port"])))
    if not end_points:
        raise ConfigError("listeners", listeners, "there must be at least one listener")
    return end_points
