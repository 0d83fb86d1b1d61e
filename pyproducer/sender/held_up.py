"""Which nodes took nothing in a turn that had something for them: until the next turn, batches wait for that.

Road:    beside the sender -> ledger
Thread:  sender thread only.
Source:  ours.
"""

from __future__ import annotations

from pyproducer.hotpath import NodeRow
from pyproducer.observe.registry import Registry


class HeldUp:
    """Notes from when until when a node was held up, and by what."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._nodes: list[tuple[NodeRow, int, int]] = []

    def note(self, node_id: int, reason: int, now_ms: int) -> None:
        """A node is held up from now on."""
        self._nodes.append((self._registry.node(node_id), reason, now_ms))

    def end(self, now_ms: int) -> None:
        """It is another turn: they were held up until now."""
        for row, reason, from_ms in self._nodes:
            row.held.note(reason, from_ms, now_ms)
        self._nodes.clear()
