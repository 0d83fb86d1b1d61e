"""The connections to all nodes: built, negotiated, sent on, ended.

    (name resolved) -> connect -> (selector: connected) -> (channel ready) -> ApiVersions -> READY -> ... -> end
                                                                        REAUTHENTICATING <-> READY

A session that the broker limits (KIP-368) is renewed without disturbing what is under way: from the time it is due,
nothing more is sent; when all answers are in, and what expects none is confirmed (unconfirmed_writes.py), the proof is
given anew. The broker meanwhile goes on to answer what came before the end of the session, and takes the new proof
after it, too.

A listener with SASL answers ApiVersions to anybody, and hangs up at the first request that comes before SASL. So does a
broker that ends. Where we have no SASL, the next connection asks which of the two it is: SaslHandshake is answered with
the listener's mechanisms, or with ILLEGAL_SASL_STATE where it has none.

Road:    NetworkClient, metadata_updater -> [Connections] -> Resolver, Selector
Thread:  sender thread only. Calls the clock only when the resolver has answered.
Source:  Java NetworkClient: initiateConnect, handleConnections, handleInitiateApiVersionRequests,
         handleApiVersionsResponse, processDisconnection, cancelInFlightRequests (4.1). Differs from Java, which begins
         to re-authenticate behind requests in flight, and sorts the answers out.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyproducer.client.api_versions import LATEST_VERSION, api_versions_body, read_api_versions
from pyproducer.client.connection_states import (
    NO_CREDENTIALS_MS,
    ClusterConnectionStates,
    ConnectionState,
    NodeConnectionState,
)
from pyproducer.client.failures import REQUEST, Failure, connect_failure, dns_failure, explain_end
from pyproducer.client.in_flight import InFlightRequests
from pyproducer.client.refusals import Refusals
from pyproducer.client.request import ClientRequest, ClientResponse
from pyproducer.client.unconfirmed_writes import UnconfirmedWrites
from pyproducer.common.clock import NEVER_MS
from pyproducer.common.cluster import address_text
from pyproducer.common.error_codes import ErrorCode
from pyproducer.common.errors import (
    AuthenticationError,
    DisconnectedError,
    KafkaTimeoutError,
    LocalProtocolError,
    ProtocolError,
    UnsupportedVersionError,
)
from pyproducer.common.printable import LONGEST_NAME, printable
from pyproducer.common.sender_log import SenderLog, sender_log
from pyproducer.hotpath import CONNECTION, METADATA, NAME, SLOT, THROTTLE
from pyproducer.network.channel import ChannelPhase, ChannelState
from pyproducer.network.send import NetworkSend
from pyproducer.observe.registry import Registry
from pyproducer.protocol.apis import ApiKeys
from pyproducer.protocol.header import build_request

if TYPE_CHECKING:
    from pyproducer.client.api_versions import ApiVersions, NodeApiVersions
    from pyproducer.client.metadata import ProducerMetadata
    from pyproducer.client.resolver import ResolvedAddress, ThreadedResolver
    from pyproducer.common.clock import Clock
    from pyproducer.common.cluster import Node
    from pyproducer.network.selector import Selector


_LOG: SenderLog = sender_log("pyproducer.client")
_READY = ConnectionState.READY
_MAX_CORRELATION_ID = 2**31 - 1


class Connections:
    """All connections, with their states and the requests in flight on them.

    Args:
        selector: The sockets.
        metadata: Told why addresses do not work.
        states: The state of each node.
        api_versions: What each node supports.
        resolver: Finds the addresses of a node's name; wakes the selector when it has.
        client_id: Sent in each request header.
        clock: Read when the resolver has answered.
        max_in_flight_requests_per_connection: Unanswered requests per connection.
        request_timeout_ms: Longest wait for the answer to ApiVersions.
        send_buffer_bytes: SO_SNDBUF, -1 for the system's default.
        receive_buffer_bytes: SO_RCVBUF, -1 for the system's default.
        on_disconnect: Told when a connection ended, with the time.
        on_failed_metadata: Told when the metadata request that was under way will not be answered, with the time.
        next_random: Gives a number from 0 to 2**31 - 1: when a session is renewed.
        has_sasl: Whether connections are authenticated with SASL.
        registry: Counts requests and connections.
        on_unconfirmed: Told of which node the connection ended, how many records were written to it without its being
            known whether the broker reached them, and the time.

    Attributes:
        writing: The nodes to which something was written that is not confirmed. Written here only.
    """

    def __init__(self, selector: Selector, metadata: ProducerMetadata, states: ClusterConnectionStates,
                 api_versions: ApiVersions, *, resolver: ThreadedResolver, client_id: str, clock: Clock,
                 max_in_flight_requests_per_connection: int, request_timeout_ms: int, send_buffer_bytes: int,
                 receive_buffer_bytes: int, on_disconnect: Callable[[int], None],
                 on_failed_metadata: Callable[[int], None],
                 next_random: Callable[[], int], has_sasl: bool, on_unconfirmed: Callable[[Node, int, int], None],
                 registry: Registry) -> None:
        self._registry = registry
        self.states = states
        self.writing: dict[int, NodeConnectionState] = {}
        self.in_flight: InFlightRequests = InFlightRequests(max_in_flight_requests_per_connection)
        self.api_versions = api_versions
        self._selector = selector
        self._metadata = metadata
        self._refusals = Refusals(metadata, states)
        self._resolver = resolver
        self._client_id = client_id
        self._clock = clock
        self._request_timeout_ms = request_timeout_ms
        self._send_buffer_bytes = send_buffer_bytes
        self._receive_buffer_bytes = receive_buffer_bytes
        self._on_disconnect = on_disconnect
        self._on_failed_metadata = on_failed_metadata
        self._next_random = next_random
        self._has_sasl = has_sasl
        self._on_unconfirmed = on_unconfirmed
        self._is_ending = False
        self._correlation_id = 0

    # -- sending -----------------------------------------------------------------------------------------------------

    def can_send_request(self, node_id: int, now_ms: int) -> bool:
        """Whether the connection is ready, not throttled, has room in flight, and its session leaves time for more."""
        state = self.states.by_node.get(node_id)
        return (state is not None and state.state is _READY  # so is the channel: no poll ends with only one of them so
                and state.throttle_until_ms <= now_ms < state.session_due_ms
                and self.in_flight.can_send_more(node_id)
                and (state.writes is None or state.writes.may_write(now_ms)))

    def held_up_by(self, node_id: int, now_ms: int) -> int:
        """Return why no request can be sent to a node now, in the ledger's words; METADATA where that comes first."""
        state = self.states.by_node.get(node_id)
        if state is None or state.state is not _READY:
            return NAME if state is not None and state.is_resolving else CONNECTION
        if state.throttle_until_ms > now_ms:
            return THROTTLE
        if now_ms >= state.session_due_ms:
            return CONNECTION
        return METADATA if self.in_flight.can_send_more(node_id) else SLOT

    def metadata_held_up_by(self) -> int:
        """Return what stands between us and the next answer with metadata, in the ledger's words."""
        preparing = self.states.preparing.values()
        if any(state.is_resolving for state in preparing):
            return NAME
        if preparing or not any(state.state is _READY for state in self.states.by_node.values()):
            return CONNECTION
        return METADATA

    def send(self, request: ClientRequest, version: int, now_ms: int) -> None:
        """Encode a request and hand it to its connection, which the caller has checked.

        Raises:
            UnsupportedVersionError: The body says something that this version cannot say. Not sent.
            SchemaError: A value does not fit. Not sent.
        """
        correlation_id = self._correlation_id
        chunks = build_request(request.api_key, version, correlation_id, self._client_id, request.build(version))
        self._correlation_id = 0 if correlation_id == _MAX_CORRELATION_ID else correlation_id + 1
        request.api_version = version
        request.correlation_id = correlation_id
        request.sent_ms = now_ms
        request.deadline_ms = now_ms + request.timeout_ms
        state = self.states.by_node[request.destination]
        request.send = send = NetworkSend(state.connection_id, chunks)
        self.in_flight.add(request)
        if not request.expect_response:
            self._note_write(state, request.record_count, now_ms)
        elif state.writes is not None:
            request.written_before = state.writes.position
        self._registry.node(request.destination).on_request(send.size_bytes)
        self._selector.send(send)

    # -- what gets no answer -----------------------------------------------------------------------------------------

    def _note_write(self, state: NodeConnectionState, record_count: int, now_ms: int) -> None:
        if state.writes is None:
            state.writes = UnconfirmedWrites(state.session_lifetime_ms, state.session_ends_ms)
        state.writes.wrote(record_count, now_ms)
        self.writing[state.node.node_id] = state

    def handle_markers(self, now_ms: int) -> int:
        """Ask brokers how far they have come with what gets no answer, where that is due.

        Returns:
            How long a poll may sleep before this must be called again, in ms.
        """
        wait_ms = NEVER_MS
        for node_id, state in list(self.writing.items()):
            writes = state.writes
            assert writes is not None, "it is among those that write"
            delay_ms = max(writes.marker_delay_ms(now_ms, at_once=self._is_ending or now_ms >= state.session_due_ms),
                           state.throttle_until_ms - now_ms)
            if delay_ms > 0:
                wait_ms = min(wait_ms, delay_ms)
            elif self.in_flight.can_send_more(node_id):  # else an answer, or the end of a write, ends the poll
                self._send_marker(state, now_ms)
                writes.on_marker_sent(now_ms)
        return wait_ms

    def _send_marker(self, state: NodeConnectionState, now_ms: int) -> None:
        versions = self.api_versions.get(state.node.node_id)
        try:
            version = 0 if versions is None else versions.latest_usable_version(ApiKeys.API_VERSIONS)
        except UnsupportedVersionError:
            version = 0  # which every broker answers
        # No deadline: behind seconds of other requests it takes as long as they do, and they are lost if that ends it.
        # But no broker comes to it behind the end of its session; and without an answer nothing is sent from then on.
        timeout_ms = (NEVER_MS // 2 if state.session_ends_ms == NEVER_MS
                      else max(state.session_ends_ms - now_ms, 0) + self._request_timeout_ms)
        self.send(ClientRequest(state.node.node_id, ApiKeys.API_VERSIONS, api_versions_body, timeout_ms=timeout_ms),
                  version, now_ms)

    def handle_answer(self, state: NodeConnectionState, request: ClientRequest, now_ms: int) -> None:
        """A request was answered before which something was written that gets no answer."""
        writes = state.writes
        assert writes is not None, "it was asked on this connection"
        assert request.written_before is not None, "the caller looked"
        writes.on_answer(request.written_before, now_ms, is_marker=request.is_marker)
        if not writes.unconfirmed.requests:
            self.writing.pop(state.node.node_id, None)

    def confirmation_wait_ms(self, now_ms: int) -> int:
        """Return how long the end of the client may wait for what is not confirmed, in ms; 0 where all is.

        From the first call on it is asked for at once. A broker has request.timeout.ms from the last write on.
        """
        self._is_ending = True
        waits_ms = (state.writes.last_write_ms + self._request_timeout_ms - now_ms for state in self.writing.values()
                    if state.writes is not None)
        return max(0, max(waits_ms, default=0))

    def count_closed(self) -> None:
        """All connections are closed by us: count them."""
        for node_id in self.states.node_ids():
            state = self.states.by_node[node_id]
            if not state.is_disconnected and state.state is not ConnectionState.CONNECTING:
                self._count_end(node_id)

    def _count_end(self, node_id: int) -> None:
        row = self._registry.node(node_id)
        row.connection_close_total += 1
        row.certificate_ends_s = 0  # who comes back shows another, and who does not is nobody's concern

    def give_up_unconfirmed(self, now_ms: int) -> None:
        """Tell of all that is not confirmed: the connections are closed."""
        for state in list(self.writing.values()):
            self._forget_writes(state, self.in_flight.requests(state.node.node_id), now_ms)

    def _forget_writes(self, state: NodeConnectionState, in_flight: Sequence[ClientRequest], now_ms: int) -> None:
        """The connection has ended: tell of what nobody knows whether the broker reached it.

        What is still in flight is not told of here: it was not written, or will be written again.
        """
        writes, state.writes = state.writes, None
        self.writing.pop(state.node.node_id, None)
        if writes is not None:
            count = writes.unconfirmed.records - sum(request.record_count for request in in_flight)
            if count > 0:
                self._on_unconfirmed(state.node, count, now_ms)

    # -- coming up ---------------------------------------------------------------------------------------------------

    def initiate_connect(self, node: Node, now_ms: int) -> None:
        """Begin to connect to the next address of a node; a failure at once is handled like a later one.

        When all its addresses were tried its name is resolved again; `handle_preparing` goes on when that has ended.
        """
        state = self.states.connecting(node, now_ms)
        address = state.take_address()
        if address is not None:
            self._connect(state, address, now_ms)
            return
        if state.lookup is None:
            state.lookup = self._resolver.lookup(node.host, node.port)
        self._handle_lookup(state)

    def _handle_lookup(self, state: NodeConnectionState) -> None:
        outcome = state.lookup.outcome  # type: ignore[union-attr]  # the state is resolving
        if outcome is None:
            return
        state.lookup = None
        if isinstance(outcome, OSError):
            self._connect_failed(state, dns_failure(address_text(state.node.host, state.node.port), outcome))
            return
        now_ms = self._clock.now_ms()  # The lookup may have taken long; the connection has its full time.
        self.states.start_setup_timer(state, now_ms)
        self._connect(state, state.use_addresses(outcome), now_ms)

    def _connect(self, state: NodeConnectionState, address: ResolvedAddress, now_ms: int) -> None:
        node = state.node
        _LOG.debug("Connecting to %s at %s", node, address.address[0])
        try:
            self._selector.connect(state.connection_id, address.address, family=address.family,
                                   send_buffer_bytes=self._send_buffer_bytes,
                                   receive_buffer_bytes=self._receive_buffer_bytes, now_ms=now_ms,
                                   server_hostname=node.host)
        except OSError as error:
            self._connect_failed(state, connect_failure(address_text(node.host, node.port), address, error))

    def _connect_failed(self, state: NodeConnectionState, failure: Failure) -> None:
        now_ms = self._clock.now_ms()
        self._registry.node(state.node.node_id).connection_failed_total += 1
        self._note(state, failure)
        self.states.disconnected(state.node.node_id, now_ms, failure.error)
        self._refusals.tell()
        self._on_disconnect(now_ms)

    def handle_connected(self, node_id: int) -> None:
        """TCP is connected. A handshake may follow; ApiVersions is sent once the channel is ready."""
        state = self.states.get(node_id)
        if state is not None and state.state is ConnectionState.CONNECTING:
            self.states.checking_api_versions(node_id)
            row = self._registry.node(node_id)
            row.connection_creation_total += 1
            row.floor_ms = -1  # the way may be another one; the broker answers ApiVersions at once

    def handle_preparing(self, responses: list[ClientResponse], now_ms: int) -> None:
        """Connect where the name is resolved, go on where the channel is ready; end what took too long."""
        for state in self.states.preparing_nodes():
            if state.is_resolving:
                self._handle_lookup(state)
            elif state.state is not ConnectionState.CONNECTING and self._selector.is_channel_ready(
                    state.connection_id):
                lifetime_ms = self._selector.session_lifetime_ms(state.connection_id)
                if lifetime_ms > 0:
                    self.states.session_began(state, lifetime_ms, self._next_random(), now_ms)
                if state.state is ConnectionState.REAUTHENTICATING:
                    self.states.reauthenticated(state)
                    self._registry.producer.successful_reauthentication_total += 1
                else:
                    self._request_versions(responses, state, LATEST_VERSION, now_ms)
        for state in self.states.nodes_with_setup_timeout(now_ms):
            self.break_off(responses, state, now_ms, waited_ms=state.setup_timeout_ms)

    def handle_sessions_due(self, now_ms: int) -> int:
        """Begin to renew the sessions that are due, where nothing is under way any more and there are credentials.

        Returns:
            How long a poll may sleep before one that is due may be renewed, in ms.
        """
        wait_ms = NEVER_MS
        for state in self.states.sessions_due(now_ms):
            may_ms = max(state.throttle_until_ms, state.session_renewable_ms)
            if self.in_flight.count(state.node.node_id) or state.node.node_id in self.writing:
                continue  # an answer ends the poll
            if may_ms > now_ms:
                wait_ms = min(wait_ms, may_ms - now_ms)
            elif not self.states.has_credentials(state.node.host):
                wait_ms = min(wait_ms, NO_CREDENTIALS_MS)
            elif self._selector.reauthenticate(state.connection_id):
                self.states.reauthenticating(state, now_ms)
        return wait_ms

    def _request_versions(self, responses: list[ClientResponse], state: NodeConnectionState, version: int,
                          now_ms: int) -> None:
        request = ClientRequest(state.node.node_id, ApiKeys.API_VERSIONS, api_versions_body,
                                timeout_ms=self._request_timeout_ms, internal=True)
        self.states.versions_requested(state)
        try:
            self.send(request, version, now_ms)
        except LocalProtocolError as error:
            self.break_off(responses, state, now_ms, cause=error)

    def handle_api_versions(self, responses: list[ClientResponse], state: NodeConnectionState,
                            body: Mapping[str, Any], sent_version: int, now_ms: int) -> None:
        """ApiVersions was answered: ready, once more with a lower version, or hopeless.

        The peer may have hung up behind its answer, in the same poll. Then there is nobody to ask anything more, and
        `handle_disconnected`, which comes next, ends the attempt.
        """
        result = read_api_versions(body, sent_version, str(state.node))
        if result.versions is not None:
            self.api_versions.update(state.node.node_id, result.versions)
            if not (state.suspects_sasl and self._asks_for_sasl(state, result.versions, now_ms)):
                self._ready(state)
        elif result.retry_version is None:
            self.break_off(responses, state, now_ms, cause=result.error)
        elif state.connection_id not in self._selector.disconnected:
            self._request_versions(responses, state, result.retry_version, now_ms)

    def _ready(self, state: NodeConnectionState) -> None:
        self.states.ready(state.node.node_id)
        self._registry.producer.successful_authentication_total += 1
        self._registry.node(state.node.node_id).certificate_ends_s = self._selector.certificate_ends_at_s(
            state.connection_id)
        self._refusals.forget()

    def _asks_for_sasl(self, state: NodeConnectionState, versions: NodeApiVersions, now_ms: int) -> bool:
        """Ask a broker whether its listener wants SASL first, where it can be asked."""
        state.suspects_sasl = False
        try:
            version = versions.latest_usable_version(ApiKeys.SASL_HANDSHAKE)
        except UnsupportedVersionError:
            return False
        if state.connection_id in self._selector.disconnected:
            return True  # it would have been
        body = {"mechanism": "NONE"}  # there is no such mechanism, so nothing is begun
        self.send(ClientRequest(state.node.node_id, ApiKeys.SASL_HANDSHAKE, lambda _: body,
                                timeout_ms=self._request_timeout_ms, internal=True), version, now_ms)
        return True

    def handle_sasl_answer(self, responses: list[ClientResponse], state: NodeConnectionState,
                           body: Mapping[str, Any], now_ms: int) -> None:
        """A broker said whether its listener wants SASL first."""
        if body["error_code"] not in (ErrorCode.NONE, ErrorCode.UNSUPPORTED_SASL_MECHANISM):
            self._ready(state)
            return
        state.suspects_sasl = True  # so that the next connection asks at once
        offered = ", ".join(printable(name, LONGEST_NAME) for name in body["mechanisms"])
        self.break_off(responses, state, now_ms, cause=AuthenticationError(
            "the broker's listener requires SASL, and security.protocol has none: set it to SASL_PLAINTEXT, or to "
            f"SASL_SSL where the listener speaks TLS, and sasl.mechanism to one that it takes: {offered}"))

    # -- going down --------------------------------------------------------------------------------------------------

    def handle_disconnected(self, responses: list[ClientResponse], node_id: int, channel_state: ChannelState,
                            now_ms: int) -> None:
        """The selector saw a connection end."""
        state = self.states.get(node_id)
        if state is None or state.is_disconnected:  # We ended it ourselves in the same turn.
            return
        if channel_state.phase is ChannelPhase.EXPIRED:
            self._end(responses, state, now_ms, None)
            return
        in_flight = self.in_flight.requests(node_id)
        failure = explain_end(state, in_flight=in_flight, now_ms=now_ms, phase=channel_state.phase,
                              cause=channel_state.error)
        # A broker that closes an idle connection in peace says nothing that a later timeout should repeat.
        if in_flight or state.state is not _READY or channel_state.phase is not ChannelPhase.READY:
            self._note(state, failure)
        state.suspects_sasl = (not self._has_sasl and bool(in_flight) and state.state is _READY and not state.answered
                               and channel_state.phase is ChannelPhase.READY)
        self._end(responses, state, now_ms, failure.error)
        self._on_disconnect(now_ms)

    def break_off(self, responses: list[ClientResponse], state: NodeConnectionState, now_ms: int, *,
                  cause: ProtocolError | AuthenticationError | None = None, waited_ms: int | None = None) -> None:
        """End a connection because of what the peer sent, or because it took too long."""
        failure = explain_end(state, in_flight=self.in_flight.requests(state.node.node_id), now_ms=now_ms,
                              cause=cause, waited_ms=waited_ms)
        error: Exception = failure.error
        if waited_ms is not None and failure.phase == REQUEST:
            error = KafkaTimeoutError(str(error), phase="request", outcome="unknown")
        self._note(state, failure)
        self._selector.close(state.connection_id)
        self._end(responses, state, now_ms, error, timed_out=waited_ms is not None)
        self._on_disconnect(now_ms)

    def close_connection(self, responses: list[ClientResponse], state: NodeConnectionState, now_ms: int,
                         reason: str) -> None:
        """End a connection because we want to."""
        self._selector.close(state.connection_id)
        self._end(responses, state, now_ms, DisconnectedError(f"{state.node}: {reason}"))

    def _end(self, responses: list[ClientResponse], state: NodeConnectionState, now_ms: int,
             error: Exception | None, *, timed_out: bool = False) -> None:
        """Change the state and complete everything in flight, oldest first."""
        node_id = state.node.node_id
        self.api_versions.remove(node_id)
        if state.state is ConnectionState.CONNECTING:
            self._registry.node(node_id).connection_failed_total += 1
        else:
            self._count_end(node_id)
        if isinstance(error, AuthenticationError):
            self._registry.producer.failed_authentication_total += 1
            self.states.authentication_failed(node_id, now_ms, error)
            self._refusals.note(state.node, error)
        else:
            self.states.disconnected(node_id, now_ms, error)
        self._refusals.tell()
        in_flight = self.in_flight.clear_all(node_id)
        self._forget_writes(state, in_flight, now_ms)
        for request in in_flight:
            if not request.internal:
                responses.append(request.disconnected(now_ms, timed_out=timed_out, error=error))
            elif request.api_key is ApiKeys.METADATA:
                self._on_failed_metadata(now_ms)

    def _note(self, state: NodeConnectionState, failure: Failure) -> None:
        where = address_text(state.node.host, state.node.port)
        # One warning for a new reason; the same reason again, at each reconnect, is for those who debug.
        is_new = self._metadata.note_failure(where, failure.summary, state.node.node_id)
        _LOG.log(logging.WARNING if is_new else logging.DEBUG, "%s: %s", state.node, failure.summary)
