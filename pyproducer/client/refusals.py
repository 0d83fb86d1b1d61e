"""Who is told when a node refuses us, by TLS or SASL: what it leads at once, and the rest when nobody is left.

    one refuses      the batches that it leads fail; who waits for metadata goes on, for another node may take us
    all have done    who waits for metadata fails, and so do batches without a leader; then all are asked anew
    one takes us     what the others said does not count any more

A node that cannot be reached is not waited for: in a list of servers there may be one that is gone for good, and who
has a wrong password is to be told so, and not of a timeout. It has two attempts.
Nodes count by their address, for one of bootstrap.servers may be a node of the cluster, too.

Road:    Connections (a connection ended) -> [refusals] -> ProducerMetadata -> Completion, callers who wait
Thread:  sender thread only.
Source:  ours. In Java the first refusal fails one caller who waits for metadata, whatever the other nodes say, and
         batches wait for delivery.timeout.ms (NetworkClient.handleServerDisconnect, Metadata.fatalError, 4.1).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyproducer.client.connection_states import ClusterConnectionStates
    from pyproducer.client.metadata import ProducerMetadata
    from pyproducer.common.cluster import Node
    from pyproducer.common.errors import KafkaError


class Refusals:
    """The refusals of the nodes since one of them took us, or since all had refused.

    Args:
        metadata: Whom may be asked, and who waits.
        states: Who cannot be reached.
    """

    def __init__(self, metadata: ProducerMetadata, states: ClusterConnectionStates) -> None:
        self._metadata = metadata
        self._states = states
        self._by_address: dict[tuple[str, int], KafkaError] = {}  # the newest one last

    def note(self, node: Node, error: KafkaError) -> None:
        """A node refused us for good, or we it."""
        address = node.host, node.port
        self._by_address.pop(address, None)
        self._by_address[address] = error
        if node.node_id >= 0:
            self._metadata.refused(node.node_id, error)

    def forget(self) -> None:
        """A node took us."""
        self._by_address.clear()

    def tell(self) -> None:
        """A connection ended, or was not made: tell who waits, where no node is left that may take us."""
        if self._by_address and all(map(self._is_hopeless, self._metadata.nodes_to_ask())):
            error = list(self._by_address.values())[-1]
            self._by_address.clear()
            self._metadata.refused_by_all(error)

    def _is_hopeless(self, node: Node) -> bool:
        return (node.host, node.port) in self._by_address or self._states.is_dead(node)
