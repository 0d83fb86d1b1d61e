"""Whether an address is of this machine alone.

Road:    control port, doctor -> [loopback]
Thread:  any.
Source:  RFC 1122 3.2.1.3, RFC 4291 2.5.3, RFC 6761 6.3.
"""

from __future__ import annotations

import ipaddress


def is_loopback(host: str) -> bool:
    """Return whether nobody else reaches this host: a literal of the loopback networks, or localhost."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"
