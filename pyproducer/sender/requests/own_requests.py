"""The client's own requests: one at a time, each kind when it is due, to its coordinator or to any broker.

    kinds in order   prepared check, InitProducerId, AddPartitionsToTxn, offsets, EndTxn
    before each      FindCoordinator, where the coordinator of what is due is not known

The first kind that is due is served; one that waits out a backoff keeps those behind it waiting. So each sees all that
comes before it done: EndTxn comes last. Batches are not held up by that: of which partition they may go is asked of
each (TransactionManager), and none is numbered without an id.

Road:    beside drain: Sender -> [own requests] -> NetworkClient
Thread:  sender thread only.
Source:  Java TransactionManager.nextRequest, Sender.maybeSendAndPollTransactionalRequest (4.1).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from pyproducer.client.metadata import NO_LEADER, Refusal
from pyproducer.client.request import ClientRequest, ClientResponse
from pyproducer.common.backoff import ExponentialBackoff
from pyproducer.common.clock import NEVER_MS
from pyproducer.common.cluster import Node
from pyproducer.common.errors import KafkaError, LocalProtocolError
from pyproducer.common.sender_log import SenderLog, sender_log
from pyproducer.protocol.apis import ApiKeys
from pyproducer.sender.requests.find_coordinator import FindCoordinator
from pyproducer.sender.requests.own_request import CoordinatorKey, NextRequest, OwnRequest, Reaction

if TYPE_CHECKING:
    from pyproducer.client.network_client import NetworkClient
    from pyproducer.client.wire import Wire

log: SenderLog = sender_log(__name__)

# A transaction is completed within some milliseconds, and the next one waits for it; doubled each time, up to
# retry.backoff.ms. Java waits 20 ms, and for AddPartitionsToTxn alone.
FIRST_SOON_MS = 5
_MOST_DOUBLINGS = 10


class OwnRequests:
    """Keeps one request on its way while anything is due.

    Attributes:
        trouble: Why the last attempt failed, for people; "" when it did not, or nothing is due any more.

    Args:
        wire: The network.
        kinds: What may be due, in the order of their priority.
        request_timeout_ms: request.timeout.ms.
        retry_backoff: Between attempts.
    """

    def __init__(self, *, wire: Wire, kinds: Sequence[NextRequest], request_timeout_ms: int,
                 retry_backoff: ExponentialBackoff) -> None:
        self._wire = wire
        self._kinds = kinds
        self._coordinators: dict[CoordinatorKey, Node] = {}  # that are known; brokers tell of each when it is needed
        self._request_timeout_ms = request_timeout_ms
        self._retry_backoff = retry_backoff
        self._asked: OwnRequest | None = None  # what is on its way
        self._asked_by: NetworkClient | None = None  # the client that has it there
        self._wanted: OwnRequest | None = None  # what was due at the last look
        self._attempts = 0
        self._soon_count = 0
        self._retry_at_ms = 0
        self.trouble: str = ""
        self._failing: ApiKeys | None = None  # what `trouble` is about

    def step(self, now_ms: int) -> int:
        """Send what is due, if it is time to.

        Returns:
            How long until this should be called again, in ms, when nothing else happens.
        """
        client = self._wire.client
        asked = self._asked
        if asked is not None:
            if self._asked_by is client:
                return NEVER_MS
            self._asked = None  # what a client had on its way when it was thrown away, nobody will tell
            asked.on_lost()
        request = self._wanted = self._next()
        if request is None:
            self._attempts = self._soon_count = 0
            self.trouble = ""
            return NEVER_MS
        if now_ms < self._retry_at_ms:
            return self._retry_at_ms - now_ms
        node = None
        key = request.coordinator
        if key is not None:
            node = self._coordinators.get(key)
            if node is None:
                request = FindCoordinator(key, self._coordinators, request.on_hopeless)
        if node is None:
            node = client.least_loaded_node(now_ms)
        if node is None:
            return self._retry_backoff.initial_ms
        if not client.ready(node, now_ms):
            if request.coordinator is not None and client.connection_failed(node):
                del self._coordinators[request.coordinator]
                self._back_off(now_ms, f"node {node.node_id} cannot be reached", request)
                return self._retry_at_ms - now_ms
            return client.poll_delay_ms(node, now_ms)
        self._asked, self._asked_by = request, client  # first: what is raised below may leave it on its way
        client.send(ClientRequest(node.node_id, request.api_key, request.build, expect_response=True,
                                  timeout_ms=self._request_timeout_ms, on_complete=partial(self._on_response, request),
                                  max_version=request.max_version), now_ms)
        return NEVER_MS

    def refuse(self, refusal: Refusal) -> None:
        """A node, or each of them, refused us for good: who waits for the first producer id is told.

        What ends a transaction is tried on: nobody knows its outcome before. What is on its way, by a connection that
        took us, has its answer, or is refused when it is to be sent again.
        """
        request = self._wanted
        if request is None or (self._asked is not None and self._asked_by is self._wire.client):
            return  # also while its coordinator is asked for: the answer to that may be for who calls next
        node = None if request.coordinator is None else self._coordinators.get(request.coordinator)
        if refusal.node_id == NO_LEADER or refusal.node_id is None or (
                node is not None and refusal.node_id == node.node_id):
            request.on_refused(refusal.error)

    def _next(self) -> OwnRequest | None:
        for next_request in self._kinds:
            request = next_request()
            if request is not None:
                return request
        return None

    def _on_response(self, request: OwnRequest, response: ClientResponse) -> None:
        self._asked = self._asked_by = None
        if response.version_mismatch is not None:
            request.on_hopeless(response.version_mismatch)
        elif response.body is not None:
            self._react(request, request.on_answer(response), response)
        elif response.disconnected:
            if response.was_sent_and_unanswered:
                request.on_lost()
            self._react(request, Reaction.FIND_COORDINATOR, response, f"no answer: {response.error}")
        else:
            error = response.error
            request.on_hopeless(error if isinstance(error, KafkaError) else LocalProtocolError(
                f"{request.api_key.title} could not be written: {error!r}"))

    def _react(self, request: OwnRequest, reaction: Reaction, response: ClientResponse, why: str = "") -> None:
        now_ms = response.received_ms
        if reaction is Reaction.DONE:
            self._retry_at_ms = now_ms
            if request.api_key is self._failing:  # a coordinator that is found says nothing of what it refuses
                self._attempts = self._soon_count = 0
                self.trouble = ""
            return
        if reaction is Reaction.SOON:
            doubled_ms = FIRST_SOON_MS * 2 ** min(self._soon_count, _MOST_DOUBLINGS)
            self._soon_count += 1
            self._retry_at_ms = now_ms + min(doubled_ms, max(self._retry_backoff.initial_ms, FIRST_SOON_MS))
            self._note_trouble(request, self._soon_count, f"node {response.destination}: {request.last_error}")
            return
        if reaction is Reaction.FIND_COORDINATOR and request.coordinator is not None:
            self._coordinators.pop(request.coordinator, None)
        self._back_off(now_ms, f"node {response.destination}: {why or request.last_error}", request)

    def _note_trouble(self, request: OwnRequest, attempts: int, why: str) -> None:
        self._failing = request.api_key
        self.trouble = f"{request.api_key.title} failed {attempts} times, the last time: {why}"

    def _back_off(self, now_ms: int, why: str, request: OwnRequest) -> None:
        self._retry_at_ms = now_ms + self._retry_backoff.backoff_ms(self._attempts)
        self._attempts += 1
        self._note_trouble(request, self._attempts, why)
        log.log(request.log_level, "%s is repeated (attempt %d failed: %s)", request.api_key.title, self._attempts, why)
