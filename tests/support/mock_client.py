"""A NetworkClient without a network: every node is ready, and the test answers the requests."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyproducer.client.request import ClientRequest, ClientResponse
from pyproducer.common.cluster import Node


class MockClient:
    """The part of NetworkClient that the sender uses; see tests/unit/sender."""

    def __init__(self, node: Node, *, max_in_flight: int = 5, version: int = 12) -> None:
        self.node = node
        self.max_in_flight = max_in_flight
        self.version = version
        self.sent: list[ClientRequest] = []
        self.bodies: list[Mapping[str, Any]] = []
        self.in_flight: list[ClientRequest] = []
        self.poll_timeouts: list[int] = []
        self.on_poll: Callable[[], None] | None = None
        self.is_ready_now = True
        self.closed = False

    def ready(self, node: Node, now_ms: int) -> bool:
        return self.is_ready_now and len(self.in_flight) < self.max_in_flight

    def poll_delay_ms(self, node: Node, now_ms: int) -> int:
        return 50

    def least_loaded_node(self, now_ms: int) -> Node:
        return self.node

    def send(self, request: ClientRequest, now_ms: int) -> None:
        version = self.version if request.max_version is None else min(self.version, request.max_version)
        self.sent.append(request)
        self.bodies.append(request.build(version))
        self.in_flight.append(request)

    def poll(self, timeout_ms: int, now_ms: int, awaited_node_id: int | None = None) -> list[ClientResponse]:
        self.poll_timeouts.append(timeout_ms)
        if self.on_poll is not None:
            self.on_poll()
        return []

    def wakeup(self) -> None:
        pass

    def close(self) -> None:
        self.closed = True

    def answer(self, body: Mapping[str, Any] | None, *, received_ms: int = 0, request: ClientRequest | None = None,
               **how: Any) -> None:
        """End the oldest request in flight, or a given one."""
        request = request or self.in_flight[0]
        self.in_flight.remove(request)
        assert request.on_complete is not None
        request.on_complete(ClientResponse(request, self.version, body, received_ms=received_ms, **how))
