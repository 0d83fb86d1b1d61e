"""Which node to ask when any will do.

Road:    metadata_updater -> [choice] -> NetworkClient
Thread:  sender thread only; pure but for where the search starts.
Source:  Java NetworkClient.leastLoadedNode (4.1), KIP-899 (whether there is hope).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pyproducer.client.connections import Connections
    from pyproducer.common.cluster import Node

# In a row, without a working connection between: the end of a connection alone may mean nothing, a connect that fails
# after it does. Differs from Java, where there is hope while the backoff of any node is over; with two brokers or more
# that is nearly always so, however dead they are.
FAILURES_OF_A_DEAD_NODE = 2


class NodeChoice(NamedTuple):
    """The least loaded node, and whether any node is connected, being connected, or was not found dead yet."""

    node: Node | None
    any_hope: bool


def choose_least_loaded(nodes: Sequence[Node], connections: Connections, now_ms: int,
                        next_random: Callable[[], int]) -> NodeChoice:
    """Choose the node with the fewest requests in flight.

    Established connections come first, then one that is being built, then the node whose last attempt is the longest
    ago; never one whose backoff is not over, or whose name is slow to resolve. The search starts anywhere, so that
    clients spread over the brokers.
    """
    ready: Node | None = None
    preparing: Node | None = None
    connectable: Node | None = None
    connectable_attempt_ms = 0
    fewest = 2**31
    any_hope = False
    start = next_random()
    for index in range(len(nodes)):
        node = nodes[(start + index) % len(nodes)]
        node_id = node.node_id
        if connections.can_send_request(node_id, now_ms):
            count = connections.in_flight.count(node_id)
            if count == 0:
                return NodeChoice(node, True)
            if count < fewest:
                ready, fewest = node, count
            continue
        state = connections.states.get(node_id)
        any_hope = any_hope or connections.states.failed_attempts(node) < FAILURES_OF_A_DEAD_NODE
        if state is not None and state.is_preparing:
            if not state.resolves_slowly(now_ms):
                preparing = node
        elif connections.states.is_due(node_id, now_ms):
            attempt_ms = -2**62 if state is None else state.last_attempt_ms
            if connectable is None or attempt_ms < connectable_attempt_ms:
                connectable, connectable_attempt_ms = node, attempt_ms
    return NodeChoice(ready or preparing or connectable, any_hope or ready is not None)
