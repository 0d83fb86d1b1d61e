import itertools
import socket

import pytest

from pyproducer.client.connection_states import (
    FRESH_LOOKUP_MS,
    SLOW_LOOKUP_MS,
    ClusterConnectionStates,
    ConnectionEvent,
    ConnectionState,
    NodeConnectionState,
)
from pyproducer.client.resolver import Lookup, ResolvedAddress
from pyproducer.common.backoff import ExponentialBackoff
from pyproducer.common.clock import NEVER_MS
from pyproducer.common.cluster import Node
from pyproducer.common.errors import AuthenticationError, DisconnectedError, IllegalStateError

NODE = Node(1, "host-1", 9092)
DISCONNECTED, CONNECTING, CHECKING, READY, REAUTHENTICATING, FAILED = tuple(ConnectionState)
_E = ConnectionEvent
# Written down a second time, state by state, so that a wrong row there is seen here. Where a connection may go; what is
# not named is illegal. DISCONNECT and FAIL_AUTH may come at any time.
LAWFUL = {
    DISCONNECTED: {_E.CONNECT: CONNECTING},
    CONNECTING: {_E.CONNECTED: CHECKING, _E.VERSIONS_KNOWN: READY},  # versions that are never asked for are known
    CHECKING: {_E.VERSIONS_KNOWN: READY},
    READY: {_E.VERSIONS_KNOWN: READY, _E.REAUTHENTICATE: REAUTHENTICATING},
    REAUTHENTICATING: {_E.REAUTHENTICATED: READY},
    FAILED: {_E.CONNECT: CONNECTING},
}

THREE = [ResolvedAddress(2, (f"10.0.0.{index}", 9092)) for index in range(3)]


def states(*, jitter: float = 0.0) -> ClusterConnectionStates:
    return ClusterConnectionStates(reconnect_backoff=ExponentialBackoff(50, 1000, jitter=jitter),
                                   setup_timeout=ExponentialBackoff(10_000, 30_000, jitter=jitter))


@pytest.mark.parametrize(("state", "event"), list(itertools.product(ConnectionState, ConnectionEvent)))
def test_event_when_it_comes_then_it_leads_where_it_may_or_is_refused_and_changes_nothing(state, event):
    connection = NodeConnectionState(NODE, reconnect_backoff_ms=0, setup_timeout_ms=0)
    connection.state = state
    to = {**LAWFUL[state], _E.DISCONNECT: DISCONNECTED, _E.FAIL_AUTH: FAILED}.get(event)
    if to is not None:
        connection.apply(event)
        assert connection.state is to
    else:
        with pytest.raises(IllegalStateError, match=f"{event.name} is not possible in {state.name}"):
            connection.apply(event)
        assert connection.state is state


def fail(connections: ClusterConnectionStates, now_ms: int) -> NodeConnectionState:
    state = connections.connecting(NODE, now_ms)
    connections.disconnected(1, now_ms, DisconnectedError("no"))
    return state


def test_backoff_when_connecting_fails_again_and_again_then_doubles_up_to_the_ceiling():
    connections, now_ms, waits = states(), 0, []
    for _ in range(7):
        fail(connections, now_ms)
        waits.append(connections.connection_delay_ms(NODE, now_ms))
        assert not connections.can_connect(NODE, now_ms + waits[-1] - 1)
        now_ms += waits[-1]
        assert connections.can_connect(NODE, now_ms)
    assert waits == [50, 100, 200, 400, 800, 1000, 1000]


def test_backoff_when_jitter_is_on_then_stays_within_20_percent_and_the_ceiling():
    connections = states(jitter=0.2)
    now_ms = 0
    for attempt in range(200):
        fail(connections, now_ms)
        wait_ms = connections.connection_delay_ms(NODE, now_ms)
        ideal_ms = min(50 * 2**attempt, 1000)
        assert ideal_ms * 0.8 - 1 <= wait_ms <= min(ideal_ms * 1.2, 1000)
        now_ms += wait_ms


def test_backoff_when_the_connection_was_ready_then_starts_again_small():
    connections = states()
    for now_ms in (0, 1000, 2000, 3000):
        fail(connections, now_ms)
    connections.connecting(NODE, 10_000)
    connections.checking_api_versions(1)
    connections.ready(1)
    connections.disconnected(1, 20_000)
    assert connections.connection_delay_ms(NODE, 20_000) == 50


def test_throttle_when_the_node_was_never_connected_then_nothing_is_kept():
    connections = states()
    connections.throttle(7, 400)
    assert connections.get(7) is None
    assert connections.can_connect(Node(7, "other", 9092), 0)


def test_setup_timeout_when_connecting_fails_then_grows_and_resets():
    connections, timeouts = states(), []
    for attempt in range(4):
        state = connections.connecting(NODE, attempt * 100_000)
        timeouts.append(state.setup_deadline_ms - attempt * 100_000)
        assert connections.nodes_with_setup_timeout(state.setup_deadline_ms) == []
        assert connections.nodes_with_setup_timeout(state.setup_deadline_ms + 1) == [state]
        connections.disconnected(1, attempt * 100_000 + 1)
    assert timeouts == [10_000, 20_000, 30_000, 30_000]
    connections.connecting(NODE, 1_000_000)
    connections.checking_api_versions(1)
    connections.ready(1)
    assert connections.ms_to_next_setup_deadline(0) == NEVER_MS
    connections.disconnected(1, 1_000_100)
    assert connections.connecting(NODE, 2_000_000).setup_deadline_ms == 2_010_000


def test_setup_timeout_when_tcp_is_there_but_the_handshake_is_not_then_it_still_runs():
    connections = states()
    state = connections.connecting(NODE, 0)
    connections.checking_api_versions(1)
    assert connections.nodes_with_setup_timeout(10_001) == [state]
    connections.versions_requested(state)
    assert connections.nodes_with_setup_timeout(10_001) == []
    assert not connections.preparing
    assert connections.is_anyone_preparing(10_001)


def test_addresses_when_connects_fail_then_all_are_tried_before_resolving_again():
    connections, used = states(), []
    for now_ms in range(0, 50_000, 10_000):
        state = connections.connecting(NODE, now_ms)
        address = state.take_address()
        used.append((address or state.use_addresses(THREE)).address[0])
        assert (address is None) == (now_ms in (0, 30_000))
        connections.disconnected(1, now_ms)
    assert used == ["10.0.0.0", "10.0.0.1", "10.0.0.2", "10.0.0.0", "10.0.0.1"]


def test_addresses_when_a_ready_connection_ends_then_resolved_again():
    connections = states()
    connections.connecting(NODE, 0).use_addresses(THREE)
    connections.checking_api_versions(1)
    connections.ready(1)
    connections.disconnected(1, 10)
    assert connections.connecting(NODE, 1000).take_address() is None


def test_addresses_when_somebody_with_another_port_asked_for_them_then_they_have_the_nodes():
    address = states().connecting(Node(1, "host-1", 19092), 0).use_addresses(THREE)
    assert address == ResolvedAddress(2, ("10.0.0.0", 19092))


@pytest.mark.parametrize(("outcome", "ago_ms", "is_kept"), [
    (None, 10**6, True), (THREE, FRESH_LOOKUP_MS, True), (THREE, FRESH_LOOKUP_MS + 1, False),
    (socket.gaierror(socket.EAI_NONAME, "unknown"), 0, False),
])
def test_lookup_when_it_outlasted_the_attempt_before_then_of_use_while_it_lasts_or_is_fresh(outcome, ago_ms, is_kept):
    connections = states()
    state = connections.connecting(NODE, 0)
    state.lookup = Lookup()
    connections.disconnected(1, 10_001, DisconnectedError("late"))
    state.lookup.outcome = outcome
    assert not state.is_resolving
    assert connections.connecting(NODE, 10_001 + ago_ms) is state
    assert state.is_resolving == is_kept


def test_slow_name_when_it_is_being_resolved_then_nobody_counts_on_the_connection():
    connections = states()
    state = connections.connecting(NODE, 100)
    state.lookup = Lookup()
    assert connections.is_anyone_preparing(99 + SLOW_LOOKUP_MS)
    assert not state.resolves_slowly(99 + SLOW_LOOKUP_MS)
    assert not connections.is_anyone_preparing(100 + SLOW_LOOKUP_MS)
    assert state.resolves_slowly(100 + SLOW_LOOKUP_MS)
    assert connections.nodes_with_setup_timeout(10_101) == [state]
    state.lookup = None
    assert connections.is_anyone_preparing(100 + SLOW_LOOKUP_MS)


def test_connecting_when_the_node_has_another_address_then_the_old_failures_are_forgotten():
    connections = states()
    for now_ms in (0, 1000, 2000):
        fail(connections, now_ms)
    moved = Node(1, "host-9", 9092)
    state = connections.connecting(moved, 5000)
    assert (state.failed_attempts, state.node) == (0, moved)


def test_throttle_when_a_shorter_one_follows_then_the_longer_holds():
    connections = states()
    connections.connecting(NODE, 0)
    connections.checking_api_versions(1)
    connections.ready(1)
    connections.throttle(1, 500)
    connections.throttle(1, 300)
    assert connections.poll_delay_ms(NODE, 100) == 400
    assert connections.poll_delay_ms(NODE, 499) == 1
    connections.disconnected(1, 200)
    assert connections.poll_delay_ms(NODE, 200) == connections.connection_delay_ms(NODE, 200)


def test_authentication_failed_when_asked_then_the_error_is_kept_until_ready():
    connections, error = states(), AuthenticationError("bad certificate")
    connections.connecting(NODE, 0)
    connections.checking_api_versions(1)
    connections.authentication_failed(1, 5, error)
    state = connections.get(1)
    assert state is not None
    assert state.state is ConnectionState.AUTHENTICATION_FAILED
    assert state.error is error
    assert connections.connection_delay_ms(NODE, 5) == 50
    connections.connecting(NODE, 100)
    connections.checking_api_versions(1)
    connections.ready(1)
    assert state.error is None


def test_poll_delay_when_never_connected_or_connecting():
    connections = states()
    assert connections.poll_delay_ms(NODE, 0) == 0
    connections.connecting(NODE, 0)
    assert connections.poll_delay_ms(NODE, 0) == NEVER_MS


@pytest.mark.parametrize("stage", ["connecting", "checking_api_versions"])
def test_preparing_when_the_connection_ends_before_it_is_ready_then_nobody_prepares_any_more(stage):
    connections = states()
    connections.connecting(NODE, 0)
    if stage == "checking_api_versions":
        connections.checking_api_versions(1)
    assert connections.is_anyone_preparing(5)
    connections.disconnected(1, 5, DisconnectedError("no"))
    assert not connections.is_anyone_preparing(5)
    assert not connections.preparing
    assert connections.ms_to_next_setup_deadline(5) == NEVER_MS


def test_throttle_when_none_was_asked_for_then_no_delay_from_the_first_moment_on():
    connections = states()
    connections.connecting(NODE, 0)
    assert connections.poll_delay_ms(NODE, 0) == connections.connection_delay_ms(NODE, 0)


def test_setup_timeout_when_the_handshake_failed_then_the_next_connect_has_the_first_one_again():
    connections = states()
    for attempt in range(3):
        fail(connections, attempt * 100_000)
    assert connections.connecting(NODE, 400_000).setup_deadline_ms == 430_000
    connections.checking_api_versions(1)
    connections.disconnected(1, 400_005, DisconnectedError("no"))
    assert connections.connecting(NODE, 500_000).setup_deadline_ms == 510_000
    connections.disconnected(1, 500_001, DisconnectedError("no"))
    assert connections.connecting(NODE, 600_000).setup_deadline_ms == 620_000


def test_deadlines_when_they_are_moved_then_a_connection_that_is_being_built_has_longer():
    connections = states()
    state = connections.connecting(NODE, 0)
    late_ms = state.setup_deadline_ms + 1
    connections.move_deadlines(5000)
    assert connections.nodes_with_setup_timeout(late_ms + 4999) == []
    assert connections.nodes_with_setup_timeout(late_ms + 5000) == [state]
