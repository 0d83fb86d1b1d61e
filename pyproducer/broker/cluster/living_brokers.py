"""Which brokers of the cluster run now, and the addresses that clients are told.

Road:    BrokerServer -> [living brokers] -> Metadata, coordinators, the choice of leaders
Thread:  any. A change takes a lock and replaces the table; reading takes none.
Source:  Java ClusterControlManager (4.1), without heartbeats: a broker that stops says so.
"""

from __future__ import annotations

import threading
from collections.abc import ItemsView, Iterator, Mapping
from typing import NamedTuple

from pyproducer.broker.cluster.listener import EndPoint


class BrokerInfo(NamedTuple):
    """One broker as clients see it; `end_points` by listener name, with the ports that are really used."""

    node_id: int
    end_points: Mapping[str, EndPoint]
    rack: str | None


class LivingBrokers(Mapping[int, BrokerInfo]):
    """The living brokers by id."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # guards changes of _by_id
        self._by_id: dict[int, BrokerInfo] = {}

    def __getitem__(self, node_id: int) -> BrokerInfo:
        return self._by_id[node_id]

    def __iter__(self) -> Iterator[int]:
        return iter(self._by_id)

    def __len__(self) -> int:
        return len(self._by_id)

    def __contains__(self, node_id: object) -> bool:
        return node_id in self._by_id

    def items(self) -> ItemsView[int, BrokerInfo]:
        """Return ids and brokers of one moment."""
        return self._by_id.items()

    @property
    def controller_id(self) -> int:
        """The broker that admin clients turn to: the living one with the smallest id; -1 when there is none."""
        return min(self._by_id, default=-1)

    def register(self, broker: BrokerInfo) -> None:
        """Make a broker known, with the ports it listens on."""
        with self._lock:
            self._by_id = {**self._by_id, broker.node_id: broker}

    def unregister(self, node_id: int) -> None:
        """Forget a broker that stops; its partitions stay its own, and have no living leader."""
        with self._lock:
            self._by_id = {key: broker for key, broker in self._by_id.items() if key != node_id}
