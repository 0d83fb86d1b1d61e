"""What the sender needs of the network: requests to nodes, and turns in which their answers come.

Road:    Sender -> [KafkaClient] -> NetworkClient, or a test's MockClient
Thread:  sender thread only.
Source:  Java KafkaClient (4.1), the part that a producer uses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pyproducer.client.request import ClientRequest, ClientResponse
    from pyproducer.common.cluster import Node


class KafkaClient(Protocol):
    """The part of NetworkClient that the sender and its thread use."""

    def ready(self, node: Node, now_ms: int) -> bool:
        """Whether a request may be sent to the node; begins to connect when there is no connection."""

    def poll_delay_ms(self, node: Node, now_ms: int) -> int:
        """Return how long to wait before the node is worth asking again, in ms; huge when an event will tell."""

    def least_loaded_node(self, now_ms: int) -> Node | None:
        """Return the node with the fewest requests in flight, or None when none can be used now."""

    def in_flight_request_count(self, node_id: int | None = None) -> int:
        """Return the number of unanswered requests to a node, or to all."""

    @property
    def requests_sent(self) -> int:
        """How many requests were handed to connections."""

    def send(self, request: ClientRequest, now_ms: int) -> None:
        """Hand a request to the connection of its node, which must be ready.

        Raises:
            IllegalStateError: The node is not ready, or the client is closed. Not sent.
        """

    def poll(self, timeout_ms: int, now_ms: int) -> list[ClientResponse]:
        """Do one turn of at most `timeout_ms`; return the requests that ended, after `on_complete` of each.

        What it raises leaves a client that is of no use: see Wire.
        """

    def close(self) -> None:
        """Close all connections, whatever an exception left undone. Requests in flight are not completed."""
