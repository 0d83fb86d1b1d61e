"""When metadata is asked for, of whom, and what follows from the answer, from silence and from nobody being there.

Road:    NetworkClient.poll -> [updater] -> Connections, Resolver ... -> ProducerMetadata.update
Thread:  sender thread only; calls no clock.
Source:  Java NetworkClient.DefaultMetadataUpdater, leastLoadedNode (4.1); KIP-899 (rebootstrap when no broker is left),
         KIP-1102 (rebootstrap after too long without an answer, or when the broker asks for it).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from pyproducer.client.failures import VERSION_NEGOTIATION, dns_failure
from pyproducer.client.request import ClientRequest
from pyproducer.client.resolver import RESOLVE_CANONICAL_BOOTSTRAP_SERVERS_ONLY
from pyproducer.common.clock import NEVER_MS
from pyproducer.common.cluster import address_text
from pyproducer.common.error_codes import ErrorCode
from pyproducer.common.errors import (
    IllegalStateError,
    KafkaError,
    LocalProtocolError,
    ProtocolError,
    RemoteProtocolError,
    UnsupportedVersionError,
)
from pyproducer.common.sender_log import SenderLog, sender_log
from pyproducer.protocol.apis import ApiKeys

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyproducer.client.connections import Connections
    from pyproducer.client.metadata import MetadataRequest, ProducerMetadata
    from pyproducer.client.resolver import Lookup, ThreadedResolver
    from pyproducer.common.cluster import Node

_LOG: SenderLog = sender_log("pyproducer.client")
REBOOTSTRAP = "rebootstrap"


class NodeChoice(NamedTuple):
    """The least loaded node, and whether any node is connected, being connected, or was not found dead yet."""

    node: Node | None
    any_hope: bool


class MetadataUpdater:
    """Keeps ProducerMetadata fresh.

    Args:
        metadata: What is kept fresh.
        connections: The way to the brokers, over the same connections as everything else.
        resolver: Finds the canonical names of the bootstrap addresses.
        lookup_timeout_ms: Longest wait for them.
        request_timeout_ms: Upper bound of a poll while a request is under way.
        reconnect_backoff_ms: When to look again while no node can be used.
        recovery_strategy: "rebootstrap" or "none" (metadata.recovery.strategy).
        rebootstrap_trigger_ms: Longest time without an answer before starting over from the bootstrap addresses.
        dns_lookup: client.dns.lookup.
        next_random: Gives a number from 0 to 2**31 - 1: where the search for a node begins.

    Attributes:
        rebootstrap_ms: After that all connections must be closed and the bootstrap addresses asked (KIP-1102). Written
            here only.
    """

    def __init__(self, metadata: ProducerMetadata, connections: Connections, *, resolver: ThreadedResolver,
                 lookup_timeout_ms: int, request_timeout_ms: int, reconnect_backoff_ms: int, recovery_strategy: str,
                 rebootstrap_trigger_ms: int, dns_lookup: str, next_random: Callable[[], int]) -> None:
        self._metadata = metadata
        self._connections = connections
        self._next_random = next_random
        self._resolver = resolver
        self._lookup_timeout_ms = lookup_timeout_ms
        self._request_timeout_ms = request_timeout_ms
        self._reconnect_backoff_ms = reconnect_backoff_ms
        self._recovers = recovery_strategy == REBOOTSTRAP
        self._rebootstrap_trigger_ms = rebootstrap_trigger_ms
        self._uses_canonical_names = dns_lookup == RESOLVE_CANONICAL_BOOTSTRAP_SERVERS_ONLY
        # Not where another updater before this one was told of the cluster's nodes.
        self._needs_canonical_names = self._uses_canonical_names and metadata.is_bootstrap
        self._next_canonical_ms = 0
        self._canonical_lookups: dict[tuple[str, int], Lookup[str]] = {}  # by bootstrap address, while they are awaited
        self._canonical_deadline_ms = 0
        self._in_progress: MetadataRequest | None = None
        self.rebootstrap_ms: int = NEVER_MS

    def choose_node(self, now_ms: int) -> NodeChoice:
        """Return the least loaded node, and whether there is hope among the nodes that may be asked."""
        nodes = self._metadata.nodes_to_ask()
        avoided = self._metadata.node_to_avoid()
        if avoided is not None:
            second = self._second_opinion([node for node in nodes if node.node_id != avoided], now_ms)
            if second is not None:
                return NodeChoice(second, True)
        return self._least_loaded(nodes, now_ms)

    def _least_loaded(self, nodes: Sequence[Node], now_ms: int) -> NodeChoice:
        """Choose the node with the fewest requests in flight.

        Established connections come first, then one that is being built, then the node whose last attempt is the
        longest ago; never one whose backoff is not over, or whose name is slow to resolve. The search starts anywhere,
        so that clients spread over the brokers.
        """
        connections = self._connections
        ready: Node | None = None
        preparing: Node | None = None
        connectable: Node | None = None
        connectable_attempt_ms = 0
        fewest = 2**31
        any_hope = False
        start = self._next_random()
        for index in range(len(nodes)):
            node = nodes[(start + index) % len(nodes)]
            node_id = node.node_id
            if connections.can_send_request(node_id, now_ms):
                count = connections.in_flight.count(node_id)
                if count == 0:
                    return NodeChoice(node, True)
                if count < fewest:
                    ready, fewest = node, count
                continue
            state = connections.states.get(node_id)
            any_hope = any_hope or not connections.states.is_dead(node)
            if state is not None and state.is_preparing:
                if not state.resolves_slowly(now_ms):
                    preparing = node
            elif connections.states.is_due(node_id, now_ms):
                attempt_ms = -2**62 if state is None else state.last_attempt_ms
                if connectable is None or attempt_ms < connectable_attempt_ms:
                    connectable, connectable_attempt_ms = node, attempt_ms
        return NodeChoice(ready or preparing or connectable, any_hope or ready is not None)

    def _second_opinion(self, nodes: Sequence[Node], now_ms: int) -> Node | None:
        """Return one that can be asked now, where one broker alone does not know a topic or a partition.

        Beside that one, which goes on being asked, begins to connect to another that was not found dead.
        """
        connections = self._connections
        for node in nodes:
            if connections.can_send_request(node.node_id, now_ms):
                return node
        for node in nodes:
            state = connections.states.get(node.node_id)
            if (state is None or not state.failed_attempts) and connections.states.can_connect(node, now_ms):
                connections.initiate_connect(node, now_ms)
                break
        return None

    def is_update_due(self, now_ms: int) -> bool:
        """Whether a request should be sent before anything else."""
        return self._in_progress is None and now_ms >= self._metadata.due_ms

    def maybe_update(self, now_ms: int) -> int:
        """Ask for metadata, or do the next step towards it, if it is due.

        Returns:
            How long a poll may sleep before this must be called again, in ms.
        """
        if self._in_progress is not None:
            return self._request_timeout_ms
        wait_ms = self._metadata.due_ms - now_ms
        if wait_ms > 0:
            return wait_ms
        if self._recovers and self.rebootstrap_ms == NEVER_MS:  # an attempt begins
            self.rebootstrap_ms = now_ms + self._rebootstrap_trigger_ms
        if self._needs_canonical_names and not self._find_canonical_names(now_ms):
            return self._reconnect_backoff_ms
        choice = self.choose_node(now_ms)
        if self._recovers and not choice.any_hope and not self._metadata.is_bootstrap:
            _LOG.info("No node of the cluster can be reached: asking the bootstrap servers as well")
            self._start_over(now_ms, forget_leaders=False)
            choice = self.choose_node(now_ms)
        if choice.node is None:
            return self._reconnect_backoff_ms
        return self._ask(choice.node, now_ms)

    def _ask(self, node: Node, now_ms: int) -> int:
        if self._connections.can_send_request(node.node_id, now_ms):
            request = self._metadata.next_request(now_ms)
            self._in_progress = request
            try:
                mismatch = self._send(node, request.body(), now_ms)
            except LocalProtocolError as error:  # a topic's name that no version of the protocol can say
                self._give_up_attempt(node, "the request could not be made", error, now_ms)
                return self._metadata.time_to_next_update(now_ms)
            if mismatch is not None:
                self.handle_failed_request(now_ms, mismatch)
                return self._metadata.time_to_next_update(now_ms)
            return self._request_timeout_ms
        if self._connections.states.is_anyone_preparing(now_ms):
            # Wait for it rather than connect to further nodes.
            return self._reconnect_backoff_ms
        if self._connections.states.can_connect(node, now_ms):
            self._connections.initiate_connect(node, now_ms)
            return self._reconnect_backoff_ms
        if self._connections.states.is_due(node.node_id, now_ms):
            return self._reconnect_backoff_ms  # there are no credentials for it yet
        # Connected but busy: its answer wakes the poll.
        return NEVER_MS

    def _send(self, node: Node, body: Mapping[str, Any], now_ms: int) -> UnsupportedVersionError | None:
        """Send a request; return the error when the node has no version of Metadata in common with us."""
        versions = self._connections.api_versions.get(node.node_id)
        if versions is None:
            raise IllegalStateError(f"{node} is not ready")
        try:
            version = versions.latest_usable_version(ApiKeys.METADATA)
            self._connections.send(
                ClientRequest(node.node_id, ApiKeys.METADATA, lambda _: body, timeout_ms=self._request_timeout_ms,
                              internal=True), version, now_ms)
        except UnsupportedVersionError as error:
            self._metadata.note_failure(address_text(node.host, node.port), f"{VERSION_NEGOTIATION}: {error}",
                                        node.node_id)
            return error
        return None

    def _find_canonical_names(self, now_ms: int) -> bool:
        """Replace each bootstrap address by the canonical names of all its addresses, each name once.

        A host that does not resolve, or not in time, is left out, and said.

        Returns:
            False while the names are looked for, and when none was found.
        """
        if now_ms < self._next_canonical_ms:
            return False
        if not self._canonical_lookups:
            self._canonical_lookups = {(host, port): self._resolver.canonical_names(host, port)
                                       for host, port in self._metadata.bootstrap_addresses}
            self._canonical_deadline_ms = now_ms + self._lookup_timeout_ms
        if now_ms < self._canonical_deadline_ms and any(
                lookup.outcome is None for lookup in self._canonical_lookups.values()):
            return False
        names: dict[tuple[str, int], None] = {}
        for (host, port), lookup in self._canonical_lookups.items():
            outcome = lookup.outcome
            if outcome is None or isinstance(outcome, OSError):
                where = address_text(host, port)
                failure = dns_failure(where, outcome, waited_ms=self._lookup_timeout_ms)
                self._metadata.note_failure(where, failure.summary)
            else:
                names.update(dict.fromkeys((name, port) for name in outcome))
        self._canonical_lookups = {}
        if not names:
            self._next_canonical_ms = now_ms + self._reconnect_backoff_ms
            return False
        self._needs_canonical_names = False
        self._metadata.replace_bootstrap(list(names))
        return True

    def handle_response(self, node: Node, body: Mapping[str, Any], api_version: int, now_ms: int) -> None:
        """An answer came."""
        request, self._in_progress = self._in_progress, None
        code = body.get("error_code", 0)
        if code == ErrorCode.REBOOTSTRAP_REQUIRED:
            _LOG.info("%s asks for a rebootstrap", node)
            if self._recovers:
                self.rebootstrap_ms = -NEVER_MS
            self._metadata.failed_update(now_ms)  # Backs off, should recovery be switched off.
            return
        if code != ErrorCode.NONE or not body["brokers"]:
            # A broker that is starting may know no broker at all yet.
            why = f"error {ErrorCode.of(code).name} ({code})" if code else "no brokers"
            self._metadata.note_failure(address_text(node.host, node.port), f"metadata: the answer has {why}",
                                        node.node_id)
            self._metadata.failed_update(now_ms)
            return
        try:
            self._metadata.update(body, api_version, now_ms, request=request, node_id=node.node_id)
        except ProtocolError as error:
            # Only this answer is refused. Its bytes were in order, so the connection and the requests on it go on.
            self._give_up_attempt(node, "the answer was refused", error, now_ms)
            return
        self.rebootstrap_ms = NEVER_MS
        self._metadata.forget_failure(address_text(node.host, node.port), node.node_id)
        self._connections.states.forget_who_left(self._metadata.cluster.nodes)

    def _give_up_attempt(self, node: Node, what: str, error: ProtocolError, now_ms: int) -> None:
        """Ask again after the backoff, and tell callers who wait why it takes so long."""
        self._in_progress = None
        is_new = self._metadata.note_failure(address_text(node.host, node.port), f"metadata: {what}: {error}",
                                             node.node_id)
        _LOG.log(logging.WARNING if is_new else logging.DEBUG, "%s: metadata: %s: %s", node, what, error,
                 exc_info=not isinstance(error, RemoteProtocolError))  # the peer's nonsense has no place in our code
        self._metadata.failed_update(now_ms)

    def handle_failed_request(self, now_ms: int, error: KafkaError | None = None) -> None:
        """The request under way will not be answered; an error is fatal for callers who wait."""
        self._in_progress = None
        self._metadata.failed_update(now_ms, error)

    def handle_disconnect(self, now_ms: int) -> None:
        """A connection ended: what we know may be old, and if it was to be asked, the attempt failed."""
        if self.is_update_due(now_ms):
            self._metadata.failed_update(now_ms)
        self._metadata.request_update()

    def move_deadlines(self, gap_ms: int) -> None:
        """Let what is under way have so much longer, in ms."""
        self._canonical_deadline_ms += gap_ms
        if self.rebootstrap_ms != NEVER_MS:
            self.rebootstrap_ms += gap_ms

    def rebootstrap(self, now_ms: int) -> None:
        """Forget nodes and leaders and start over; the caller has closed the connections."""
        self._start_over(now_ms, forget_leaders=True)

    def _start_over(self, now_ms: int, *, forget_leaders: bool) -> None:
        self._needs_canonical_names = self._uses_canonical_names
        self._next_canonical_ms = 0
        self._canonical_lookups = {}
        self.rebootstrap_ms = now_ms + self._rebootstrap_trigger_ms
        self._metadata.rebootstrap(forget_leaders=forget_leaders)
