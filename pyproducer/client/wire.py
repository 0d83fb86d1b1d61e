"""The wire: what the sender needs of the network, and the client of now, thrown away when a turn ended half way.

    Wire --> NetworkClient --> Selector, connection states, requests in flight, metadata updater, versions of nodes

Nobody knows what an exception from anywhere left in these, so nothing of it is repaired. What must outlive them is not
in them: batches and their states, metadata and its last errors, sequence numbers, lookups of names, and the wake-up.

Road:    Sender, OwnRequests, IoThread -> [wire] -> NetworkClient, or a test's MockClient
Thread:  the sender thread; `Wire.wakeup` any. `Wire.client` may be read by any thread, to look at.
Source:  Java KafkaClient (4.1), the part that a producer uses. The wire is ours: Java's NetworkClient lives as long as
         its producer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pyproducer.client.api_versions import FinalizedFeatures
    from pyproducer.client.request import ClientRequest, ClientResponse
    from pyproducer.common.cluster import Node
    from pyproducer.protocol.apis import ApiKeys


class KafkaClient(Protocol):
    """The part of NetworkClient that the sender and its thread use.

    Attributes:
        woke_ms: When its last poll was done with sleeping, or that of the one before it; NEVER_MS before any.
        rest_ms: For how long since then nobody had the sender's role, in ms: the next poll tells none of it as the
            sender's time. Written by who takes the role again.
    """

    woke_ms: int
    rest_ms: int

    def is_ready(self, node_id: int, now_ms: int) -> bool:
        """Whether a request may be sent to the node."""

    def has_nothing_under_way(self) -> bool:
        """Whether no answer, no connection and no name is awaited."""

    def ready(self, node: Node, now_ms: int) -> bool:
        """Whether a request may be sent to the node; begins to connect when there is no connection."""

    def poll_delay_ms(self, node: Node, now_ms: int) -> int:
        """Return how long to wait before the node is worth asking again, in ms; huge when an event will tell."""

    def api_version(self, node_id: int, api_key: ApiKeys, max_version: int | None = None) -> int | None:
        """Return the version that a request would use, or None while the node's versions are not known.

        Raises:
            UnsupportedVersionError: The node and we have no version in common. Not sent.
        """

    def held_up_by(self, node_id: int, now_ms: int) -> int:
        """Return why no request can be sent to a node now, as the ledger numbers reasons."""
    def connection_failed(self, node: Node) -> bool:
        """Whether the last connection to the node ended and no new one was begun."""

    @property
    def finalized_features(self) -> FinalizedFeatures:
        """The feature levels that the cluster agreed on, as far as its nodes told this client."""

    def least_loaded_node(self, now_ms: int) -> Node | None:
        """Return the node with the fewest requests in flight, or None when none can be used now."""

    def in_flight_request_count(self, node_id: int | None = None) -> int:
        """Return the number of unanswered requests to a node, or to all."""

    @property
    def waits_for(self) -> int:
        """What stands between its sleep and metadata, as the ledger numbers reasons; 0 where nothing does."""
    def confirmation_wait_ms(self, now_ms: int) -> int:
        """Return how long the end may wait for brokers to reach what gets no answer (acks=0), in ms; 0 for not."""

    def move_deadlines(self, gap_ms: int) -> None:
        """Let requests, and connections that are being built, have so much longer, in ms."""

    def send(self, request: ClientRequest, now_ms: int) -> None:
        """Hand a request to the connection of its node, which must be ready.

        Raises:
            IllegalStateError: The node is not ready, or the client is closed. Not sent.
        """

    def poll(self, timeout_ms: int, now_ms: int) -> list[ClientResponse]:
        """Do one turn of at most `timeout_ms`; return the requests that ended, after `on_complete` of each.

        What it raises leaves a client that is of no use: see Wire.
        """

    def hear(self, now_ms: int) -> list[ClientResponse]:
        """Do the part of a poll that takes what has arrived, without a wait; nobody is asked for anything."""

    def close(self) -> None:
        """Close all connections, whatever an exception left undone. Requests in flight are not completed."""

    def abandon(self) -> None:
        """Close this process's descriptors, in a child: the connections are the parent's."""


class PollWakeup(Protocol):
    """Ends the sleep of whichever client polls: network.Wakeup, or a test's."""

    def wakeup(self) -> None:
        """End a poll that sleeps, or else the next one. Any thread; harmless when closed."""

    def close(self) -> None:
        """Close what it consists of."""


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

    def __init__(self, make_client: Callable[[], KafkaClient], wakeup: PollWakeup,
                 ring: Callable[[], None] = lambda: None) -> None:
        self._make_client = make_client
        self._wakeup = wakeup
        self._ring = ring
        self.client: KafkaClient = make_client()

    def wakeup(self) -> None:
        """Have the sender look at its work: end a poll that sleeps, or the next one. Thread: any."""
        # The request is written before the ring asks who sleeps, and the other way round in turns.py: one of them sees.
        self._wakeup.wakeup()
        self._ring()

    def renew(self) -> None:
        """Throw the client away, with its connections and requests, and make another.

        No request is completed: whoever calls this knows what was on its way.
        """
        before = self.client
        before.close()  # first: the new one may need the file descriptors
        self.client = self._make_client()
        self.client.rest_ms = before.rest_ms
        self.client.woke_ms = before.woke_ms  # the process may stand still before the new one polls for the first time

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
