"""Requests to nodes and their responses, over whatever connections that takes.

    ready(node)  connects where needed           send(request)  builds and hands to the selector
    poll()       one turn: metadata, sockets, answers, ends of connections, timeouts

Road:    sender -> [NetworkClient] -> Selector
Thread:  sender thread only. Calls the clock only before and after the selector slept, or when the resolver answered.
Source:  Java NetworkClient (4.1); seed 001; KIP-35, KIP-219, KIP-511, KIP-601, KIP-602, KIP-899, KIP-1102.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from pyproducer.client.api_versions import ApiVersions, FinalizedFeatures
from pyproducer.client.connection_states import ENDED, ClusterConnectionStates, ConnectionState
from pyproducer.client.connections import Connections
from pyproducer.client.metadata_updater import REBOOTSTRAP, MetadataUpdater
from pyproducer.client.request import ClientRequest, ClientResponse
from pyproducer.client.resolver import USE_ALL_DNS_IPS
from pyproducer.common.clock import NEVER_MS
from pyproducer.common.cluster import address_text
from pyproducer.common.errors import (
    CorrelationIdMismatchError,
    IllegalStateError,
    LocalProtocolError,
    ProtocolError,
    RemoteProtocolError,
    UnsupportedVersionError,
)
from pyproducer.common.sender_log import SenderLog, sender_log
from pyproducer.hotpath import NO_WAIT
from pyproducer.observe.registry import Registry
from pyproducer.protocol.apis import ApiKeys
from pyproducer.protocol.header import parse_response_correlation_id, read_response

if TYPE_CHECKING:
    from pyproducer.client.metadata import ProducerMetadata
    from pyproducer.client.resolver import ThreadedResolver
    from pyproducer.common.backoff import ExponentialBackoff
    from pyproducer.common.clock import Clock
    from pyproducer.common.cluster import Node
    from pyproducer.network.selector import Selector

_LOG: SenderLog = sender_log("pyproducer.client")
_READY = ConnectionState.READY  # a look-up in an Enum costs a call
# The operating system's calls take no more than 2**31 - 1 ms; a look around once a minute costs nothing.
LONGEST_SLEEP_MS = 60_000
# The sleep ends so often within `longest_pause_ms`, also of an idle client: of a long sleep that was meant nobody could
# tell afterwards whether the process was stopped in it, just when a record came.
_LOOKS_PER_PAUSE = 8


class NetworkClient:
    """The client's side of all connections.

    Args:
        selector: The sockets; closed by `close`.
        metadata: Kept fresh while polling.
        resolver: Turns names into addresses beside this thread, and wakes the selector when it has.
        client_id: Sent in each request header.
        clock: Read after sleeping.
        max_in_flight_requests_per_connection: Unanswered requests per connection.
        reconnect_backoff: Wait between attempts to connect.
        connection_setup_timeout: Longest time to resolve a name, and then to build a connection.
        request_timeout_ms: Longest wait for answers to our own requests (ApiVersions, Metadata).
        send_buffer_bytes: SO_SNDBUF, -1 for the system's default.
        receive_buffer_bytes: SO_RCVBUF, -1 for the system's default.
        dns_lookup: client.dns.lookup.
        metadata_recovery_strategy: "rebootstrap" or "none".
        metadata_recovery_rebootstrap_trigger_ms: See MetadataUpdater.
        next_random: Gives a number from 0 to 2**31 - 1: where the search for a node begins.
        longest_pause_ms: When a sleep took so much longer than it was to, `on_pause` is told.
        has_credentials: With SASL: whether there is what a connection proves itself with to a host of this name; none
            is made before.
        on_unconfirmed: See Connections.
        on_throttle: Told when a node wants a pause from us: which, how long in ms, and the time.
        on_pause: Told how much longer a sleep took than it was to, in ms, and the time. Before answers and deadlines
            are looked at.
        registry: Counts what is sent, answered, connected and waited for.

    Attributes:
        rest_ms: For how long since the last poll nobody had the sender's role, in ms: the next tells none of it as the
            sender's time. Written by who takes the role again.
        waits_for: What stands between this sleep, or the last, and metadata, as the ledger numbers reasons; 0 where
            nothing does.
    """

    def __init__(self, selector: Selector, metadata: ProducerMetadata, *, resolver: ThreadedResolver, client_id: str,
                 clock: Clock, max_in_flight_requests_per_connection: int, reconnect_backoff: ExponentialBackoff,
                 connection_setup_timeout: ExponentialBackoff, request_timeout_ms: int = 30_000,
                 send_buffer_bytes: int = 131_072, receive_buffer_bytes: int = 32_768,
                 dns_lookup: str = USE_ALL_DNS_IPS, metadata_recovery_strategy: str = REBOOTSTRAP,
                 metadata_recovery_rebootstrap_trigger_ms: int = 300_000,
                 next_random: Callable[[], int] = lambda: random.getrandbits(31),
                 longest_pause_ms: int = NEVER_MS, has_credentials: Callable[[str], bool] | None = None,
                 on_unconfirmed: Callable[[Node, int, int], None] = lambda _node, _count, _now_ms: None,
                 on_throttle: Callable[[int, int, int], None] = lambda _node_id, _throttle_ms, _now_ms: None,
                 on_pause: Callable[[int, int], None] = lambda _gap_ms, _now_ms: None,
                 registry: Registry | None = None) -> None:
        self._registry = registry = Registry() if registry is None else registry
        self._woke_ms = NEVER_MS  # when the last poll was done with sleeping
        self.rest_ms: int = 0
        self.waits_for: int = NO_WAIT
        self._longest_pause_ms = longest_pause_ms
        self._longest_sleep_ms = min(LONGEST_SLEEP_MS, longest_pause_ms // _LOOKS_PER_PAUSE)
        self._on_pause = on_pause
        self._on_throttle = on_throttle
        self.api_versions: ApiVersions = ApiVersions()
        self._selector = selector
        self._metadata = metadata
        self._clock = clock
        self._connections = Connections(
            selector, metadata,
            ClusterConnectionStates(reconnect_backoff=reconnect_backoff, setup_timeout=connection_setup_timeout,
                                    has_credentials=has_credentials or (lambda _host: True)),
            self.api_versions, resolver=resolver, client_id=client_id, clock=clock,
            max_in_flight_requests_per_connection=max_in_flight_requests_per_connection,
            request_timeout_ms=request_timeout_ms, send_buffer_bytes=send_buffer_bytes,
            receive_buffer_bytes=receive_buffer_bytes,
            on_disconnect=lambda now_ms: self._updater.handle_disconnect(now_ms),
            on_failed_metadata=lambda now_ms: self._updater.handle_failed_request(now_ms), next_random=next_random,
            has_sasl=has_credentials is not None, on_unconfirmed=on_unconfirmed, registry=registry)
        self._states = self._connections.states
        self._in_flight = self._connections.in_flight
        self._updater = MetadataUpdater(
            metadata, self._connections, resolver=resolver, lookup_timeout_ms=connection_setup_timeout.initial_ms,
            request_timeout_ms=request_timeout_ms, reconnect_backoff_ms=max(reconnect_backoff.initial_ms, 1),
            recovery_strategy=metadata_recovery_strategy,
            rebootstrap_trigger_ms=metadata_recovery_rebootstrap_trigger_ms, dns_lookup=dns_lookup,
            next_random=next_random)
        self._aborted: list[ClientResponse] = []     # ended outside a poll; the next one hands them out
        self._is_closed = False

    # -- nodes -------------------------------------------------------------------------------------------------------

    def ready(self, node: Node, now_ms: int) -> bool:
        """Whether a request may be sent to the node; begins to connect when there is no connection."""
        if self._connections.can_send_request(node.node_id, now_ms) and (
                now_ms < self._metadata.due_ms or not self._updater.is_update_due(now_ms)):
            return True
        if self._states.can_connect(node, now_ms):
            self._connections.initiate_connect(node, now_ms)
        return False

    def is_ready(self, node_id: int, now_ms: int) -> bool:
        """Whether a request may be sent to the node. False for all while metadata is due, which goes first."""
        return self._connections.can_send_request(node_id, now_ms) and not self._updater.is_update_due(now_ms)

    def has_nothing_under_way(self) -> bool:
        """Whether no answer, no connection and no name is awaited."""
        return not self._aborted and not self._in_flight.total and not self._states.preparing

    def poll_delay_ms(self, node: Node, now_ms: int) -> int:
        """Return how long to wait before the node is worth asking again, in ms; huge when an event will tell."""
        return self._states.poll_delay_ms(node, now_ms)

    def held_up_by(self, node_id: int, now_ms: int) -> int:
        """Return why no request can be sent to a node now, as the ledger numbers reasons."""
        return self._connections.held_up_by(node_id, now_ms)

    def connection_failed(self, node: Node) -> bool:
        """Whether the last connection to the node ended and no new one was begun."""
        state = self._states.get(node.node_id)
        return state is not None and state.is_disconnected

    @property
    def finalized_features(self) -> FinalizedFeatures:
        """The feature levels that the cluster agreed on, as far as its nodes told this client."""
        return self.api_versions.finalized_features

    def api_version(self, node_id: int, api_key: ApiKeys, max_version: int | None = None) -> int | None:
        """Return the version that a request would use, or None while the node's versions are not known.

        Raises:
            UnsupportedVersionError: The node and we have no version in common. Not sent.
        """
        return self.api_versions.negotiate(node_id, api_key, max_version)

    def least_loaded_node(self, now_ms: int) -> Node | None:
        """Return the node with the fewest requests in flight, or None when none can be used now."""
        return self._updater.choose_node(now_ms).node

    def in_flight_request_count(self) -> int:
        """Return the number of unanswered requests."""
        return self._in_flight.total

    def close(self) -> None:
        """Close all connections, whatever an exception left undone; the client is of no use after that.

        Requests in flight are not completed: whoever closes knows them.
        """
        if not self._is_closed:
            self._is_closed = True
            self._connections.count_closed()
            self._selector.close_all()
            self._connections.give_up_unconfirmed(self._clock.now_ms())

    def confirmation_wait_ms(self, now_ms: int) -> int:
        """Return how long the end may wait for brokers to reach what gets no answer (acks=0), in ms; 0 for not."""
        return self._connections.confirmation_wait_ms(now_ms)

    def abandon(self) -> None:
        """Close this process's descriptors, in a child: the connections are the parent's, and stay as they are."""
        self._is_closed = True
        self._selector.abandon()

    def move_deadlines(self, gap_ms: int) -> None:
        """Let requests, connections that are being built and metadata have so much longer, in ms."""
        self._in_flight.move_deadlines(gap_ms)
        self._states.move_deadlines(gap_ms)
        self._updater.move_deadlines(gap_ms)

    # -- sending -----------------------------------------------------------------------------------------------------

    def send(self, request: ClientRequest, now_ms: int) -> None:
        """Build a request in the negotiated version and hand it to its connection.

        A request that cannot be built in that version is not an exception: the next poll completes it, with
        `version_mismatch` or `error` set.

        Raises:
            IllegalStateError: The node is not ready, or the client is closed. Not sent.
        """
        if self._is_closed:
            raise IllegalStateError("The network client is closed")
        node_id = request.destination
        state = self._states.by_node.get(node_id)
        if state is None or state.state is not _READY or not state.throttle_until_ms <= now_ms < state.session_due_ms:
            raise IllegalStateError(f"Attempt to send a request to node {node_id} which is not ready.")
        version = -1
        try:
            usable = self.api_versions.negotiate(node_id, request.api_key, request.max_version)
            if usable is None:
                raise IllegalStateError(f"Attempt to send a request to node {node_id} whose versions are not known.")
            version = usable
            self._connections.send(request, version, now_ms)
        except UnsupportedVersionError as mismatch:
            self._abort(request, version, now_ms, mismatch=mismatch, error=mismatch)
        except LocalProtocolError as error:
            _LOG.error("Cannot encode %s v%d: %s", request.api_key.name, version, error)
            self._abort(request, version, now_ms, mismatch=None, error=error)

    def _abort(self, request: ClientRequest, version: int, now_ms: int, *, mismatch: UnsupportedVersionError | None,
               error: Exception) -> None:
        self._aborted.append(ClientResponse(request, version, None, version_mismatch=mismatch, error=error,
                                            received_ms=now_ms, sent_ms=now_ms, was_sent=False))

    # -- one turn ----------------------------------------------------------------------------------------------------

    def poll(self, timeout_ms: int, now_ms: int, *, asks: bool = True) -> list[ClientResponse]:
        """Do one turn: what is due, what the sockets have, what took too long.

        Args:
            timeout_ms: Longest sleep; shorter when metadata, a request or a connection needs attention earlier.
            now_ms: Time of the call.
            asks: Whether metadata are asked for where they are due.

        Returns:
            The requests that ended. `on_complete` of each was called.

        Raises:
            IllegalStateError: The client is closed; no record is concerned.
            BaseException: A bug, or what an `on_complete` raises. The other requests that ended may be told to nobody,
                so the client is of no use after that: see Wire.
        """
        if self._is_closed:
            raise IllegalStateError("The network client is closed")
        selector, connections, in_flight, states = self._selector, self._connections, self._in_flight, self._states
        wait_ms = 0
        if asks:
            due_ms = self._metadata.due_ms
            update_ms = due_ms - now_ms if now_ms < due_ms else self._updater.maybe_update(now_ms)
            wait_ms = min(timeout_ms, self._longest_sleep_ms, update_ms)
        if in_flight.total:
            wait_ms = min(wait_ms, in_flight.earliest_deadline_ms + 1 - now_ms)
        if connections.writing:
            wait_ms = min(wait_ms, connections.handle_markers(now_ms))
        if now_ms >= states.session_due_ms:
            wait_ms = min(wait_ms, connections.handle_sessions_due(now_ms))
        if states.preparing:
            wait_ms = min(wait_ms, states.ms_to_next_setup_deadline(now_ms))
        # Differs from Java, which does not look at its sockets then: where each turn has a request that one node cannot
        # take, the others' answers would wait for ever.
        wait_ms = 0 if self._aborted else max(wait_ms, 0)
        held_by = NO_WAIT
        if states.preparing or now_ms >= self._metadata.due_ms:
            held_by = connections.metadata_held_up_by()
        self.waits_for = held_by
        sleeps_from_ms = self._clock.now_ms()
        # Where nobody waits for the end of a write, it is no reason for the selector not to sleep.
        wait_ms = selector.poll(wait_ms, now_ms, tells_sends=in_flight.unanswerable_count > 0)
        now_ms = self._clock.now_ms()
        counted = self._registry.producer
        counted.turn_ms_total += max(0, sleeps_from_ms - self._woke_ms - self.rest_ms)
        self.rest_ms = 0
        counted.select_total += 1
        counted.io_wait_ms_total += now_ms - sleeps_from_ms
        if held_by:
            self._registry.ledger.metadata.note(held_by, sleeps_from_ms, now_ms)
        late_ms = now_ms - sleeps_from_ms - wait_ms
        self._woke_ms = now_ms
        if late_ms > self._longest_pause_ms:
            self._on_pause(late_ms, now_ms)
        responses: list[ClientResponse] = []
        if in_flight.unanswerable_count and selector.completed_sends:
            self._handle_completed_sends(responses, now_ms)
        if selector.completed_receives:
            self._handle_completed_receives(responses, now_ms)
        for connection_id in selector.connected:
            connections.handle_connected(int(connection_id))
        if selector.disconnected:
            for connection_id, channel_state in list(selector.disconnected.items()):
                connections.handle_disconnected(responses, int(connection_id), channel_state, now_ms)
        if states.preparing:
            connections.handle_preparing(responses, now_ms)
        if now_ms > in_flight.earliest_deadline_ms:
            for node_id in in_flight.nodes_with_timed_out_requests(now_ms):
                self._handle_late_request(responses, node_id, now_ms)
        if now_ms > self._updater.rebootstrap_ms:
            self._handle_rebootstrap(responses, now_ms)
        return self._complete(responses) if responses or self._aborted else responses

    def hear(self, now_ms: int) -> list[ClientResponse]:
        """Take what the sockets have by now, and ask nobody for anything; see `poll`."""
        return self.poll(0, now_ms, asks=False)

    def _complete(self, responses: list[ClientResponse]) -> list[ClientResponse]:
        if self._aborted:
            responses = [*self._aborted, *responses]
            self._aborted = []
        for response in responses:
            on_complete = response.request.on_complete
            if on_complete is not None:
                on_complete(response)
        return responses

    def _handle_completed_sends(self, responses: list[ClientResponse], now_ms: int) -> None:
        for send in self._selector.completed_sends:
            request = self._in_flight.complete_unanswerable(int(send.destination), send)
            if request is not None:
                responses.append(ClientResponse(request, request.api_version, None, received_ms=now_ms,
                                                sent_ms=request.sent_ms))

    def _handle_completed_receives(self, responses: list[ClientResponse], now_ms: int) -> None:
        broken: dict[int, ProtocolError] = {}
        for receive in self._selector.completed_receives:
            node_id = int(receive.source)
            if node_id in broken:
                continue
            try:
                self._handle_receive(responses, node_id, receive.payload, now_ms)
            except ProtocolError as error:
                broken[node_id] = error
        for node_id, cause in broken.items():
            state = self._states.get(node_id)
            if state is not None:
                self._connections.break_off(responses, state, now_ms, cause=cause)

    def _handle_receive(self, responses: list[ClientResponse], node_id: int, payload: Any, now_ms: int) -> None:
        state = self._states.by_node.get(node_id)
        if state is None or state.state in ENDED:
            return
        queue = self._in_flight.by_node.get(node_id)
        if not queue:
            raise RemoteProtocolError(f"{state.node} sent a response of {len(payload)} bytes that nobody asked for")
        request = queue[0]
        api_key = request.api_key
        correlation_id = parse_response_correlation_id(payload)
        if correlation_id != request.correlation_id:
            raise CorrelationIdMismatchError(
                f"Correlation id for response ({correlation_id}) of {state.node} does not match request "
                f"({request.correlation_id}), request: {request.describe(now_ms)}")
        if not request.send.completed:  # else the next request would be handed to a channel that still writes this one
            raise RemoteProtocolError(f"{state.node} answered a request before it was written: "
                                      f"{request.describe(now_ms)}")
        body = read_response(api_key, request.api_version, payload)
        self._in_flight.complete_next(node_id)
        if request.written_before is not None:
            self._connections.handle_answer(state, request, now_ms)
        throttle_ms = body.get("throttle_time_ms", 0)
        self._registry.node(node_id).on_answer(now_ms - request.sent_ms, len(payload) + 4, throttle_ms)
        if throttle_ms:
            self._on_throttle(node_id, throttle_ms, now_ms)
            # Differs from Java (shouldClientThrottle), which does not wait once more where a broker before 2.0 has
            # waited itself: then we are below the quota, and it asks for less.
            self._states.throttle(node_id, now_ms + throttle_ms)
        if request.internal and api_key is ApiKeys.API_VERSIONS:
            self._connections.handle_api_versions(responses, state, body, request.api_version, now_ms)
            return
        if request.internal and api_key is ApiKeys.SASL_HANDSHAKE:
            self._connections.handle_sasl_answer(responses, state, body, now_ms)
            return
        if not state.answered:
            state.answered = True
            self._metadata.forget_failure(address_text(state.node.host, state.node.port), node_id)
        if request.internal:
            self._updater.handle_response(state.node, body, request.api_version, now_ms)
        else:
            responses.append(ClientResponse(request, request.api_version, body, received_ms=now_ms,
                                            sent_ms=request.sent_ms))

    def _handle_late_request(self, responses: list[ClientResponse], node_id: int, now_ms: int) -> None:
        """An answer is late: the connection ends, and with it everything that waits behind it."""
        state = self._states.get(node_id)
        queue = self._in_flight.by_node.get(node_id)
        if state is not None and queue:
            late = min(queue, key=attrgetter("deadline_ms"))  # not the oldest, where that is a marker
            self._connections.break_off(responses, state, now_ms, waited_ms=now_ms - late.sent_ms)

    def _handle_rebootstrap(self, responses: list[ClientResponse], now_ms: int) -> None:
        """Close all connections and start over from the bootstrap addresses (KIP-1102)."""
        _LOG.info("Starting over from the bootstrap servers")
        for node_id in self._states.node_ids():
            state = self._states.get(node_id)
            if state is not None and not state.is_disconnected:
                self._connections.close_connection(responses, state, now_ms, "closed for a rebootstrap")
        self._updater.rebootstrap(now_ms)
