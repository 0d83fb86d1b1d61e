"""Requests that were sent, or are being sent, and are not answered yet; one queue per node.

Road:    NetworkClient.send -> [in flight] -> NetworkClient.poll
Thread:  sender thread only.
Source:  Java InFlightRequests, NetworkClient.InFlightRequest (4.1); seed 001 (canSendMore).
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from pyproducer.client.request import ClientRequest, ClientResponse
from pyproducer.common.clock import NEVER_MS
from pyproducer.common.errors import IllegalStateError

if TYPE_CHECKING:
    from pyproducer.network.send import NetworkSend



class InFlightRequest:
    """A request with what was decided when it was sent: version, correlation id, deadline."""

    __slots__ = ("api_version", "correlation_id", "deadline_ms", "internal", "request", "send", "sent_ms")

    def __init__(self, request: ClientRequest, api_version: int, correlation_id: int, send: NetworkSend, *,
                 sent_ms: int, internal: bool) -> None:
        self.request: ClientRequest = request
        self.api_version: int = api_version
        self.correlation_id: int = correlation_id
        self.send: NetworkSend = send
        self.sent_ms: int = sent_ms
        self.deadline_ms: int = sent_ms + request.timeout_ms
        self.internal: bool = internal

    def completed(self, body: Any, now_ms: int) -> ClientResponse:
        """Return the response of an answered request."""
        return ClientResponse(self.request, self.api_version, body, received_ms=now_ms, sent_ms=self.sent_ms,
                              correlation_id=self.correlation_id)

    def disconnected(self, now_ms: int, *, timed_out: bool, error: Exception | None) -> ClientResponse:
        """Return the response of a request whose connection ended before the answer."""
        return ClientResponse(self.request, self.api_version, None, disconnected=True, timed_out=timed_out,
                              error=error, received_ms=now_ms, was_sent=bool(self.send.completed),
                              sent_ms=self.sent_ms, correlation_id=self.correlation_id)

    def describe(self, now_ms: int) -> str:
        """Return api, version, correlation id and age, for logs: a client bug shows up only as a disconnect."""
        return (f"{self.request.api_key.name} v{self.api_version} (correlation id {self.correlation_id}, "
                f"sent {now_ms - self.sent_ms} ms ago)")


class InFlightRequests:
    """The queues. The oldest request of a node is at the left, the one sent last at the right.

    Shape: responses arrive in the order of the requests, so only the two ends are ever touched.

    Attributes:
        unanswerable_count: How many requests that expect no response are being written.
        earliest_deadline_ms: Not above the earliest deadline of all requests: before it nothing can be late.
    """

    def __init__(self, max_in_flight_requests_per_connection: int) -> None:
        self._max_per_connection = max_in_flight_requests_per_connection
        self._requests: dict[int, deque[InFlightRequest]] = {}
        self._count = 0
        self.unanswerable_count: int = 0
        self.earliest_deadline_ms: int = NEVER_MS

    def add(self, request: InFlightRequest) -> None:
        """Append a request that is handed to its connection now."""
        queue = self._requests.get(request.request.destination)
        if queue is None:
            queue = self._requests[request.request.destination] = deque()
        queue.append(request)
        self._count += 1
        if not request.request.expect_response:
            self.unanswerable_count += 1
        if request.deadline_ms < self.earliest_deadline_ms:
            self.earliest_deadline_ms = request.deadline_ms

    def can_send_more(self, node_id: int) -> bool:
        """Whether another request may be handed to this connection.

        True when nothing is in flight, or when the request sent last is written completely and fewer than
        max.in.flight.requests.per.connection requests wait for their answers.

        Source: Java InFlightRequests.canSendMore; seed 001.
        """
        queue = self._requests.get(node_id)
        return (not queue
                or (bool(queue[-1].send.completed) and len(queue) < self._max_per_connection))

    def complete_next(self, node_id: int) -> InFlightRequest:
        """Remove and return the oldest request of a node: the one that an arriving response answers.

        Raises:
            IllegalStateError: Nothing is in flight to this node; no record is concerned.
        """
        queue = self._requests.get(node_id)
        if not queue:
            raise IllegalStateError(f"There are no in-flight requests for node {node_id}")
        self._count -= 1
        return queue.popleft()

    def next_to_complete(self, node_id: int) -> InFlightRequest | None:
        """Return the oldest request of a node without removing it, or None."""
        queue = self._requests.get(node_id)
        return queue[0] if queue else None

    def complete_unanswerable(self, node_id: int, send: NetworkSend) -> InFlightRequest | None:
        """Remove and return the request of a written frame if no response is expected, else return None.

        Differs from Java's completeLastSent: a frame may be written at once when it is handed over, so that the next
        request is queued behind it before the poll that tells.
        """
        for request in self._requests.get(node_id, ()):
            if request.send is send and not request.request.expect_response:
                self._requests[node_id].remove(request)
                self._count -= 1
                self.unanswerable_count -= 1
                return request
        return None

    def clear_all(self, node_id: int) -> list[InFlightRequest]:
        """Remove and return all requests of a node, oldest first."""
        queue = self._requests.pop(node_id, None)
        if not queue:
            return []
        self._count -= len(queue)
        self.unanswerable_count -= sum(not request.request.expect_response for request in queue)
        return list(queue)

    def requests(self, node_id: int) -> tuple[InFlightRequest, ...]:
        """Return the requests in flight to a node, oldest first."""
        return tuple(self._requests.get(node_id, ()))

    def count(self, node_id: int | None = None) -> int:
        """Return the number of requests in flight to a node, or to all nodes."""
        if node_id is None:
            return self._count
        queue = self._requests.get(node_id)
        return len(queue) if queue else 0

    def nodes_with_timed_out_requests(self, now_ms: int) -> list[int]:
        """Return the nodes that have a request whose answer is late."""
        if now_ms <= self.earliest_deadline_ms:
            return []
        late: list[int] = []
        earliest_ms = NEVER_MS
        for node_id, queue in self._requests.items():
            if queue:
                deadline_ms = min(request.deadline_ms for request in queue)
                if deadline_ms < now_ms:
                    late.append(node_id)
                else:
                    earliest_ms = min(earliest_ms, deadline_ms)
        # The late ones are removed by the caller; what stays is not earlier than this.
        self.earliest_deadline_ms = earliest_ms
        return late

    def move_deadlines(self, gap_ms: int) -> None:
        """Let every request have so much longer, in ms."""
        for queue in self._requests.values():
            for request in queue:
                request.deadline_ms += gap_ms
        if self._count:
            self.earliest_deadline_ms += gap_ms

    def ms_to_next_deadline(self, now_ms: int) -> int:
        """Return an upper bound of how long a poll may sleep before a request can be late, in ms."""
        return max(self.earliest_deadline_ms + 1 - now_ms, 0) if self._count else NEVER_MS
