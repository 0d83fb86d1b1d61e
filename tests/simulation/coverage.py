"""Which moves the seeds reached in tables of batches, lives, connections and transactions; which answers were given.

The tables are replaced by ones that look the same and remember what was asked of them.

Source:  ours.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from pyproducer.accumulator import batch_state, life
from pyproducer.client import connection_states
from pyproducer.transaction import transaction_state

_TABLES: dict[str, Any] = {"connection": connection_states, "transaction": transaction_state}


class _WatchedMoves:
    """The states that may follow one; remembers those that did."""

    def __init__(self, name: str, source: Any, targets: Iterable[Any], reached: Counter[str]) -> None:
        self._targets = frozenset(targets)
        self._names = {target: f"{name} {source.name} > {target.name}" for target in self._targets}
        self._reached = reached

    def __contains__(self, target: object) -> bool:
        name = self._names.get(target)
        if name is None:
            return False
        self._reached[name] += 1
        return True

    def __iter__(self) -> Iterator[Any]:
        return iter(self._targets)


class _WatchedTable(dict[Any, Any]):
    """A table of (state, event) -> state."""

    name: str
    reached: Counter[str]

    def __getitem__(self, key: Any) -> Any:
        self.reached[f"{self.name} {key[0].name} + {key[1].name}"] += 1
        return super().__getitem__(key)

    def get(self, key: Any, default: Any = None) -> Any:
        if key in self:
            self.reached[f"{self.name} {key[0].name} + {key[1].name}"] += 1
        return super().get(key, default)


class Coverage:
    """What all seeds of this process reached."""

    def __init__(self) -> None:
        self.reached: Counter[str] = Counter()

    def watch(self) -> None:
        """Begin to watch."""
        for name, table in (("batch", batch_state._MOVES), ("life", life._MOVES)):
            watched: Any = table
            for source, targets in list(watched.items()):
                watched[source] = _WatchedMoves(name, source, targets, self.reached)
        for name, owner in _TABLES.items():
            transitions = _WatchedTable(owner.TRANSITIONS)
            transitions.name, transitions.reached = name, self.reached
            owner.TRANSITIONS = transitions


def all_moves() -> list[str]:
    """Name every move that the tables have, in their order."""
    moves = [f"{name} {source.name} > {target.name}" for name, table in (
        ("batch", batch_state._MOVES), ("life", life._MOVES)) for source, targets in table.items()
        for target in sorted(targets, key=lambda state: state.name)]
    return moves + [f"{name} {state.name} + {event.name}" for name, owner in _TABLES.items()
                    for state, event in owner.TRANSITIONS]
