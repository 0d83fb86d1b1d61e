"""From host names to the addresses that can be connected to.

Road:    resolver -> [addresses] -> the system's resolver
Thread:  any; holds no state. Whatever asks for a name may take many seconds, for the operating system offers no call
         that can be polled: resolver.py keeps it away from the sender's thread. Only `resolve_literal` asks nobody.
Source:  Java ClientUtils.resolve, DefaultHostResolver, ClientDnsLookup (4.1); KIP-235, KIP-302, KIP-602.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any, NamedTuple

from pyproducer.common.printable import LONGEST_NAME, printable

USE_ALL_DNS_IPS = "use_all_dns_ips"
RESOLVE_CANONICAL_BOOTSTRAP_SERVERS_ONLY = "resolve_canonical_bootstrap_servers_only"


class ResolvedAddress(NamedTuple):
    """One address of a host: the socket family, and what `socket.connect` takes."""

    family: int
    address: tuple[Any, ...]

    def with_port(self, port: int) -> ResolvedAddress:
        """Return the same address with another port."""
        return ResolvedAddress(self.family, (self.address[0], port, *self.address[2:]))


HostResolver = Callable[[str, int], "list[ResolvedAddress]"]
CanonicalNameResolver = Callable[[ResolvedAddress], "str | None"]


def resolve_literal(host: str, port: int) -> list[ResolvedAddress]:
    """Return the address that an IP literal names, without asking anybody; empty when the host is a name."""
    try:
        return _unique(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST))
    except (OSError, UnicodeError):
        return []


def resolve_host(host: str, port: int) -> list[ResolvedAddress]:
    """Return all addresses of a host, at least one, IPv4 first, each once.

    Differs from Java, which keeps only the addresses of the first one's family: here IPv6 addresses follow, so that a
    host with both is reached while one family is broken.

    Raises:
        OSError: The name does not resolve (socket.gaierror). Not sent.
    """
    literal = resolve_literal(host, port)
    if literal:
        return literal
    try:
        resolved = _unique(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
    except UnicodeError as cause:  # A label that is empty or too long fails in the idna codec, before any query.
        raise socket.gaierror(socket.EAI_NONAME, f"'{printable(host, LONGEST_NAME)}' is not a valid host name: "
                              f"{printable(str(cause))}") from cause
    if not resolved:
        raise socket.gaierror(socket.EAI_NONAME, f"'{printable(host, LONGEST_NAME)}' has no IPv4 or IPv6 address")
    return resolved


def _unique(found: list[tuple[Any, ...]]) -> list[ResolvedAddress]:
    unique = dict.fromkeys(ResolvedAddress(int(family), tuple(address)) for family, _, _, _, address in found
                           if family in (socket.AF_INET, socket.AF_INET6))
    return sorted(unique, key=lambda resolved: resolved.family != socket.AF_INET)


def canonical_name(resolved: ResolvedAddress) -> str | None:
    """Return the name that an address has in reverse DNS, or None when it has none."""
    try:
        return socket.getnameinfo(resolved.address, socket.NI_NAMEREQD)[0]
    except OSError:
        return None


def canonical_names(host: str, port: int, *, resolve: HostResolver = resolve_host,
                    name_of: CanonicalNameResolver = canonical_name) -> list[str]:
    """Return the canonical names of all addresses of a host (Kerberos needs those names).

    An address without a name in reverse DNS stays a literal address.

    Raises:
        OSError: The host does not resolve. Not sent.

    Source: Java ClientUtils.parseAndValidateAddresses with RESOLVE_CANONICAL_BOOTSTRAP_SERVERS_ONLY.
    """
    return [name_of(resolved) or str(resolved.address[0]) for resolved in resolve(host, port)]
