"""Another process that ends a transaction which a producer has prepared: the real TransactionCompleter on this network.

It waits for each answer, and knows no faults of its own; what it says became of a transaction is compared with the log.

Source:  ours.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, cast

from pyproducer import TransactionCompleter
from pyproducer.client import blocking_client
from pyproducer.client.blocking_client import LARGEST_ANSWER_BYTES
from pyproducer.client.coordinator_client import CoordinatorClient
from pyproducer.network.selector import Selector
from tests.simulation.network import Network, SimPoller, SimSocket, addresses_of
from tests.simulation.schedule import SimClock


class _Nobody:
    """Whose polls nobody watches: no producer's."""

    has_found = False
    producer = None


class _Sleeper:
    """The clock, whose waits nobody ends."""

    def __init__(self, clock: SimClock) -> None:
        self._clock = clock

    def __getattr__(self, name: str) -> Any:
        return getattr(self._clock, name)

    def wait(self, _cell: object, timeout_s: float) -> bool:
        self._clock.sleep(int(timeout_s * 1000))
        return False


class SimulatedCompleter(TransactionCompleter):
    """The real one, with another selector and another clock.

    Args:
        props: As the real one's.
        network: What it connects by.
        clock: What it waits by.
    """

    def __init__(self, props: Mapping[str, object], network: Network, clock: SimClock) -> None:
        super().__init__(props)
        self._network = network
        self._clock: Any = _Sleeper(clock)
        self._coordinators._clock = cast("Any", self._clock)

    def _client(self) -> CoordinatorClient:
        is_new = self._coordinators._kept is None
        coordinators = super()._client()
        if is_new:
            network, clock = self._network, self._clock
            client, nobody = coordinators._client, _Nobody()
            client.close()
            client._selector = Selector(
                max_receive_size_bytes=LARGEST_ANSWER_BYTES, connections_max_idle_ms=-1,
                channel_builder=client._selector._channel_builder, wakeup=network.make_wakeup(),
                make_socket=lambda _family, _kind: SimSocket(network),
                make_poller=lambda: SimPoller(network, cast("Any", nobody)))
            client._clock = coordinators._clock = clock
        return coordinators


@contextlib.contextmanager
def names_known(address_count: int) -> Iterator[None]:
    """Have whoever waits for names be told those of the simulation."""
    module: Any = blocking_client
    resolve_host = module.resolve_host

    module.resolve_host = partial(addresses_of, count=address_count)
    try:
        yield
    finally:
        module.resolve_host = resolve_host
