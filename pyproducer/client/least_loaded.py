"""Which node to ask when any will do.

Road:    metadata_updater -> [choice] -> NetworkClient
Thread:  sender thread only; pure but for the random start.
Source:  Java NetworkClient.leastLoadedNode (4.1), KIP-899 (whether any node is left).
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyproducer.client.metadata_updater import NodeChoice

if TYPE_CHECKING:
    from pyproducer.client.connections import Connections
    from pyproducer.common.cluster import Node


def choose_least_loaded(nodes: Sequence[Node], connections: Connections, now_ms: int) -> NodeChoice:
    """Choose the node with the fewest requests in flight.

    Established connections come first, then one that is being built, then the node whose last attempt is the longest
    ago; never one whose backoff is not over. The search starts anywhere, so that clients spread over the brokers.
    """
    ready: Node | None = None
    preparing: Node | None = None
    connectable: Node | None = None
    connectable_attempt_ms = 0
    fewest = 2**31
    any_connection_ready = False
    start = random.randrange(len(nodes)) if nodes else 0
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
        if connections.is_connection_ready(node_id, now_ms):
            any_connection_ready = True
            continue
        state = connections.states.get(node_id)
        if state is not None and state.is_preparing:
            preparing = node
        elif connections.states.can_connect(node_id, now_ms):
            attempt_ms = -2**62 if state is None else state.last_attempt_ms
            if connectable is None or attempt_ms < connectable_attempt_ms:
                connectable, connectable_attempt_ms = node, attempt_ms
    chosen = ready or preparing or connectable
    return NodeChoice(chosen, chosen is not None or any_connection_ready)
