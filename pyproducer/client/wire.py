"""The wire: the client of now, thrown away when a turn ended half way.

    Wire --> NetworkClient --> Selector, connection states, requests in flight, metadata updater, versions of nodes

Nobody knows what an exception from anywhere left in these, so nothing of it is repaired. What must outlive them is not
in them: batches and their states, metadata and its last errors, sequence numbers, lookups of names, and the wake-up.

Road:    Sender, OwnRequests, IoThread -> [wire] -> NetworkClient, or a test's MockClient
Thread:  the sender thread; `Wire.wakeup` any. `Wire.client` may be read by any thread, to look at.
Source:  ours: Java's NetworkClient lives as long as its producer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyproducer.client.network_client import NetworkClient
    from pyproducer.network.wakeup import Wakeup


class Wire:
    """Holds the present client.

    Args:
        make_client: Makes one without connections, whose selector sleeps until `wakeup`.
        wakeup: The sender's; closed with the wire. One for all clients: a caller who rings while they change rings the
            next poll, whichever client polls.
        ring: Wakes the sender's thread where it sleeps elsewhere; see sender/turns.py.

    Attributes:
        client: The present one. Whoever keeps it beyond a turn may have one that is closed.
    """

    __slots__ = ("_make_client", "_ring", "_wakeup", "client")

    def __init__(self, make_client: Callable[[], NetworkClient], wakeup: Wakeup,
                 ring: Callable[[], None] = lambda: None) -> None:
        self._make_client = make_client
        self._wakeup = wakeup
        self._ring = ring
        self.client: NetworkClient = make_client()

    def wakeup(self) -> None:
        """Have the sender look at its work: end a poll that sleeps, or the next one. Thread: any."""
        # The request is written before the ring asks who sleeps, and the other way round in turns.py: one of them sees.
        self._wakeup.wakeup()
        self._ring()

    def renew(self) -> None:
        """Throw the client away, with its connections and requests, and make another.

        No request is completed: whoever calls this knows what was on its way.
        """
        self.client.close()  # first: the new one may need the file descriptors
        self.client = self._make_client()

    def abandon(self) -> None:
        """Close this process's descriptors, in a child: no byte is written, and the parent's stay as they are."""
        try:
            self.client.abandon()
        finally:
            self._wakeup.close()

    def close(self) -> None:
        """Close the client and the wake-up. Requests in flight are not completed: whoever closes knows them."""
        try:
            self.client.close()
        finally:
            self._wakeup.close()
