"""What a node's next request waits for, and what metadata wait for: a number for the ledger.

Road:    NetworkClient -> [held up] -> ledger
Thread:  sender thread only.
Source:  ours.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyproducer.client.connection_states import ClusterConnectionStates, ConnectionState
from pyproducer.hotpath import CONNECTION, METADATA, NAME, SLOT, THROTTLE

if TYPE_CHECKING:
    from pyproducer.client.in_flight import InFlightRequests


def node_held_up_by(states: ClusterConnectionStates, in_flight: InFlightRequests, node_id: int, now_ms: int) -> int:
    """Return why no request can be sent to a node now; METADATA where only those come first."""
    state = states.by_node.get(node_id)
    if state is None or state.state is not ConnectionState.READY:
        return NAME if state is not None and state.is_resolving else CONNECTION
    if state.throttle_until_ms > now_ms:
        return THROTTLE
    if now_ms >= state.session_due_ms:
        return CONNECTION
    return METADATA if in_flight.can_send_more(node_id) else SLOT


def metadata_held_up_by(states: ClusterConnectionStates) -> int:
    """Return what stands between us and the next answer with metadata."""
    preparing = states.preparing.values()
    if any(state.is_resolving for state in preparing):
        return NAME
    if preparing or not any(state.state is ConnectionState.READY for state in states.by_node.values()):
        return CONNECTION
    return METADATA
