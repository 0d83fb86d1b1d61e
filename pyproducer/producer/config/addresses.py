"""Parses bootstrap.servers.

Road:    properties -> [addresses] -> metadata's first nodes
Thread:  pure functions; no DNS.
Source:  Java ClientUtils.parseAndValidateAddresses, Utils.getHost/getPort (4.1), probed. Differs from Java: port 0 and
         an empty host are refused, because nothing can listen there, and schemes other than the protocol that is
         spoken; names are not resolved here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from pyproducer.common.errors import ConfigError
from pyproducer.common.secrets import HIDDEN

KEY = "bootstrap.servers"
_PARTS = re.compile(r"(?:(?P<scheme>[0-9A-Za-z_.%+-]+)://)?(?P<host>\[[^\[\]]*\]|.*):(?P<port>[0-9]{1,20})", re.ASCII)
_NAME = re.compile(r"(?:[0-9A-Za-z_%-]+\.)*[0-9A-Za-z_%-]+\.?", re.ASCII)
_WRONG_PORT = re.compile(r"(?:.*://)?(?:\[[^\[\]]*\]|[^:\[\]]*):(?!//)(?P<port>[^:\[\]]{1,20})")
# Java takes any scheme and ignores it. Addresses are copied with these out of a broker's listeners, others out of URLs.
# Who writes SSL:// means it, so that another protocol would be spoken than he believes: security.protocol says which.
PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_EXAMPLE = "write host:port, several with commas: 'broker1:9092,[::1]:9093'"


def parse_bootstrap_servers(servers: Iterable[str], protocol: str | None = None) -> tuple[tuple[str, int], ...]:
    """Return the addresses as pairs of host and port; an IPv6 host comes without its brackets.

    Args:
        servers: What bootstrap.servers lists.
        protocol: What security.protocol says; None where a scheme may be any of Kafka's.

    Raises:
        ConfigError: There is none, or one is malformed or has the scheme of another protocol.
    """
    items = tuple(servers)
    for item in items:
        if "@" in item:  # looked for in all first: a comma in a password leaves its beginning in the item before
            raise ConfigError(KEY, f"{HIDDEN}@{item.rpartition('@')[2]}",
                              f"no user name or password belongs here, but into sasl.jaas.config: {_EXAMPLE}")
    addresses = tuple(_parse_address(item, protocol) for item in items if item)
    if not addresses:
        raise ConfigError(KEY, ",".join(items), f"at least one broker is required: {_EXAMPLE}")
    return addresses


def _parse_address(text: str, protocol: str | None) -> tuple[str, int]:
    parts = _PARTS.fullmatch(text)
    if parts is None:
        wrong = _WRONG_PORT.fullmatch(text)
        if wrong is not None:
            raise ConfigError(KEY, text, f"{wrong['port']!r} is not a port, which is a number: {_EXAMPLE}")
        raise ConfigError(KEY, text, f"no port: {_EXAMPLE}")
    scheme = parts["scheme"]
    if scheme is not None and scheme.upper() not in PROTOCOLS:
        raise ConfigError(KEY, text, f"a broker's address has no scheme, such as {scheme}://. How to speak with it is "
                          f"said by security.protocol: {_EXAMPLE}")
    if scheme is not None and protocol is not None and scheme.upper() != protocol:
        raise ConfigError(KEY, text, f"{scheme}:// contradicts security.protocol = {protocol}: set that to "
                          f"{scheme.upper()}, or leave the scheme out")
    host, port = parts["host"], int(parts["port"])
    if not 0 < port < 65536:
        raise ConfigError(KEY, text, f"port {port} is out of range: it must be from 1 to 65535")
    if host.startswith("["):
        if not host.endswith("]") or not _is_ipv6(host[1:-1]):
            raise ConfigError(KEY, text, f"{host} is not an IPv6 address in brackets: {_EXAMPLE}")
        return host[1:-1], port
    if ":" in host:
        if not _is_ipv6(host):
            raise ConfigError(KEY, text, f"more than one colon: {_EXAMPLE}")
        return host, port
    if not _NAME.fullmatch(host):
        raise ConfigError(KEY, text, f"{host!r} is not a host name: {_EXAMPLE}")
    return host, port


def _is_ipv6(text: str) -> bool:
    from ipaddress import IPv6Address  # here: few write one

    try:
        IPv6Address(text)
    except ValueError:
        return False
    return True
