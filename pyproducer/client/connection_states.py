"""The state of the connection to each node, and when it may be tried again.

    event            DISCONNECTED  CONNECTING      CHECKING_API_V.  READY           REAUTHENTICATING  AUTH._FAILED
    CONNECT          CONNECTING    -               -                -               -                 CONNECTING
    CONNECTED        -             CHECKING_API_V. -                -               -                 -
    VERSIONS_KNOWN   -             READY           READY            READY           -                 -
    REAUTHENTICATE   -             -               -                REAUTHENTIC.    -                 -
    REAUTHENTICATED  -             -               -                -               READY             -
    DISCONNECT       DISCONNECTED  DISCONNECTED    DISCONNECTED     DISCONNECTED    DISCONNECTED      DISCONNECTED
    FAIL_AUTH        AUTH._FAILED  AUTH._FAILED    AUTH._FAILED     AUTH._FAILED    AUTH._FAILED      AUTH._FAILED

Road:    NetworkClient -> [states] -> Selector
Thread:  sender thread only; calls no clock.
Source:  Java ClusterConnectionStates, ConnectionState (4.1); KIP-144, KIP-580 (backoff), KIP-601 (setup timeout),
         KIP-602 (all addresses), KIP-219 (throttle), KIP-368 (re-authentication, which is no state in Java).
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from enum import Enum, auto
from typing import TYPE_CHECKING

from pyproducer.client.resolver import ResolvedAddress
from pyproducer.client.unconfirmed_writes import UnconfirmedWrites
from pyproducer.common.clock import NEVER_MS
from pyproducer.common.errors import IllegalStateError

if TYPE_CHECKING:
    from pyproducer.client.resolver import Lookup
    from pyproducer.common.backoff import ExponentialBackoff
    from pyproducer.common.cluster import Node

# An answer that came after its attempt had ended is used by the next attempt for so long: what a JVM caches names for.
FRESH_LOOKUP_MS = 30_000
# In a row, without a working connection between: the end of a connection alone may mean nothing, a connect that fails
# after it does. Differs from Java, where there is hope while the backoff of any node is over; with two brokers or more
# that is nearly always so, however dead they are.
_FAILURES_OF_A_DEAD_NODE = 2
# A resolver that works has answered by then (glibc repeats its first question after 5 s). Who only needs any broker
# turns to another one then.
SLOW_LOOKUP_MS = 1_000
# The part of a session's life after which re-authentication is due: Java's, with room for the way to the broker and for
# clocks of different speed; drawn anew for each session, or all clients would come at once.
_SESSION_PART, _SESSION_JITTER = 0.85, 0.10
_MAX_RANDOM = 2**31
# A broker takes no new proof sooner after the last (Java KafkaChannel.MIN_REAUTH_INTERVAL_ONE_SECOND_NANOS), and
# answers one as a listener without SASL does.
_LEAST_SESSION_MS = 1_000
# How soon to look again while there are no credentials; their coming wakes the sender anyway.
NO_CREDENTIALS_MS = 50


class ConnectionState(Enum):
    """Where a connection stands."""

    DISCONNECTED = auto()            # no socket; may be connected again after the backoff
    CONNECTING = auto()              # the name is being resolved, or TCP connect is under way
    CHECKING_API_VERSIONS = auto()   # TCP is there; TLS, authentication and ApiVersions under way
    READY = auto()                   # requests may be sent
    REAUTHENTICATING = auto()        # it was READY, and proves anew who we are; nothing else is under way
    AUTHENTICATION_FAILED = auto()   # no socket; as DISCONNECTED, but callers that wait are told


ENDED = (ConnectionState.DISCONNECTED, ConnectionState.AUTHENTICATION_FAILED)
"""The states without a socket."""


class ConnectionEvent(Enum):
    """What happens to a connection."""

    CONNECT = auto()
    CONNECTED = auto()
    VERSIONS_KNOWN = auto()
    REAUTHENTICATE = auto()
    REAUTHENTICATED = auto()
    DISCONNECT = auto()
    FAIL_AUTH = auto()


_S, _E = ConnectionState, ConnectionEvent
TRANSITIONS: dict[tuple[ConnectionState, ConnectionEvent], ConnectionState] = {
    (_S.DISCONNECTED, _E.CONNECT): _S.CONNECTING,
    (_S.AUTHENTICATION_FAILED, _E.CONNECT): _S.CONNECTING,
    (_S.CONNECTING, _E.CONNECTED): _S.CHECKING_API_VERSIONS,
    (_S.CONNECTING, _E.VERSIONS_KNOWN): _S.READY,
    (_S.CHECKING_API_VERSIONS, _E.VERSIONS_KNOWN): _S.READY,
    (_S.READY, _E.VERSIONS_KNOWN): _S.READY,
    (_S.READY, _E.REAUTHENTICATE): _S.REAUTHENTICATING,
    (_S.REAUTHENTICATING, _E.REAUTHENTICATED): _S.READY,
    **{(state, _E.DISCONNECT): _S.DISCONNECTED for state in _S},
    **{(state, _E.FAIL_AUTH): _S.AUTHENTICATION_FAILED for state in _S},
}


class NodeConnectionState:
    """What is known of the connection to one node. Read by NetworkClient; changed by ClusterConnectionStates only.

    Fields that matter outside: `state`, `node`, `connection_id` (the selector's name for it), `throttle_until_ms`,
    `error` (why the last connection ended, None once it is ready), `setup_deadline_ms`, `lookup` (of the name, while it
    is being resolved; it stays when the attempt ends before it), `session_due_ms` (from then on nothing but
    re-authentication may be sent), `session_renewable_ms` (and that not before this), `session_ends_ms` (from then on
    the broker closes the connection at any other request), `writes` (what was written and gets no answer, from the
    first such request on; Connections writes it).
    """

    __slots__ = ("_addresses", "_next_address", "answered", "connection_id", "current_address", "error",
                 "failed_attempts", "failed_setups", "last_attempt_ms", "lookup", "node", "reconnect_backoff_ms",
                 "session_due_ms", "session_ends_ms", "session_lifetime_ms", "session_renewable_ms",
                 "setup_deadline_ms", "setup_timeout_ms", "state", "suspects_sasl", "throttle_until_ms",
                 "versions_requested", "writes")

    def __init__(self, node: Node, *, reconnect_backoff_ms: int, setup_timeout_ms: int) -> None:
        self.node: Node = node
        self.connection_id: str = str(node.node_id)
        self.state: ConnectionState = ConnectionState.DISCONNECTED
        self.last_attempt_ms: int = -NEVER_MS
        self.failed_attempts: int = 0
        self.failed_setups: int = 0
        self.reconnect_backoff_ms: int = reconnect_backoff_ms
        self.setup_timeout_ms: int = setup_timeout_ms
        self.setup_deadline_ms: int = NEVER_MS
        self.throttle_until_ms: int = 0
        self.session_due_ms: int = NEVER_MS
        self.session_renewable_ms: int = 0
        self.session_ends_ms: int = NEVER_MS
        self.session_lifetime_ms: int = 0
        self.writes: UnconfirmedWrites | None = None
        self.error: Exception | None = None
        self.versions_requested: bool = False   # ApiVersions was sent on this connection
        self.answered: bool = False             # a request other than ApiVersions was answered on this connection
        self.suspects_sasl: bool = False        # the last one ended as one does at a listener that wants SASL first
        self.lookup: Lookup[ResolvedAddress] | None = None
        self.current_address: ResolvedAddress | None = None
        self._addresses: list[ResolvedAddress] = []
        self._next_address = 0

    @property
    def is_disconnected(self) -> bool:
        """Whether there is no socket."""
        return self.state in ENDED

    @property
    def is_preparing(self) -> bool:
        """Whether the connection is being built, or authenticated anew."""
        return self.state in (ConnectionState.CONNECTING, ConnectionState.CHECKING_API_VERSIONS,
                              ConnectionState.REAUTHENTICATING)

    @property
    def is_resolving(self) -> bool:
        """Whether this attempt waits for the addresses of the name."""
        return self.lookup is not None and self.state is ConnectionState.CONNECTING

    def resolves_slowly(self, now_ms: int) -> bool:
        """Whether this attempt has waited so long for the name that there is no telling when it goes on."""
        return self.is_resolving and now_ms - self.last_attempt_ms >= SLOW_LOOKUP_MS

    def apply(self, event: ConnectionEvent) -> None:
        """Change the state as the table says.

        Raises:
            IllegalStateError: The event is not possible in this state; nothing is changed.
        """
        following = TRANSITIONS.get((self.state, event))
        if following is None:
            raise IllegalStateError(f"Connection to {self.node}: {event.name} is not possible in {self.state.name}")
        self.state = following

    def take_address(self) -> ResolvedAddress | None:
        """Return the address to try now, or None when all known ones were tried: the name must be resolved first."""
        if self._next_address >= len(self._addresses):
            return None
        self.current_address = self._addresses[self._next_address]
        self._next_address += 1
        return self.current_address

    def use_addresses(self, addresses: Sequence[ResolvedAddress]) -> ResolvedAddress:
        """Take what the name resolved to, at least one address; return the one to try now."""
        self._addresses = [address.with_port(self.node.port) for address in addresses]
        self._next_address = 1
        self.current_address = self._addresses[0]
        return self.current_address

    def forget_addresses(self) -> None:
        """Resolve again on the next connect: the addresses of a broker that was reached may have changed."""
        self._addresses = []


class ClusterConnectionStates:
    """The states of all nodes, by node id.

    Args:
        reconnect_backoff: Wait between two attempts, growing with the failures in a row.
        setup_timeout: Longest time until the name is resolved, and from then on until the connection is ready for its
            first request; growing with the failures.
        has_credentials: Whether there is what a connection proves itself with to a host of this name. Asked only before
            one is made.

    Attributes:
        by_node: The states of all nodes that were ever connected, and are there. Written here only.
        preparing: The connections on which ApiVersions was not sent yet, and those that are authenticated anew, by
            node. Written here only.
        session_due_ms: Not above the earliest `session_due_ms` of all: before it nobody must be authenticated anew.
    """

    def __init__(self, *, reconnect_backoff: ExponentialBackoff, setup_timeout: ExponentialBackoff,
                 has_credentials: Callable[[str], bool] = lambda _host: True) -> None:
        self._reconnect_backoff = reconnect_backoff
        self._setup_timeout = setup_timeout
        self.has_credentials = has_credentials
        self.session_due_ms: int = NEVER_MS
        self.by_node: dict[int, NodeConnectionState] = {}
        self.preparing: dict[int, NodeConnectionState] = {}

    def get(self, node_id: int) -> NodeConnectionState | None:
        """Return the state of a node, or None when it was never connected."""
        return self.by_node.get(node_id)

    def is_dead(self, node: Node) -> bool:
        """Whether this address of the node could not be reached time and again; what it had before says nothing."""
        state = self.by_node.get(node.node_id)
        return (state is not None and state.failed_attempts >= _FAILURES_OF_A_DEAD_NODE
                and (state.node.host, state.node.port) == (node.host, node.port))

    def can_connect(self, node: Node, now_ms: int) -> bool:
        """Whether a connect may be tried now: no socket, the backoff is over, and there are credentials.

        To be asked of whom one would connect to, and of no other node: what proves us to it is fetched for that.
        """
        return self.is_due(node.node_id, now_ms) and self.has_credentials(node.host)

    def is_due(self, node_id: int, now_ms: int) -> bool:
        """Whether there is no socket, and the backoff is over."""
        state = self.by_node.get(node_id)
        return state is None or (state.is_disconnected and now_ms - state.last_attempt_ms >= state.reconnect_backoff_ms)

    def connection_delay_ms(self, node: Node, now_ms: int) -> int:
        """Return how long to wait before connecting; NEVER_MS while connecting or connected (an event will come)."""
        state = self.by_node.get(node.node_id)
        if state is not None and not state.is_disconnected:
            return NEVER_MS
        delay_ms = 0 if state is None else max(state.last_attempt_ms + state.reconnect_backoff_ms - now_ms, 0)
        return delay_ms if self.has_credentials(node.host) else max(delay_ms, NO_CREDENTIALS_MS)

    def connecting(self, node: Node, now_ms: int) -> NodeConnectionState:
        """Begin an attempt; the caller then takes an address and connects.

        A node whose address changed starts with a clean slate: the old address's failures say nothing of the new one.
        A lookup that outlasted the attempt before is of use while it lasts, and its addresses while they are fresh;
        they are no older than the end of that attempt. That the name did not resolve by then says nothing of now.
        """
        state = self.by_node.get(node.node_id)
        if state is None or (state.node.host, state.node.port) != (node.host, node.port):
            state = NodeConnectionState(node, reconnect_backoff_ms=self._reconnect_backoff.backoff_ms(0),
                                        setup_timeout_ms=self._setup_timeout.backoff_ms(0))
        state.apply(ConnectionEvent.CONNECT)
        if state.lookup is not None and state.lookup.outcome is not None and (
                isinstance(state.lookup.outcome, OSError) or now_ms - state.last_attempt_ms > FRESH_LOOKUP_MS):
            state.lookup = None
        state.node = node
        state.versions_requested = False
        state.answered = False
        state.throttle_until_ms = 0
        state.session_due_ms = state.session_ends_ms = NEVER_MS
        state.session_lifetime_ms = 0
        self.by_node[node.node_id] = state
        self.preparing[node.node_id] = state
        self.start_setup_timer(state, now_ms)
        return state

    def start_setup_timer(self, state: NodeConnectionState, now_ms: int) -> None:
        """Count the attempt and its setup timeout from now; called again when the name is resolved."""
        state.last_attempt_ms = now_ms
        state.setup_deadline_ms = now_ms + state.setup_timeout_ms

    def checking_api_versions(self, node_id: int) -> NodeConnectionState:
        """TCP is connected.

        # Differs from Java: the setup timeout runs on until ApiVersions is sent, so it covers the TLS handshake and
        # the authentication too; in Java a peer that accepts and then stays silent in them holds the connection
        # until connections.max.idle.ms.
        """
        state = self.by_node[node_id]
        state.apply(ConnectionEvent.CONNECTED)
        return state

    def versions_requested(self, state: NodeConnectionState) -> None:
        """ApiVersions was sent: from here request.timeout.ms guards the conversation, and no setup deadline."""
        state.versions_requested = True
        self.preparing.pop(state.node.node_id, None)

    def ready(self, node_id: int) -> None:
        """The conversation works: failures are forgotten."""
        state = self.by_node[node_id]
        state.apply(ConnectionEvent.VERSIONS_KNOWN)
        state.error = None
        state.failed_attempts = 0
        state.failed_setups = 0
        state.reconnect_backoff_ms = self._reconnect_backoff.backoff_ms(0)
        state.setup_timeout_ms = self._setup_timeout.backoff_ms(0)
        self.preparing.pop(node_id, None)
        self.session_due_ms = min(self.session_due_ms, state.session_due_ms)  # it was not asked for in between

    def session_began(self, state: NodeConnectionState, lifetime_ms: int, next_random: int, now_ms: int) -> None:
        """The broker took our proof, for so long.

        Where that is too short to renew it in time, as when a token is about to end and no newer one is to be had,
        nothing is sent from its end until it may be renewed: on a session that has ended, a request costs the
        connection. Before its end it is as good as any other, and where all are that short, the only chance.

        Source: Java SaslClientAuthenticator.ReauthInfo.setAuthenticationEndAndSessionReauthenticationTimes (4.1).
        """
        part = _SESSION_PART + _SESSION_JITTER * next_random / _MAX_RANDOM
        state.session_due_ms = now_ms + int(lifetime_ms * part)
        state.session_renewable_ms = now_ms + _LEAST_SESSION_MS
        state.session_ends_ms, state.session_lifetime_ms = now_ms + lifetime_ms, lifetime_ms
        if state.writes is not None:
            state.writes.begin_session(lifetime_ms, state.session_ends_ms)
        self.session_due_ms = min(self.session_due_ms, state.session_due_ms)

    def sessions_due(self, now_ms: int) -> list[NodeConnectionState]:
        """Return the connections that must be authenticated anew before anything else is sent on them."""
        open_ones = [state for state in self.by_node.values() if state.state is ConnectionState.READY]
        self.session_due_ms = min((state.session_due_ms for state in open_ones), default=NEVER_MS)
        return [state for state in open_ones if state.session_due_ms <= now_ms]

    def reauthenticating(self, state: NodeConnectionState, now_ms: int) -> None:
        """It proves anew who we are; the setup timeout bounds that, as it did the first time."""
        state.apply(ConnectionEvent.REAUTHENTICATE)
        state.session_due_ms = NEVER_MS
        state.setup_deadline_ms = now_ms + state.setup_timeout_ms
        self.preparing[state.node.node_id] = state

    def reauthenticated(self, state: NodeConnectionState) -> None:
        """Requests may be sent again."""
        state.apply(ConnectionEvent.REAUTHENTICATED)
        self.preparing.pop(state.node.node_id, None)

    def disconnected(self, node_id: int, now_ms: int, error: Exception | None = None) -> None:
        """The connection ended, or could not be made: the backoff begins."""
        self._end(node_id, now_ms, ConnectionEvent.DISCONNECT, error)

    def authentication_failed(self, node_id: int, now_ms: int, error: Exception) -> None:
        """TLS or SASL failed: the backoff begins, and the error is kept for whoever asks."""
        self._end(node_id, now_ms, ConnectionEvent.FAIL_AUTH, error)

    def _end(self, node_id: int, now_ms: int, event: ConnectionEvent, error: Exception | None) -> None:
        state = self.by_node[node_id]
        before = state.state
        state.apply(event)
        state.last_attempt_ms = now_ms
        state.reconnect_backoff_ms = self._reconnect_backoff.backoff_ms(state.failed_attempts)
        state.failed_attempts += 1
        state.throttle_until_ms = 0
        state.session_due_ms = NEVER_MS
        self.preparing.pop(node_id, None)
        if before is ConnectionState.CONNECTING:
            state.failed_setups += 1
            state.setup_timeout_ms = self._setup_timeout.backoff_ms(state.failed_setups)
        else:
            state.failed_setups = 0
            state.setup_timeout_ms = self._setup_timeout.backoff_ms(0)
            if before in (ConnectionState.READY, ConnectionState.REAUTHENTICATING):
                state.forget_addresses()
        if error is not None:
            state.error = error

    def throttle(self, node_id: int, until_ms: int) -> None:
        """The broker asked for a pause (KIP-219); a shorter later one does not shorten it."""
        state = self.by_node.get(node_id)
        if state is not None:
            state.throttle_until_ms = max(state.throttle_until_ms, until_ms)

    def poll_delay_ms(self, node: Node, now_ms: int) -> int:
        """Return how long to wait before the node is worth asking again, in ms."""
        state = self.by_node.get(node.node_id)
        if state is not None and not state.is_disconnected and state.throttle_until_ms > now_ms:
            return state.throttle_until_ms - now_ms
        return self.connection_delay_ms(node, now_ms)

    def preparing_nodes(self) -> list[NodeConnectionState]:
        """Return the connections on which ApiVersions was not sent yet, and those that are authenticated anew."""
        return list(self.preparing.values())

    def nodes_with_setup_timeout(self, now_ms: int) -> list[NodeConnectionState]:
        """Return the connections that took too long to be built."""
        return [state for state in self.preparing.values() if now_ms > state.setup_deadline_ms]

    def ms_to_next_setup_deadline(self, now_ms: int) -> int:
        """Return how long a poll may sleep before a setup can be late, in ms."""
        if not self.preparing:
            return NEVER_MS
        return max(min(state.setup_deadline_ms for state in self.preparing.values()) + 1 - now_ms, 0)

    def move_deadlines(self, gap_ms: int) -> None:
        """Let every connection that is being built have so much longer, in ms."""
        for state in self.preparing.values():
            state.setup_deadline_ms += gap_ms

    def is_anyone_preparing(self, now_ms: int) -> bool:
        """Whether any connection is between connect and ready, and not held up by a slow name."""
        return any(state.is_preparing and not state.resolves_slowly(now_ms) for state in self.by_node.values())

    def node_ids(self) -> list[int]:
        """Return the ids of all nodes that were ever connected, but for those that `forget_who_left` has forgotten."""
        return list(self.by_node)

    def forget_who_left(self, present: Container[int]) -> None:
        """Forget the nodes of the cluster that have no connection and are not there any more.

        Some clusters give each broker that starts an id of its own, and what is kept of one has the error of its end.
        """
        for node_id, state in list(self.by_node.items()):
            if node_id >= 0 and state.is_disconnected and node_id not in present:
                del self.by_node[node_id]
