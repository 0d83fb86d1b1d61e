"""How the address of a socket is written: as Java does, so that rules mean the same hosts here and there.

    ::ffff:127.0.0.1, as a listener on all addresses knows a client over IPv4   127.0.0.1
    ::1                                                                         0:0:0:0:0:0:0:1
    fe80::1%eth0                                                                fe80:0:0:0:0:0:0:1%2

Road:    Acceptor, ServerSelector -> [peer address] -> RequestContext -> authorizer, connection quotas
Thread:  pure.
Source:  Java InetAddress.getHostAddress, and getByAddress for IPv4 within IPv6 (17).
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from typing import Any


def host_text(host: str, scope_id: int = 0) -> str:
    """Return an address as Java writes it; what is no address stays as it is."""
    if ":" not in host:
        return host  # IPv4 has one form: nearly all connections
    try:
        address = ipaddress.IPv6Address(host.partition("%")[0])
    except ValueError:
        return host
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    text = ":".join(f"{int(group, 16):x}" for group in address.exploded.split(":"))
    return f"{text}%{scope_id}" if scope_id else text


def host_of(address: Sequence[Any]) -> str:
    """Return the host of a socket's address, which for IPv6 has four parts."""
    return host_text(address[0], address[3] if len(address) > 3 else 0)


def address_text(address: Sequence[Any]) -> str:
    """Return `host:port` of a socket's address, with brackets around the host of IPv6."""
    host = host_of(address)
    return f"[{host}]:{address[1]}" if ":" in host else f"{host}:{address[1]}"


def host_of_text(text: str) -> str:
    """Return the host of what `address_text` wrote."""
    return text.rpartition(":")[0].removeprefix("[").removesuffix("]")
