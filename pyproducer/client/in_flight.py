"""Requests that were sent, or are being sent, and are not answered yet; one queue per node.

Road:    NetworkClient.send -> [in flight] -> NetworkClient.poll
Thread:  sender thread only.
Source:  Java InFlightRequests (4.1); seed 001 (canSendMore).
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from pyproducer.client.request import ClientRequest
from pyproducer.common.clock import NEVER_MS
from pyproducer.common.errors import IllegalStateError

if TYPE_CHECKING:
    from pyproducer.network.send import NetworkSend


class InFlightRequests:
    """The queues. The oldest request of a node is at the left, the one sent last at the right.

    Shape: responses arrive in the order of the requests, so only the two ends are ever touched.

    Attributes:
        by_node: The queues, by node. Written here only.
        total: How many requests there are, to all nodes.
        unanswerable_count: How many requests that expect no response are being written.
        earliest_deadline_ms: Not above the earliest deadline of all requests: before it nothing can be late.
    """

    def __init__(self, max_in_flight_requests_per_connection: int) -> None:
        self._max_per_connection = max_in_flight_requests_per_connection
        self.by_node: dict[int, deque[ClientRequest]] = {}
        self.total: int = 0
        self.unanswerable_count: int = 0
        self.earliest_deadline_ms: int = NEVER_MS

    def add(self, request: ClientRequest) -> None:
        """Append a request that is handed to its connection now.

        Raises:
            IllegalStateError: So many are in flight already that the order of records was lost. Not sent.
        """
        queue = self.by_node.get(request.destination)
        if queue is None:
            queue = self.by_node[request.destination] = deque()
        elif self._is_full(queue):
            raise IllegalStateError(f"Attempt to send a request to node {request.destination} which is not ready: "
                                    f"{len(queue)} are in flight")
        queue.append(request)
        self.total += 1
        if not request.expect_response:
            self.unanswerable_count += 1
        if request.deadline_ms < self.earliest_deadline_ms:
            self.earliest_deadline_ms = request.deadline_ms

    def can_send_more(self, node_id: int) -> bool:
        """Whether another request may be handed to this connection.

        True when nothing is in flight, or when the request sent last is written completely and fewer than
        max.in.flight.requests.per.connection requests wait for their answers. A marker is not counted: it has no
        deadline, so that one to a peer that is gone would keep a limit of 1 for ever.

        Source: Java InFlightRequests.canSendMore; seed 001.
        """
        queue = self.by_node.get(node_id)
        return not queue or (bool(queue[-1].send.completed) and not self._is_full(queue))

    def _is_full(self, queue: deque[ClientRequest]) -> bool:
        count, limit = len(queue), self._max_per_connection
        return count >= limit and count - sum(request.is_marker for request in queue) >= limit

    def complete_next(self, node_id: int) -> ClientRequest:
        """Remove and return the oldest request of a node: the one that an arriving response answers.

        Raises:
            IllegalStateError: Nothing is in flight to this node; no record is concerned.
        """
        queue = self.by_node.get(node_id)
        if not queue:
            raise IllegalStateError(f"There are no in-flight requests for node {node_id}")
        self.total -= 1
        return queue.popleft()

    def complete_unanswerable(self, node_id: int, send: NetworkSend) -> ClientRequest | None:
        """Remove and return the request of a written frame if no response is expected, else return None.

        Differs from Java's completeLastSent: a frame may be written at once when it is handed over, so that the next
        request is queued behind it before the poll that tells.
        """
        for request in self.by_node.get(node_id, ()):
            if request.send is send and not request.expect_response:
                self.by_node[node_id].remove(request)
                self.total -= 1
                self.unanswerable_count -= 1
                return request
        return None

    def clear_all(self, node_id: int) -> list[ClientRequest]:
        """Remove and return all requests of a node, oldest first."""
        queue = self.by_node.pop(node_id, None)
        if not queue:
            return []
        self.total -= len(queue)
        self.unanswerable_count -= sum(not request.expect_response for request in queue)
        return list(queue)

    def requests(self, node_id: int) -> tuple[ClientRequest, ...]:
        """Return the requests in flight to a node, oldest first."""
        return tuple(self.by_node.get(node_id, ()))

    def count(self, node_id: int) -> int:
        """Return the number of requests in flight to a node."""
        queue = self.by_node.get(node_id)
        return len(queue) if queue else 0

    def nodes_with_timed_out_requests(self, now_ms: int) -> list[int]:
        """Return the nodes that have a request whose answer is late."""
        if now_ms <= self.earliest_deadline_ms:
            return []
        late: list[int] = []
        earliest_ms = NEVER_MS
        for node_id, queue in self.by_node.items():
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
        for queue in self.by_node.values():
            for request in queue:
                request.deadline_ms += gap_ms
        if self.total:
            self.earliest_deadline_ms += gap_ms
