"""How many connections one address may have: max.connections.per.ip.

Road:    Acceptor -> [connection quotas]
Thread:  any acceptor's; one lock.
Source:  Java ConnectionQuotas (4.1). Differs from Java: nobody reports the end of a connection; the sockets that were
         let in are looked at when the next one of the same address comes.
"""

from __future__ import annotations

import socket
import threading

from pyproducer.broker.cluster.config import MAX_INT, BrokerConfig
from pyproducer.broker.request.peer_address import host_of
from pyproducer.common.errors import ConfigError


class ConnectionQuotas:
    """Counts the connections of a broker by their peer's address.

    Args:
        limit: Most connections of one address.
        overrides: Addresses that have their own limit.
    """

    def __init__(self, limit: int, overrides: dict[str, int]) -> None:
        self._limit = limit
        self._overrides = overrides
        self._lock = threading.Lock()  # guards _sockets
        self._sockets: dict[str, list[socket.socket]] = {}

    def limit_of(self, address: str) -> int:
        """Return how many connections an address may have."""
        return self._overrides.get(address, self._limit)

    def try_add(self, address: str, sock: socket.socket) -> bool:
        """Count a connection; return False, and do not, when its address has as many as it may."""
        with self._lock:
            open_sockets = [other for other in self._sockets.get(address, ()) if other.fileno() >= 0]
            has_room = len(open_sockets) < self.limit_of(address)
            if has_room:
                open_sockets.append(sock)
            self._sockets[address] = open_sockets
            return has_room


def connection_quotas(config: BrokerConfig) -> ConnectionQuotas | None:
    """Return the quotas of a broker; None when there is no limit.

    Raises:
        ConfigError: The overrides are not `address:count,...`, or a name is none of a host.
    """
    limit = config.number("max.connections.per.ip")
    text = config.text("max.connections.per.ip.overrides")
    overrides: dict[str, int] = {}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        address, _, count = entry.rpartition(":")
        if not address or not count.isdecimal():
            raise ConfigError("max.connections.per.ip.overrides", text, f"{entry!r} is not of the form address:count")
        try:
            hosts = {host_of(found) for *_, found in socket.getaddrinfo(address.strip("[]"), 0)}
        except OSError as error:
            raise ConfigError("max.connections.per.ip.overrides", text, f"{address} is no host: {error}") from error
        overrides.update(dict.fromkeys(hosts, int(count)))
    return None if limit == MAX_INT and not overrides else ConnectionQuotas(limit, overrides)
