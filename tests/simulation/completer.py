"""Another process that ends a transaction which a producer has prepared: the real TransactionCompleter on this network.

It waits for each answer, and knows no faults of its own; what it says became of a transaction is compared with the log.

Source:  ours.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import Any

from pyproducer import TransactionCompleter
from pyproducer.client import blocking_client
from pyproducer.client.blocking_client import LARGEST_ANSWER_BYTES, BlockingClient
from pyproducer.client.coordinator_client import CoordinatorClient
from pyproducer.client.resolver import ResolvedAddress
from pyproducer.network.channel_builder import client_channel_builder
from pyproducer.network.selector import Selector
from tests.simulation.names import address_of, node_named
from tests.simulation.network import Network, SimPoller, SimSocket
from tests.simulation.schedule import SimClock


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

    def _client(self) -> CoordinatorClient:
        if self._coordinators is None:
            config, network = self._config, self._network
            builder = client_channel_builder(config, None)
            client = BlockingClient(builder, client_id=config.client_id, clock=self._clock,
                                    timeout_s=config.request_timeout_ms / 1000, send_buffer_bytes=-1,
                                    receive_buffer_bytes=-1)
            client.close()
            nobody: Any = SimpleNamespace(has_found=False)
            client._selector = Selector(
                max_receive_size_bytes=LARGEST_ANSWER_BYTES, connections_max_idle_ms=-1, channel_builder=builder,
                wakeup=network.make_wakeup(), make_socket=lambda _family, _kind: SimSocket(network),
                make_poller=lambda: SimPoller(network, nobody))
            self._stack = contextlib.ExitStack()
            self._stack.enter_context(client)
            self._coordinators = CoordinatorClient(client, config.bootstrap_servers,
                                                   timeout_s=config.max_block_ms / 1000, clock=self._clock)
        return self._coordinators


@contextlib.contextmanager
def names_known(address_count: int) -> Iterator[None]:
    """Have whoever waits for names be told those of the simulation."""
    module: Any = blocking_client
    resolve_host = module.resolve_host

    def resolve(host: str, port: int) -> list[ResolvedAddress]:
        return [ResolvedAddress(socket.AF_INET, (address_of(node_named(host), number), port))
                for number in range(address_count)]

    module.resolve_host = resolve
    try:
        yield
    finally:
        module.resolve_host = resolve_host
