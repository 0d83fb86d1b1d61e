"""A NetworkClient without a network: nodes are ready unless the test says otherwise, and the test answers requests.

Thread:  whoever takes the sender's turns.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from pyproducer.client.api_versions import NO_FINALIZED_FEATURES, FinalizedFeatures
from pyproducer.client.request import ClientRequest, ClientResponse
from pyproducer.common.cluster import Node
from pyproducer.common.errors import IllegalStateError, UnsupportedVersionError
from pyproducer.hotpath import CONNECTION
from pyproducer.protocol.apis import ApiKeys

if TYPE_CHECKING:
    from pyproducer.client.network_client import NetworkClient
    from pyproducer.network.wakeup import Wakeup
else:
    NetworkClient = Wakeup = object


class MockClient(NetworkClient):
    """NetworkClient, as far as the sender uses it; for mypy it is one, so that it compares the two.

    `on_send` is called before a request counts as sent, `on_poll` in the middle of a poll: an exception of theirs is
    one that comes from outside at that place. `bodies` are copies: nobody may write to what is on the wire, and
    `answer` looks whether somebody did.
    """

    def __init__(self, node: Node, *, max_in_flight: int = 5, version: int = 12) -> None:
        self.node: Node | None = node
        self.max_in_flight = max_in_flight
        self.version = version
        self.sent: list[ClientRequest] = []
        self.bodies: list[Mapping[str, Any]] = []
        self._live_bodies: list[Mapping[str, Any]] = []
        self.in_flight: list[ClientRequest] = []
        self.poll_timeouts: list[int] = []
        self.poll_times: list[int] = []
        self.poll_delay = 50
        self.on_send: Callable[[], None] | None = None
        self.on_poll: Callable[[], None] | None = None
        self.on_hear: Callable[[], None] | None = None
        self.ended: list[ClientResponse] = []
        self.is_ready_now = True
        self.unready_nodes: set[int] = set()
        self.failed_nodes: set[int] = set()
        self.features = NO_FINALIZED_FEATURES
        self.closed = False
        self.rest_ms = 0
        self.rests_ms: list[int] = []  # before each poll
        self.confirmation_ms = 0  # for how long the end may wait for what gets no answer
        self.moved_ms = 0  # by how much all deadlines were moved

    def meet_network_of(self, other: MockClient) -> None:
        """Take over what is not a client's but what it meets: who can be reached, what happens in its calls."""
        self.node, self.is_ready_now, self.unready_nodes = other.node, other.is_ready_now, other.unready_nodes
        self.failed_nodes, self.features = other.failed_nodes, other.features
        self.poll_delay, self.on_send, self.on_poll = other.poll_delay, other.on_send, other.on_poll

    def is_ready(self, node_id: int, now_ms: int) -> bool:
        return self._can_send(node_id)

    def has_nothing_under_way(self) -> bool:
        return not self.in_flight

    def abandon(self) -> None:
        self.closed = True

    def ready(self, node: Node, now_ms: int) -> bool:
        return self._can_send(node.node_id)

    def connection_failed(self, node: Node) -> bool:
        return node.node_id in self.failed_nodes

    @property
    def finalized_features(self) -> FinalizedFeatures:
        return self.features

    def poll_delay_ms(self, node: Node, now_ms: int) -> int:
        return self.poll_delay

    waits_for = 0

    def api_version(self, node_id: int, api_key: ApiKeys, max_version: int | None = None) -> int | None:
        raise UnsupportedVersionError(f"{api_key.name} is not there")

    def held_up_by(self, node_id: int, now_ms: int) -> int:
        return CONNECTION

    def least_loaded_node(self, now_ms: int) -> Node | None:
        return self.node

    def in_flight_request_count(self) -> int:
        return len(self.in_flight)

    def send(self, request: ClientRequest, now_ms: int) -> None:
        if self.closed or not self._can_send(request.destination):
            raise IllegalStateError(f"node {request.destination} is not ready")
        if self.on_send is not None:
            self.on_send()
        self.sent.append(request)
        request.sent_ms = now_ms
        body = request.build(self._version_of(request))
        self._live_bodies.append(body)
        self.bodies.append(copy.deepcopy(body))
        self.in_flight.append(request)

    def poll(self, timeout_ms: int, now_ms: int, *, asks: bool = True) -> list[ClientResponse]:
        if self.closed:
            raise IllegalStateError("the client is closed")
        self.poll_timeouts.append(timeout_ms)
        self.poll_times.append(now_ms)
        self.rests_ms.append(self.rest_ms)
        self.rest_ms = 0
        if self.on_poll is not None:
            self.on_poll()
        return []

    def hear(self, now_ms: int) -> list[ClientResponse]:
        self.ended.clear()
        if self.on_hear is not None:
            self.on_hear()
        return list(self.ended)

    def fileno(self) -> int:
        return -1

    def confirmation_wait_ms(self, now_ms: int) -> int:
        return self.confirmation_ms

    def move_deadlines(self, gap_ms: int) -> None:
        self.moved_ms += gap_ms

    def close(self) -> None:
        self.closed = True

    def answer(self, body: Mapping[str, Any] | None, *, received_ms: int = 0, request: ClientRequest | None = None,
               **how: Any) -> None:
        """End the oldest request in flight, or a given one; `how` is what ClientResponse takes besides."""
        request = request or self.in_flight[0]
        self.in_flight.remove(request)
        live_body = self._live_bodies[self.sent.index(request)]
        assert live_body == self.body_of(request), "somebody wrote to what was on the wire"
        assert request.on_complete is not None
        self.ended.append(ClientResponse(request, self._version_of(request), body, received_ms=received_ms,
                                         sent_ms=request.sent_ms, **how))
        request.on_complete(self.ended[-1])

    def body_of(self, request: ClientRequest) -> Mapping[str, Any]:
        """What was sent in a request, as it was then."""
        return self.bodies[self.sent.index(request)]

    def _can_send(self, node_id: int) -> bool:
        count = sum(request.destination == node_id for request in self.in_flight)
        return self.is_ready_now and node_id not in self.unready_nodes and count < self.max_in_flight

    def _version_of(self, request: ClientRequest) -> int:
        highest = request.api_key.client_range[1] if request.max_version is None else request.max_version
        return min(self.version, highest, request.api_key.latest_version)


class MockWakeup(Wakeup):
    """Wakeup that counts."""

    def __init__(self) -> None:
        self.count = 0
        self.is_closed = False

    def wakeup(self) -> None:
        self.count += 1

    def close(self) -> None:
        self.is_closed = True
