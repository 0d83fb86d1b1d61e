"""The metadata updater's way to the brokers, over the same connections as everything else.

Road:    metadata_updater -> [transport] -> Connections
Thread:  sender thread only.
Source:  Java NetworkClient.DefaultMetadataUpdater.sendInternalMetadataRequest (4.1).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyproducer.client.failures import VERSION_NEGOTIATION
from pyproducer.client.least_loaded import choose_least_loaded
from pyproducer.client.metadata_updater import NodeChoice
from pyproducer.client.request import ClientRequest
from pyproducer.common.cluster import address_text
from pyproducer.common.errors import IllegalStateError, UnsupportedVersionError
from pyproducer.protocol.apis import ApiKeys

if TYPE_CHECKING:
    from pyproducer.client.connections import Connections
    from pyproducer.client.metadata import ProducerMetadata
    from pyproducer.common.cluster import Node


class ClientMetadataTransport:
    """The `MetadataTransport` of NetworkClient."""

    def __init__(self, connections: Connections, metadata: ProducerMetadata, request_timeout_ms: int,
                 next_random: Callable[[], int]) -> None:
        self._connections = connections
        self._metadata = metadata
        self._request_timeout_ms = request_timeout_ms
        self._next_random = next_random

    def choose_node(self, now_ms: int) -> NodeChoice:
        """Return the least loaded node, and whether there is hope among the nodes that may be asked."""
        nodes = self._metadata.nodes_to_ask()
        without_topic = self._metadata.node_without_topic()
        if without_topic is not None:
            second = self._second_opinion([node for node in nodes if node.node_id != without_topic], now_ms)
            if second is not None:
                return NodeChoice(second, True)
        return choose_least_loaded(nodes, self._connections, now_ms, self._next_random)

    def _second_opinion(self, nodes: Sequence[Node], now_ms: int) -> Node | None:
        """Return one that can be asked now, where one broker alone does not know a topic.

        Beside that one, which goes on being asked, begins to connect to another that was not found dead.
        """
        for node in nodes:
            if self._connections.can_send_request(node.node_id, now_ms):
                return node
        for node in nodes:
            state = self._connections.states.get(node.node_id)
            if (state is None or not state.failed_attempts) and self._connections.states.can_connect(
                    node.node_id, now_ms):
                self._connections.initiate_connect(node, now_ms)
                break
        return None

    def can_send_request(self, node_id: int, now_ms: int) -> bool:
        """Whether a request may be sent to the node now."""
        return self._connections.can_send_request(node_id, now_ms)

    def can_connect(self, node_id: int, now_ms: int) -> bool:
        """Whether a connect may be tried now."""
        return self._connections.states.can_connect(node_id, now_ms)

    def is_anyone_preparing(self, now_ms: int) -> bool:
        """Whether a connection is being built, and not held up by a slow name."""
        return self._connections.states.is_anyone_preparing(now_ms)

    def initiate_connect(self, node: Node, now_ms: int) -> None:
        """Begin to connect."""
        self._connections.initiate_connect(node, now_ms)

    def send_metadata_request(self, node: Node, body: Mapping[str, Any], now_ms: int) -> UnsupportedVersionError | None:
        """Send it; returns the error when the node has no version of Metadata in common with us."""
        versions = self._connections.api_versions.get(node.node_id)
        if versions is None:
            raise IllegalStateError(f"{node} is not ready")
        try:
            version = versions.latest_usable_version(ApiKeys.METADATA)
            self._connections.send(
                ClientRequest(node.node_id, ApiKeys.METADATA, lambda _: body, timeout_ms=self._request_timeout_ms,
                              created_ms=now_ms), version, body, now_ms, internal=True)
        except UnsupportedVersionError as error:
            self._metadata.note_failure(address_text(node.host, node.port), f"{VERSION_NEGOTIATION}: {error}")
            return error
        return None
