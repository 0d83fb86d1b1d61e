"""From host names to the addresses that can be connected to.

Road:    beside NetworkClient; asked before each connect whose addresses are used up.
Thread:  sender thread only. A resolver that is slow holds the sender for that long: the operating system offers no
         call that can be polled, and a third kind of thread is not worth it. The damage is kept small: literal
         addresses never ask the resolver, all addresses of one answer are tried before it is asked again, a failure
         counts towards the reconnect backoff from the moment it was known, and answers that arrived meanwhile are
         read before any request is declared late.
Source:  Java ClientUtils.resolve, DefaultHostResolver, ClientDnsLookup (4.1); KIP-235, KIP-302, KIP-602.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

USE_ALL_DNS_IPS = "use_all_dns_ips"
RESOLVE_CANONICAL_BOOTSTRAP_SERVERS_ONLY = "resolve_canonical_bootstrap_servers_only"


class ResolvedAddress(NamedTuple):
    """One address of a host: the socket family, and what `socket.connect` takes."""

    family: int
    address: tuple[Any, ...]


HostResolver = Callable[[str, int], "list[ResolvedAddress]"]
CanonicalNameResolver = Callable[[ResolvedAddress], "str | None"]


def resolve_host(host: str, port: int) -> list[ResolvedAddress]:
    """Return all addresses of a host, IPv4 first, each once.

    Differs from Java, which keeps only the addresses of the first one's family: here IPv6 addresses follow, so that a
    host with both is reached while one family is broken.

    Raises:
        OSError: The name does not resolve (socket.gaierror). Not sent.
    """
    try:
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
        except OSError:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except UnicodeError as cause:  # A label that is empty or too long fails in the idna codec, before any query.
        raise socket.gaierror(socket.EAI_NONAME, f"{host!r} is not a valid host name: {cause}") from cause
    unique = dict.fromkeys(ResolvedAddress(int(family), tuple(address)) for family, _, _, _, address in found
                           if family in (socket.AF_INET, socket.AF_INET6))
    if not unique:
        raise socket.gaierror(socket.EAI_NONAME, f"{host!r} has no IPv4 or IPv6 address")
    return sorted(unique, key=lambda resolved: resolved.family != socket.AF_INET)


def canonical_name(resolved: ResolvedAddress) -> str | None:
    """Return the name that an address has in reverse DNS, or None when it has none."""
    try:
        return socket.getnameinfo(resolved.address, socket.NI_NAMEREQD)[0]
    except OSError:
        return None


def canonical_bootstrap(bootstrap: Iterable[tuple[str, int]], *, resolve: HostResolver = resolve_host,
                        name_of: CanonicalNameResolver = canonical_name,
                        on_failure: Callable[[str, int, OSError], None] | None = None) -> list[tuple[str, int]]:
    """Replace each bootstrap address by the canonical names of all its addresses (Kerberos needs those names).

    An address without a name in reverse DNS stays a literal address; a host that does not resolve is left out and
    told to `on_failure`.

    Returns:
        The addresses, each once, in order; empty when nothing resolved.

    Source: Java ClientUtils.parseAndValidateAddresses with RESOLVE_CANONICAL_BOOTSTRAP_SERVERS_ONLY.
    """
    expanded: dict[tuple[str, int], None] = {}
    for host, port in bootstrap:
        try:
            addresses = resolve(host, port)
        except OSError as error:
            if on_failure is not None:
                on_failure(host, port, error)
            continue
        for resolved in addresses:
            expanded[name_of(resolved) or str(resolved.address[0]), port] = None
    return list(expanded)


def address_text(host: str, port: int) -> str:
    """Return `host:port`, an IPv6 literal in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
