"""What a well-behaved client keeps to on its connections, whatever goes wrong on them.

    in flight      never more than max.in.flight.requests.per.connection requests that are not answered
    throttled      no request begins while a broker has asked for a pause (KIP-219)
    renewals       who the client is it proves anew only where no answer is on its way (KIP-368)
    reconnects     a node is not connected to again before reconnect.backoff.ms is over
    metadata       asked for not faster than retry.backoff.ms, but for topics that are new to the client
    polls          no end of looks without any time passing and anything being done

A broker sees none of that for certain: an answer may be on its way. So the real selector is watched, at the calls of
the client above it.

Source:  ours; Java InFlightRequests, NetworkClient.canSendRequest, ClusterConnectionStates, Metadata.timeToAllowUpdate
         (4.1) are where Java keeps to it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from pyproducer.network.selector import Selector
from pyproducer.network.send import NetworkSend
from pyproducer.protocol.apis import ApiKeys
from pyproducer.protocol.header import parse_response
from tests.simulation.faults import Faults
from tests.simulation.plan import Parameters
from tests.simulation.schedule import Scheduler

# In a row, without time and without anything done, found or asked for. Some are lawful: between two looks at the clock
# something became due. Who sleeps for a millisecond each time sleeps for nothing.
MOST_IDLE_POLLS = 30
# Of requests that came before their time: a topic that is new to the client does not wait, nor does one of which a
# record waited while metadata forgot it.
MOST_HASTY_REQUESTS = 12
# Backoffs have a jitter of a fifth.
_SHORTEST = 0.8


class Manners:
    """Watches all connections of a producer.

    Args:
        scheduler: Time.
        faults: Tells whether any broker asks for pauses.
        parameters: What was drawn.

    Attributes:
        complaints: What the client did.
        left_to_do: Counts batches and waiting records.
        has_found: Whether the last poll was ended by a socket, or by who rang; its poller writes it.
    """

    def __init__(self, scheduler: Scheduler, faults: Faults, parameters: Parameters) -> None:
        self.complaints: list[str] = []
        self.has_found = False
        self.left_to_do: Callable[[], int] = int
        self.scheduler = scheduler
        self.faults = faults
        props = parameters.props
        self.most_in_flight: int = props["max.in.flight.requests.per.connection"]
        self.has_acks = props["acks"] != "0"
        self.reconnect_ms = props["reconnect.backoff.ms"] * _SHORTEST
        self.metadata_ms = props["retry.backoff.ms"] * _SHORTEST
        self._asked_ms = -1_000_000_000
        self._hasty_count = 0
        self._idle_count = 0
        self._idle_since_ms = -1
        self._left_before = 0

    def complain(self, what: str) -> None:
        """Note what a client must not do; the first times are enough."""
        if len(self.complaints) < 20:
            self.complaints.append(f"at {self.scheduler.now_ms / 1000:.3f} s {what}")

    def on_metadata(self) -> None:
        """Metadata is asked for."""
        now_ms = self.scheduler.now_ms
        if now_ms - self._asked_ms < self.metadata_ms:
            self._hasty_count += 1
            if self._hasty_count > MOST_HASTY_REQUESTS:
                self.complain(f"metadata was asked for again after {now_ms - self._asked_ms} ms, and so it was "
                              f"{self._hasty_count} times")
        self._asked_ms = now_ms

    def on_poll(self, has_done: bool) -> None:
        """A poll came back."""
        now_ms = self.scheduler.now_ms
        if has_done or self.has_found or now_ms > self._idle_since_ms + 1:
            self._idle_count = 0
        self._idle_since_ms = now_ms
        self._idle_count += 1
        if self._idle_count == MOST_IDLE_POLLS // 3:
            self._left_before = self.left_to_do()
        if self._idle_count == MOST_IDLE_POLLS and self.left_to_do() != self._left_before:
            self._idle_count = 0  # it works them off
        elif self._idle_count == MOST_IDLE_POLLS:
            self.complain(f"{MOST_IDLE_POLLS} polls found nothing, and no time passed")


class WatchedSelector(Selector):
    """The real one, and what the client asks of it.

    Args:
        manners: Told of it.
        newest_connection: Returns the network's end of the connection that was begun last.
        settings: The real one's.
    """

    def __init__(self, manners: Manners, newest_connection: Callable[[], Any], **settings: Any) -> None:
        super().__init__(**settings)
        self._manners = manners
        self._newest_connection = newest_connection
        self._connections: dict[str, Any] = {}
        self._unanswered: dict[str, deque[tuple[int, int]]] = {}
        self._throttled_until_ms: dict[str, int] = {}
        self._connected_ms: dict[str, int] = {}
        self._has_done = True

    def connect(self, connection_id: str, *args: Any, **settings: Any) -> None:
        manners = self._manners
        now_ms = manners.scheduler.now_ms
        since_ms = now_ms - self._connected_ms.get(connection_id, -1_000_000_000)
        if since_ms < manners.reconnect_ms:
            manners.complain(f"node {connection_id} is connected to again after {since_ms} ms")
        self._connected_ms[connection_id] = now_ms
        self._unanswered[connection_id] = deque()
        self._throttled_until_ms.pop(connection_id, None)
        self._has_done = True
        super().connect(connection_id, *args, **settings)
        self._connections[connection_id] = self._newest_connection()

    def send(self, send: NetworkSend) -> None:
        manners = self._manners
        node = send.destination
        head = bytes(send._chunks[1][:4])
        api_key, version = int.from_bytes(head[:2], "big"), int.from_bytes(head[2:], "big")
        unanswered = self._unanswered[node]
        if len(unanswered) >= manners.most_in_flight:
            manners.complain(f"node {node} gets a request, and {len(unanswered)} are not answered")
        left_ms = self._throttled_until_ms.get(node, 0) - manners.scheduler.now_ms
        if left_ms > 0:
            manners.complain(f"node {node} gets a request of API {api_key}, {left_ms} ms before the pause is over that "
                             "it asked for")
        if api_key == ApiKeys.METADATA:
            manners.on_metadata()
        if api_key != ApiKeys.PRODUCE or manners.has_acks:
            unanswered.append((api_key, version))
        self._has_done = True
        if api_key == ApiKeys.PRODUCE:  # first: of what fails then the client cannot know how far it came
            self._connections[node].on_handed(b"".join(send._chunks[1:]), manners)
        manners.faults.on_send()
        super().send(send)

    def reauthenticate(self, connection_id: str) -> bool:
        if not super().reauthenticate(connection_id):
            return False
        if self._unanswered[connection_id]:
            self._manners.complain(f"the session with node {connection_id} is renewed, and "
                                   f"{len(self._unanswered[connection_id])} requests are not answered")
        self._has_done = True
        return True

    def poll(self, timeout_ms: int, now_ms: int, *, tells_sends: bool = True) -> None:
        super().poll(timeout_ms, now_ms, tells_sends=tells_sends)
        manners = self._manners
        for receive in self.completed_receives:
            unanswered = self._unanswered[receive.source]
            if unanswered:
                api_key, version = unanswered.popleft()
                if api_key == ApiKeys.PRODUCE and version >= 6 and manners.faults.fired["throttle"]:
                    self._note_throttle(receive.source, version, bytes(receive.payload))
        manners.on_poll(bool(self._has_done or self.completed_receives or self.connected or self.disconnected))
        self._has_done = False

    def _note_throttle(self, node: str, version: int, payload: bytes) -> None:
        body: Any = parse_response(ApiKeys.PRODUCE, version, payload)[1]
        until_ms = self._manners.scheduler.now_ms + body["throttle_time_ms"]
        self._throttled_until_ms[node] = max(self._throttled_until_ms.get(node, 0), until_ms)
